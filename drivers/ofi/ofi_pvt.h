/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OFI_PVT_H
#define OFI_PVT_H

/*
 * Types and functions shared by the files of the ofi driver.
 *
 *     ofi_driver.c    the two drivers, fabric_ofi and fabric_efa, and their arguments
 *     ofi_dev.c       the device: fi_getinfo, limits
 *     ofi_list.c      lists the devices that libfabric offers, and their properties
 *     ofi_provider.c  one row per provider: all provider-specific knowledge
 *     ofi_efa.c       provider efa: its device's error numbers
 *     ofi_ep.c        endpoints: fabric, domain, CQ, AV, fid_ep; abort and close
 *     ofi_tx.c        post
 *     ofi_cq.c        poll, errors to status, slots
 *     ofi_sink.c      second buffer of receives, for messages that are too long
 *     ofi_notice.c    a WRITE_IMM consumes a RECV
 *     ofi_conn.c      peers: the exchange of addresses, death, disconnect
 *     ofi_av.c        address vector: references, fi_addr to peer
 *     ofi_drain.c     discards the messages of an ended peer that were not received
 *     ofi_proof.c     proves that the address which a peer names is its own
 *     ofi_mr.c        registration
 *     ofi_read.[ch]   READs whose answer has arrived in part
 *     ofi_wait.c      the wait object: an epoll set to sleep on
 *     ofi_window.c    provider sockets: receive windows that would close for ever
 *
 * Each endpoint has its own fabric and domain and is used by one thread, so nothing locks
 * (FI_THREAD_DOMAIN).
 *
 * Each op in flight has a slot, and libfabric gets the slot's context:
 *
 *     op -> slot {op, ctx} -> libfabric ... completion: &ctx -> slot -> op
 *
 * Some providers never complete the sends to a peer that died. The driver then finishes the op
 * itself. The slot becomes an orphan: it has no op, and it is not used again until the
 * provider gives its context back. So a late completion finds the orphan, never the op of a later
 * post.
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <leat_driver.h>
#include <leat_error.h>
#include <leat_exchange.h>
#include <leat_log.h>
#include <leat_order.h>

#include "ofi_compat.h"

/* One call reads at most this many completions. */
#define OFI_CQ_BURST 32
/* Longest provider address that can be exchanged. */
#define OFI_ADDR_MAX 448
/* us. Once a peer is ending, its ops have this long to complete by themselves. */
#define OFI_GRACE_US 200000
/* us. Receives from a live peer have this long: data may still be arriving in their buffers. */
#define OFI_GRACE_RECV_US 5000000

/* Groups of op types, as masks of LEAT_OP_BIT(). */
#define OFI_OPS_TAG (LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV))
#define OFI_OPS_RMA                                                                                \
	(LEAT_OP_BIT(LEAT_OP_WRITE) | LEAT_OP_BIT(LEAT_OP_WRITE_IMM) | LEAT_OP_BIT(LEAT_OP_READ))
#define OFI_OPS_ATOMIC (LEAT_OP_BIT(LEAT_OP_FETCH_ADD) | LEAT_OP_BIT(LEAT_OP_CMP_SWAP))

/* ---- providers ---- */

/*
 * Ways in which a provider differs from the driver's default behaviour. The table in ofi_provider.c
 * gives the reason for each. A comment that begins with the name of a quirk is about providers with
 * this quirk only.
 */
enum ofi_quirk {
	/* a WRITE completes before it is placed, unless posted with FI_DELIVERY_COMPLETE */
	OFI_Q_WRITE_DC = 1 << 0,
	/* a WRITE_IMM completes before it is placed, unless posted with FI_DELIVERY_COMPLETE */
	OFI_Q_WRITE_IMM_DC = 1 << 1,
	/* receives have a second buffer of which only the first page is writable */
	OFI_Q_SINK_FAULT = 1 << 2,
	/* endpoints of a process access each other's memory, even when its owner was closed */
	OFI_Q_CLOSE_LAST = 1 << 3,
	/* the initiator checks keys itself: they hold length and rights */
	OFI_Q_KEY_SEALED = 1 << 10,
	/* uses named shared memory, signal handlers, and process_vm_readv() to copy */
	OFI_Q_SHM = 1 << 4,
	/* a READ of 0 B never completes: the driver completes it */
	OFI_Q_NO_READ0 = 1 << 5,
	/* a new address must not get the AV index of a removed address */
	OFI_Q_AV_FILLS = 1 << 6,
	/* has connections below the endpoint, which can break by themselves */
	OFI_Q_BREAKS = 1 << 7,
	/* peers on this host must not be reached through shared memory */
	OFI_Q_NO_SHM_INSIDE = 1 << 8,
	/* a receive that drains messages of a dead peer must have size 0 */
	OFI_Q_DRAIN_EMPTY = 1 << 11,
	/* injected sends are queued without limit */
	OFI_Q_INJECT_QUEUES = 1 << 12,
	/* fi_av_remove() can be made to close the connection below the endpoint */
	OFI_Q_AV_CUTS = 1 << 13,
	/* reads a message header only when all of it is in the socket's receive buffer */
	OFI_Q_PEEKS = 1 << 14,
	/* closing a connection is unsafe while a READ's answer is arriving */
	OFI_Q_READ_TWICE = 1 << 15,
	/* a receive's tag mask is applied again to later messages */
	OFI_Q_MASKS_STAY = 1 << 16,
	/* aborts the process when it has an error to report and no event queue */
	OFI_Q_EVENTS = 1 << 17,
	/* the provider returns a failed op's context once for each of its packets that failed */
	OFI_Q_FAILS_AGAIN = 1 << 18,
	/* after the driver ended an op by force, the provider still accesses the op's buffer */
	OFI_Q_ENDED_READS = 1 << 19,
	/*
	 * fi_av_remove() crashes in two cases: the provider is answering a READ of that peer; a
	 * newer address has the same queue pair
	 */
	OFI_Q_AV_STAYS = 1 << 20,
};

/* One row of the table of providers. */
struct ofi_provider {
	const char *name;     /* value of provider=; NULL: the row fits any other provider */
	const char *hint;     /* fi_fabric_attr.prov_name to ask for */
	const char *fabric;   /* fi_fabric_attr.name that is needed, or NULL */
	uint32_t min_version; /* oldest libfabric to which the row applies, FI_VERSION() */
	uint32_t max_version;
	uint32_t quirks; /* enum ofi_quirk */
	uint32_t no_ops; /* LEAT_OP_BIT mask of ops that must not be used */
	const char *no_ops_why;
	uint64_t sink_len;	     /* bytes of the second buffer of receives; 0: none */
	const char *refuse;	     /* not NULL: why the provider does not work at all */
	uint64_t no_caps;	     /* FI_* capabilities not to ask for */
	uint32_t tx_depth, rx_depth; /* defaults */
	uint32_t tx_depth_max;	     /* 0: as fi_info says */
	/* receives set aside for unexpected messages: rx_depth can be this many fewer */
	uint32_t rx_spare;
	uint32_t max_peers;
	uint32_t inject_pays; /* largest send, B, for which fi_inject is faster than fi_send */
	bool needs_address;   /* takes iface= and src= */
	bool wait;	      /* its CQ has a descriptor that wakes a sleeper, see ofi_wait.c */
	/*
	 * depth that fi_getinfo grants if it is asked for; if not asked, fi_getinfo reports a
	 * smaller one. 0: the driver does not ask
	 */
	uint32_t depth_ask;
	const char *check; /* advice for error messages when the provider has no device */
	/*
	 * turns a failed op's error entry into a negative errno, where the provider's own error
	 * number says more than the general one; or NULL
	 */
	int (*status)(const struct fi_cq_err_entry *err);
	/* describes a failed op's prov_errno, and what to check; or NULL */
	const char *(*hint_of)(int prov_errno);
};

/* The provider of fabric_efa's devices. */
#define OFI_PROVIDER_EFA "efa"

int ofi_efa_status(const struct fi_cq_err_entry *err);
const char *ofi_efa_hint(int prov_errno);
/*
 * Do two addresses have the same GID and queue pair number? One of them may be of an earlier queue
 * pair that had this number.
 */
bool ofi_efa_same_qp(const uint8_t *a, const uint8_t *b);

const struct ofi_provider *ofi_provider_find(const char *name);
/* List all RDM endpoints that libfabric offers. @return a list for fi_freeinfo(); NULL: none */
struct fi_info *ofi_provider_all(void);
/* Write the names of the available RDM providers to buf, for messages. @return buf */
const char *ofi_provider_list(char *buf, size_t len);
/* Allocate a row's hints for fi_getinfo, for these capabilities. @return NULL: out of memory */
struct fi_info *ofi_provider_hints(const struct ofi_provider *p, uint64_t caps);
/* Set the options that a provider wants between fi_endpoint() and fi_enable(). */
void ofi_provider_ep_options(const struct ofi_provider *p, struct fid_ep *ep);
/* Find the first fi_info of a list that this row can use. @return NULL: there is none */
struct fi_info *ofi_provider_pick(const struct ofi_provider *p, struct fi_info *list);
/* Set libfabric's process-wide variables. To be called before the first fi_getinfo(). */
void ofi_provider_prepare(void);
/*
 * Explain, for people, why the connection to addr ended after the provider failed an op. Writes to
 * text.
 */
void ofi_provider_why(const struct ofi_provider *p, const char *name, int prov_errno,
		      const char *addr, char *text, size_t len);
/*
 * Check that the environment allows the provider to work. @return 0; negative errno with leat_err()
 */
int ofi_provider_env(const char *dev, const struct ofi_provider *p);
/* Convert an error entry to the status of its op, a negative errno. */
int ofi_provider_status(const struct ofi_provider *p, const struct fi_cq_err_entry *err);
/* Return the mr_mode bits that the driver handles. */
uint64_t ofi_provider_mr_modes(void);

/* ---- device ---- */

struct ofi_dev {
	char name[64];
	const struct ofi_provider *prov;
	char provider[64]; /* name as the user gave it */
	char src[64];	   /* src=, or the address of iface=; "" for none */
	char domain[64];   /* domain=, or "" */
	char interface[64];
	struct fi_info *info; /* fi_getinfo's answer for caps; each endpoint asks again */
	uint64_t caps;	      /* capabilities on offer that the driver uses */
	uint32_t ops;
	uint32_t tx_depth, tx_depth_max;
	uint32_t rx_depth, rx_depth_max;
	/* depths that fi_getinfo reports if none are asked for */
	uint32_t tx_depth_told, rx_depth_told;
	bool tags; /* the provider's tag matching is used */
	uint32_t quirks;
	uint32_t per_source; /* maximum number of connections from one host; 0: no limit */
};

/* Open a device. provider: for fabric_ofi the value of provider=; for fabric_efa "efa". */
int ofi_dev_probe(struct leat_dev *dev, const struct rte_kvargs *kv, const char *provider);
void ofi_dev_remove(struct leat_dev *dev);
void ofi_dev_info(const struct leat_dev *dev, struct leat_dev_info *info);
/* Return the bytes of an immediate: 8 or 4. */
uint8_t ofi_dev_imm_size(const struct ofi_dev *d);
/* List devices, see struct leat_driver.list: for fabric_ofi and for fabric_efa. */
int ofi_list(const struct leat_dev *dev, const struct leat_dev_sink *to);
int ofi_list_efa(const struct leat_dev *dev, const struct leat_dev_sink *to);
/* Write the source address of an fi_info as text. */
void ofi_addr_text(const struct fi_info *info, char *buf, size_t len);
/*
 * Call fi_getinfo with caps and this device's hints. conf: the endpoint whose depths are asked for,
 * or NULL. @return NULL: *err is a positive fi_errno
 */
struct fi_info *ofi_dev_getinfo(const struct ofi_dev *d, uint64_t caps,
				const struct leat_ep_conf *conf, int *err);

/* ---- slots ---- */

enum ofi_slot_state {
	OFI_SLOT_FREE,
	OFI_SLOT_TX,
	OFI_SLOT_RX,
	/* failed; its status depends on whether its peer is alive, which is not known yet */
	OFI_SLOT_LIMBO,
	OFI_SLOT_ORPHAN, /* its op was finished, but the provider still has the context */
};

#define OFI_SLOT_CANCEL 0x01 /* the provider was asked to cancel the op */
/* the driver itself cancels the receive, which is to carry a notice (ofi_notice.c) */
#define OFI_SLOT_CARRIER 0x02
#define OFI_SLOT_BEGUN 0x04  /* orphan of a READ whose answer has arrived in part */
#define OFI_SLOT_PROOF 0x10  /* orphan of a READ of a statement, see ofi_proof.c */
#define OFI_SLOT_FAILED 0x20 /* orphan that the provider failed, and may fail again */
#define OFI_SLOT_USES 0x40   /* orphan: the provider may access memory from arg[0] to arg[1] */
/* orphan of a receive that waits for messages of a dead peer, see ofi_drain.c */
#define OFI_SLOT_STANDING 0x08

struct ofi_slot {
	struct leat_op *op;
	struct ofi_slot *next; /* free list; or list of posted RECVs, oldest first */
	struct ofi_slot *prev;
	union {
		uint64_t seq;	       /* order of posting */
		struct ofi_addr *addr; /* of an orphan: address of the op's peer, or NULL */
	};
	/*
	 * for atomics: operands, which the provider may read late; for READ: arg[0] has the bytes
	 * with which the buffer was marked (ofi_read.c, ofi_proof.c); with OFI_SLOT_USES: begin and
	 * end of the buffer
	 */
	uint64_t arg[2];
	/*
	 * for atomics: the result, kept out of the caller's buffer because it may arrive late; with
	 * OFI_SLOT_FAILED: the time of the failure, cycles
	 */
	uint64_t result;
	uint16_t peer;
	uint8_t state;
	uint8_t flags;
	struct fi_context2 ctx __attribute__((aligned(LEAT_CACHE_LINE)));
} __attribute__((aligned(LEAT_CACHE_LINE)));

static_assert(sizeof(struct ofi_slot) == 2 * LEAT_CACHE_LINE, "a slot is two lines");

/* ---- proofs ---- */

/*
 * A statement: bytes that one side writes in its own memory for the other side to READ. It proves
 * that the provider address which the writer named is the writer's own, see ofi_proof.c.
 */
#define OFI_NONCE 16
/* Bytes that are sent along with an address: nonce, place and key of the sender's statement. */
#define OFI_PROOF_LEN 32

struct ofi_proof_read;

/* The proof of one peer's address, in use until the peer is up. */
struct ofi_proof {
	uint8_t nonce[OFI_NONCE]; /* the number that this side gave to the peer */
	uint64_t place, key;	  /* place of the peer's statement: address or offset, and key */
	uint64_t next;		  /* cycles: when to post the READ */
	uint32_t pause_us;
	bool stated;  /* this side's statement for the peer is written */
	bool pending; /* the peer's statement is still to be read */
	bool ok;      /* the peer's statement was read and is right */
	struct ofi_proof_read *read;
};

/* ---- peers ---- */

/*
 * A provider address in the address vector (AV). Connections to the same remote endpoint share it.
 * When the last of them has ended, the address stays in the AV as long as orphaned slots refer to
 * it; with OFI_Q_AV_FILLS it stays until the endpoint is closed.
 */
struct ofi_addr {
	struct ofi_addr *next;
	fi_addr_t fi;
	uint32_t refs;	  /* peers that use it */
	uint32_t orphans; /* orphaned slots that refer to it */
	uint32_t proofs;  /* how many orphans are READs of statements, OFI_SLOT_PROOF */
	uint32_t failed;  /* how many orphans have OFI_SLOT_FAILED */
	uint16_t first;	  /* peer to which messages from this address are attributed */
	uint64_t unused_since;
	bool cut;	/* removed from the AV already */
	bool draining;	/* the address is on ofi_ep.draining, see ofi_drain.c */
	bool drain_hit; /* a message met a standing receive */
	/* messages from it were discarded: later ones must not be received either */
	bool gap;
	uint32_t live; /* peers that have proven the address and have not ended */
	struct ofi_addr *next_draining;
	/* standing receives: for plain and for tagged messages; or NULL */
	struct ofi_slot *standing[2];
	uint64_t quiet_at, drain_end;
	uint16_t len;
	uint8_t raw[OFI_ADDR_MAX];
};

enum ofi_peer_state {
	OFI_PEER_NONE,
	OFI_PEER_CONNECTING, /* the exchange is in progress */
	OFI_PEER_UP,
	OFI_PEER_ENDING, /* its ops are completing */
};

struct ofi_peer {
	struct ofi_addr *addr;
	int conn;	 /* id of the exchange's connection; 0: none (any more) */
	int local_close; /* in ENDING: the former conn if this side ended the connection, else 0 */
	/* in ENDING: the former conn if the peer ended it and waits for this side's close; or 0 */
	int remote_close;
	uint64_t deadline;	  /* cycles; in ENDING: when remaining ops are finished by force */
	uint64_t recv_deadline;	  /* cycles; in ENDING: the deadline of receives and READs */
	int status;		  /* in ENDING: status of its ops, negative errno */
	uint32_t injected;	  /* sends injected since the last completion of a send */
	uint64_t broken_deadline; /* cycles; not 0: the provider lost its connection to the peer */
	int broken_errno;	  /* prov_errno of the op that reported the loss */
	bool dead;		  /* the peer's process or host died */
	uint8_t state;
	uint16_t pending_len; /* length of pending: the address that a REQUEST brought */
	void *pending;
	struct ofi_proof proof;
	uint8_t peer_proof[OFI_PROOF_LEN]; /* acceptor: proof data of the peer's REQUEST */
	uint16_t peer_proof_len;
	bool proving; /* counted in ofi_ep.nb_proving */
	bool proven;  /* counted in ofi_addr.live */
};

/* ---- endpoint ---- */

struct ofi_notice {
	uint64_t imm;
	uint64_t len;
	uint16_t src;
};

struct ofi_ep {
	/* fields that post and poll touch */
	struct fid_ep *fid;
	struct fid_cq *cq;
	struct ofi_slot *free;
	struct ofi_slot *slots;
	uint32_t nb_slots;
	uint32_t quirks;
	/* OFI_Q_INJECT_QUEUES: limit of sends injected per peer between completions; 0: no limit */
	uint32_t inject_run;
	uint32_t inject_end; /* SEND and TSEND shorter than this are injected; 0: none is */
	bool source;	     /* completions name the sender's fi_addr */
	bool mr_desc;	     /* the provider wants local descriptors */
	bool track;	     /* posted RECVs are linked from recv_head on */
	bool rx_cq_data;
	/* OFI_Q_SINK_FAULT: the sink's mark may be overwritten; renew it once the CQ is empty */
	bool sink_dirty;
	bool sealed; /* remote keys are sealed, see ofi_mr.c */
	/* post calls special() for this op type and all later ones; LEAT_OP_TYPES: for none */
	uint8_t rma_special;
	bool closing;	  /* fid is closed, or is used no more */
	bool drain_hit;	  /* some address on the draining list has drain_hit */
	uint32_t nb_gaps; /* number of addresses with gap */
	uint64_t seq;
	uint64_t imm_mask;
	uint16_t *addr_peer; /* peer id by fi_addr */
	uint64_t nb_addr;    /* entries of addr_peer */

	/* WRITE_IMM notices */
	struct ofi_slot *recv_head, *recv_tail;
	struct ofi_notice *notices;
	uint32_t notice_head, notice_count, notice_size;
	uint32_t nb_carriers;

	/* fields of the slow path */
	struct leat_ep *ep;
	struct ofi_dev *dev;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_eq *eq; /* event queue, with OFI_Q_EVENTS only */
	/* region of the slots, which hold atomics' operands; NULL: not registered */
	struct fid_mr *slots_mr;
	void *slots_desc;
	struct leat_exchange *exchange;
	bool exchange_more; /* the exchange may have more events than the last poll returned */
	int wait_fd;	    /* epoll set of the wait object, or -1 */
	bool refused;	    /* the provider refused an op since the endpoint was last armed */
	struct ofi_peer *peers;
	struct ofi_addr *addrs;
	uint32_t nb_ending;
	uint32_t nb_proving; /* peers whose address this side is proving */
	uint32_t nb_stated;  /* peers for which a statement is readable here */
	bool proves;	     /* addresses are proven, because the provider has READ */
	uint16_t proof_peers;
	uint32_t proof_stride; /* bytes of a statement */
	uint8_t *proof_mem;    /* the statements by peer, then the buffers of READs */
	size_t proof_len;
	uint64_t proof_base, proof_key; /* address or offset, and key, of proof_mem for peers */
	struct fid_mr *proof_mr;
	void *proof_desc;
	struct ofi_proof_read *proof_reads;
	bool broken; /* some peer may have a broken_deadline */
	uint32_t nb_orphans;
	uint32_t nb_failed; /* how many orphans have OFI_SLOT_FAILED */
	bool readable;	    /* a region was registered that peers may READ */
	uint32_t nb_unused; /* addresses in addrs that no peer uses */
	/* cycles: when an abort no longer waits, and closes the endpoint */
	uint64_t abort_by;
	uint64_t sweep_at;  /* cycles: when to look at the unused addresses again */
	uint64_t window_at; /* OFI_Q_PEEKS, cycles: when to look for new sockets */
	/* the receive that drain_one() waits for, or NULL */
	const struct ofi_slot *drain_recv;
	bool drained;		   /* drain_recv was cancelled: no message was there */
	struct ofi_addr *draining; /* list of addresses being drained, see ofi_drain.c */
	void *sink;		   /* second buffer of receives */
	uint64_t sink_len;
	uint64_t sink_map;	    /* bytes that are mapped */
	struct ofi_ep *next_closed; /* next closed endpoint (OFI_Q_CLOSE_LAST) */
	bool full_logged;
	uint8_t raw[OFI_ADDR_MAX]; /* this endpoint's provider address */
	uint16_t raw_len;
};

static inline struct ofi_ep *
ofi_of(const struct leat_ep *ep)
{
	return ep->drv;
}

int ofi_ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf);
void ofi_ep_quiesce(struct leat_ep *ep);
void ofi_ep_abort(struct leat_ep *ep);
void ofi_ep_halt(struct leat_ep *ep);
int ofi_ep_option(struct leat_ep *ep, enum leat_ep_option option, uint32_t *value);
void ofi_ep_close(struct leat_ep *ep);
/* Close every libfabric object of e, and free e. */
void ofi_ep_free(struct ofi_ep *e);
int ofi_ep_cancel(struct leat_ep *ep, struct leat_op *op);

/* ---- data ---- */

uint16_t ofi_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void ofi_poll(struct leat_ep *ep);
/* Poll while addresses are being drained. */
void ofi_poll_draining(struct leat_ep *ep);
void ofi_poll_closed(struct leat_ep *ep);
/* Drive the provider, and handle up to max completions. */
void ofi_cq_drive(struct ofi_ep *e, unsigned int max);

/* OFI_Q_EVENTS: open an event queue for the endpoint. @return 0 or libfabric's error */
int ofi_event_open(struct ofi_ep *e);
/* Read and log the events in the endpoint's event queue. */
void ofi_event_read(struct ofi_ep *e);

/* Convert an fi_errno, of either sign, to a negative errno. */
int ofi_errno(int err);

static inline struct ofi_slot *
ofi_slot_of(void *context)
{
	return (struct ofi_slot *)((char *)context - offsetof(struct ofi_slot, ctx));
}

static inline void
ofi_slot_put(struct ofi_ep *e, struct ofi_slot *s)
{
	s->op = NULL;
	s->state = OFI_SLOT_FREE;
	s->next = e->free;
	e->free = s;
}

/* Finish the op of a slot with status and len. Afterwards the slot is free, or an orphan. */
void ofi_slot_finish(struct ofi_ep *e, struct ofi_slot *s, int status, uint64_t len);
/* Finish the op of a slot whose context the provider still has: the slot becomes an orphan. */
void ofi_slot_orphan(struct ofi_ep *e, struct ofi_slot *s, int status);
/*
 * Free orphaned slots with OFI_SLOT_FAILED: if a is an address, which must be out of the AV, the
 * slots that refer to it; if a is NULL, the slots that failed longer than FAILED_US ago (ofi_cq.c).
 */
void ofi_slots_forget_failed(struct ofi_ep *e, const struct ofi_addr *a);
/*
 * OFI_Q_ENDED_READS: may the provider still access this memory for an op that was ended by force?
 */
bool ofi_slots_use(const struct ofi_ep *e, const void *addr, uint64_t len);
/* Ask the provider to cancel a receive. */
void ofi_slot_cancel(struct ofi_ep *e, struct ofi_slot *s);
/* Call fn for each slot that has an op. */
void ofi_slots_foreach(struct ofi_ep *e,
		       void (*fn)(struct ofi_ep *e, struct ofi_slot *s, void *arg), void *arg);

/* ---- sink: messages that are longer than their receive ---- */

int ofi_sink_alloc(struct ofi_ep *e);
void ofi_sink_free(struct ofi_ep *e);
/* OFI_Q_SINK_FAULT: has something been written to the sink since the last ofi_sink_mark()? */
bool ofi_sink_used(const struct ofi_ep *e);
void ofi_sink_mark(struct ofi_ep *e);

/* ---- notices ---- */

/* Queue a notice: a peer's WRITE_IMM was placed. */
void ofi_notice_add(struct ofi_ep *e, uint64_t imm, uint64_t len, uint16_t src);
/*
 * Choose a posted RECV as the carrier of a waiting notice. To be called after each burst of
 * completions while notices wait. @return whether a carrier was chosen
 */
bool ofi_notice_run(struct ofi_ep *e);
/* May more completions be read? Not while too many notices wait. */
bool ofi_notice_room(const struct ofi_ep *e);
/*
 * If no other RECV is posted, and a waiting notice fits the RECV that is being posted, complete the
 * RECV with the oldest such notice. @return whether the RECV is complete
 */
bool ofi_notice_take(struct ofi_ep *e, struct leat_op *op);
/* Complete a carrier, whose cancel has completed, with its notice. */
void ofi_notice_carrier_done(struct ofi_ep *e, struct ofi_slot *s);
void ofi_recv_list_add(struct ofi_ep *e, struct ofi_slot *s);
void ofi_recv_list_del(struct ofi_ep *e, struct ofi_slot *s);
void ofi_notice_fini(struct ofi_ep *e);

/* ---- address vector ---- */

/* Find or insert an address, and take a reference. @return 0; negative errno with leat_err() */
int ofi_av_get(struct ofi_ep *e, const void *raw, uint16_t len, struct ofi_addr **addr);
/*
 * Remove an address from the AV, so that its peer writes to this side's memory no more. Does
 * nothing while another peer uses the address, or while a READ's answer from its last peer is
 * arriving.
 */
void ofi_av_cut(struct ofi_ep *e, struct ofi_addr *a, uint16_t peer);
/*
 * Count a connection that has proven the address. If it is the only one, the address's messages are
 * attributed to its peer from now on. ofi_av_unproven() stops counting the connection, when it has
 * ended or was given up.
 */
void ofi_av_proven(struct ofi_ep *e, struct ofi_addr *a, uint16_t peer);
void ofi_av_unproven(struct ofi_ep *e, struct ofi_addr *a, uint16_t peer);
/* Drop a peer's reference to an address. */
void ofi_av_put(struct ofi_ep *e, struct ofi_addr *a, uint16_t peer);
/* Remove the addresses that no peer uses any more, where that is safe. */
void ofi_av_sweep(struct ofi_ep *e);
void ofi_av_fini(struct ofi_ep *e);

/* ---- proofs ---- */

int ofi_proof_open(struct ofi_ep *e, uint16_t max_peers);
void ofi_proof_close(struct ofi_ep *e);
/*
 * Write the OFI_PROOF_LEN bytes that are sent along with this side's address. @return length; 0:
 * addresses are not proven; negative errno with leat_err()
 */
int ofi_proof_offer(const struct ofi_ep *e, uint16_t peer, struct ofi_proof *p, uint8_t *buf);
/*
 * Check and store the other side's proof data, and write this side's statement for it. reader: the
 * address that the other side named. @return 0; negative errno with leat_err()
 */
int ofi_proof_state(struct ofi_ep *e, uint16_t peer, struct ofi_proof *p, const uint8_t *peer_proof,
		    uint16_t len, const struct ofi_addr *reader);
/* Begin to prove: the other side's statement can be read now. */
void ofi_proof_begin(struct ofi_proof *p);
/* Continue a proof. @return 1: proven; 0: not yet; -EACCES: the address is not the peer's own */
int ofi_proof_step(struct ofi_ep *e, uint16_t peer, struct ofi_addr *a, struct ofi_proof *p,
		   uint64_t now);
/* End a proof, complete or not: erase this side's statement for the peer. */
void ofi_proof_end(struct ofi_ep *e, uint16_t peer, struct ofi_proof *p);
/* Handle the end of a READ of a statement. */
void ofi_proof_read_done(struct ofi_ep *e, const struct ofi_slot *s, bool complete);
/* Has the answer of this READ of a statement begun to arrive? */
bool ofi_proof_begun(const struct ofi_ep *e, const struct ofi_slot *s);
/* Has the answer of any READ of a statement at this address begun to arrive? */
bool ofi_proof_under_way(const struct ofi_ep *e, const struct ofi_addr *a);

/* ---- drain: messages that an ended peer left unreceived ---- */

/* One pass discards at most this many messages of a kind, plain or tagged. */
#define OFI_DRAIN_MAX 2048

/*
 * Make one pass: receive and discard the messages of an address that have arrived. @return their
 * number; if OFI_DRAIN_MAX or more, others may be left
 */
unsigned int ofi_drain(struct ofi_ep *e, struct ofi_addr *a);
/*
 * Drain an address whose peer sends nothing more. @return false: not done yet, call
 * ofi_drain_step()
 */
bool ofi_drain_all(struct ofi_ep *e, struct ofi_addr *a);
/*
 * Drain the address of a dead peer until no more messages come: make a pass now, then keep receives
 * posted for later messages. ofi_drain_end() ends it.
 */
void ofi_drain_begin(struct ofi_ep *e, struct ofi_addr *a);
/*
 * Begin to drain; may be called while completions are handled. The first pass is made at the end of
 * this poll or the next one.
 */
void ofi_drain_soon(struct ofi_ep *e, struct ofi_addr *a);
/*
 * Continue to drain. @return true: no message came for QUIET_US, or the time limit LIMIT_US has
 * passed (ofi_drain.c)
 */
bool ofi_drain_step(struct ofi_ep *e, const struct ofi_addr *a, uint64_t now);
/*
 * Make a last pass, after ofi_drain_step() returned true. @return true: it discarded all messages
 * that have arrived
 */
bool ofi_drain_last(struct ofi_ep *e, struct ofi_addr *a);
void ofi_drain_end(struct ofi_ep *e, struct ofi_addr *a);
/* Make the further passes that drain_hit asks for. To be called after a poll. */
void ofi_drain_run(struct ofi_ep *e);
/* Handle the end of a standing receive. hit: it received a message. */
void ofi_drain_recv_done(struct ofi_ep *e, const struct ofi_slot *s, bool hit);
/* Were messages of this sender discarded, so that later ones must not be received? */
bool ofi_drain_gap(const struct ofi_ep *e, fi_addr_t fi);

/* ---- connections ---- */

int ofi_conn_init(struct ofi_ep *e, const struct leat_ep_conf *conf);
void ofi_conn_fini(struct ofi_ep *e);
int ofi_listen(struct leat_ep *ep, const char *addr);
int ofi_listen_addr(struct leat_ep *ep, char *addr, size_t len);
int ofi_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
		const struct leat_conn_params *params);
int ofi_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params);
void ofi_reject(struct leat_ep *ep, struct leat_peer *peer);
void ofi_disconnect(struct leat_ep *ep, struct leat_peer *peer, int status, const char *text);
void ofi_progress(struct leat_ep *ep, uint64_t now);
/* Handle the loss of the provider's connection to a peer, which a failed op reported. */
void ofi_conn_broken(struct ofi_ep *e, uint16_t peer);

/* ---- memory ---- */

int ofi_mr_reg(struct leat_ep *ep, struct leat_mr_piece *piece, uint32_t access);
/* Register memory for the driver's own use. @return 0; the provider's negative errno */
int ofi_mr_reg_raw(struct ofi_ep *e, struct leat_mr_piece *piece, uint64_t access, uint64_t key);
int ofi_mr_dereg(struct leat_ep *ep, struct leat_mr_piece *piece);
/*
 * OFI_Q_KEY_SEALED: check an op against its remote key. @return 0; -EACCES: the key is wrong, or
 * lacks the right; -ERANGE: the bytes are not all in the region
 */
int ofi_mr_key_check(const struct leat_op *op);
/* Register the slots, if the provider requires that local memory is registered. */
int ofi_mr_reg_slots(struct ofi_ep *e);

/* ---- sleeping ---- */

int ofi_wait_open(struct ofi_ep *e);
void ofi_wait_close(struct ofi_ep *e);
int ofi_ep_fd(const struct leat_ep *ep);
int ofi_ep_arm(struct leat_ep *ep);
void ofi_ep_disarm(struct leat_ep *ep);

/* ---- provider sockets ---- */

/* OFI_Q_PEEKS: enlarge the receive buffers of the provider's new sockets, if it is time to look. */
void ofi_window_step(struct ofi_ep *e, uint64_t now);

#endif /* OFI_PVT_H */
