/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef RESPONDER_H
#define RESPONDER_H

#include <leat_reactor.h>
#include <leat_stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A server of a few commands (PING, SET, GET, DEL, INCR) for a program that has no Redis to talk
 * to: on a net of its own below the reactor r, at any free port. Its keys are few and its own.
 * addr: where it listens. Returns 0 or a negative errno, with leat_err_msg().
 */
int responder_open(struct leat_reactor *r, char *addr, size_t len);

/* When the reactor has stopped. Returns as leat_stream_net_close(). */
int responder_close(void);

#ifdef __cplusplus
}
#endif

#endif /* RESPONDER_H */
