/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_RECONNECT_H
#define RPC_RECONNECT_H

/*
 * Sessions that connect again by themselves. A session has one connection at a time: the next
 * attempt begins when the device has returned all packets of the last connection and the last event
 * of its peer has arrived. Each connection has its own token, epoch and numbers.
 *
 *               connected                ends             packets back
 *     CONNECTING -------> OPEN ------------------> ENDING ------------> DOWN --.
 *       ^     `-------------- fails ------------->   |                         | pause
 *       |                                            | hopeless, or limits     |
 *       |                                            v                         |
 *       |                                          OVER                        |
 *       `----------------------------------------------------------------------'
 *
 * From ENDING until OPEN, requests that have not begun wait in the session.
 */

#include "rpc_pvt.h"

struct rpc_reconnect {
	struct leat_rpc_session *s;
	struct rpc_timer timer; /* due at the next attempt */

	/* leat_rpc_session_conf.reconnect_*; times in cycles */
	uint64_t min, max;
	uint64_t limit; /* attempts end at the time since + limit; UINT64_MAX: no limit */
	uint32_t max_tries;

	uint32_t tries; /* attempts since the last connection that lasted for max */
	uint64_t since; /* time from which limit counts, cycles */
	uint64_t up_at; /* time at which the connection came up, cycles */
	uint64_t most;	/* upper bound of the next pause, cycles */
	uint64_t next;	/* time of the next attempt, cycles */
	uint64_t random;
	bool off;	    /* no further attempt */
	bool down_reported; /* LEAT_RPC_DOWN was queued, and the session has not come up since */
	bool was_up;

	/* status and text of the LEAT_RPC_DOWN event */
	int status;
	char text[LEAT_EVENT_TEXT];

	/* arguments of leat_rpc_connect() */
	uint64_t timeout_us;
	uint16_t priv_len;
	char addr[LEAT_ADDR_MAX];
	uint8_t priv[LEAT_RPC_PRIV_MAX];
};

/* Does this configuration ask for connecting again? */
bool rpc_reconnect_asked(const struct leat_rpc_session_conf *conf);
/* Allocate the state of a session that connects again. @return 0; -EINVAL, -ENOMEM */
int rpc_reconnect_new(struct leat_rpc_session *s, const char *addr,
		      const struct leat_rpc_session_conf *conf);
void rpc_reconnect_free(struct leat_rpc_session *s);
/* Begin an attempt, after rpc_session_reset(). @return 0, or as leat_ep_connect() */
int rpc_reconnect_try(struct leat_rpc_session *s);
void rpc_reconnect_up(struct leat_rpc_session *s);
/*
 * Plan the next attempt, after the connection or an attempt ended.
 * @param was state of the session before
 * @return true: there will be another attempt
 */
bool rpc_reconnect_plan(struct leat_rpc_session *s, enum rpc_session_state was);
/* Start the pause: the device holds nothing of the last connection. */
void rpc_reconnect_pause(struct leat_rpc_session *s);
/* Drop the plan for another attempt, if there is one, and end the session. */
void rpc_reconnect_stop(struct leat_rpc_session *s);
/* Stop connecting again: the endpoint is shut down. */
void rpc_reconnect_shutdown(struct leat_rpc_session *s);

#endif /* RPC_RECONNECT_H */
