/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef EFA_SIM_H
#define EFA_SIM_H

/**
 * @file
 * An EFA device in software, below libibverbs and libefa.
 *
 * The library is preloaded (LD_PRELOAD) and defines the functions of libibverbs and libefa that
 * libfabric's efa provider calls. A process is a host: it has its own GID, and data pass between
 * hosts through memory of this library:
 *
 *     process A                                       process B
 *     post_send -> send queue                         post_recv -> inbox: posted++
 *       hold (reorder, delay, RNR)                    start_poll <- inbox: committed
 *       deliver ----- inbox of B's QP (memfd) ------->  payload into the buffer of the receive
 *       completion -> CQ of A
 *     RDMA READ ----- process_vm_readv of B's memory, checked against B's table of MRs
 *
 * A packet is delivered by the call that posts it, or later by the thread of the library: never by
 * polling alone, since a program may post its last message and not poll again.
 *
 * One difference from the device: a sender that is stopped (SIGSTOP) while it copies into an inbox
 * blocks all other senders to that QP. A stopped receiver blocks no sender.
 *
 * Nothing has a name in the file system: each memfd is opened through /proc/PID/fd/N, where PID and
 * N are part of the GID. A killed process leaves only robust mutexes whose owner is dead.
 *
 * Locks, in the order in which they are taken: host, list of QPs, polling of a CQ, send or receive
 * queue of a QP, table of MRs, peer, inbox. The locks of the list of peers, of the AHs, of the
 * thread and of a CQ's ring are taken last, one at a time. fork takes all locks that belong to no
 * object.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#define SIM_DEVICES 8
#define SIM_QPS 1024 /**< maximum number of QPs of a device */
#define SIM_MRS 65536
#define SIM_SGES 4
#define SIM_CQES 32768 /**< maximum number of entries of a CQ */
#define SIM_INLINE 32
#define SIM_READ_MAX (1u << 30)
#define SIM_NO_AH 0xffff /**< slid of a packet for whose sender the receiver has no AH */
#define SIM_UD_GRH 40	 /**< bytes before the payload of a datagram */

#define SIM_API __attribute__((visibility("default")))

/** Status codes of the device, as in rdma-core's efa_io_defs.h and libfabric's efa_errno.h. */
enum sim_status {
	SIM_OK = 0,
	SIM_FLUSHED = 1,
	SIM_LOCAL_QP_INTERNAL = 2,
	SIM_LOCAL_INVALID_OP = 3,
	SIM_LOCAL_INVALID_AH = 4,
	SIM_LOCAL_INVALID_LKEY = 5,
	SIM_LOCAL_BAD_LENGTH = 6,
	SIM_REMOTE_BAD_ADDRESS = 7,
	SIM_REMOTE_ABORT = 8,
	SIM_REMOTE_BAD_DEST_QPN = 9,
	SIM_REMOTE_RNR = 10,
	SIM_REMOTE_BAD_LENGTH = 11,
	SIM_REMOTE_BAD_STATUS = 12,
	SIM_LOCAL_UNRESP_REMOTE = 13,
	SIM_NB_STATUS
};

/** Counted events, in the order of their names in sim_stats.c. */
enum sim_stat {
	SIM_STAT_SENDS,
	SIM_STAT_SEND_BYTES,
	SIM_STAT_RECVS,
	SIM_STAT_RECV_BYTES,
	SIM_STAT_READS,
	SIM_STAT_READ_BYTES,
	SIM_STAT_DATAGRAMS,
	SIM_STAT_DATAGRAMS_LOST,
	SIM_STAT_HELD,
	SIM_STAT_OVERTAKEN, /**< packets that a later one of the same QP overtook */
	SIM_STAT_RNR_RETRIES,
	SIM_STAT_INJECTED,
	SIM_STAT_QPS,
	SIM_STAT_CQS,
	SIM_STAT_MRS,
	SIM_STAT_AHS,
	SIM_STAT_PEERS,
	SIM_STAT_PEERS_LOST,
	SIM_STAT_RECOVERED, /**< locks whose owner was killed */
	SIM_STAT_REFUSED,   /**< objects refused because of a limit */
	SIM_STAT_STATUS,    /**< completions by status, SIM_NB_STATUS of them */
	SIM_NB_STATS = SIM_STAT_STATUS + SIM_NB_STATUS
};

/** Counted objects; those left at exit are leaks. */
enum sim_object { SIM_OBJ_QP, SIM_OBJ_CQ, SIM_OBJ_MR, SIM_OBJ_AH, SIM_NB_OBJECTS };

/** Configuration from EFA_SIM; sim_config.c has each key's range and help. */
struct sim_config {
	uint64_t seed;
	uint64_t devices;
	uint64_t mtu;
	uint64_t sq_depth;
	uint64_t rq_depth;
	uint64_t max_qp;
	uint64_t max_cq;
	uint64_t max_mr;
	uint64_t max_ah;
	uint64_t part_id;
	uint64_t reorder;
	uint64_t hold_us;
	uint64_t delay_us;
	uint64_t rnr_ppm;
	uint64_t rnr_us;
	uint64_t fail;
	uint64_t fail_ppm;
	uint64_t deaf_after;
	uint64_t unresp_ms;
	uint64_t bad_device;
	uint64_t lose_ah_ppm;
	uint64_t read;
	uint64_t leaks;
	char stats[512];
};

extern struct sim_config sim_config;

/**
 * Read EFA_SIM. A mistake in it ends the process: a test must run with exactly the faults that it
 * asks for.
 */
void sim_config_read(void);

void sim_count(enum sim_stat stat, uint64_t nb);
/** Count an object; if there are max already, count a refusal and return false. */
bool sim_object_add(enum sim_object object, uint64_t max);
void sim_object_del(enum sim_object object);
/** Return the number of existing objects of a kind. */
uint64_t sim_objects(enum sim_object object);
/**
 * Print the counters to the place given by sim_config.stats. Return the number of leaked objects.
 */
uint64_t sim_stats_report(void);
void sim_stats_reset(void);

/** Return the time of CLOCK_MONOTONIC, ns. */
uint64_t sim_now(void);
/** Return a number that depends only on the arguments and the seed. */
uint64_t sim_random(uint64_t a, uint64_t b);
/** Return true in ppm of 1,000,000 cases. */
bool sim_chance(uint64_t random, uint64_t ppm);

/** Read the configuration and register the fork handlers: once in a process. */
void sim_init(void);

/**
 * Fork handlers. PREPARE takes the locks of a module, so that the child finds its lists whole;
 * PARENT and CHILD release them. The child forgets the parent's objects, which remain the parent's.
 */
enum sim_fork { SIM_FORK_PREPARE, SIM_FORK_PARENT, SIM_FORK_CHILD };
void sim_device_fork(enum sim_fork when);
void sim_ah_fork(enum sim_fork when);
void sim_mr_fork(enum sim_fork when);
void sim_qp_fork(enum sim_fork when);
void sim_thread_fork(enum sim_fork when);
void sim_peer_fork(enum sim_fork when);
void sim_host_fork(enum sim_fork when);

static inline void
sim_fork_lock(pthread_mutex_t *lock, enum sim_fork when)
{
	if (when == SIM_FORK_PREPARE)
		pthread_mutex_lock(lock);
	else
		pthread_mutex_unlock(lock);
}

/** Forks between the first process with a device and this process. */
extern uint32_t sim_nb_forks;

/* ---- sim_device.c ---- */

struct sim_device {
	struct ibv_device ibv;
	unsigned int index;
	union ibv_gid gid;
};

struct sim_context {
	struct verbs_context verbs;
	struct sim_device *device;
	uint32_t nb_forks; /**< sim_nb_forks when the device was opened */
};

static inline struct sim_context *
sim_context_of(struct ibv_context *context)
{
	return (struct sim_context *)((char *)context -
				      offsetof(struct sim_context, verbs.context));
}

/**
 * Was the context opened in this process? If not, a parent opened it before a fork, and it can only
 * be freed here.
 */
static inline bool
sim_mine(struct ibv_context *context)
{
	return sim_context_of(context)->nb_forks == sim_nb_forks;
}

/** Like sim_mine(), but if false set errno and print a message, once. */
bool sim_usable(struct ibv_context *context);

struct sim_pd {
	struct ibv_pd ibv;
	struct sim_device *device;
	uint32_t number;	     /**< unique in this process */
	_Atomic uint32_t nb_objects; /**< AHs, MRs and QPs of this domain */
};

/* ---- sim_ah.c ---- */

struct sim_peer;

struct sim_ah {
	struct ibv_ah ibv;
	LIST_ENTRY(sim_ah) next;
	struct sim_pd *pd;
	union ibv_gid gid;
	uint16_t number; /**< one number per device and GID */
	struct sim_peer *peer;
	_Atomic uint32_t nb_refs; /**< references: one of the creator, one of each held send */
	_Atomic bool destroyed;
};

void sim_ah_hold(struct sim_ah *ah);
void sim_ah_release(struct sim_ah *ah);

/** Return the number of the AH that a device has for a GID, or SIM_NO_AH. */
uint16_t sim_ah_number(const struct sim_device *device, const union ibv_gid *gid);

/* ---- sim_mr.c ---- */

/**
 * Keep regions from being deregistered until sim_mr_leave(), while their memory is copied. Calls
 * must not nest.
 */
void sim_mr_enter(void);
void sim_mr_leave(void);
/**
 * Is the memory registered in the protection domain, with these rights? Call between enter and
 * leave.
 */
bool sim_mr_local(const struct sim_pd *pd, const struct ibv_sge *sge, int access);

/* ---- sim_cq.c ---- */

struct sim_qp;

struct sim_cqe {
	struct sim_qp *qp;
	bool sent; /**< completion of a send: polling it frees an entry of the send queue */
	uint64_t wr_id;
	enum sim_status status;
	enum ibv_wc_opcode opcode;
	uint32_t byte_len;
	uint32_t qp_num;
	uint32_t src_qp;
	uint32_t slid;
	union ibv_gid sgid;
};

struct sim_cq {
	union {
		struct ibv_cq_ex ex;
		struct ibv_cq ibv;
	};
	struct efadv_cq dv;
	pthread_mutex_t poll_lock; /**< held from start_poll to end_poll */
	pthread_mutex_t lock;	   /**< lock of the ring */
	struct sim_cqe *ring;
	uint32_t size; /**< slots of the ring: a power of two */
	uint32_t head, tail;
	_Atomic uint32_t nb;
	/** send and receive queues that complete here: a QP can count twice */
	_Atomic uint32_t nb_qps;
	LIST_HEAD(, sim_qp) receivers; /**< changed under poll_lock */
	LIST_HEAD(, sim_qp) senders;   /**< changed under poll_lock */
	uint32_t nb_empty;	       /**< polls in a row that found nothing */
	struct sim_qp *next;	       /**< the QP whose inbox is polled first */
	struct sim_cqe now;	       /**< the completion that start_poll or next_poll found */
	bool sgid;		       /**< created by efadv_create_cq() with the SGID */
};

/** Add a completion of a send queue. ENOMEM ends the process. */
void sim_cq_push(struct sim_cq *cq, const struct sim_cqe *cqe);
/** Drop the completions of a QP. Call under poll_lock. */
void sim_cq_forget(struct sim_cq *cq, const struct sim_qp *qp);
struct ibv_cq_ex *sim_cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);

/* ---- sim_qp.c ---- */

struct sim_inbox;

/** A posted receive. */
struct sim_rqe {
	uint64_t wr_id;
	uint32_t nb;
	struct ibv_sge sge[SIM_SGES];
};

/** A posted send or READ. */
struct sim_wqe {
	TAILQ_ENTRY(sim_wqe) next;
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	struct sim_ah *ah;
	uint32_t qpn, qkey; /**< of the destination */
	uint32_t rkey;
	uint64_t remote;
	uint32_t nb;
	struct ibv_sge sge[SIM_SGES];
	bool inlined;
	uint32_t inline_len;
	char data[SIM_INLINE];
	/** @name When a held request leaves the send queue @{ */
	uint64_t seq;	       /**< number of this post of the QP */
	uint64_t leave_at_seq; /**< leave when seq of the QP has reached this ... */
	uint64_t leave_at_ns;  /**< ... or at this time */
	bool ordered;	       /**< held for the first time: the reorder window applies */
	uint32_t retries;      /**< retries that are left after RNR */
	bool unresponsive;     /**< no answer from the peer: leave_at_ns is the timeout */
			       /** @} */
};

struct sim_qp {
	union {
		struct ibv_qp_ex ex;
		struct ibv_qp ibv;
	};
	struct sim_device *device;
	struct sim_pd *pd;
	LIST_ENTRY(sim_qp) next;	  /**< in the list of the process */
	LIST_ENTRY(sim_qp) next_receiver; /**< in the list of the receive CQ */
	LIST_ENTRY(sim_qp) next_sender;	  /**< in the list of the send CQ */
	struct sim_cq *send_cq, *recv_cq;
	unsigned int index;
	bool datagram;
	bool signal_all;
	uint32_t max_send_sge, max_recv_sge, max_inline;
	uint32_t rnr_retry; /**< 7: for ever */

	/** @name Send queue, under lock @{ */
	/**
	 * Also guards the QP's state, as does rq_lock: a writer holds both locks, a reader one of
	 * them.
	 */
	pthread_mutex_t lock;
	struct sim_wqe *wqes;
	TAILQ_HEAD(sim_wqes, sim_wqe) free, held;
	uint32_t sq_depth;
	uint64_t seq;	   /**< posts so far */
	uint64_t left_seq; /**< 1 + the highest seq that was sent with success; 0: none */
	uint64_t nb_random;
	_Atomic uint64_t wake_ns; /**< when to look at held requests; UINT64_MAX: none is held */
	/** @} */
	/** Requests between wr_start and wr_complete; only the posting thread uses the list. */
	struct sim_wqes building;
	int open_error;			 /**< errno of a wrong request among them; 0: none */
	_Atomic uint32_t nb_outstanding; /**< posted and not yet polled */

	/** @name Receive queue, of the thread that posts and polls @{ */
	pthread_mutex_t rq_lock;
	struct sim_rqe *rqes;
	uint32_t rq_depth;
	uint64_t consumed;
	struct sim_inbox *inbox;
	/** @} */
};

/** Create a QP: SRD, or UD if datagram. */
struct ibv_qp *sim_qp_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
			     bool datagram);

/** In the child of a fork: forget the inbox, which is the parent's. */
void sim_qp_forget(struct sim_qp *qp);

/* ---- sim_recv.c ---- */

int sim_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/** Receive the next message from a QP's inbox. Return false if there is none. */
bool sim_recv_poll(struct sim_qp *qp, struct sim_cqe *cqe);
/** Complete all posted receives as flushed. Call under rq_lock. */
void sim_recv_flush(struct sim_qp *qp);

/* ---- sim_post.c ---- */

int sim_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/** Allocate an entry of the send queue. Return NULL if it is full. Call under the QP's lock. */
struct sim_wqe *sim_wqe_new(struct sim_qp *qp);
/** Fill in the operations of struct ibv_qp_ex. */
void sim_post_ops(struct sim_qp *qp, uint64_t flags);

/* ---- sim_send.c ---- */

uint32_t sim_wqe_length(const struct sim_wqe *wqe);
/** Send a request now, or hold it. Call under the QP's lock. */
void sim_send(struct sim_qp *qp, struct sim_wqe *wqe);
/** Send the requests that are due. */
void sim_send_progress(struct sim_qp *qp, uint64_t now);
/**
 * Send one message that is held for reordering. Call when the program polls and finds nothing: a
 * program that posts few messages at a time would otherwise wait for hold-us each time. Return
 * false if none is held.
 */
bool sim_send_idle(struct sim_qp *qp);
/** Complete all held sends as flushed. Call under the QP's lock. */
void sim_send_flush(struct sim_qp *qp);
/** Drop all held sends. */
void sim_send_drop(struct sim_qp *qp);

/* ---- sim_transmit.c ---- */

/** Bring a message to its destination, or the data of a READ to this process. */
enum sim_status sim_transmit(struct sim_qp *qp, struct sim_wqe *wqe);

/* ---- sim_thread.c ---- */

/** Start the thread, which also holds the host's up mutex. Return 0, or an errno. */
int sim_thread_start(void);
void sim_thread_stop(void);
/** Wake the thread at the time `at`, ns: a QP then has a message to send. */
void sim_thread_wake(uint64_t at);
void sim_thread_add(struct sim_qp *qp);
void sim_thread_del(struct sim_qp *qp);

#endif /* EFA_SIM_H */
