/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STREAM_PAIR_H
#define STREAM_PAIR_H

/*
 * Two nets (struct leat_stream_net) in one reactor, whose turns the test runs: a server at `addr`
 * and a client.
 *
 * The next pair_open() uses pair_dev, pair_conf and pair_server_conf; pair_close() clears them.
 */

#include <stdbool.h>
#include <stdint.h>

#include <leat_reactor.h>
#include <leat_stream.h>

#include "leat_cmocka.h"

#define PAIR_RING "fabric_ring0"
#define PAIR_FAULT "fabric_fault0"
#define PAIR_TCP "fabric_ofi0"

/* Programs with stream_tcp.c also have a device of libfabric, and run their tests over it. */
extern const char *const pair_tcp_vdev __attribute__((weak));

struct pair {
	struct leat_reactor *r;
	struct leat_stream_net *server, *client;
	struct leat_stream *c; /* the client's stream */
	struct leat_stream *s; /* the server's end of it: the stream accepted last */
	unsigned int nb_accepted;
	char addr[128];
};

extern struct pair pair;
/* For pair_start(): start EAL with telemetry. */
extern bool pair_telemetry;
extern const char *pair_dev;
extern struct leat_stream_net_conf pair_conf, pair_server_conf;

int pair_start(void **state);
int pair_stop(void **state);

/* Open nets and a listener; then a stream between them. */
void pair_open(void);
void pair_connect(void);
/* Close both nets, with the streams that the test has not closed, and destroy the reactor. */
void pair_close(void);

void pair_turn(void);
/* Turn until a condition holds; fail after a minute. */
#define pair_until(cond)                                                                           \
	do {                                                                                       \
		uint64_t patience_ = 0;                                                            \
		while (!(cond)) {                                                                  \
			pair_turn();                                                               \
			assert_true(pair_patience(&patience_));                                    \
		}                                                                                  \
	} while (0)
bool pair_patience(uint64_t *turns);

/* @return the byte at a position of a stream of test bytes */
static inline uint8_t
pair_byte(uint64_t at)
{
	return (uint8_t)(at * 7 + (at >> 8) * 13 + (at >> 16));
}

/* Write up to n test bytes, as many as have room; *at is the position, and is advanced. */
void pair_write(struct leat_stream *s, uint64_t *at, size_t n);
/*
 * Read at most n bytes, and check them; *at as for pair_write().
 * @return number of bytes
 */
size_t pair_read(struct leat_stream *s, uint64_t *at, size_t n);

#endif /* STREAM_PAIR_H */
