/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_CM_H
#define VERBS_CM_H

/* What connecting (verbs_cm.c) and listening (verbs_listen.c) share. */

#include "ud/verbs_ud.h"

/* Private data, with what iWARP has in front of them. */
#define VB_CM_PRIV (VB_PRIV_ACCEPT + VB_HELLO)

/* A copy of an event of rdma_cm's. */
struct vb_cm_event {
	struct rdma_cm_id *id;
	struct rdma_cm_id *listen_id;
	enum rdma_cm_event_type type;
	int status;
	uint8_t rd_atom, init_rd_atom;
	struct rdma_ud_param ud; /* of UD, instead */
	uint16_t priv_len;
	uint8_t priv[LEAT_EP_PRIV_MAX];
};

/* Does an id lead through the endpoint's device? */
bool vb_cm_is_ours(const struct vb_ep *e, const struct rdma_cm_id *id);
enum rdma_port_space vb_cm_port_space(const struct vb_ep *e);
void vb_cm_set_tos(struct vb_ep *e, struct rdma_cm_id *id);
/* buf: VB_CM_PRIV bytes that live as long as p. */
void vb_cm_param(const struct vb_conn *c, struct rdma_conn_param *p, const void *priv, uint16_t len,
		 uint8_t *buf);
/* 0, or -EINVAL with leat_err(): more than max. */
int vb_cm_priv_check(const struct vb_ep *e, const char *what, uint16_t len, uint16_t max);
/* Rejects. 0, or -1 with errno: it was taken back. */
int vb_cm_say_no(const struct vb_ep *e, struct rdma_cm_id *id);
/* Somebody wants to connect. */
void vb_cm_request(struct vb_ep *e, const struct vb_cm_event *ev);

#endif /* VERBS_CM_H */
