/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FOREIGN_CONN_H
#define FOREIGN_CONN_H

/*
 * One connection of the Redis/Valkey RDMA protocol on plain ibverbs and librdmacm, for tests, with
 * no code of leat. It is strict: when a peer breaks a rule, however harmless, it ends the
 * connection with a reason in words. It sends whatever it is asked to send, so that it can break
 * each rule itself.
 *
 * 	conn_connect() or conn_accept(), then conn_step() until conn.up; then
 *
 * 	room to write		conn_room()
 * 	WRITEs, then an IMM	conn_write()
 * 	bytes that came		conn_readable(), conn_read()
 * 	window used up		conn_read() registers the next one of conn.windows
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "wire.h"

/* Number of posted receives and sends, as in the known implementations. */
#define RECVS 1024u
#define SENDS 1024u
/* Bytes of each receive: longer than any message, so that a message that is too long is noticed. */
#define RECV_LEN 128u
/* Longest window that a peer may register, bytes; largest number of windows in a list. */
#define PEER_WINDOW_MAX (64u << 20)
#define WINDOWS_MAX 16

/* Windows that are registered one after the other, repeatedly. */
struct windows {
	uint32_t len[WINDOWS_MAX];
	unsigned int n;
};

struct conn_conf {
	struct windows windows;
	unsigned int recvs;   /* number of posted receives: RECVS, or 0 to post none */
	bool no_registration; /* never register a window */
	bool asks;	      /* this side asks for features, and expects answers of opcode 0 */
	/*
	 * Reserved bytes of sent messages are not zero, and those of received messages are not
	 * checked.
	 */
	bool noisy;
};

struct conn {
	struct conn_conf conf;
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	bool accepted;		      /* this side is the server; else it is the client */
	bool up;		      /* connected */
	bool closed;		      /* disconnected, or the queue pair has failed */
	bool peer_closed;	      /* the peer disconnected, cleanly or not */
	bool broken;		      /* the peer broke a rule, or a call failed here */
	char why[160];		      /* why the connection is broken */
	enum ibv_wc_status wc_status; /* status of the first work request that failed */

	/* Control messages. */
	uint8_t (*recv_buf)[RECV_LEN];
	struct ibv_mr *recv_mr;
	uint8_t (*send_buf)[RECV_LEN];
	struct ibv_mr *send_mr;
	unsigned int next_send;

	/* This side's window, into which the peer writes. */
	uint8_t *rx_map;
	size_t rx_mapped;
	struct ibv_mr *rx_mr;
	uint8_t *rx;
	uint32_t rx_len, rx_arrived, rx_read;
	uint64_t rx_total; /* bytes read so far */

	/* The peer's window, and the bytes to send, at the same offset. */
	struct memory peer, next_peer; /* next_peer.length 0: none */
	uint8_t *tx;
	size_t tx_mapped;
	struct ibv_mr *tx_mr;
	uint32_t tx_offset;
	uint64_t tx_total; /* bytes written so far */
	unsigned int outstanding;

	/* Numbers of messages. questions: those with opcode 0; others: those with opcode 1. */
	uint64_t registrations_sent, registrations;
	uint64_t keepalives, notices, questions, others;
	uint64_t keepalive_at, keepalive_before; /* times of the last two keepalives, ms */
	uint8_t answer[CONTROL_LEN];		 /* the last message with opcode 0 */
	unsigned int answers;
};

uint64_t now_ms(void);

/* Return the byte at a position of a stream; each seed gives a different stream. */
static inline uint8_t
pattern(uint64_t seed, uint64_t at)
{
	uint64_t x = (at / 7 + 1) * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;

	return (uint8_t)(x >> 32 ^ at);
}

/* Return 0, or -1 with c->why. The connection is up when conn_step() has set c->up. */
int conn_connect(struct conn *c, const struct conn_conf *conf, const char *from, const char *to,
		 const char *port);
/* Accept. id: of an RDMA_CM_EVENT_CONNECT_REQUEST that was acknowledged. Returns as above. */
int conn_accept(struct conn *c, const struct conn_conf *conf, struct rdma_cm_id *id);

/*
 * Handle events and completions; if there are none, wait for them for at most timeout_ms. Returns
 * 0, or -1 when the connection has ended or is broken.
 */
int conn_step(struct conn *c, int timeout_ms);

/* Step until holds(c, n), the connection ends, or ms have passed. Returns whether it holds. */
bool conn_wait(struct conn *c, uint64_t ms, bool (*holds)(const struct conn *c, uint64_t n),
	       uint64_t n);
/* Conditions to wait for. */
bool conn_is_up(const struct conn *c, uint64_t n);
bool conn_registered(const struct conn *c, uint64_t n);
bool conn_keepalives(const struct conn *c, uint64_t n);
bool conn_answers(const struct conn *c, uint64_t n);

/* Return the room in the peer's window, bytes. */
static inline uint32_t
conn_room(const struct conn *c)
{
	return c->peer.length - c->tx_offset;
}

/* May a work request be posted now? */
static inline bool
conn_idle_slot(const struct conn *c)
{
	return c->outstanding < SENDS / 2;
}

/*
 * Write the next len bytes of the stream with this seed, at most conn_room(), as `writes` WRITEs,
 * the last of which has an immediate that counts all bytes.
 */
int conn_write(struct conn *c, uint64_t seed, uint32_t len, unsigned int writes);

/* Return the number of bytes that have arrived and are not read. */
static inline uint32_t
conn_readable(const struct conn *c)
{
	return c->rx_arrived - c->rx_read;
}

/*
 * Read at most len bytes and compare them with the stream. When the whole window is read, register
 * the next one. Returns the number of bytes, or -1 with c->why.
 */
int64_t conn_read(struct conn *c, uint64_t seed, uint32_t len);
/* As conn_read(), but into buf, and without a comparison. Returns 0 on failure. */
uint32_t conn_take(struct conn *c, uint8_t *buf, uint32_t len);
/* As conn_write(), with the bytes of buf. */
int conn_write_bytes(struct conn *c, const uint8_t *buf, uint32_t len, unsigned int writes);

/* Send a control message, of any length up to RECV_LEN. */
int conn_control(struct conn *c, const uint8_t *msg, uint32_t len);
int conn_keepalive(struct conn *c);
/* Register the next window. */
int conn_register(struct conn *c);
/* Post a WRITE, or a WRITE_WITH_IMM with imm in host order, to any address of the peer. */
int conn_raw_write(struct conn *c, uint64_t addr, uint32_t key, uint32_t len, bool with_imm,
		   uint32_t imm);

/* Disconnect if the connection is up, and free everything. */
void conn_close(struct conn *c);

#endif /* FOREIGN_CONN_H */
