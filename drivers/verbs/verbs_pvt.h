/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_PVT_H
#define VERBS_PVT_H

/*
 * Types and functions shared by the files of the verbs driver.
 *
 *     verbs_dev.c           the device: its limits and abilities
 *     verbs_args.c          the device's arguments
 *     verbs_find.c          finds the device: dev=, netdev=, addr=, or the only one; GIDs
 *     verbs_list.c          lists the RDMA devices, and their properties
 *     verbs_ep.c            endpoints: context, PD, CQs; abort and close
 *     verbs_cm.c            rdma_cm: connecting, driven by its events
 *     verbs_listen.c        requests of peers
 *     verbs_conn.c          the end of connections, asynchronous events of the device
 *     verbs_cq_ex.c         completion queues, with ibv_start_poll() where it is of use
 *     verbs_wc.c            completion statuses: names, meanings
 *     verbs_wait.c          the wait object: an epoll set to sleep on
 *     verbs_mr.c            registration
 *     verbs_addr.c          "host:port"
 *
 *     verbs_transport.h     the table through which these files call rc/ or ud/
 *     rc/                   reliable connections, a queue pair per peer: see verbs_rc.h
 *     ud/                   datagrams, a queue pair for all peers: see verbs_ud.h
 *
 *     iwarp/                additions to RC, where struct vb_rules asks for them
 *
 * Each endpoint opens the device for itself, so threads share nothing: no protection domain, no
 * asynchronous events, no doorbell pages.
 *
 *     leat_ep ---> vb_ep: context, PD, send CQ, receive CQ, SRQ, rdma_cm event channel
 *     leat_peer -> vb_conn: rdma_cm id, RC QP, ring of the ops in its send queue
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

/* One call posts at most this many work requests, or polls at most this many completions. */
#define VB_BURST 32
/* A poll that has no room for ops handles at most this many completions. */
#define VB_DRIVE_BUDGET 8
/* Largest depth of send and receive queues. */
#define VB_DEPTH_MAX 32768
#define VB_SIGNAL_MAX 256
#define VB_PEERS_MAX 32767
/* Entries of the largest CQ that are reserved for the driver's own requests. */
#define VB_CQ_ROOM 64
/* Private data, B, that the connection manager's messages can carry: InfiniBand and RoCE. */
#define VB_PRIV_CONNECT 56
#define VB_PRIV_ACCEPT 196
/* Bytes of the hello in front of the private data of iWARP connections. */
#define VB_HELLO 24
/* Bytes kept in a connection for private data, of either transport. */
#define VB_PRIV_ROOM 160

/*
 * wr_id of the messages of the loop (verbs_rc_loop.c). Its upper half is no connection's tag,
 * because no peer has the index 65535.
 */
#define VB_LOOP_WR_ID UINT64_MAX

#define VB_OPS_ATOMIC (LEAT_OP_BIT(LEAT_OP_FETCH_ADD) | LEAT_OP_BIT(LEAT_OP_CMP_SWAP))

/* ---- arguments and device ---- */

struct vb_args {
	char dev[64];
	char netdev[IF_NAMESIZE];
	char addr[INET6_ADDRSTRLEN];
	uint32_t port;	 /* 0: the first active one */
	int32_t gid;	 /* index of the GID; -1: the driver chooses */
	uint32_t mtu;	 /* bytes; 0: the mtu of the path */
	uint32_t tx, rx; /* depths; 0: default */
	uint32_t inline_max;
	bool inline_given;
	uint32_t signal;
	uint32_t tos; /* > 255: not set */
	uint32_t timeout;
	uint32_t retry;
	uint32_t rnr_retry;
	bool relaxed;	 /* relaxed ordering for memory that peers can't write */
	bool odp;	 /* memory is not pinned, but paged in on demand */
	bool srq;	 /* shared receive queues (SRQ), where the device has them */
	uint32_t rxbuf;	 /* without an SRQ: bytes of a receive buffer */
	uint32_t rxbufs; /* without an SRQ: receive buffers per peer */
	uint32_t qkey;	 /* for qp=ud: Q_Key; 0: each endpoint chooses its own */
	bool ud;	 /* qp=ud */
};

extern const struct leat_driver_arg vb_driver_args[];
/* Parse a device's arguments. @return 0; negative errno with leat_err() */
int vb_args_parse(const char *name, const struct rte_kvargs *kv, struct vb_args *a);
/* Convert bytes to enum ibv_mtu, and back. @return 0: there is no such mtu */
int vb_mtu_enum(uint32_t bytes);
uint32_t vb_mtu_bytes(enum ibv_mtu mtu);
/* Return the time after which the device gives up a peer that does not answer, ms. */
uint32_t vb_dead_peer_ms(uint32_t timeout, uint32_t retry);

/*
 * Rules in which a device differs from InfiniBand and RoCE. Devices of these two kinds have none of
 * them. Filled in once, when the device is found. iwarp/verbs_iwarp.c explains the rules of iWARP.
 */
struct vb_rules {
	/* GIDs are no addresses: only rdma_cm knows which addresses lead to the device */
	bool cm_addrs;
	bool no_datagrams; /* no qp=ud */
	bool no_imm;	   /* no immediate data, so no WRITE_IMM */
	bool no_atomics;
	/* a device can't connect to itself, so receives can't be taken back from an SRQ */
	bool no_loop;
	/* the kernel moves queue pairs to RTS; the connecting side gets no response to answer */
	bool kernel_qp;
	bool rd_atom_unset; /* a request to connect can lack the number of READs in flight */
	bool credits;	    /* a message needs a posted receive at once: see vb_credit_take() */
	bool own_requests;  /* send queues hold requests of the driver in addition to ops' */
	/* when a request fails, the requests before it were sent, but perhaps not delivered */
	bool sent_only;
	bool leave_flushes; /* a disconnect by the other side flushes the receives */
	bool sink_open;	    /* memory that READs write to must permit remote writes */
};

struct vb_gid {
	union ibv_gid gid;
	uint32_t ifindex; /* 0: unknown */
	bool roce2;
};

struct vb_dev {
	char name[64];
	struct vb_args args;
	const struct vb_transport *transport; /* chosen by args.ud */
	struct ibv_device **list;	      /* keeps ibdev alive */
	struct ibv_device *ibdev;
	struct ibv_context *ctx; /* context for queries only */
	struct ibv_device_attr attr;
	struct ibv_port_attr pattr;
	uint8_t port;
	int gid; /* table index of sgid, the GID in use */
	struct vb_gid sgid;
	struct sockaddr_storage src4, src6; /* local addresses; ss_family 0: none */
	uint32_t inline_max;
	uint32_t port_mtu; /* bytes */
	uint64_t max_msg;
	uint32_t ops;
	uint16_t priv_connect, priv_accept;
	uint32_t tx_depth, tx_depth_max, rx_depth, rx_depth_max;
	uint32_t max_peers;
	uint8_t rd_atom, init_rd_atom;
	bool wr_api;	  /* ibv_wr_* is available */
	uint64_t wr_ops;  /* the ibv_wr_* operations that are posted, IBV_QP_EX_WITH_* */
	const char *kind; /* type of queue pairs, for log messages */
	bool srq;	  /* endpoints have a shared receive queue */
	bool cq_ex;	  /* CQs are polled by ibv_start_poll() */
	struct vb_rules rules;
	bool rxe; /* soft-RoCE, which reports some errors differently */
};

/* Return the lesser of two limits, but at least 1 and at most VB_DEPTH_MAX. */
uint32_t vb_depth_least(int a, int b);
/* Find and open the device that the arguments name. @return 0; negative errno with leat_err() */
int vb_find(struct vb_dev *d);
void vb_find_undo(struct vb_dev *d);
int vb_gid_get(struct ibv_context *ctx, uint8_t port, int index, struct vb_gid *out);
bool vb_gid_is_v4(const struct vb_gid *g);
/* Return the name of the port's link layer: InfiniBand, RoCE, iWARP or unknown. */
const char *vb_link_name(const struct ibv_device *ibdev, const struct ibv_port_attr *pattr);
/*
 * Report that there is no RDMA device, and what to check. err: errno of ibv_get_device_list().
 * @return negative errno with leat_err()
 */
int vb_no_devices(const char *name, int err);
/* List devices, see struct leat_driver.list. */
int vb_list(const struct leat_dev *dev, const struct leat_dev_sink *to);
/* Return the source address for a destination's family; NULL: the routing table chooses. */
struct sockaddr *vb_src_for(struct vb_dev *d, int family);

/* ---- addresses ---- */

/*
 * Parse a numeric "host:port"; if passive is true, host and port may be missing. @return 0; -EINVAL
 * with leat_err()
 */
int vb_addr_parse(const char *addr, bool passive, struct sockaddr_storage *ss);
/*
 * Parse the address to listen on. The host may be a name; the call waits for its lookup. @return 0;
 * negative errno with leat_err()
 */
int vb_addr_listen(struct vb_dev *d, const char *addr, struct sockaddr_storage *ss);
/*
 * Parse the address to connect to; for a name, begin a lookup. @return 0: ss or *lookup is set;
 * -EAGAIN: too many lookups; -EINVAL with leat_err()
 */
int vb_addr_connect(const char *addr, struct sockaddr_storage *ss, struct leat_lookup **lookup);
/*
 * Query a lookup, and free it if it is done. @return 0: ss is set; -EAGAIN: a later lookup may
 * succeed; -EHOSTUNREACH: the lookup failed, *why is set; -EINPROGRESS: not done yet
 */
int vb_addr_looked_up(struct vb_dev *d, struct leat_lookup **lookup, struct sockaddr_storage *ss,
		      const char **why);
void vb_addr_str(const struct sockaddr *sa, char *buf, size_t len);

/* ---- completion statuses ---- */

const char *vb_wc_name(unsigned int status);
/* Return a text that says what to check after a completion with this status. */
const char *vb_wc_hint(unsigned int status);
/* Return the status of a completion's op; 1: the op gets the status of its connection. */
int vb_wc_op_status(unsigned int status, bool recv);
/* Return the status with which the connection ends after a completion with this status. */
int vb_wc_end_status(unsigned int status, bool recv);

/* ---- connections ---- */

/*
 * The sender of a datagram. A datagram without a GRH does not say the sender's GID: then gid is
 * zeros and, at its end, the sender's LID.
 */
struct vb_sender {
	union ibv_gid gid;
	uint32_t qpn; /* 0: not known yet; in the map of senders: a free row */
};

enum vb_state {
	VB_LOOKUP,     /* the host's name is being looked up */
	VB_RESOLVING,  /* rdma_cm resolves the address, then the route */
	VB_CONNECTING, /* the request was sent, no answer yet */
	VB_BACKOFF,    /* waits before the next attempt */
	VB_REQUESTED,  /* a peer asks to connect */
	VB_ACCEPTED,   /* this side has accepted */
	VB_UP,
	VB_ENDING, /* its ops in flight complete; with RC its QP is in error */
	VB_ZOMBIE, /* detached from its peer; waits for the other side's connection manager */
};

TAILQ_HEAD(vb_conns, vb_conn);

/* The credits that the other side of an iWARP connection announces. */
struct vb_hello {
	bool there;
	uint16_t buffers;
	uint32_t rkey;
	uint64_t addr;
};

struct vb_ep;

/* The part of a connection that only datagram endpoints use; see verbs_ud_conn.c. */
struct vb_ud_conn {
	struct vb_sender sender;
	uint32_t qkey;	  /* Q_Key of the connector, from its request */
	uint32_t attempt; /* number of the attempt to connect; 0: none yet */
	uint16_t lid;	  /* LID of the connector, from its request */
	bool passive;	  /* the peer sent the request to connect */
	bool foreign;	  /* passive, and the peer is not a leat program */
};

struct vb_conn {
	/* line 0: fields that post and poll touch */
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx; /* NULL: ibv_post_send() is used */
	struct leat_op **sq;   /* ops in the send queue, [head & mask] the oldest */
	uint32_t mask;
	uint32_t head, tail;
	uint32_t unsignaled; /* requests since the last signaled one */
	uint32_t tag;	     /* upper half of wr_id: number of the queue pair << 16 | index */
	uint16_t index;	     /* the peer's id */
	uint8_t state;
	bool reads; /* the other side answers READs and atomics of this side */

	struct vb_rxq *rxq;	  /* receive buffers; NULL: with an SRQ */
	struct vb_credit *credit; /* for iWARP, see verbs_iwarp.h; else NULL */
	struct vb_ep *e;
	struct leat_peer *peer; /* NULL in ZOMBIE: detached from its peer */
	struct rdma_cm_id *id;
	TAILQ_ENTRY(vb_conn) link; /* entry in vb_ep.busy, in all states except UP */
	bool busy;
	bool connected;	 /* rdma_disconnect() is needed to end the connection */
	bool last_wqe;	 /* the device reported that no more receives complete */
	bool disconnect; /* the other side has disconnected, or can't any more */
	uint8_t rd_atom, init_rd_atom;
	uint32_t qpn;
	struct vb_hello hello; /* for iWARP: the hello of the peer's request */
	int status;	       /* in ENDING: status of its ops */
	int cause;	       /* while connecting: why the last attempt failed, negative errno */
	/*
	 * A time in cycles. While connecting: when the attempts end; in ENDING: when the end is
	 * forced; in ZOMBIE: when the wait is over.
	 */
	uint64_t deadline;
	/*
	 * A time in cycles; 0: not set. In BACKOFF: when the next attempt begins; in ENDING: until
	 * when the connection waits for receives that its QP may be using.
	 */
	uint64_t at;
	uint32_t backoff_us;
	struct leat_lookup *lookup;
	struct sockaddr_storage dst; /* ss_family 0: lookup is not done yet */
	uint16_t priv_len;
	uint8_t priv[VB_PRIV_ROOM]; /* sent with connect, or if ud.passive with accept */
	struct vb_ud_conn ud;
};

/* ---- receives ---- */

struct vb_slot {
	struct leat_op *op; /* NULL: free */
	uint64_t seq;	    /* order of posting */
	bool srq_posted;    /* false: it waits outside of the SRQ */
	bool cancel;	    /* its op was cancelled */
};

struct vb_rxbuf;
TAILQ_HEAD(vb_rxbufs, vb_rxbuf);

/* Receive buffers, used without an SRQ; see verbs_rc_rxq.c. */
struct vb_rxqs {
	uint32_t nb, size;	  /* buffers per peer, and bytes of a buffer */
	struct vb_rxbufs arrived; /* buffers whose message found no receive, the oldest first */
	struct vb_rxq *unused;
};

enum vb_loop_state {
	VB_LOOP_NONE = 0,
	VB_LOOP_READY,
	VB_LOOP_FAILED, /* a message failed, usually at an empty SRQ; the loop must be recreated */
	VB_LOOP_UNABLE, /* the device can't connect to itself */
};

struct vb_loop {
	struct ibv_qp *tx, *rx;
	uint32_t tx_qpn, rx_qpn;
	uint32_t inflight; /* sends that have not completed */
	uint32_t untaken;  /* receives that the sends in flight have still to take */
	uint8_t state;
	bool empty;	/* the last message found the SRQ empty, and nothing was posted since */
	uint32_t mark;	/* value of vb_ep.posts when the last message was sent */
	uint64_t again; /* if FAILED: earliest time to recreate the loop, cycles */
	uint32_t wait_us;
};

struct vb_qpn {
	uint32_t qpn; /* 0: the entry is free; no RC QP has the number 0 */
	uint16_t peer;
};

struct vb_ep {
	/* line 0: fields of sends, and whether there is something to poll for */
	struct leat_ep *ep;
	struct vb_conn **conns; /* connections by peer */
	struct ibv_cq *scq;
	struct ibv_cq_ex *scqx; /* NULL: ibv_poll_cq() is used */
	uint32_t tx_depth;
	uint32_t inline_max;
	uint32_t signal;
	uint32_t rx_posted; /* receives in the SRQ; without an SRQ: buffers in queue pairs */
	uint16_t nb_peers;
	bool drain; /* receives are being taken back, see verbs_rc_rx.c */
	bool dead;  /* QPs and SRQ are destroyed */
	bool quiesce;
	bool read_sinks; /* READs may be posted, and rules.sink_open holds */
	bool starved;	 /* a SEND was refused because its peer gave no credit */
	uint32_t grants; /* WRITEs of credits in flight */

	/* line 1: fields of receives */
	struct ibv_cq *rcq;
	struct ibv_cq_ex *rcqx; /* NULL: ibv_poll_cq() is used */
	struct ibv_srq *srq;
	struct vb_slot *slots;
	uint32_t *free; /* stack of free slots */
	uint32_t nb_free;
	uint32_t rx_depth;
	uint64_t seq;	  /* number of the next receive posted */
	uint64_t srq_seq; /* highest seq that went into the SRQ, + 1 */

	/* line 2 */
	uint32_t last_qpn; /* QP number of the last completion; last_peer: its peer */
	uint16_t last_peer;
	uint32_t qpn_mask;
	struct vb_qpn *qpns;
	struct vb_rxqs *rxqs; /* NULL: with an SRQ */

	/* taking receives back, see verbs_rc_rx.c */
	uint32_t posts;		 /* number of lists of receives posted to the SRQ */
	uint32_t nb_cancel;	 /* cancelled receives in the SRQ */
	uint32_t *sw_queue;	 /* ring of the slots outside of the SRQ, by seq */
	uint32_t sw_head, nb_sw; /* in sw_queue: position of the first slot, number of slots */
	uint32_t sw_mask;
	struct vb_loop loop;

	/* fields of the slow path */
	struct vb_dev *dev;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct ibv_comp_channel *comp; /* NULL: without a wait object */
	int wait_fd;
	struct vb_conns busy;
	uint32_t nb_qps; /* queue pairs of connections */
	uint16_t tags;	 /* queue pairs created so far, see vb_conn.tag */
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
/* Poll an endpoint that is torn down: does nothing. */
void vb_poll_dead(struct leat_ep *ep);

/*
 * Report that `what` was not created, and the limit that probably caused err. @return negative
 * errno with leat_err()
 */
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

/* Handle the events of the connection manager. */
void vb_cm_events(struct vb_ep *e);
/* Continue to connect: end a lookup, begin the next attempt, or give up when time is over. */
void vb_cm_step(struct vb_conn *c, uint64_t now);
/* Give up connecting: free the connection, and report status and why to the application. */
void vb_cm_give_up(struct vb_conn *c, int status, const char *why);
/* Refuse a request that raised no event for the application, and destroy its id. */
void vb_cm_refuse(struct vb_ep *e, struct rdma_cm_id *id, const char *why);
/* Schedule another attempt to connect: the last one failed for a cause that may pass. */
void vb_cm_retry_later(struct vb_conn *c, int cause);
/* Destroy the connection's rdma_cm id. */
void vb_cm_drop_id(struct vb_conn *c);

struct vb_conn *vb_conn_new(struct vb_ep *e, struct leat_peer *peer, struct rdma_cm_id *id,
			    enum vb_state state);
/* Free a connection with all that it holds, and detach it from its peer. */
void vb_conn_free(struct vb_conn *c);
/* Detach a connection from its peer, which only the library uses from now on. */
void vb_conn_detach(struct vb_conn *c);
void vb_conn_state(struct vb_conn *c, enum vb_state state);
/* Begin to end a connection: its ops in flight complete. */
void vb_conn_end(struct vb_conn *c, int status, const char *text);
/* End all connections that are up or accepted, with -EIO. */
void vb_conns_end(struct vb_ep *e, const char *text);

/* ---- completion queues ---- */

/*
 * Create a CQ with room for n entries. If ibv_start_poll() is to poll the CQ, *ex is
 * set, and ibv_poll_cq() must not be used. @return NULL with errno
 */
struct ibv_cq *vb_cq_create(const struct vb_dev *d, struct ibv_context *ctx, uint32_t n,
			    struct ibv_comp_channel *channel, struct ibv_cq_ex **ex);
/* Can the device's CQs be polled by ibv_start_poll()? */
bool vb_cq_ex_works(struct vb_dev *d);
/* Poll an extended CQ; arguments and result are those of ibv_poll_cq(). */
int vb_cq_poll_ex(struct ibv_cq_ex *ex, int max, struct ibv_wc *wc);
/* Copy the current completion of ex to wc. */
void vb_cq_read(struct ibv_cq_ex *ex, struct ibv_wc *wc);

/* ---- sleeping ---- */

/*
 * Create the completion channel, which CQs need when they are created; then the wait object itself.
 * @return 0; negative errno with leat_err()
 */
int vb_wait_channel(struct vb_ep *e);
int vb_wait_open(struct vb_ep *e);
/* Destroy the wait object and the channel. The CQs must be destroyed before. */
void vb_wait_close(struct vb_ep *e);
int vb_ep_fd(const struct leat_ep *ep);
int vb_ep_arm(struct leat_ep *ep);
void vb_ep_disarm(struct leat_ep *ep);

/* ---- memory ---- */

/*
 * Check that the device can do what relaxed= and odp= ask for. @return 0; negative errno with
 * leat_err()
 */
int vb_mr_options(struct vb_dev *d);
int vb_mr_reg(struct leat_ep *ep, struct leat_mr_piece *piece, uint32_t access);
int vb_mr_dereg(struct leat_ep *ep, struct leat_mr_piece *piece);

static inline uint32_t
vb_lkey(const struct leat_mr_piece *p)
{
	return (uint32_t)(uintptr_t)p->desc;
}

#endif /* VERBS_PVT_H */
