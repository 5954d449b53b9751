/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef RESPONDER_H
#define RESPONDER_H

#include <leat_reactor.h>
#include <leat_stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Open a server of five commands (PING, SET, GET, DEL, INCR), for use without a Redis server. It
 * runs on reactor r, on a net of its own, at any free port, and holds at most a few hundred keys.
 * addr receives its address. Returns 0 or a negative errno, with leat_err_msg().
 */
int responder_open(struct leat_reactor *r, char *addr, size_t len);

/* Close the server, after the reactor has stopped. Returns as leat_stream_net_close(). */
int responder_close(void);

#ifdef __cplusplus
}
#endif

#endif /* RESPONDER_H */
