/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_AGAIN_H
#define RPC_AGAIN_H

/*
 * For tests of a session that connects again: a calls b (rpc_pair.h), and either b or the
 * connection ends, in several ways. The tests set the clock.
 */

#include "rpc_pair.h"
#include "rpc_pvt.h"

#define US UINT64_C(1000)
#define MIN_US 1000 /* shortest and longest pause before an attempt to connect, us */
#define MAX_US 50000
#define SLOTS 32 /* slots of a session, unless a test sets another number */
#define MANY 64

extern volatile uint64_t now;
extern const char *device;
extern struct leat_rpc_req reqs[MANY];
extern uint8_t in[MANY][16]; /* responses of the requests */

int again_setup(void **state);
int again_setup_fault(void **state);
int again_setup_dgram(void **state);
int again_setup_lossy(void **state);
int again_setup_slow(void **state);
int again_teardown(void **state);

/* As drive_until(), but the clock advances by 20 us in each turn; b may have died. */
#define pass_until(cond)                                                                           \
	do {                                                                                       \
		struct patience wait_ = { 0 };                                                     \
		while (!(cond)) {                                                                  \
			now += 20 * US;                                                            \
			end_drive(&a);                                                             \
			if (b.ep != NULL)                                                          \
				end_drive(&b);                                                     \
			if (!patience_left(&wait_))                                                \
				fail_msg("waited in vain: %s", #cond);                             \
		}                                                                                  \
	} while (0)

/* Connect with a.conf, which makes the session connect again, and wait until both sides are up. */
struct leat_rpc_session *up(void);
/*
 * Close the session, wait until neither side has a session or a packet, and check that all requests
 * came back.
 */
void close_all(struct leat_rpc_session *s);

/* Replace the endpoint of a, which was shut down. */
void a_renew(void);
/* Abort the endpoint of b, as the end of its process does. */
void b_dies(void);
/* Open another endpoint at the address of b. */
void b_returns(void);
/* Let b send a packet with a wrong token, which ends the connection. */
void b_breaks(void);

/* Post reqs[from] and so on, each with the bytes "request". */
void post_n(struct leat_rpc_session *s, unsigned int from, unsigned int n, uint8_t type);
/*
 * Check that n requests from reqs[from] on are back, with this status and this value of `refused`.
 */
void expect(unsigned int from, unsigned int n, int status, uint8_t refused);
/* Answer all requests that b has deferred, each with 16 bytes of this value. */
void answer_all(uint8_t byte);

#endif /* RPC_AGAIN_H */
