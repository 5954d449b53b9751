/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MSG_WIRE_H
#define MSG_WIRE_H

/* The two formats on the wire, plain and leat. doc/guide/msg.md describes both. */

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- tags ---- */

#define MSG_PLAIN_LEN (UINT64_C(1) << 32)
#define MSG_PLAIN_DATA (UINT64_C(1) << 33)
#define MSG_ANY_ID UINT64_C(0xffffffff)

/*
 *     63 62 | 61 ...              ... 16 | 15 ... 0
 *     kind  | connection                 | id
 *
 * "connection" is the connection's number, chosen by the receiver.
 * A process uses each number once: at a million connections a second they last for two years. So
 * messages of a connection that has ended meet no receive of a later one, however long they were
 * delayed. A tag has the low 16 bits of an id, which is enough: at most LEAT_MSG_CREDITS_MAX ids of
 * a connection are in use at a time.
 */
#define MSG_TAG_KIND_SHIFT 62
#define MSG_TAG_CONN_SHIFT 16
#define MSG_CONN_MASK ((UINT64_C(1) << 46) - 1)

enum msg_tag_kind {
	MSG_TAG_MSG = 1, /* head, and the message itself if it is small */
	MSG_TAG_DATA,	 /* payload of a large message */
	MSG_TAG_CTRL,	 /* control message */
};

static inline uint64_t
msg_tag(enum msg_tag_kind kind, uint64_t base, uint32_t id)
{
	return (uint64_t)kind << MSG_TAG_KIND_SHIFT | base | (uint16_t)id;
}

/* ---- heads ---- */

/*
 * Leat mode, at the beginning of each send of kind MSG_TAG_MSG. Little-endian.
 *
 *     | head: len | message | len | message | ...       small messages, as many as waited and fit
 *     | head: len |                                     a large message
 */
struct msg_head {
	uint64_t len;	  /* length of the first message */
	uint32_t credit;  /* this head's sender has receives for all heads with ids below credit */
	uint32_t granted; /* it has receives for all large payloads with ids below granted */
};

#define MSG_HEAD_LEN 16

/*
 * The highest byte of a head's length has flags. A message with a flag is alone in its send.
 */
#define MSG_LEN_ANSWER (UINT64_C(1) << 56)   /* asks for an answer when it is received */
#define MSG_LEN_FRAGMENT (UINT64_C(1) << 57) /* len: bytes left, this fragment included */
#define MSG_LEN_FLAGS (MSG_LEN_ANSWER | MSG_LEN_FRAGMENT)

#define MSG_NEXT_LEN 8 /* size of the length of each further message in a send */
static_assert(sizeof(struct msg_head) == MSG_HEAD_LEN, "as on the wire");

/* ---- control messages ---- */

struct msg_ctrl {
	uint32_t credit, granted; /* as in a head */
	uint8_t kind;		  /* enum msg_ctrl_kind */
	uint8_t reason;		  /* enum msg_reason */
	uint16_t rsvd;		  /* 0 */
	uint32_t arg;
};

/* Control messages; if several are due they are sent in this order. */
enum msg_ctrl_kind {
	MSG_CTRL_NUMBERS = 0, /* carries credit and grant only */
	MSG_CTRL_DROP,	      /* the receiver drops large message arg: send an empty payload */
	MSG_CTRL_PING,	      /* asks whether the peer is alive */
	MSG_CTRL_PONG,	      /* the answer to a ping */
	MSG_CTRL_MORE,	      /* a send waits for credit: post more receives, if possible */
	MSG_CTRL_ANSWER,      /* all messages with ids below arg were received, or dropped */
	MSG_CTRL_END,	      /* no message with id arg or above will come */
	MSG_CTRL_KINDS,
};

/* Why a message was dropped. */
enum msg_reason {
	MSG_REASON_SIZE = 1, /* longer than the receive that it met */
	MSG_REASON_TIME,     /* the deadline of the receive passed */
};

/*
 * A connection begins with receives for at most this many messages, and doubles their number
 * whenever the peer has to wait for credit. With few buffers, each is reused while it is still in
 * the CPU's caches.
 */
#define MSG_WINDOW_FIRST 64u

#define MSG_CTRL_LEN 16
static_assert(sizeof(struct msg_ctrl) == MSG_CTRL_LEN, "as on the wire");

/* What a peer says when connecting; see hello.c. */
struct msg_hello {
	uint64_t conn;
	uint16_t credits;
	uint32_t eager_max;
	uint64_t max_size;
	uint16_t priv_len;
	bool rejected; /* the connection is refused; the private data are a text that says why */
};

void msg_hello_put(uint8_t *buf, const struct msg_hello *h);
/* Read a hello. @return 1; 0: there is none, so plain mode; -EPROTO: malformed, with leat_err() */
int msg_hello_get(const uint8_t *buf, uint16_t len, struct msg_hello *h);

#endif /* MSG_WIRE_H */
