/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_CM_H
#define VERBS_CM_H

/*
 * Types and functions that connecting (verbs_cm.c) and listening (verbs_listen.c) share with the
 * transports.
 */

#include "ud/verbs_ud.h"
#include "verbs_transport.h"

/* A copy of an rdma_cm event. */
struct vb_cm_event {
	struct rdma_cm_id *id;
	struct rdma_cm_id *listen_id;
	enum rdma_cm_event_type type;
	int status;
	uint8_t rd_atom, init_rd_atom;
	struct rdma_ud_param ud; /* for UD, which does not use rd_atom and init_rd_atom */
	uint16_t priv_len;
	uint8_t priv[LEAT_EP_PRIV_MAX];
};

/* A request to connect. */
struct vb_request {
	const uint8_t *priv; /* the application's private data */
	uint16_t len;
	/* The hello in front of the private data. */
	union {
		struct vb_hello rc;
		struct vb_ud_hello ud;
	} hello;
};

/* Does a connection with this id go through the endpoint's device? */
bool vb_cm_is_ours(const struct vb_ep *e, const struct rdma_cm_id *id);
void vb_cm_set_tos(struct vb_ep *e, struct rdma_cm_id *id);
/* Check the length of private data. @return 0; -EINVAL with leat_err(): more than max */
int vb_cm_priv_check(const struct vb_ep *e, const char *what, uint16_t len, uint16_t max);
/* Reject a request. @return 0; -1 with errno: the connector took its request back */
int vb_cm_send_reject(const struct vb_ep *e, struct rdma_cm_id *id);
/* Handle a peer's request to connect. */
void vb_cm_request(struct vb_ep *e, const struct vb_cm_event *ev);

#endif /* VERBS_CM_H */
