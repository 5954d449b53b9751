/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OFI_PVT_H
#define OFI_PVT_H

/*
 * What the files of the ofi driver share.
 *
 *     ofi_driver.c    the two drivers, fabric_ofi and fabric_efa, and their arguments
 *     ofi_dev.c       the device: fi_getinfo, limits
 *     ofi_list.c      which there are, and what there is to know of them
 *     ofi_provider.c  everything that is known of single providers
 *     ofi_efa.c       provider efa: its device's error numbers
 *     ofi_ep.c        endpoints: fabric, domain, CQ, AV, fid_ep; abort and close
 *     ofi_tx.c        post
 *     ofi_cq.c        poll, errors to status, slots
 *     ofi_sink.c      where too long messages go
 *     ofi_notice.c    a WRITE_IMM consumes a RECV
 *     ofi_conn.c      peers: the exchange of addresses, death, disconnect
 *     ofi_av.c        address vector: references, fi_addr to peer
 *     ofi_drain.c     what a peer leaves unreceived at its end
 *     ofi_proof.c     is the address that a peer names its own?
 *     ofi_mr.c        registration
 *     ofi_read.[ch]   READs in the middle of their answer
 *     ofi_wait.c      sleeping until something happens
 *     ofi_window.c    provider sockets: receive windows that would close for ever
 *
 * Each endpoint has its own fabric and domain and is used by one thread, so nothing locks
 * (FI_THREAD_DOMAIN).
 *
 * An op in flight has a slot, whose context libfabric gets:
 *
 *     op -> slot {op, ctx} -> libfabric ... completion: &ctx -> slot -> op
 *
 * Some providers never complete the sends to a peer that died. The driver then finishes the op
 * without them; the slot stays behind as an orphan without an op, so that a late completion finds a
 * slot and never the op of another post.
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

/* Completions read at once. */
#define OFI_CQ_BURST 32
/* Longest provider address that can be exchanged. */
#define OFI_ADDR_MAX 448
/* How long an ending peer's ops may still complete by themselves. */
#define OFI_GRACE_US 200000
/* The same for receives from a live peer: its data may be on their way into the buffer. */
#define OFI_GRACE_RECV_US 5000000

/* Kinds of ops, as masks. */
#define OFI_OPS_TAG (LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV))
#define OFI_OPS_RMA                                                                                \
	(LEAT_OP_BIT(LEAT_OP_WRITE) | LEAT_OP_BIT(LEAT_OP_WRITE_IMM) | LEAT_OP_BIT(LEAT_OP_READ))
#define OFI_OPS_ATOMIC (LEAT_OP_BIT(LEAT_OP_FETCH_ADD) | LEAT_OP_BIT(LEAT_OP_CMP_SWAP))

/* ---- providers ---- */

/*
 * Ways in which providers differ from what the driver does by default; see the table for reasons.
 */
enum ofi_quirk {
	OFI_Q_WRITE_DC = 1 << 0,     /* WRITE: per-op FI_DELIVERY_COMPLETE, to mean "placed" */
	OFI_Q_WRITE_IMM_DC = 1 << 1, /* the same for WRITE_IMM */
	OFI_Q_SINK_FAULT =
		1 << 2, /* the second buffer of receives can't be written, only its first page */
	/* endpoints of one process use each other's memory, also after one was closed */
	OFI_Q_CLOSE_LAST = 1 << 3,
	OFI_Q_KEY_SEALED = 1 << 10, /* the initiator checks keys, by what is written in them */
	OFI_Q_SHM = 1 << 4,	 /* named memory, signal handlers, copies by process_vm_readv() */
	OFI_Q_NO_READ0 = 1 << 5, /* a READ of 0 B never completes: the driver does it */
	OFI_Q_AV_FILLS = 1 << 6, /* an address must not take the place of one that was removed */
	OFI_Q_BREAKS = 1 << 7,	 /* has connections below that can break by themselves */
	OFI_Q_NO_SHM_INSIDE = 1 << 8, /* is to send to peers of this host as to others */
	OFI_Q_DRAIN_EMPTY =
		1 << 11, /* what a dead peer sent may only be received with a size of 0 */
	OFI_Q_INJECT_QUEUES = 1 << 12, /* injected sends are queued without limit */
	OFI_Q_AV_CUTS = 1 << 13,     /* fi_av_remove() can be made to close the connection below */
	OFI_Q_PEEKS = 1 << 14,	     /* waits for whole headers in the kernel's receive buffer */
	OFI_Q_READ_TWICE = 1 << 15,  /* a connection must not be closed amid a READ's answer */
	OFI_Q_MASKS_STAY = 1 << 16,  /* a tag mask is used again for messages that come later */
	OFI_Q_EVENTS = 1 << 17,	     /* aborts the process if an error finds no event queue */
	OFI_Q_FAILS_AGAIN = 1 << 18, /* a failed op's context comes back for each of its packets */
	OFI_Q_ENDED_READS = 1 << 19, /* an op that was ended by force still uses its buffer */
	/*
	 * fi_av_remove() crashes amid an answer to the peer's READ, and on the older of two
	 * addresses that have the same queue pair
	 */
	OFI_Q_AV_STAYS = 1 << 20,
};

/* What is known of a provider. */
struct ofi_provider {
	const char *name;     /* as in provider=; NULL: any other */
	const char *hint;     /* fi_fabric_attr.prov_name to ask for */
	const char *fabric;   /* fi_fabric_attr.name that is needed, or NULL */
	uint32_t min_version; /* of libfabric to which the row applies, FI_VERSION() */
	uint32_t max_version;
	uint32_t quirks; /* enum ofi_quirk */
	uint32_t no_ops; /* LEAT_OP_BIT mask that must not be used */
	const char *no_ops_why;
	uint64_t sink_len;	     /* of the second buffer of receives, 0: none */
	const char *refuse;	     /* not NULL: doesn't work at all, and why */
	uint64_t no_caps;	     /* FI_* capabilities not to ask for */
	uint32_t tx_depth, rx_depth; /* defaults */
	uint32_t tx_depth_max;	     /* 0: what fi_info says */
	/* of the receives that fi_info says, those that are kept for unexpected messages */
	uint32_t rx_spare;
	uint32_t max_peers;
	uint32_t inject_pays; /* largest send for which fi_inject is faster than fi_send */
	bool needs_address;   /* takes iface= and src= */
	bool wait;	      /* its CQ has a descriptor that wakes, see ofi_wait.c */
	/* it has so many sends and receives, if asked; 0: as many as it says unasked */
	uint32_t depth_ask;
	const char *check; /* what to look at when it isn't there */
	/*
	 * negative errno of a failed op, where the provider's own error number tells more; or NULL
	 */
	int (*status)(const struct fi_cq_err_entry *err);
	/* what happened, and what to check, of a failed op's prov_errno; or NULL */
	const char *(*hint_of)(int prov_errno);
};

/* That of fabric_efa's devices. */
#define OFI_PROVIDER_EFA "efa"

int ofi_efa_status(const struct fi_cq_err_entry *err);
const char *ofi_efa_hint(int prov_errno);
/* Are these addresses those of one queue pair, which may have been made anew? */
bool ofi_efa_same_qp(const uint8_t *a, const uint8_t *b);

const struct ofi_provider *ofi_provider_find(const char *name);
/* All RDM endpoints that there are; NULL: none. fi_freeinfo() ends it. */
struct fi_info *ofi_provider_all(void);
/* Names of the RDM providers that are here, for messages. */
const char *ofi_provider_list(char *buf, size_t len);
/* Hints common to all uses of a row; NULL when out of memory. */
struct fi_info *ofi_provider_hints(const struct ofi_provider *p, uint64_t caps);
/* Sets options that a provider wants between fi_endpoint() and fi_enable(). */
void ofi_provider_ep_options(const struct ofi_provider *p, struct fid_ep *ep);
/* Is the first fi_info of a list that this row can use; NULL if none. */
struct fi_info *ofi_provider_pick(const struct ofi_provider *p, struct fi_info *list);
/* Before the first fi_getinfo(): what the library is told once per process. */
void ofi_provider_prepare(void);
/* Why the connection to an address ended, after an op that the provider failed: for people. */
void ofi_provider_why(const struct ofi_provider *p, const char *name, int prov_errno,
		      const char *addr, char *text, size_t len);
/* What the environment lacks for it. 0, or a negative errno with leat_err(). */
int ofi_provider_env(const char *dev, const struct ofi_provider *p);
/* Status of a failed op, a negative errno. */
int ofi_provider_status(const struct ofi_provider *p, const struct fi_cq_err_entry *err);
/* mr_mode bits that the driver handles. */
uint64_t ofi_provider_mr_modes(void);

/* ---- device ---- */

struct ofi_dev {
	char name[64];
	const struct ofi_provider *prov;
	char provider[64]; /* as it was asked for */
	char src[64];	   /* src=, or the address of iface=; "" for none */
	char domain[64];   /* domain=, or "" */
	char interface[64];
	struct fi_info *info; /* with caps, what an endpoint is opened with */
	uint64_t caps;	      /* all that it offers of what the driver uses */
	uint32_t ops;
	uint32_t tx_depth, tx_depth_max;
	uint32_t rx_depth, rx_depth_max;
	uint32_t tx_depth_told, rx_depth_told; /* by the provider, unasked */
	bool tags;			       /* the provider's are used */
	uint32_t quirks;
	uint32_t per_source; /* connections of one host, 0: no limit */
};

/* provider: of fabric_ofi the argument's value. */
int ofi_dev_probe(struct leat_dev *dev, const struct rte_kvargs *kv, const char *provider);
void ofi_dev_remove(struct leat_dev *dev);
void ofi_dev_info(const struct leat_dev *dev, struct leat_dev_info *info);
/* Bytes of an immediate: 8 or 4. */
uint8_t ofi_dev_imm_size(const struct ofi_dev *d);
/* See struct leat_driver; of fabric_ofi and of fabric_efa. */
int ofi_list(const struct leat_dev *dev, const struct leat_dev_sink *to);
int ofi_list_efa(const struct leat_dev *dev, const struct leat_dev_sink *to);
/* Address of an fi_info as text. */
void ofi_addr_text(const struct fi_info *info, char *buf, size_t len);
/*
 * fi_getinfo with caps, as this device asks for it, conf: NULL or whose depths. NULL: *err is what
 * fi_getinfo said.
 */
struct fi_info *ofi_dev_getinfo(const struct ofi_dev *d, uint64_t caps,
				const struct leat_ep_conf *conf, int *err);

/* ---- slots ---- */

enum ofi_slot_state {
	OFI_SLOT_FREE,
	OFI_SLOT_TX,
	OFI_SLOT_RX,
	OFI_SLOT_LIMBO,	 /* failed; whether its peer is alive decides with what status */
	OFI_SLOT_ORPHAN, /* its op was finished, the provider still has the context */
};

#define OFI_SLOT_CANCEL 0x01  /* the provider was asked to cancel it */
#define OFI_SLOT_CARRIER 0x02 /* ... because a notice wants it */
#define OFI_SLOT_BEGUN 0x04   /* ORPHAN: a READ whose answer is on its way */
#define OFI_SLOT_PROOF 0x10   /* ORPHAN: a READ of a statement, see ofi_proof.c */
#define OFI_SLOT_FAILED 0x20  /* ORPHAN: the provider failed it, and may do so again */
#define OFI_SLOT_USES 0x40    /* ORPHAN: the provider may use the memory that arg tells of */
#define OFI_SLOT_STANDING                                                                          \
	0x08 /* ORPHAN: a receive that waits for what a dead peer sent, see ofi_drain.c */

struct ofi_slot {
	struct leat_op *op;
	struct ofi_slot *next; /* free list; or list of posted RECVs, oldest first */
	struct ofi_slot *prev;
	union {
		uint64_t seq;	       /* order of posting */
		struct ofi_addr *addr; /* ORPHAN: whose it was, or NULL */
	};
	/* operands of an atomic, which may be read late; READ: its mark; USES: buffer and end */
	uint64_t arg[2];
	/* of an atomic: a late one must not hit the caller's buffer; FAILED: when */
	uint64_t result;
	uint16_t peer;
	uint8_t state;
	uint8_t flags;
	struct fi_context2 ctx __attribute__((aligned(LEAT_CACHE_LINE)));
} __attribute__((aligned(LEAT_CACHE_LINE)));

static_assert(sizeof(struct ofi_slot) == 2 * LEAT_CACHE_LINE, "a slot is two lines");

/* ---- proofs ---- */

#define OFI_NONCE 16
/* What goes along with an address: nonce, place and key of the statement. */
#define OFI_PROOF_LEN 32

struct ofi_proof_read;

/* Of one peer, until it is up. */
struct ofi_proof {
	uint8_t nonce[OFI_NONCE]; /* what this side gave */
	uint64_t place, key;	  /* of the other side's statement */
	uint64_t next;		  /* when to post the READ */
	uint32_t pause_us;
	bool stated;  /* this side's statement is there */
	bool pending; /* the other side's was not read yet */
	bool ok;      /* it was, and is right */
	struct ofi_proof_read *read;
};

/* ---- peers ---- */

/*
 * A provider address in the AV; connections to the same endpoint share it. It outlives the last of
 * them as long as orphans refer to it, and with OFI_Q_AV_FILLS until the endpoint is closed.
 */
struct ofi_addr {
	struct ofi_addr *next;
	fi_addr_t fi;
	uint32_t refs;	  /* peers that use it */
	uint32_t orphans; /* slots that wait for it */
	uint32_t proofs;  /* of orphans: READs of statements */
	uint32_t failed;  /* of orphans: OFI_SLOT_FAILED */
	uint16_t first;	  /* peer that messages from it are attributed to */
	uint64_t unused_since;
	bool cut;	/* out of the AV already */
	bool draining;	/* on ofi_ep.draining, see ofi_drain.c */
	bool drain_hit; /* a message met a standing receive */
	bool gap;	/* messages of it were thrown away, so later ones must not be received */
	uint32_t live;	/* of refs: connections that have proven it and did not end yet */
	struct ofi_addr *next_draining;
	struct ofi_slot *standing[2]; /* plain and tagged */
	uint64_t quiet_at, drain_end;
	uint16_t len;
	uint8_t raw[OFI_ADDR_MAX];
};

enum ofi_peer_state {
	OFI_PEER_NONE,
	OFI_PEER_CONNECTING, /* the exchange is at work */
	OFI_PEER_UP,
	OFI_PEER_ENDING, /* waits for its ops */
};

struct ofi_peer {
	struct ofi_addr *addr;
	int conn;    /* of the exchange of addresses, 0: none (any more) */
	int closed;  /* ENDING: the same when it was ended here, else 0 */
	int parting; /* ENDING: the same when the other side ended it, which waits for this one */
	uint64_t deadline;	  /* ENDING: then what is left is finished by force */
	uint64_t recv_deadline;	  /* the same for receives */
	int status;		  /* with which its ops end */
	uint32_t injected;	  /* since the last completion of a send */
	uint64_t broken_deadline; /* not 0: the provider lost its connection to it */
	int broken_errno;	  /* prov_errno of the op that told */
	bool dead;		  /* the other process is gone, or its host */
	uint8_t state;
	uint16_t pending_len; /* what a REQUEST brought */
	void *pending;
	struct ofi_proof proof;
	uint8_t theirs[OFI_PROOF_LEN]; /* acceptor: what the REQUEST brought for it */
	uint16_t theirs_len;
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
	/* what post and poll touch */
	struct fid_ep *fid;
	struct fid_cq *cq;
	struct ofi_slot *free;
	struct ofi_slot *slots;
	uint32_t nb_slots;
	uint32_t quirks;
	uint32_t inject_run; /* OFI_Q_INJECT_QUEUES: between completions, per peer; 0: no limit */
	uint32_t inject_end; /* SEND and TSEND of less than this go by inject; 0: none do */
	bool source;	     /* completions tell where a message came from */
	bool mr_desc;	     /* provider wants local descriptors */
	bool track;	     /* posted RECVs are on the list below */
	bool rx_cq_data;
	bool sink_dirty;     /* it may have been written to: mark it when the CQ is empty */
	bool sealed;	     /* remote keys are sealed ones */
	uint8_t rma_special; /* LEAT_OP_ from which on post looks closer: WRITE, or none */
	bool closing;	     /* fid is closed */
	bool drain_hit;	     /* an address that is drained has drain_hit */
	uint32_t nb_gaps;    /* addresses with gap */
	uint64_t seq;
	uint64_t imm_mask;
	uint16_t *addr_peer; /* fi_addr -> peer id */
	uint64_t nb_addr;    /* its length */

	/* WRITE_IMM notices */
	struct ofi_slot *recv_head, *recv_tail;
	struct ofi_notice *notices;
	uint32_t notice_head, notice_count, notice_size;
	uint32_t nb_carriers;

	/* slow */
	struct leat_ep *ep;
	struct ofi_dev *dev;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_eq *eq;	 /* OFI_Q_EVENTS */
	struct fid_mr *slots_mr; /* operands of atomics, where local memory must be registered */
	void *slots_desc;
	struct leat_exchange *exchange;
	bool exchange_more; /* it had more events than were taken */
	int wait_fd;	    /* epoll set of the wait object, or -1 */
	bool refused;	    /* the provider refused an op since it was last armed */
	struct ofi_peer *peers;
	struct ofi_addr *addrs;
	uint32_t nb_ending;
	uint32_t nb_proving; /* peers whose address is being proven here */
	uint32_t nb_stated;  /* peers that may read a statement here */
	bool proves;	     /* addresses are proven: the provider has READ */
	uint16_t proof_peers;
	uint32_t proof_stride; /* bytes of a statement */
	uint8_t *proof_mem;    /* statements by peer, then buffers of READs */
	size_t proof_len;
	uint64_t proof_base, proof_key; /* name of proof_mem for others */
	struct fid_mr *proof_mr;
	void *proof_desc;
	struct ofi_proof_read *proof_reads;
	bool broken; /* some peer may have a broken_deadline */
	uint32_t nb_orphans;
	uint32_t nb_failed;	   /* of nb_orphans: OFI_SLOT_FAILED */
	bool readable;		   /* a region was registered that peers may READ */
	uint32_t nb_unused;	   /* addresses without a peer */
	uint64_t abort_by;	   /* then the endpoint is closed in any case */
	uint64_t sweep_at;	   /* when to look at those again */
	uint64_t window_at;	   /* OFI_Q_PEEKS: when to look for new sockets */
	bool drained;		   /* see drain_one() */
	struct ofi_addr *draining; /* of dead peers, or whose connection broke */
	uint64_t next_key;
	void *sink; /* second buffer of receives */
	uint64_t sink_len;
	uint64_t sink_map;	    /* bytes that are mapped */
	struct ofi_ep *next_closed; /* OFI_Q_CLOSE_LAST, see ofi_ep.c */
	bool full_logged;
	uint8_t raw[OFI_ADDR_MAX]; /* own address */
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
/* Closes all that there is, and the memory. */
void ofi_ep_free(struct ofi_ep *e);
int ofi_ep_cancel(struct leat_ep *ep, struct leat_op *op);

/* ---- data ---- */

uint16_t ofi_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n);
void ofi_poll(struct leat_ep *ep);
/* While something is drained. */
void ofi_poll_draining(struct leat_ep *ep);
void ofi_poll_closed(struct leat_ep *ep);
/* Drives the provider and takes up to max completions. */
void ofi_cq_drive(struct ofi_ep *e, unsigned int max);

/* OFI_Q_EVENTS: an event queue for the endpoint. Returns 0 or what libfabric says. */
int ofi_event_open(struct ofi_ep *e);
/* Takes out what is in it. */
void ofi_event_read(struct ofi_ep *e);

/* Negative errno for a positive fi_errno. */
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

/* A slot is done with its op, which is finished with status and len. */
void ofi_slot_finish(struct ofi_ep *e, struct ofi_slot *s, int status, uint64_t len);
/* Finishes the op of a slot that the provider does not give back. */
void ofi_slot_orphan(struct ofi_ep *e, struct ofi_slot *s, int status);
/*
 * Takes back slots that have failed: those of an address that is out of the AV; or (NULL) those
 * whose time is up.
 */
void ofi_slots_forget_failed(struct ofi_ep *e, const struct ofi_addr *a);
/* OFI_Q_ENDED_READS: may the provider still use this memory for an op that was ended by force? */
bool ofi_slots_use(const struct ofi_ep *e, const void *addr, uint64_t len);
/* Asks the provider to cancel a receive. */
void ofi_slot_cancel(struct ofi_ep *e, struct ofi_slot *s);
/* Calls for each slot with an op. */
void ofi_slots_foreach(struct ofi_ep *e,
		       void (*fn)(struct ofi_ep *e, struct ofi_slot *s, void *arg), void *arg);

/* ---- what is longer than its receive ---- */

int ofi_sink_alloc(struct ofi_ep *e);
void ofi_sink_free(struct ofi_ep *e);
/* OFI_Q_SINK_FAULT: has something been written there since the last ofi_sink_mark()? */
bool ofi_sink_used(const struct ofi_ep *e);
void ofi_sink_mark(struct ofi_ep *e);

/* ---- notices ---- */

/* A peer's WRITE_IMM was placed. */
void ofi_notice_add(struct ofi_ep *e, uint64_t imm, uint64_t len, uint16_t src);
/*
 * Looks for a carrier; called after each burst of completions while notices wait. @return whether
 * one was made
 */
bool ofi_notice_run(struct ofi_ep *e);
/* May more completions be read? */
bool ofi_notice_room(const struct ofi_ep *e);
/* A RECV is posted while notices wait: takes the oldest fitting one. @return whether it did */
bool ofi_notice_take(struct ofi_ep *e, struct leat_op *op);
/* The cancel of a carrier is through. */
void ofi_notice_carrier_done(struct ofi_ep *e, struct ofi_slot *s);
void ofi_recv_list_add(struct ofi_ep *e, struct ofi_slot *s);
void ofi_recv_list_del(struct ofi_ep *e, struct ofi_slot *s);
void ofi_notice_fini(struct ofi_ep *e);

/* ---- address vector ---- */

/* Finds or inserts an address. 0, or negative errno with leat_err(). */
int ofi_av_get(struct ofi_ep *e, const void *raw, uint16_t len, struct ofi_addr **addr);
/*
 * Out of the AV with it, so that nothing of it writes to this side's memory any more; unless
 * another peer has it, or a READ's answer for its last one is on its way.
 */
void ofi_av_cut(struct ofi_ep *e, struct ofi_addr *a, uint16_t peer);
/*
 * The peer has proven it: from now on its messages are that peer's. The connection ended, or was
 * given up.
 */
void ofi_av_proven(struct ofi_ep *e, struct ofi_addr *a, uint16_t peer);
void ofi_av_unproven(struct ofi_ep *e, struct ofi_addr *a, uint16_t peer);
/* Lets go of it. */
void ofi_av_put(struct ofi_ep *e, struct ofi_addr *a, uint16_t peer);
/* Removes addresses without peers, where that is safe by now. */
void ofi_av_sweep(struct ofi_ep *e);
void ofi_av_fini(struct ofi_ep *e);

/* ---- proofs ---- */

int ofi_proof_open(struct ofi_ep *e, uint16_t max_peers);
void ofi_proof_close(struct ofi_ep *e);
/*
 * Fills in what goes along with the own address, OFI_PROOF_LEN bytes. @return length; negative
 * errno with leat_err()
 */
int ofi_proof_offer(const struct ofi_ep *e, uint16_t peer, struct ofi_proof *p, uint8_t *buf);
/*
 * The other side's came: makes the statement for it. reader is the address that it named. 0, or
 * negative errno
 */
int ofi_proof_state(struct ofi_ep *e, uint16_t peer, struct ofi_proof *p, const uint8_t *theirs,
		    uint16_t len, const struct ofi_addr *reader);
/* The other side's statement is there. */
void ofi_proof_begin(struct ofi_proof *p);
/* @return 1: proven; 0: not yet; -EACCES: it is another's address */
int ofi_proof_step(struct ofi_ep *e, uint16_t peer, struct ofi_addr *a, struct ofi_proof *p,
		   uint64_t now);
/* Takes the own statement away, and gives up the proof. */
void ofi_proof_end(struct ofi_ep *e, uint16_t peer, struct ofi_proof *p);
/* A READ came back. */
void ofi_proof_back(struct ofi_ep *e, const struct ofi_slot *s, bool complete);
/* Has the answer of such a READ begun? The same for any of an address. */
bool ofi_proof_begun(const struct ofi_ep *e, const struct ofi_slot *s);
bool ofi_proof_under_way(const struct ofi_ep *e, const struct ofi_addr *a);

/* ---- what is left unreceived ---- */

/* Messages of a kind that one pass takes out. */
#define OFI_DRAIN_MAX 2048

/*
 * One pass: takes out what arrived from it and was not received. @return how many messages; if
 * OFI_DRAIN_MAX or more there may be others
 */
unsigned int ofi_drain(struct ofi_ep *e, struct ofi_addr *a);
/* The same, of one that says nothing more. @return false: not yet, see ofi_drain_step() */
bool ofi_drain_all(struct ofi_ep *e, struct ofi_addr *a);
/*
 * The same for the dead, until nothing comes any more: a pass now, and what comes later. Ended by
 * ofi_drain_end().
 */
void ofi_drain_begin(struct ofi_ep *e, struct ofi_addr *a);
/* The same out of a completion: the first pass is at the end of the next poll. */
void ofi_drain_soon(struct ofi_ep *e, struct ofi_addr *a);
/* @return true: nothing more came for a while */
bool ofi_drain_step(struct ofi_ep *e, const struct ofi_addr *a, uint64_t now);
/* A pass, after such a while. @return true: it took out all that is here, with what it met */
bool ofi_drain_last(struct ofi_ep *e, struct ofi_addr *a);
void ofi_drain_end(struct ofi_ep *e, struct ofi_addr *a);
/* After a poll, with drain_hit: further passes. */
void ofi_drain_run(struct ofi_ep *e);
/* A standing receive came back, with a message or without. */
void ofi_drain_back(struct ofi_ep *e, const struct ofi_slot *s, bool hit);
/* Were messages of this sender thrown away? */
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
/* The provider lost its connection to a peer, with an op. */
void ofi_conn_broken(struct ofi_ep *e, uint16_t peer);

/* ---- memory ---- */

int ofi_mr_reg(struct leat_ep *ep, struct leat_mr_piece *piece, uint32_t access);
/* Registers for the driver itself. 0, or the provider's negative errno. */
int ofi_mr_reg_raw(struct ofi_ep *e, struct leat_mr_piece *piece, uint64_t access, uint64_t key);
int ofi_mr_dereg(struct leat_ep *ep, struct leat_mr_piece *piece);
/* OFI_Q_KEY_SEALED: 0, -EACCES or -ERANGE. */
int ofi_mr_key_check(const struct leat_op *op);
/* The driver's own memory, when local memory must be registered. */
int ofi_mr_reg_slots(struct ofi_ep *e);

/* ---- sleeping ---- */

int ofi_wait_open(struct ofi_ep *e);
void ofi_wait_close(struct ofi_ep *e);
int ofi_ep_fd(const struct leat_ep *ep);
int ofi_ep_arm(struct leat_ep *ep);
void ofi_ep_disarm(struct leat_ep *ep);

/* ---- provider sockets ---- */

/* OFI_Q_PEEKS: from time to time gives the provider's new sockets the room that they need. */
void ofi_window_step(struct ofi_ep *e, uint64_t now);

#endif /* OFI_PVT_H */
