/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_TRANSPORT_H
#define VERBS_TRANSPORT_H

/*
 * What reliable connections (rc/) and datagrams (ud/) do each in their own way. A device takes one
 * of the two tables when it is opened, by qp=; the files that both share go through it:
 *
 *     verbs_dev.c      limits, info
 *     verbs_ep.c       alloc -> open -> quiesce -> teardown -> close      cancel
 *     verbs_cm.c       connect -> answered, or refusal                    left
 *     verbs_listen.c   request -> requested -> accept
 *     verbs_conn.c     end -> ending -> release                           progress, device_failed
 *     verbs_wait.c     look, by_the_clock
 *
 * No op and no completion goes through it: post and poll are pointers of the endpoint, set when it
 * is opened.
 *
 * iWARP is RC with other rules: struct vb_rules.
 */

#include "verbs_pvt.h"

/* How many completions may lie in the CQs of an endpoint. */
struct vb_cqes {
	uint32_t send, recv;
};

/* What the end of an attempt to connect says of the other side. */
enum vb_refusal {
	VB_NO_ANSWER, /* or none from which more could be told */
	VB_NOT_LISTENING,
	VB_REJECTED, /* by the application */
};

struct vb_cm_event;
struct vb_request;

struct vb_transport {
	const char *name; /* in qp= */
	enum leat_ep_type ep_type;
	enum ibv_qp_type qp_type;
	enum rdma_port_space port_space;
	uint32_t recv_sge; /* pieces of a receive */
	bool cq_ex;	   /* poll knows ibv_start_poll() */
	size_t ep_size;	   /* of the structure that begins with struct vb_ep */
	uint16_t (*post)(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
	void (*poll)(struct leat_ep *ep);

	/* Ops, depths, peers, private data, kind, wr_ops. 0, or negative errno with leat_err(). */
	int (*limits)(struct vb_dev *d);
	/* What limits() does not say. */
	void (*info)(const struct vb_dev *d, struct leat_dev_info *info);

	/* Memory. When it or open() fails close() follows. 0, or negative errno with leat_err(). */
	int (*alloc)(struct vb_ep *e, struct vb_cqes *cqes);
	/* Queues; context, PD and CQs are there. */
	int (*open)(struct vb_ep *e);
	void (*close)(struct vb_ep *e);
	/* Receives come back soon; sends go on. */
	void (*quiesce)(struct vb_ep *e);
	/* The queues go, and with them all ops come back, with these statuses. */
	void (*teardown)(struct vb_ep *e, int status, int recv_status);
	/* As struct leat_driver's. */
	int (*cancel)(struct vb_ep *e, struct leat_op *op);
	void (*progress)(struct vb_ep *e, uint64_t now);
	/* All connections end, with -EIO. */
	void (*device_failed)(struct vb_ep *e, const char *text);
	/* Takes what poll would take; done ops wait for it. */
	void (*look)(struct vb_ep *e);
	/* Must progress() look at the clock? */
	bool (*by_the_clock)(const struct vb_ep *e);

	/*
	 * The route is known: asks, which ends in VB_CONNECTING, vb_cm_again_later() or
	 * vb_cm_give_up().
	 */
	void (*connect)(struct vb_conn *c);
	/* A response came, or "established". */
	void (*answered)(struct vb_conn *c, const struct vb_cm_event *ev);
	enum vb_refusal (*refusal)(const struct vb_ep *e, const struct vb_cm_event *ev);
	/*
	 * The other side of a connection that is up took leave. UD: NULL, there is no id by then.
	 */
	void (*left)(struct vb_conn *c);

	/*
	 * A request: reads what is in front of its private data. @return false: it was dealt with
	 */
	bool (*request)(struct vb_ep *e, const struct vb_cm_event *ev, struct vb_request *req);
	/* It is that of this connection from now on. */
	void (*requested)(struct vb_conn *c, const struct vb_cm_event *ev,
			  const struct vb_request *req);
	/* See struct leat_driver; the length of the private data was checked. */
	int (*accept)(struct vb_conn *c, const struct leat_conn_params *params);

	/* To VB_ENDING: see vb_conn_end(). */
	void (*end)(struct vb_conn *c, int status, const char *text);
	/* Goes on with that, until leat_peer_down(). */
	void (*ending)(struct vb_conn *c, uint64_t now);
	/* Its queue pair, or its address, is not needed any more; there may be none. */
	void (*release)(struct vb_conn *c);
};

extern const struct vb_transport vb_rc_transport;
extern const struct vb_transport vb_ud_transport;

#endif /* VERBS_TRANSPORT_H */
