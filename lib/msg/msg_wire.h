/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MSG_WIRE_H
#define MSG_WIRE_H

/* What is on the wire; doc/guide/msg.md describes both formats. */

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- tags ---- */

#define MSG_PLAIN_LEN (UINT64_C(1) << 32)
#define MSG_PLAIN_DATA (UINT64_C(1) << 33)
#define MSG_ANY_ID UINT64_C(0xffffffff)

/*
 *     63 62 | 61 ...              ... 16 | 15 ... 0
 *     kind  | connection                 | id          the connection's number, as the receiver
 *                                                      chose it
 *
 * A process gives each number once: at a million connections a second they last for two years.
 * Messages of a connection that has ended therefore meet no receive of a later one, however long
 * they were delayed. Of the ids the tag has the low 16 bits: at most LEAT_MSG_CREDITS_MAX of a
 * connection are in use at a time.
 */
#define MSG_TAG_KIND_SHIFT 62
#define MSG_TAG_CONN_SHIFT 16
#define MSG_CONN_MASK ((UINT64_C(1) << 46) - 1)

enum msg_tag_kind {
	MSG_TAG_MSG = 1, /* head, and the message itself if it is small */
	MSG_TAG_DATA,	 /* payload of a large one */
	MSG_TAG_CTRL,	 /* credits without a message */
};

static inline uint64_t
msg_tag(enum msg_tag_kind kind, uint64_t base, uint32_t id)
{
	return (uint64_t)kind << MSG_TAG_KIND_SHIFT | base | (uint16_t)id;
}

/* ---- heads ---- */

/*
 * Leat mode, at the beginning of each send. Little-endian.
 *
 *     | head: len | message | len | message | ...       small ones, as many as waited and fit
 *     | head: len |                                     a large one
 */
struct msg_head {
	uint64_t len;	  /* of the first message */
	uint32_t credit;  /* the sender of this has receives posted for all ids before this */
	uint32_t granted; /* ... and for the payload of all large messages before this */
};

#define MSG_HEAD_LEN 16

/*
 * The highest byte of a head's length has flags, which go with a message that stands alone in its
 * send.
 */
#define MSG_LEN_ANSWER (UINT64_C(1) << 56)   /* say when it was received */
#define MSG_LEN_FRAGMENT (UINT64_C(1) << 57) /* so much is left of a message in several sends */
#define MSG_LEN_FLAGS (MSG_LEN_ANSWER | MSG_LEN_FRAGMENT)

#define MSG_NEXT_LEN 8 /* length of a further message in a send */
static_assert(sizeof(struct msg_head) == MSG_HEAD_LEN, "as on the wire");

/* ---- control messages ---- */

struct msg_ctrl {
	uint32_t credit, granted; /* as in a head */
	uint8_t kind;		  /* enum msg_ctrl_kind */
	uint8_t reason;		  /* enum msg_reason */
	uint16_t rsvd;		  /* 0 */
	uint32_t arg;
};

/* In the order in which they are sent if several are due. */
enum msg_ctrl_kind {
	MSG_CTRL_NUMBERS = 0, /* credit and grant, and no more */
	MSG_CTRL_DROP,	      /* large message arg is not wanted: its payload is to be empty */
	MSG_CTRL_PING,	      /* say that you are there */
	MSG_CTRL_PONG,	      /* the answer */
	MSG_CTRL_MORE,	      /* a sender waits for credit: have more receives, if you may */
	MSG_CTRL_ANSWER,      /* all messages before arg were received, or dropped */
	MSG_CTRL_END,	      /* message arg, which is the next, will not come */
	MSG_CTRL_KINDS,
};

/* Why a message was dropped. */
enum msg_reason {
	MSG_REASON_SIZE = 1, /* longer than the receive that it met */
	MSG_REASON_TIME,     /* the deadline of the receive passed */
};

/*
 * A connection begins with receives for so many messages at most, and has twice as many whenever
 * its sender has to wait for credit: buffers that take turns without need only empty the caches.
 */
#define MSG_WINDOW_FIRST 64u

#define MSG_CTRL_LEN 16
static_assert(sizeof(struct msg_ctrl) == MSG_CTRL_LEN, "as on the wire");

/* What the other side said when connecting; see hello.c. */
struct msg_hello {
	uint64_t conn;
	uint16_t credits;
	uint32_t eager_max;
	uint64_t max_size;
	uint16_t priv_len;
	bool rejected; /* the connection is refused, and the private data say why */
};

void msg_hello_put(uint8_t *buf, const struct msg_hello *h);
/* @return 1; 0: the other side does not speak it; -EPROTO: malformed, with leat_err() */
int msg_hello_get(const uint8_t *buf, uint16_t len, struct msg_hello *h);

#endif /* MSG_WIRE_H */
