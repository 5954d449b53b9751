/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_PVT_H
#define VERBS_PVT_H

/*
 * What the files of the verbs driver share.
 *
 *     verbs_dev.c           the device: limits, what it can do
 *     verbs_args.c          its arguments
 *     verbs_find.c          which device is meant: dev=, netdev=, addr=, or the only one; GIDs
 *     verbs_list.c          which there are, and what there is to know of them
 *     verbs_ep.c            endpoints: context, PD, CQs; abort and close
 *     verbs_cm.c            rdma_cm: connecting, from its events
 *     verbs_listen.c        requests of peers
 *     verbs_conn.c          the end of connections, asynchronous events of the device
 *     verbs_cq_ex.c         completion queues, with ibv_start_poll() where it is of use
 *     verbs_wc.c            completion statuses: names, what they mean
 *     verbs_wait.c          the wait object: a descriptor to sleep for
 *     verbs_mr.c            registration
 *     verbs_addr.c          "host:port"
 *
 *     verbs_transport.h     the table by which these call one of
 *     rc/                   reliable connections, a queue pair per peer: see verbs_rc.h
 *     ud/                   datagrams, a queue pair for all peers: see verbs_ud.h
 *
 *     iwarp/                what RC does beyond that where struct vb_rules says so
 *
 * Each endpoint opens the device for itself, so that nothing is shared between threads: not the
 * protection domain, not the asynchronous events, not the doorbell pages.
 *
 *     leat_ep ---> vb_ep: context, PD, send CQ, receive CQ, SRQ, rdma_cm event channel
 *     leat_peer -> vb_conn: rdma_cm id, RC QP, ring of the ops that are in its send queue
 */

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <net/if.h>
#include <netinet/in.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <leat_addr.h>
#include <leat_cursor.h>
#include <leat_driver.h>
#include <leat_error.h>
#include <leat_log.h>
#include <leat_order.h>

/* Work requests handed over, and completions taken, at once. */
#define VB_BURST 32
/* Taken by a poll that has no room for ops. */
#define VB_DRIVE_BUDGET 8
/* Of send queues and receive queues. */
#define VB_DEPTH_MAX 32768
#define VB_SIGNAL_MAX 256
#define VB_PEERS_MAX 32767
/* CQs have more entries than are asked for. */
#define VB_CQ_ROOM 64
/* Private data that fit into the messages of the connection manager of InfiniBand and RoCE. */
#define VB_PRIV_CONNECT 56
#define VB_PRIV_ACCEPT 196
/* What iWARP connections have in front of them. */
#define VB_HELLO 24
/* Room for them in a connection, of either kind of endpoint. */
#define VB_PRIV_ROOM 160

/*
 * wr_id of what the endpoint sends to itself; no connection has it as a tag: no peer has the index.
 */
#define VB_LOOP_WR_ID UINT64_MAX

#define VB_OPS_ATOMIC (LEAT_OP_BIT(LEAT_OP_FETCH_ADD) | LEAT_OP_BIT(LEAT_OP_CMP_SWAP))

/* ---- arguments and device ---- */

struct vb_args {
	char dev[64];
	char netdev[IF_NAMESIZE];
	char addr[INET6_ADDRSTRLEN];
	uint32_t port;	 /* 0: any active one */
	int32_t gid;	 /* -1: chosen */
	uint32_t mtu;	 /* bytes, 0: the path's */
	uint32_t tx, rx; /* 0: default */
	uint32_t inline_max;
	bool inline_given;
	uint32_t signal;
	uint32_t tos; /* > 255: not set */
	uint32_t timeout;
	uint32_t retry;
	uint32_t rnr_retry;
	bool relaxed;	 /* memory that peers don't write is written in any order */
	bool odp;	 /* memory is not pinned */
	bool srq;	 /* shared receive queues, where the device has them */
	uint32_t rxbuf;	 /* without them: bytes of a receive buffer, */
	uint32_t rxbufs; /* and their number per peer */
	uint32_t qkey;	 /* of UD; 0: one of each endpoint's own */
	bool ud;	 /* qp=ud */
};

extern const struct leat_driver_arg vb_driver_args[];
/* 0, or negative errno with leat_err(). */
int vb_args_parse(const char *name, const struct rte_kvargs *kv, struct vb_args *a);
/* enum ibv_mtu of a number of bytes, 0 if there is none; and back. */
int vb_mtu_enum(uint32_t bytes);
uint32_t vb_mtu_bytes(enum ibv_mtu mtu);
/* ms after which a peer that does not answer is given up. */
uint32_t vb_dead_peer_ms(uint32_t timeout, uint32_t retry);

/*
 * Where a device has other rules than those of InfiniBand and RoCE, for which all of these are
 * false. Filled in once, when it is found; what is behind iWARP's is told in iwarp/verbs_iwarp.c.
 */
struct vb_rules {
	bool cm_addrs;	   /* its GIDs are no addresses: rdma_cm knows which lead to it */
	bool no_datagrams; /* qp=ud */
	bool no_imm;	   /* nor WRITE_IMM */
	bool no_atomics;
	bool no_loop;	/* it can't be connected to itself, so nothing is taken back from an SRQ */
	bool kernel_qp; /* the kernel moves queue pairs: there is no response to answer */
	bool rd_atom_unset; /* a request may say nothing of READs at a time */
	bool credits;	    /* a message needs a receive at once: see vb_credit_take() */
	bool own_requests;  /* send queues hold the driver's own requests beside those of ops */
	bool sent_only;	    /* when a request fails, those before it were sent, perhaps in vain */
	bool leave_flushes; /* receives are flushed when the other side takes leave */
	bool sink_open; /* memory that READs bring data to must be open to writing from outside */
};

struct vb_gid {
	union ibv_gid gid;
	uint32_t ifindex; /* 0: unknown */
	bool roce2;
};

struct vb_dev {
	char name[64];
	struct vb_args args;
	const struct vb_transport *transport; /* by args.ud */
	struct ibv_device **list;	      /* keeps ibdev alive */
	struct ibv_device *ibdev;
	struct ibv_context *ctx; /* for questions only */
	struct ibv_device_attr attr;
	struct ibv_port_attr pattr;
	uint8_t port;
	int gid; /* index of the GID in use */
	struct vb_gid sgid;
	struct sockaddr_storage src4, src6; /* ss_family 0: none */
	char provider[32];
	uint32_t inline_max;
	uint32_t max_sge;
	uint32_t port_mtu; /* bytes */
	uint64_t max_msg;
	uint32_t ops;
	uint16_t priv_connect, priv_accept;
	uint32_t tx_depth, tx_depth_max, rx_depth, rx_depth_max;
	uint32_t max_peers;
	uint8_t rd_atom, init_rd_atom;
	bool wr_api;	  /* ibv_wr_* */
	uint64_t wr_ops;  /* of them, those that are posted */
	const char *kind; /* of queue pairs, for people */
	bool srq;	  /* endpoints have a shared receive queue */
	bool cq_ex;	  /* ibv_start_poll() */
	struct vb_rules rules;
	bool rxe; /* soft-RoCE, which tells some errors in its own way */
};

/* The lesser of two limits, between 1 and VB_DEPTH_MAX. */
uint32_t vb_depth_least(int a, int b);
/* Finds and opens the device. 0, or negative errno with leat_err(). */
int vb_find(struct vb_dev *d);
void vb_find_undo(struct vb_dev *d);
int vb_gid_get(struct ibv_context *ctx, uint8_t port, int index, struct vb_gid *out);
bool vb_gid_is_v4(const struct vb_gid *g);
/* InfiniBand, RoCE, iWARP. */
const char *vb_link_name(const struct ibv_device *ibdev, const struct ibv_port_attr *pattr);
/* There is none, and what to check. err: of ibv_get_device_list() */
int vb_no_devices(const char *name, int err);
/* See struct leat_driver. */
int vb_list(const struct leat_dev *dev, const struct leat_dev_sink *to);
/* The source address for a destination; NULL: the routing table chooses it. */
struct sockaddr *vb_src_for(struct vb_dev *d, int family);

/* ---- addresses ---- */

/* "host:port", numeric. passive: host and port may be left out. 0, or -EINVAL with leat_err(). */
int vb_addr_parse(const char *addr, bool passive, struct sockaddr_storage *ss);
/* As that, of a listener; the host may be a name, which is waited for. */
int vb_addr_listen(struct vb_dev *d, const char *addr, struct sockaddr_storage *ss);
/*
 * As that, of a listener to connect to; for a name a lookup is begun. 0: ss or *lookup; -EAGAIN:
 * too many lookups; -EINVAL with leat_err().
 */
int vb_addr_connect(const char *addr, struct sockaddr_storage *ss, struct leat_lookup **lookup);
/*
 * Outcome of a lookup, which is freed unless it says -EINPROGRESS. 0: ss; -EAGAIN: may be different
 * later; -EHOSTUNREACH and *why.
 */
int vb_addr_looked_up(struct vb_dev *d, struct leat_lookup **lookup, struct sockaddr_storage *ss,
		      const char **why);
void vb_addr_str(const struct sockaddr *sa, char *buf, size_t len);

/* ---- completion statuses ---- */

const char *vb_wc_name(unsigned int status);
/* What to look at. */
const char *vb_wc_hint(unsigned int status);
/* Status of the op; 1: that of its connection's end. */
int vb_wc_op_status(unsigned int status, bool recv);
/* Status with which the connection ends. */
int vb_wc_end_status(unsigned int status, bool recv);

/* ---- connections ---- */

/* The sender of a datagram. Without a GRH it has no GID: then the LID ends a row of zeros. */
struct vb_sender {
	union ibv_gid gid;
	uint32_t qpn; /* 0: not known; in the map of senders: free */
};

enum vb_state {
	VB_LOOKUP,     /* of the host's name */
	VB_RESOLVING,  /* address, then route */
	VB_CONNECTING, /* asked, no answer yet */
	VB_BACKOFF,    /* asked in vain, will ask again */
	VB_REQUESTED,  /* a peer asks us */
	VB_ACCEPTED,   /* we said yes */
	VB_UP,
	VB_ENDING, /* its QP is in error, what it had is coming back */
	VB_ZOMBIE, /* no peer any more; the other side's connection manager has not answered yet */
};

TAILQ_HEAD(vb_conns, vb_conn);

/* What the other side of an iWARP connection says of its credits. */
struct vb_hello {
	bool there;
	uint16_t buffers;
	uint32_t rkey;
	uint64_t addr;
};

struct vb_ep;

/* What of a connection only datagram endpoints have; see verbs_ud_conn.c. */
struct vb_ud_conn {
	struct vb_sender sender;
	uint32_t qkey;	  /* of a request */
	uint32_t attempt; /* its number; 0: none yet */
	uint16_t lid;	  /* of a request */
	bool passive;	  /* it asked us */
	bool foreign;	  /* and is not leat's */
};

struct vb_conn {
	/* line 0: what post and poll touch */
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx; /* NULL: ibv_post_send() */
	struct leat_op **sq;   /* ops in the send queue, [head & mask] the oldest */
	uint32_t mask;
	uint32_t head, tail;
	uint32_t unsignaled; /* since the last signaled one */
	uint32_t tag;	     /* upper half of wr_id: index, and which of its queue pairs it is */
	uint16_t index;	     /* of the peer */
	uint8_t state;
	bool reads; /* the other side answers READs and atomics of ours */

	struct vb_rxq *rxq;	  /* without an SRQ */
	struct vb_credit *credit; /* iWARP, see verbs_iwarp.h */
	struct vb_ep *e;
	struct leat_peer *peer; /* NULL: ZOMBIE */
	struct rdma_cm_id *id;
	TAILQ_ENTRY(vb_conn) link; /* in vb_ep.busy unless UP */
	bool busy;
	bool connected;	 /* rdma_disconnect() has something to end */
	bool last_wqe;	 /* nothing more comes to its receive side */
	bool disconnect; /* the other side has taken leave */
	uint8_t rd_atom, init_rd_atom;
	uint32_t qpn;
	struct vb_hello hello; /* iWARP: what came with the request */
	int status;	       /* ENDING: of its ops */
	int cause;	       /* connecting: of the last attempt */
	uint64_t deadline; /* connecting: of all attempts; ENDING: then it ends by force; ZOMBIE */
	uint64_t at;	   /* BACKOFF: next attempt; ENDING: not before */
	uint32_t backoff_us;
	struct leat_lookup *lookup;
	struct sockaddr_storage dst; /* ss_family 0: not looked up yet */
	uint16_t priv_len;
	uint8_t priv[VB_PRIV_ROOM]; /* of connect; UD: of accept, if that was ours */
	struct vb_ud_conn ud;
};

/* ---- receives ---- */

struct vb_slot {
	struct leat_op *op; /* NULL: free */
	uint64_t seq;	    /* order of posting */
	bool srq_posted;    /* in the SRQ; otherwise it waits for that */
	bool cancel;	    /* its op was cancelled */
};

struct vb_rxbuf;
TAILQ_HEAD(vb_rxbufs, vb_rxbuf);

/* Without an SRQ, see verbs_rc_rxq.c. */
struct vb_rxqs {
	uint32_t nb, size;	  /* buffers per peer, their bytes */
	struct vb_rxbufs arrived; /* messages that no receive was there for, the oldest first */
	struct vb_rxq *unused;
};

enum vb_loop_state {
	VB_LOOP_NONE = 0,
	VB_LOOP_READY,
	VB_LOOP_FAILED, /* ran into an empty SRQ; is created anew when it is needed */
	VB_LOOP_UNABLE, /* the device can't do it */
};

struct vb_loop {
	struct ibv_qp *tx, *rx;
	uint32_t tx_qpn, rx_qpn;
	uint32_t inflight; /* sends that were not completed */
	uint32_t untaken;  /* receives that the sends have still to take */
	uint8_t state;
	bool empty;	/* it found the SRQ empty ... */
	uint32_t mark;	/* ... at that value of vb_ep.posts */
	uint64_t again; /* BROKEN: not before */
	uint32_t wait_us;
};

struct vb_qpn {
	uint32_t qpn; /* 0: free (never the number of an RC QP) */
	uint16_t peer;
};

struct vb_ep {
	/* line 0: what is sent, and whether there is something to poll for */
	struct leat_ep *ep;
	struct vb_conn **conns; /* by peer */
	struct ibv_cq *scq;
	struct ibv_cq_ex *scqx; /* NULL: ibv_poll_cq() */
	uint32_t tx_depth;
	uint32_t inline_max;
	uint32_t signal;
	uint32_t rx_posted; /* receives in the SRQ; without one: buffers in queue pairs */
	uint16_t nb_peers;
	bool drain; /* receives are being taken back, see verbs_rc_rx.c */
	bool dead;  /* QPs and SRQ are destroyed */
	bool quiesce;
	bool read_sinks; /* READs will be posted, and the rules want their memory open to writing */
	bool starved;	 /* a SEND was refused for want of credits */
	uint32_t grants; /* WRITEs of credits under way */

	/* line 1: what is received */
	struct ibv_cq *rcq;
	struct ibv_cq_ex *rcqx; /* NULL: ibv_poll_cq() */
	struct ibv_srq *srq;
	struct vb_slot *slots;
	uint32_t *free; /* stack of free slots */
	uint32_t nb_free;
	uint32_t rx_depth;
	uint64_t seq;	  /* of the next one posted */
	uint64_t srq_seq; /* the highest that went into the SRQ, + 1 */

	/* line 2 */
	uint32_t last_qpn; /* of the last completion, and its peer */
	uint16_t last_peer;
	uint32_t qpn_mask;
	struct vb_qpn *qpns;
	struct vb_rxqs *rxqs; /* NULL: with an SRQ */

	/* taking receives back */
	uint32_t posts;		 /* lists that went into the SRQ */
	uint32_t nb_cancel;	 /* in the SRQ, and their ops were cancelled */
	uint32_t *sw_queue;	 /* slots that are not in the SRQ, by seq: a ring */
	uint32_t sw_head, nb_sw; /* its first, and number */
	uint32_t sw_mask;
	struct vb_loop loop;

	/* slow */
	struct vb_dev *dev;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct ibv_comp_channel *comp; /* NULL: without a wait object */
	int wait_fd;
	struct vb_conns busy;
	uint32_t nb_qps; /* of connections */
	uint16_t tags;	 /* queue pairs made */
};

static_assert(offsetof(struct vb_conn, rxq) <= LEAT_CACHE_LINE, "first line of a connection");
static_assert(offsetof(struct vb_ep, rcq) == LEAT_CACHE_LINE, "first line of an endpoint");
static_assert(offsetof(struct vb_ep, last_qpn) == 2 * LEAT_CACHE_LINE,
	      "second line of an endpoint");

static inline struct vb_ep *
vb_of(const struct leat_ep *ep)
{
	return ep->drv;
}

int vb_nonblocking(int fd);
int vb_ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf);
void vb_ep_quiesce(struct leat_ep *ep);
void vb_ep_abort(struct leat_ep *ep);
void vb_ep_close(struct leat_ep *ep);
int vb_ep_cancel(struct leat_ep *ep, struct leat_op *op);
int vb_ep_option(struct leat_ep *ep, enum leat_ep_option option, uint32_t *value);
/* Of an endpoint that is torn down. */
void vb_poll_dead(struct leat_ep *ep);

/* Something of the verbs library was not created: err, with the limit that is likely behind it. */
int vb_qp_failed(const struct vb_dev *d, const char *what, int err);

/* ---- control ---- */

int vb_listen(struct leat_ep *ep, const char *addr);
int vb_listen_addr(struct leat_ep *ep, char *addr, size_t len);
int vb_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
	       const struct leat_conn_params *params);
int vb_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params);
void vb_reject(struct leat_ep *ep, struct leat_peer *peer);
void vb_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text);
void vb_progress(struct leat_ep *ep, uint64_t now);

/* Events of the connection manager. */
void vb_cm_events(struct vb_ep *e);
/* Goes on with a connection that is being made. */
void vb_cm_step(struct vb_conn *c, uint64_t now);
/* An attempt to connect ends in vain. */
void vb_cm_give_up(struct vb_conn *c, int status, const char *why);
/* A request that raised no event is refused, its id destroyed. */
void vb_cm_refuse(struct vb_ep *e, struct rdma_cm_id *id, const char *why);
/* An attempt to connect failed in a way that may pass: cause. */
void vb_cm_again_later(struct vb_conn *c, int cause);
/* Its id is not needed any more. */
void vb_cm_drop_id(struct vb_conn *c);

struct vb_conn *vb_conn_new(struct vb_ep *e, struct leat_peer *peer, struct rdma_cm_id *id,
			    enum vb_state state);
/* Frees it, with what it has; its peer forgets it. */
void vb_conn_free(struct vb_conn *c);
/* Its peer belongs to the library alone from now on. */
void vb_conn_detach(struct vb_conn *c);
void vb_conn_state(struct vb_conn *c, enum vb_state state);
/* It is over, for this reason; what is in flight comes back. */
void vb_conn_end(struct vb_conn *c, int status, const char *text);
/* That of all that are up or nearly so, with -EIO. */
void vb_conns_end(struct vb_ep *e, const char *text);

/* ---- completion queues ---- */

/*
 * A CQ with room for n. ex: set if ibv_start_poll() shall poll it, which excludes ibv_poll_cq().
 * @return NULL with errno
 */
struct ibv_cq *vb_cq_create(const struct vb_dev *d, struct ibv_context *ctx, uint32_t n,
			    struct ibv_comp_channel *channel, struct ibv_cq_ex **ex);
/* Does the device have what is needed for ex? */
bool vb_cq_ex_works(struct vb_dev *d);
/* What ibv_poll_cq() does. */
int vb_cq_poll_ex(struct ibv_cq_ex *ex, int max, struct ibv_wc *wc);
/* The completion that ex is at. */
void vb_cq_read(struct ibv_cq_ex *ex, struct ibv_wc *wc);

/* ---- sleeping ---- */

/* The channel that the CQs are made with, then the rest. 0, or negative errno with leat_err(). */
int vb_wait_channel(struct vb_ep *e);
int vb_wait_open(struct vb_ep *e);
/* After the CQs were destroyed. */
void vb_wait_close(struct vb_ep *e);
int vb_ep_fd(const struct leat_ep *ep);
int vb_ep_arm(struct leat_ep *ep);
void vb_ep_disarm(struct leat_ep *ep);

/* ---- memory ---- */

/* Can the device do what the arguments ask for? 0, or negative errno with leat_err(). */
int vb_mr_options(struct vb_dev *d);
int vb_mr_reg(struct leat_ep *ep, struct leat_mr_piece *piece, uint32_t access);
int vb_mr_dereg(struct leat_ep *ep, struct leat_mr_piece *piece);

static inline uint32_t
vb_lkey(const struct leat_mr_piece *p)
{
	return (uint32_t)(uintptr_t)p->desc;
}

#endif /* VERBS_PVT_H */
