/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef CT_PROTO_H
#define CT_PROTO_H

/*
 * Requests by which a test tells a side what to do. A side that lives in the test's own thread gets
 * them as function arguments; a side on another lcore or in another process gets them through a
 * socket pair, one datagram each. A side answers each request once. CT_WAIT, CT_EVENT and CT_FINISH
 * are answered when the event they wait for has happened or the time is up.
 */

#include <leat_fabric.h>

/* Endpoints per agent, streams per endpoint, regions per endpoint, own queues per endpoint. */
#define CT_NODES 12
#define CT_STREAMS 96
#define CT_MRS 24
#define CT_QUEUES 8

enum ct_cmd {
	CT_PING,
	CT_OPEN,       /* conf */
	CT_LISTEN,     /* addr -> addr */
	CT_CONNECT,    /* addr, priv, arg[0]: timeout us, arg[1]: user -> err: peer id */
	CT_POLICY,     /* arg[0]: enum ct_policy, priv */
	CT_ACCEPT,     /* arg[0]: peer, priv */
	CT_REJECT,     /* arg[0]: peer */
	CT_EVENT,      /* arg[0]: type, arg[1]: peer or LEAT_PEER_ANY, arg[2]: timeout us -> ev */
	CT_COUNTS,     /* -> val: number of events so far, by type */
	CT_PEER_STATE, /* arg[0]: peer -> err */
	CT_DISCONNECT, /* arg[0]: peer */
	CT_STREAM,     /* spec -> err: stream */
	CT_WAIT,       /* arg[0]: stream, arg[1]: ops done, arg[2]: timeout us -> res */
	CT_RESULT,     /* arg[0]: stream -> res */
	CT_TRIM,       /* arg[0]: stream: prepare no more ops -> err: ops of the stream now */
	/*
	 * arg[0]: stream, [from, to) = arg[1], arg[2] -> how many cancels returned 0 (val[0]),
	 * -EOPNOTSUPP (val[1]), another errno (val[2])
	 */
	CT_CANCEL,
	CT_MR, /* arg[0]: bytes, arg[1]: access, arg[2]: seed -> err: region, rkey */
	/* arguments as CT_MR_FILL -> val[0]: offset of the first wrong byte, or -1 */
	CT_MR_CHECK,
	/*
	 * arg[0]: region, arg[1]: offset, arg[2]: bytes, arg[3]: seed, arg[4]: position in the
	 * seed's sequence of bytes
	 */
	CT_MR_FILL,
	CT_MR_PEEK,  /* arg[0]: region, arg[1]: offset -> val[0] */
	CT_MR_POKE,  /* arg[0]: region, arg[1]: offset, arg[2]: value */
	CT_MR_DEREG, /* arg[0]: region */
	CT_FREEZE,   /* arg[0]: 1: do not post, poll or read events until 0 */
	CT_SHUTDOWN, /* arg[0]: timeout us */
	CT_DESTROY,
	CT_FINISH, /* arg[0]: timeout us: shut down, poll until SHUTDOWN, destroy */
	CT_CLOSE,  /* arg[0]: timeout us: leat_ep_close(), which blocks */
	/* -> val[0]: inflight, val[1]: posted slots, val[2]: rss KiB, val[3]: open files */
	CT_STATE,
	CT_DUMP,  /* -> dump */
	CT_RESET, /* close every endpoint, whatever is in flight */
	CT_EXIT,
	CT_CMDS,
};

enum ct_policy {
	CT_ACCEPT_ALL = 0,
	CT_REJECT_ALL,
	CT_HOLD, /* a CT_ACCEPT or CT_REJECT request answers */
};

/* Configuration of an endpoint; 0 is the default. */
struct ct_conf {
	uint32_t ops; /* 0: all ops of the device */
	uint32_t tx_depth;
	uint32_t rx_depth;
	uint16_t max_peers;
	uint16_t type;
	uint8_t reg;  /* buffers are registered even where the device does not ask for it */
	uint8_t wait; /* has a wait object */
};

/* What a stream checks of the ops that complete with status 0. */
#define CT_DATA                                                                                    \
	0x01 /* received: message i has seed + i and its length; read: the region's pattern */
#define CT_SELF 0x02	/* received, in any order: the first word encodes the seed (size >= 8) */
#define CT_IMM 0x04	/* imm of op i is ct_spec.imm + i */
#define CT_TAG 0x08	/* tag of op i is ct_spec.tag + i * ct_spec.tag_step */
#define CT_SRC 0x10	/* src is ct_spec.src */
#define CT_OLD 0x20	/* atomics: old value is compare + i * operand (no other user) */
#define CT_CASLOOP 0x40 /* CMP_SWAP until it succeeded count times, each adding 1 */

/* Queue of a stream; CT_Q_OWN + i: the i-th queue of the endpoint's own. */
#define CT_Q_DEFAULT 0
#define CT_Q_NONE 1
#define CT_Q_OWN 2

/*
 * A stream: count ops made by one rule, posted as room permits. Op i has seed + i, tag + i *
 * tag_step and so on.
 */
struct ct_spec {
	uint8_t type;
	uint8_t flags; /* LEAT_OP_F_IMM */
	uint16_t peer;
	uint16_t src;
	uint16_t check;
	uint32_t count;
	uint32_t window; /* largest number of ops in flight; 0: no limit */
	uint32_t queue;
	uint32_t bad; /* CT_BAD_*: what is wrong with the ops; 0: nothing */
	uint64_t size;
	uint64_t size_max; /* not 0: sizes vary from size to size_max, by seed */
	uint64_t bufsize;  /* receives: size of the buffer; 0: the largest size */
	uint64_t seed;
	uint64_t tag, tag_step, ignore;
	uint64_t raddr, rstride, rkey;
	uint64_t off; /* reads with CT_DATA: offset of raddr in the region */
	uint64_t imm;
	uint64_t operand, compare;
	uint64_t timeout_us; /* time from an op's post to its deadline; 0: no deadline */
};

#define CT_BAD_NOBUF 1 /* buf is NULL */
#define CT_BAD_NOMR 2  /* mr is NULL */
#define CT_BAD_PAST 3  /* the deadline has passed already */
#define CT_BAD_LONG 4  /* longer than the device's largest message */

static inline uint64_t
ct_size_max(const struct ct_spec *s)
{
	return s->size_max != 0 ? s->size_max : s->size;
}

#define CT_STATS 8

/* Outcome of a stream. */
struct ct_result {
	uint32_t posted; /* accepted */
	uint32_t done;	 /* completed */
	uint32_t ok;	 /* status 0, and all that is checked was right */
	uint32_t wrong;	 /* status 0, and something was wrong: text names it */
	uint32_t nb_stat;
	struct {
		int32_t status;
		uint32_t count;
	} stat[CT_STATS];    /* statuses < 0 */
	uint32_t nb_imm;     /* ops that completed with LEAT_OP_F_IMM */
	uint32_t nb_written; /* ops that completed with LEAT_OP_F_WRITTEN */
	uint32_t last_idx;   /* index of the op that completed last */
	int32_t last_status;
	uint64_t last_len, last_imm, last_tag;
	uint16_t last_src;
	uint8_t last_oflags;
	uint64_t sum, sumsq; /* CT_SELF: of seeds; atomics: of old values; else: of immediates */
	/* from the stream's start until the first and the last op completed */
	uint64_t first_ns, last_ns;
	char text[160];
};

struct ct_req {
	uint32_t cmd;
	uint32_t node;
	uint32_t seq;	 /* copied to the answer */
	uint64_t arg[5]; /* CT_OPEN: [0] the seed */
	char addr[160];
	uint16_t priv_len;
	uint8_t priv[LEAT_EP_PRIV_MAX + 8];
	union {
		struct ct_conf conf;
		struct ct_spec spec;
	};
};

struct ct_rep {
	int32_t err;
	uint32_t seq;
	char fault[224]; /* the first broken promise at that side */
	char text[224];	 /* leat_err_msg() of a call that failed */
	uint64_t val[6];
	struct leat_rkey rkey;
	union {
		char addr[LEAT_ADDR_MAX];
		struct leat_event ev;
		struct ct_result res;
		char dump[2048];
	};
};

#endif /* CT_PROTO_H */
