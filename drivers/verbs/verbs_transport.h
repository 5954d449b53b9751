/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_TRANSPORT_H
#define VERBS_TRANSPORT_H

/*
 * The operations in which reliable connections (rc/) and datagrams (ud/) differ. The argument qp=
 * selects one of the two tables when a device is opened. The shared files call through the table:
 *
 *     verbs_dev.c      limits, info
 *     verbs_ep.c       alloc -> open -> quiesce -> teardown -> close      cancel
 *     verbs_cm.c       connect -> answered, or refusal                    left
 *     verbs_listen.c   request -> requested -> accept
 *     verbs_conn.c     end -> ending -> release                           progress, device_failed
 *     verbs_wait.c     look, by_the_clock
 *
 * Ops and completions don't go through the table: post and poll are pointers of the endpoint, set
 * when it is opened.
 *
 * iWARP is RC with other rules: struct vb_rules.
 */

#include "verbs_pvt.h"

/* Maximum number of completions that an endpoint's CQs must hold at a time. */
struct vb_cqes {
	uint32_t send, recv;
};

/* What the other side's answer says about a failed attempt to connect. */
enum vb_refusal {
	VB_NO_ANSWER, /* no answer, or an answer without a reason */
	VB_NOT_LISTENING,
	VB_REJECTED, /* rejected by the application */
};

struct vb_cm_event;
struct vb_request;

struct vb_transport {
	const char *name; /* value of qp= */
	enum leat_ep_type ep_type;
	enum ibv_qp_type qp_type;
	enum rdma_port_space port_space;
	uint32_t recv_sge; /* pieces of a receive, scatter/gather entries */
	bool cq_ex;	   /* poll can use ibv_start_poll() */
	size_t ep_size;	   /* bytes of the endpoint's structure, which begins with struct vb_ep */
	uint16_t (*post)(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
	void (*poll)(struct leat_ep *ep);

	/*
	 * Set the device's ops, depths, peers, private data, kind and wr_ops. @return 0; negative
	 * errno with leat_err()
	 */
	int (*limits)(struct vb_dev *d);
	/* Fill in the parts of info that limits() does not determine. */
	void (*info)(const struct vb_dev *d, struct leat_dev_info *info);

	/*
	 * Allocate memory. If alloc() or open() fails, close() follows. @return 0; negative errno
	 * with leat_err()
	 */
	int (*alloc)(struct vb_ep *e, struct vb_cqes *cqes);
	/* Create the queues; context, PD and CQs exist. */
	int (*open)(struct vb_ep *e);
	void (*close)(struct vb_ep *e);
	/* Make receives complete soon; sends continue. */
	void (*quiesce)(struct vb_ep *e);
	/* Destroy the queues; finish receives with recv_status, and all other ops with status. */
	void (*teardown)(struct vb_ep *e, int status, int recv_status);
	/* See struct leat_driver.cancel. */
	int (*cancel)(struct vb_ep *e, struct leat_op *op);
	void (*progress)(struct vb_ep *e, uint64_t now);
	/* End all connections, with -EIO. */
	void (*device_failed)(struct vb_ep *e, const char *text);
	/* Handle completions as poll does; finished ops wait for the next poll. */
	void (*look)(struct vb_ep *e);
	/* Is there something to do at a later time, so that progress() must look at the clock? */
	bool (*by_the_clock)(const struct vb_ep *e);

	/*
	 * Send the request, now that the route is known. Ends in VB_CONNECTING, vb_cm_retry_later()
	 * or vb_cm_give_up().
	 */
	void (*connect)(struct vb_conn *c);
	/* Handle a response, or an "established" event. */
	void (*answered)(struct vb_conn *c, const struct vb_cm_event *ev);
	enum vb_refusal (*refusal)(const struct vb_ep *e, const struct vb_cm_event *ev);
	/*
	 * Handle a disconnect by the other side of a connection that is up. NULL for UD, where a
	 * connection has no id by then.
	 */
	void (*left)(struct vb_conn *c);

	/* Parse a request's private data into req. @return false: the request is handled already */
	bool (*request)(struct vb_ep *e, const struct vb_cm_event *ev, struct vb_request *req);
	/* Copy the request to its new connection. */
	void (*requested)(struct vb_conn *c, const struct vb_cm_event *ev,
			  const struct vb_request *req);
	/* See struct leat_driver.accept; the length of the private data was checked. */
	int (*accept)(struct vb_conn *c, const struct leat_conn_params *params);

	/* Begin to end a connection: enter VB_ENDING, see vb_conn_end(). */
	void (*end)(struct vb_conn *c, int status, const char *text);
	/* Continue a connection in VB_ENDING; call leat_peer_down() when it has ended. */
	void (*ending)(struct vb_conn *c, uint64_t now);
	/* Destroy the connection's queue pair or address handle, if there is one. */
	void (*release)(struct vb_conn *c);
};

extern const struct vb_transport vb_rc_transport;
extern const struct vb_transport vb_ud_transport;

#endif /* VERBS_TRANSPORT_H */
