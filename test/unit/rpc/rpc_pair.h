/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_PAIR_H
#define RPC_PAIR_H

/*
 * Two endpoints, each with a context, driven by one thread: a connects, and b listens at addr and
 * accepts. Both have the handlers of enum type.
 */

#include <leat_error.h>
#include <leat_fabric.h>
#include <leat_rpc.h>
#include <leat_time.h>

#include "leat_cmocka.h"

/* Devices. */
#define PAIR_RING "fabric_ring0"
#define PAIR_FAULT "fabric_fault0" /* over PAIR_RING: completions out of order, posts refused */
#define PAIR_DGRAM "fabric_ring1"  /* datagrams, all of which arrive in order */
#define PAIR_LOSSY "fabric_fault1" /* over PAIR_DGRAM: many lost, duplicated or overtaken */

/* Handlers of an end. */
enum type {
	ECHO = 1,   /* answers with the request's bytes */
	FAIL,	    /* answers -EIO, with the request's bytes */
	LATER,	    /* defers: the request is in end.later until the test answers */
	COUNT,	    /* counts, and answers with nothing */
	ECHO_LARGE, /* as ECHO, up to max_msg */
	NONE = 99,
};

#define LATER_MAX 512

struct end {
	struct leat_ep *ep;
	struct leat_rpc *rpc;
	struct leat_rpc_session *accepted; /* the session accepted last */
	struct leat_rpc_session_conf conf; /* for accepted sessions */
	struct leat_rpc_incoming *later[LATER_MAX];
	unsigned int nb_later, nb_ev[LEAT_RPC_CLOSED + 1], nb_handled, nb_refused;
	bool defer_fails; /* leat_rpc_defer() failed in the handler of LATER */
	bool closes;	  /* close sessions that ended */
	bool deaf;	  /* leave events of sessions unread */
	uint64_t nb_back;
	struct leat_rpc_event ev;
	/* called with each request that comes back; or NULL */
	void (*back)(struct leat_rpc_req *req);
};

extern struct end a, b;
extern char addr[LEAT_ADDR_MAX];
/* Configuration for the next pair_setup(); zeroed by the teardown. */
extern struct leat_rpc_conf pair_conf;
extern struct leat_ep_conf pair_ep_conf;
/* The test's clock, which advances by a microsecond in each end_drive(); or NULL. */
extern volatile uint64_t *pair_clock;

/* Start leat with the four devices. */
int pair_start(void **state);
int pair_stop(void **state);

/* A test closes all its sessions before the teardown. */
int pair_setup(void **state);
int pair_setup_fault(void **state);
int pair_setup_dgram(void **state);
int pair_setup_lossy(void **state);
int pair_setup_slow(void **state); /* without the fast path of rpc_fast.h */
int pair_teardown(void **state);

void end_open(struct end *e, const char *dev, const struct leat_rpc_conf *conf);
void end_close(struct end *e);
void end_drive(struct end *e);

/* Time limit of a wait: about a minute of the real clock, whatever clock the test has. */
struct patience {
	unsigned int turns;
	uint64_t until; /* seconds */
};

bool patience_left(struct patience *p);

/* Drive both ends until the condition holds. */
#define drive_until(cond)                                                                          \
	do {                                                                                       \
		struct patience wait_ = { 0 };                                                     \
		while (!(cond)) {                                                                  \
			end_drive(&a);                                                             \
			end_drive(&b);                                                             \
			if (!patience_left(&wait_))                                                \
				fail_msg("waited in vain: %s", #cond);                             \
		}                                                                                  \
	} while (0)

/* Drive both ends for the given number of turns. */
void drive(unsigned int turns);

/* Connect a session, and wait until both sides are up. */
struct leat_rpc_session *connected(void);
void post1(struct leat_rpc_req *req);
/*
 * Post a call and wait for its answer.
 * @return bytes of the response; < 0: the status
 */
int call(struct leat_rpc_session *s, uint8_t type, const void *buf, uint32_t len, void *resp,
	 uint32_t room);
struct leat_rpc_stats stats_of(const struct end *e);

#endif /* RPC_PAIR_H */
