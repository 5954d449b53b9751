/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_AGAIN_H
#define RPC_AGAIN_H

/*
 * A session of a that connects again, to b, which ends in several ways. The clock is the test's.
 */

#include "rpc_pair.h"
#include "rpc_pvt.h"

#define US UINT64_C(1000)
#define MIN_US 1000 /* shortest and longest pause */
#define MAX_US 50000
#define SLOTS 32 /* of a session, if nothing else is said */
#define MANY 64

extern volatile uint64_t now;
extern const char *device;
extern struct leat_rpc_req reqs[MANY];
extern uint8_t in[MANY][16]; /* their responses */

int again_setup(void **state);
int again_setup_fault(void **state);
int again_setup_dgram(void **state);
int again_setup_lossy(void **state);
int again_setup_slow(void **state);
int again_teardown(void **state);

/* As drive_until(); time passes, and b may have died. */
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

/* Up on both sides, with a.conf, which says that it connects again. */
struct leat_rpc_session *up(void);
/* Closed, and nothing is left of it. */
void close_all(struct leat_rpc_session *s);

/* The endpoint of a was shut down, and there is another one. */
void a_renew(void);
/* The endpoint of b ends, as that of a process that ended. */
void b_dies(void);
/* Another one at its address. */
void b_returns(void);
/* The session ends by a packet of b that can't be. */
void b_breaks(void);

/* Posts reqs[from] and so on, each with "request". */
void post_n(struct leat_rpc_session *s, unsigned int from, unsigned int n, uint8_t type);
/* They are back, with that status. */
void expect(unsigned int from, unsigned int n, int status, uint8_t refused);
/* All that b has deferred, each with 16 such bytes. */
void answer_all(uint8_t byte);

#endif /* RPC_AGAIN_H */
