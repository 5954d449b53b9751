/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Attempts to connect again: see rpc_reconnect.h. The pause before an attempt is random, between
 * min and a bound that doubles with each failure, up to max:
 *
 *     failure    1               2                      3
 *     pause      min ... 2 min   min ... ... 4 min      min ... ... ... ... 8 min
 *
 * So the clients of a server that comes back do not all connect at once, and none connects more
 * often than min allows. The bound and the count of tries start afresh after a connection that
 * lasted for max; a shorter connection counts as a failure.
 */

#include <stdio.h>
#include <stdlib.h>

#include "rpc_reconnect.h"

#define MIN_DEFAULT_US 10000
#define MAX_DEFAULT_US 2000000
/* Default of leat_conn_params.timeout_us, us. */
#define TIMEOUT_DEFAULT_US 5000000

bool
rpc_reconnect_asked(const struct leat_rpc_session_conf *conf)
{
	return (conf->reconnect_min_us | conf->reconnect_max_us | conf->reconnect_for_us |
		conf->reconnect_tries) != 0;
}

static void
begin_anew(struct rpc_reconnect *r, uint64_t now)
{
	r->tries = 0;
	r->since = now;
	r->most = RTE_MIN(2 * r->min, r->max);
}

int
rpc_reconnect_new(struct leat_rpc_session *s, const char *addr,
		  const struct leat_rpc_session_conf *conf)
{
	uint64_t min_us = conf->reconnect_min_us, max_us = conf->reconnect_max_us;
	struct rpc_reconnect *r;

	if (min_us == 0)
		min_us = max_us != 0 ? RTE_MIN(max_us, (uint64_t)MIN_DEFAULT_US) : MIN_DEFAULT_US;
	if (max_us == 0)
		max_us = RTE_MAX(min_us, (uint64_t)MAX_DEFAULT_US);
	if (min_us > max_us || max_us > LEAT_RPC_RECONNECT_US_MAX ||
	    conf->reconnect_for_us > LEAT_RPC_RECONNECT_US_MAX)
		return leat_err(EINVAL,
				"rpc on %s: reconnect after %" PRIu64 " to %" PRIu64
				" us, for %" PRIu64 " us: none may be more than %" PRIu64,
				leat_ep_name(s->rpc->ep), min_us, max_us, conf->reconnect_for_us,
				LEAT_RPC_RECONNECT_US_MAX);
	if (addr == NULL || strlen(addr) >= sizeof(r->addr))
		return leat_err(EINVAL, "rpc on %s: address missing or longer than %d",
				leat_ep_name(s->rpc->ep), LEAT_ADDR_MAX - 1);
	r = calloc(1, sizeof(*r));
	if (r == NULL)
		return leat_err(ENOMEM, "rpc on %s: no memory for a session that reconnects",
				leat_ep_name(s->rpc->ep));
	s->rpc->stats.memory += sizeof(*r);
	r->s = s;
	r->min = leat_us_to_cycles(min_us);
	r->max = leat_us_to_cycles(max_us);
	r->limit = conf->reconnect_for_us == 0 ? UINT64_MAX
					       : leat_us_to_cycles(conf->reconnect_for_us);
	r->max_tries = conf->reconnect_tries;
	r->timeout_us = conf->timeout_us;
	r->priv_len = conf->priv_len;
	if (conf->priv_len > 0)
		memcpy(r->priv, conf->priv, conf->priv_len);
	snprintf(r->addr, sizeof(r->addr), "%s", addr);
	/* Seed the pauses with the token: its high half is random. */
	r->random = s->token ^ UINT64_C(0x9e3779b97f4a7c15);
	begin_anew(r, leat_now());
	s->reconnect = r;
	return 0;
}

void
rpc_reconnect_free(struct leat_rpc_session *s)
{
	if (s->reconnect == NULL)
		return;
	s->rpc->stats.memory -= sizeof(*s->reconnect);
	free(s->reconnect);
	s->reconnect = NULL;
}

/* ---- attempts ---- */

int
rpc_reconnect_try(struct leat_rpc_session *s)
{
	struct rpc_reconnect *r = s->reconnect;
	uint64_t timeout_us = r->timeout_us != 0 ? r->timeout_us : TIMEOUT_DEFAULT_US;
	uint64_t now, end, left_us;

	r->tries++;
	if (r->limit != UINT64_MAX) {
		now = leat_now();
		end = leat_time_add(r->since, r->limit);
		left_us = end > now ? leat_cycles_to_ns(end - now) / 1000 : 0;
		timeout_us = RTE_MIN(timeout_us, RTE_MAX(left_us, UINT64_C(1)));
	}
	return rpc_session_connect(s, r->addr, timeout_us, r->priv, r->priv_len);
}

static void
due(struct rpc_timer *timer, uint64_t now)
{
	struct rpc_reconnect *r = container_of(timer, struct rpc_reconnect, timer);
	struct leat_rpc_session *s = r->s;
	int ret;

	(void)now;
	s->rpc->stats.retries++;
	ret = rpc_session_reset(s);
	if (ret == 0)
		ret = rpc_reconnect_try(s);
	if (ret >= 0)
		return;
	s->status = ret;
	snprintf(s->text, sizeof(s->text), "%s", leat_err_msg());
	if (ret == -ESHUTDOWN)
		r->off = true;
	if (rpc_reconnect_plan(s, RPC_CONNECTING))
		rpc_reconnect_pause(s);
	else
		rpc_reconnect_stop(s);
}

void
rpc_reconnect_up(struct leat_rpc_session *s)
{
	struct rpc_reconnect *r = s->reconnect;

	if (r->was_up) {
		s->rpc->stats.reconnects++;
		LEAT_LOG(INFO, rpc, "%s: session with %s is up again", leat_ep_name(s->rpc->ep),
			 r->addr);
	}
	r->was_up = true;
	r->down_reported = false;
	r->up_at = leat_now();
	s->status = 0;
	s->text[0] = '\0';
}

/* ---- plan the next attempt, or give up ---- */

/* Draw a random number from 0 to n. xorshift64*, G. Marsaglia and S. Vigna. */
static uint64_t
chance(struct rpc_reconnect *r, uint64_t n)
{
	r->random ^= r->random >> 12;
	r->random ^= r->random << 25;
	r->random ^= r->random >> 27;
	return (r->random * UINT64_C(2685821657736338717) >> 1) % (n + 1);
}

/* Would a further attempt fail in the same way? */
static bool
hopeless(const struct leat_rpc_session *s, enum rpc_session_state was)
{
	return was == RPC_CONNECTING && (s->status == -EPROTONOSUPPORT || s->status == -EINVAL);
}

static void
given_up(struct leat_rpc_session *s)
{
	const struct rpc_reconnect *r = s->reconnect;
	char why[LEAT_EVENT_TEXT];

	snprintf(why, sizeof(why), "%s", s->text);
	snprintf(s->text, sizeof(s->text), "given up after %u attempts: %.*s", r->tries,
		 LEAT_EVENT_TEXT - 48, why);
}

static void
report_down(struct leat_rpc_session *s)
{
	struct rpc_reconnect *r = s->reconnect;

	if (r->down_reported)
		return;
	r->down_reported = true;
	r->status = s->status;
	snprintf(r->text, sizeof(r->text), "%s", s->text);
	LEAT_LOG(INFO, rpc, "%s: session with %s is down: %s", leat_ep_name(s->rpc->ep), r->addr,
		 r->text);
	rpc_event_queue(s, LEAT_RPC_DOWN);
}

bool
rpc_reconnect_plan(struct leat_rpc_session *s, enum rpc_session_state was)
{
	const uint64_t now = leat_now();
	struct rpc_reconnect *r = s->reconnect;

	if (s->closing || r->off || hopeless(s, was))
		return false;
	if (was == RPC_OPEN && now - r->up_at >= r->max)
		begin_anew(r, now);
	r->next = leat_time_add(now, r->min + chance(r, r->most - r->min));
	r->most = RTE_MIN(2 * r->most, r->max);
	if ((r->max_tries != 0 && r->tries >= r->max_tries) || r->next - r->since > r->limit) {
		given_up(s);
		return false;
	}
	report_down(s);
	return true;
}

void
rpc_reconnect_pause(struct leat_rpc_session *s)
{
	struct rpc_reconnect *r = s->reconnect;

	s->state = RPC_DOWN;
	rpc_timer_set(s->rpc, &r->timer, r->next, due);
}

void
rpc_reconnect_stop(struct leat_rpc_session *s)
{
	int status = s->status != 0 ? s->status : -ENOTCONN;

	if (!s->will_reconnect)
		return;
	s->will_reconnect = false;
	rpc_timer_stop(s->rpc, &s->reconnect->timer);
	rpc_reqs_end(s, s->closing ? -ECANCELED : status);
	/* In state DOWN the device has no packet of the session, so rpc_end_run() can end it. */
	if (s->state == RPC_DOWN)
		s->state = RPC_ENDING;
	rpc_work_add(s);
}

void
rpc_reconnect_shutdown(struct leat_rpc_session *s)
{
	if (s->reconnect == NULL)
		return;
	s->reconnect->off = true;
	if (!s->will_reconnect)
		return;
	s->status = -ESHUTDOWN;
	snprintf(s->text, sizeof(s->text), "the endpoint was shut down");
	rpc_reconnect_stop(s);
}
