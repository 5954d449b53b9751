/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_RECONNECT_H
#define RPC_RECONNECT_H

/*
 * Sessions that connect again by themselves. Of one session there is one connection at a time: the
 * next is asked for when the device has returned all packets of the one before, and its peer's last
 * event was seen. Each has a token, an epoch and numbers of its own.
 *
 *               connected                ends              all is back
 *     CONNECTING -------> OPEN ------------------> ENDING ------------> DOWN --.
 *       ^     `-------------- fails ------------->   |                         | pause
 *       |                                            | no sense, or limits     |
 *       |                                            v                         |
 *       |                                          OVER                        |
 *       `----------------------------------------------------------------------'
 *
 * From ENDING to OPEN requests wait in the session (again).
 */

#include "rpc_pvt.h"

struct rpc_reconnect {
	struct leat_rpc_session *s;
	struct rpc_timer timer; /* the next attempt */

	/* leat_rpc_session_conf.reconnect_*: cycles */
	uint64_t min, max;
	uint64_t limit; /* UINT64_MAX: none */
	uint32_t max_tries;

	uint32_t tries; /* since a connection stood */
	uint64_t since; /* of that time */
	uint64_t up_at; /* the connection came up */
	uint64_t most;	/* of the next pause */
	uint64_t next;	/* the next attempt */
	uint64_t random;
	bool off;  /* there will be none */
	bool told; /* LEAT_RPC_DOWN, and no LEAT_RPC_UP after it */
	bool was_up;

	/* of LEAT_RPC_DOWN */
	int status;
	char text[LEAT_EVENT_TEXT];

	/* of leat_rpc_connect() */
	uint64_t timeout_us;
	uint16_t priv_len;
	char addr[LEAT_ADDR_MAX];
	uint8_t priv[LEAT_RPC_PRIV_MAX];
};

/* Is a session of that kind to connect again? */
bool rpc_reconnect_asked(const struct leat_rpc_session_conf *conf);
/* @return 0; -EINVAL, -ENOMEM */
int rpc_reconnect_new(struct leat_rpc_session *s, const char *addr,
		      const struct leat_rpc_session_conf *conf);
void rpc_reconnect_free(struct leat_rpc_session *s);
/* Begins an attempt, after rpc_session_reset(). @return 0, or as leat_ep_connect() */
int rpc_reconnect_try(struct leat_rpc_session *s);
void rpc_reconnect_up(struct leat_rpc_session *s);
/*
 * The connection, or the attempt, ended.
 * @param was its state until then
 * @return will there be another one?
 */
bool rpc_reconnect_plan(struct leat_rpc_session *s, enum rpc_session_state was);
/* Nothing of it is left. */
void rpc_reconnect_pause(struct leat_rpc_session *s);
/* If there was to be another one: not any more. */
void rpc_reconnect_stop(struct leat_rpc_session *s);
/* The endpoint is shut down. */
void rpc_reconnect_shutdown(struct leat_rpc_session *s);

#endif /* RPC_RECONNECT_H */
