/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef CT_NODE_H
#define CT_NODE_H

/*
 * An endpoint under observation. Whatever a test does with it, these are checked all the time, and
 * the first one broken becomes the node's fault, which fails the test:
 *
 *   conservation  poll returns only ops that are posted, each once; none is missing at the end; an
 *                 op that post refused is byte for byte what it was
 *   order         ops of one queue complete in the order in which they were posted
 *   ownership     guard bytes around receive buffers stay; a buffer is filled with poison when its
 *                 op has completed, and the poison must still be there at the next use
 *   events        a peer's events come in the documented order; after DISCONNECTED none of its ops
 *                 is left
 *
 *     slot: free -> prepared (has a buffer, data filled in) -> posted -> checked -> free
 */

#include <errno.h>

#include "proto.h"

#define CT_GUARD 64
#define CT_CLASSES 32
/* The largest buffer. A test of refused sizes posts larger ops, whose buffer is then too small. */
#define CT_BUF_MAX (UINT64_C(1) << 30)
#define CT_EVENT_LOG 4096
#define CT_EVENT_TURNS 16 /* the endpoint's events are read once in this many turns */
#define CT_QIDS(max_peers) (2 + CT_QUEUES + (max_peers))

enum ct_where { CT_FREE = 0, CT_PREPARED, CT_POSTED };

struct ct_buf {
	struct ct_buf *next; /* the next buffer of its class */
	uint8_t *raw;	     /* guard, data, guard */
	struct leat_mr *mr;
	uint64_t poison_len;
	uint64_t poison;
	uint32_t cls;
	uint8_t type; /* type of the op that used it last */
	int32_t status;
};

struct ct_slot {
	struct leat_op op;
	struct leat_op in; /* the op as it was posted */
	struct ct_slot *next;
	struct ct_buf *buf;
	uint64_t qseq;
	uint64_t size; /* bytes of the message that is expected or sent */
	uint32_t qid;
	uint32_t idx;
	uint16_t stream;
	uint8_t where;
};

#define CT_BURST 32

struct ct_stream {
	struct ct_spec spec;
	struct ct_result res;
	uint64_t start;
	uint32_t made; /* ops prepared so far */
	uint32_t nb_pend;
	struct ct_slot *pend[CT_BURST]; /* prepared, not yet accepted */
	uint64_t cas_next;
	bool stalled; /* post refuses for good: the endpoint is shut down */
};

struct ct_region {
	struct leat_mr *mr;
	uint8_t *raw, *mem;
	uint64_t len, raw_len;
	bool eal; /* lies in EAL memory */
};

/* Memory of buffers: one allocation and at most one registration. */
struct ct_chunk {
	struct ct_chunk *next;
	uint8_t *mem;
	uint64_t len, used;
	struct leat_mr *mr;
	bool eal; /* lies in EAL memory */
};

struct ct_logged {
	struct leat_event ev;
	bool taken; /* a CT_EVENT request has returned it */
};

struct ct_node {
	struct leat_ep *ep; /* NULL: not open */
	struct leat_dev_info info;
	struct ct_conf conf;
	bool frozen;
	bool shut;	    /* leat_ep_shutdown() was called */
	bool shutdown_done; /* the SHUTDOWN event came */
	uint32_t turn;
	uint64_t rnd;

	struct ct_slot *slots, *free_slots;
	uint32_t nb_slots, nb_fresh, nb_posted; /* slots from nb_fresh on have never been used */
	struct ct_chunk *chunks;
	struct ct_buf *bufs[CT_CLASSES];

	struct ct_stream streams[CT_STREAMS];
	uint32_t nb_streams, next_stream;
	struct leat_queue queues[CT_QUEUES];
	struct {
		uint64_t posted, returned;
	} * order; /* by qid */

	struct ct_region regions[CT_MRS];
	uint32_t nb_regions;

	struct ct_logged *log; /* ring of CT_EVENT_LOG entries */
	uint32_t nb_log;
	/* by type: position in the log before which all events of this type are taken */
	uint32_t log_from[LEAT_EV_SHUTDOWN + 1];
	uint64_t ev_count[LEAT_EV_SHUTDOWN + 1];
	uint8_t *peer_seen; /* by peer id: 1 + type of the peer's last event, or 0 */
	enum ct_policy policy;
	uint16_t priv_len;
	uint8_t priv[LEAT_EP_PRIV_MAX];

	char fault[224];
};

/* node.c */
int ct_node_open(struct ct_node *n, struct leat_dev *dev, const struct ct_conf *conf,
		 const char *name, uint64_t seed);
/*
 * Shut the endpoint down, wait at most timeout_us until every op has completed, and free the node's
 * memory.
 */
int ct_node_close(struct ct_node *n, uint64_t timeout_us);
/* Call leat_ep_destroy(), and free the node's memory when it succeeded. */
int ct_node_destroy(struct ct_node *n);
/*
 * Take one turn: post, poll, and every CT_EVENT_TURNS turns read events. @return whether anything
 * happened
 */
bool ct_node_step(struct ct_node *n);
void ct_node_dump(const struct ct_node *n, char *buf, size_t len);
void __attribute__((format(printf, 2, 3))) ct_node_fault(struct ct_node *n, const char *fmt, ...);

/* node_buf.c */
struct ct_buf *ct_buf_get(struct ct_node *n, uint64_t size);
void ct_buf_put(struct ct_node *n, struct ct_buf *b, uint64_t size);
bool ct_buf_guards_ok(const struct ct_buf *b, uint64_t size);
/* At the end of a node: check the poison in all buffers, and free them. */
void ct_buf_free_all(struct ct_node *n);
int ct_region_make(struct ct_node *n, uint64_t len, uint32_t access, uint64_t seed);
/* @return the offset of the first changed byte in the guards around the region, or -1 */
int64_t ct_region_guards(const struct ct_region *r);
/*
 * Deregister and free all regions. If the device still uses a region, with may_wait return false:
 * poll, and call again; without may_wait record a fault.
 */
bool ct_region_free_all(struct ct_node *n, bool may_wait);

/* node_stream.c */
int ct_stream_start(struct ct_node *n, const struct ct_spec *spec);
/* Post as many ops of the stream as there is room for. */
bool ct_stream_pump(struct ct_node *n, struct ct_stream *s);
void ct_stream_done(struct ct_node *n, struct ct_slot *slot);
uint64_t ct_stream_size(const struct ct_spec *spec, uint32_t i);
/* Post ops of streams. @return how many were accepted */
uint16_t ct_node_post(struct ct_node *n, struct ct_slot **slots, uint16_t nb);

/* node_event.c */
void ct_node_events(struct ct_node *n);
/* Poll once, for at most max ops. @return how many ops poll returned */
uint16_t ct_node_poll(struct ct_node *n, uint16_t max);
/* Check an op that poll has returned. */
void ct_node_returned(struct ct_node *n, struct leat_op *op);
struct ct_logged *ct_node_event_find(struct ct_node *n, unsigned int type, uint16_t peer);

#endif /* CT_NODE_H */
