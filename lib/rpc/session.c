/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sessions: connect, accept, refuse.
 *
 *     connector    CONNECTING -- hello --> ....................... CONNECTED: hello -> OPEN
 *     acceptor                  CONNECT_REQ: hello -> CONNECTING -- hello --> CONNECTED -> OPEN
 *                               no room: accepted with a hello that refuses, and says why
 *
 * Each side knows the other's limits from its hello. The connector has to disconnect a connection
 * that was refused; if it does not, this side disconnects after REFUSED_US.
 */

#include <sys/random.h>

#include "rpc_credit.h"
#include "rpc_dgram.h"
#include "rpc_reconnect.h"

/* Time that a connector has to disconnect a refused connection, us. */
#define REFUSED_US 1000000
#define DEADLINE_DEFAULT_US 5000000

/* Number of the first packet: 200 below 2^32, so that counters wrap early; see leat_cursor.h. */
#define FIRST UINT32_C(0xffffff38)

static const struct leat_rpc_session_conf defaults;

/* ---- entries of the session table ---- */

static int
conf_check(const struct leat_rpc *rpc, const struct leat_rpc_session_conf *conf, uint16_t max)
{
	if (conf->priv_len > LEAT_RPC_PRIV_MAX || (conf->priv_len > 0 && conf->priv == NULL) ||
	    RPC_HELLO_LEN + conf->priv_len > max)
		return leat_err(
			EINVAL,
			"rpc on %s: %u B of private data behind a hello of %u B, the device "
			"can send %u",
			leat_ep_name(rpc->ep), conf->priv_len, RPC_HELLO_LEN, max);
	return 0;
}

int
rpc_session_reset(struct leat_rpc_session *s)
{
	struct leat_rpc *rpc = s->rpc;
	uint32_t secret;

	if (getrandom(&secret, sizeof(secret), GRND_NONBLOCK) != (ssize_t)sizeof(secret))
		return leat_err(errno, "rpc on %s: getrandom: %s", leat_ep_name(rpc->ep),
				strerror(errno));
	s->token = (uint64_t)secret << 32 | (uint32_t)(s - rpc->sessions);
	s->epoch = ++s->nb_connections;
	s->status_final = s->accepted = false;
	s->tx_sent = s->tx_credit = FIRST;
	s->peer_credits = 0;
	s->queued = s->nb_handling = 0;
	s->open = NULL;
	s->at = s->end = NULL;
	s->nb_slots = 0;
	s->fast = false;
	s->expires = UINT64_MAX;
	s->free_slot = s->free_internal = s->cancel_head = s->answer_head = RPC_NONE;
	if (s->dg != NULL)
		s->dg->nb_early = 0;
	s->out = NULL;
	s->out_turn = false;
	s->early = NULL;
	return 0;
}

static struct leat_rpc_session *
session_new(struct leat_rpc *rpc, const struct leat_rpc_session_conf *conf)
{
	struct leat_rpc_session *s = rpc->free_sessions;

	if (rpc->destroying) {
		leat_err(ESHUTDOWN, "rpc on %s: no new session: the context is being destroyed",
			 leat_ep_name(rpc->ep));
		return NULL;
	}
	if (s == NULL) {
		leat_err(ENOSPC, "rpc on %s: %u sessions are open, as many as max_sessions allows",
			 leat_ep_name(rpc->ep), rpc->nb_open);
		return NULL;
	}
	if (rpc_session_reset(s) < 0)
		return NULL;
	s->default_cycles = conf->deadline_us == LEAT_RPC_NO_DEADLINE
				    ? UINT64_MAX
				    : leat_us_to_cycles(conf->deadline_us != 0
								? conf->deadline_us
								: DEADLINE_DEFAULT_US);
	s->default_us = 0;
	if (s->default_cycles != UINT64_MAX)
		s->default_us = conf->deadline_us >= UINT32_MAX ? 0 : (uint32_t)conf->deadline_us;
	if (conf->deadline_us == 0)
		s->default_us = DEADLINE_DEFAULT_US;
	s->user = conf->user;
	s->closing = s->drained = s->time_up = false;
	s->nb_reqs = 0;
	s->pending = s->internal = (struct rpc_req_list){ 0 };
	if (s->dg != NULL)
		s->dg->cc = conf->cc;
	s->pending_events = 0;
	s->status = 0;
	s->text[0] = '\0';
	s->peer = LEAT_PEER_ANY;
	return s;
}

static void
session_start(struct leat_rpc_session *s, uint16_t peer)
{
	struct leat_rpc *rpc = s->rpc;

	/* If s is not FREE, it exists already, and connects again. */
	if (s->state == RPC_FREE) {
		rpc->free_sessions = s->next_free;
		rpc->nb_open++;
		rpc->nb_idle++;
	}
	s->state = RPC_CONNECTING;
	s->will_reconnect = s->peer_closed = false;
	s->peer = peer;
	/* The other side may send packets before its hello arrives here: grant all credits now. */
	s->rx_got = 0;
	s->rx_granted = s->rx_told = rpc->credits;
	rpc->by_peer[peer].s = s;
}

void
rpc_session_free(struct leat_rpc_session *s)
{
	struct leat_rpc *rpc = s->rpc;

	rpc_reconnect_free(s);
	s->state = RPC_FREE;
	s->next_free = rpc->free_sessions;
	rpc->free_sessions = s;
	rpc->nb_open--;
	rpc->nb_idle--;
}

/* ---- hellos ---- */

static uint16_t
hello_put(const struct leat_rpc_session *s, const void *priv, uint16_t priv_len, uint8_t *buf)
{
	const struct leat_rpc *rpc = s->rpc;
	const struct rpc_hello h = {
		.version = RPC_VERSION,
		.slots = (uint16_t)rpc->slots,
		.features = RPC_FEATURES,
		.token = s->token,
		.credits = rpc->credits,
		.packet = rpc->packet,
		.max_msg = rpc->max_msg,
		.epoch = s->epoch,
		.priv_len = priv_len,
		.first = FIRST,
	};

	rpc_hello_put(buf, &h);
	if (priv_len > 0)
		memcpy(buf + RPC_HELLO_LEN, priv, priv_len);
	return (uint16_t)(RPC_HELLO_LEN + priv_len);
}

/* Store the limits of the other side's hello, for packets and messages to it. */
static void
hello_take(struct leat_rpc_session *s, const struct rpc_hello *h)
{
	struct leat_rpc *rpc = s->rpc;

	s->peer_token = h->token;
	s->peer_epoch = h->epoch;
	s->packet = RTE_MIN(rpc->packet, h->packet) & ~UINT32_C(7);
	s->small_max = rpc_small_max(rpc, s->packet);
	s->peer_max_msg = h->max_msg;
	s->small_out = RTE_MIN(s->small_max, s->peer_max_msg);
	s->features = h->features & RPC_FEATURES;
	s->peer_first = h->first;
	s->peer_slots = h->slots;
	rpc_credit_start(s, h);
}

static void
slots_start(struct leat_rpc_session *s)
{
	uint16_t i, *free_slot = &s->free_internal;

	s->nb_slots = (uint16_t)RTE_MIN(s->rpc->slots, (uint32_t)s->peer_slots);
	for (i = rpc_slots(s); i-- > 0;) {
		if (i < s->nb_slots)
			free_slot = &s->free_slot;
		s->tx[i] = (struct rpc_tx_slot){ .num = FIRST,
						 .next_free = *free_slot,
						 .deadline = UINT64_MAX };
		s->tx_more[i] = (struct rpc_tx_more){ .out.slot = i };
		*free_slot = i;
	}
	for (i = 0; i < rpc_slots(s); i++) {
		s->rx[i] = (struct rpc_rx_slot){ .num = s->peer_first };
		s->rx_more[i] = (struct rpc_rx_more){ .out = { .slot = i, .response = true } };
	}
}

const void *
leat_rpc_priv(const struct leat_event *ev, uint16_t *len)
{
	struct rpc_hello h;

	if (rpc_hello_get(ev->priv, ev->priv_len, &h) == NULL) {
		*len = h.priv_len;
		return ev->priv + RPC_HELLO_LEN;
	}
	*len = ev->priv_len;
	return ev->priv;
}

/* ---- connect ---- */

int
rpc_session_connect(struct leat_rpc_session *s, const char *addr, uint64_t timeout_us,
		    const void *priv, uint16_t priv_len)
{
	uint8_t buf[LEAT_EP_PRIV_MAX];
	const struct leat_conn_params params = {
		.priv = buf,
		.priv_len = hello_put(s, priv, priv_len, buf),
		.timeout_us = timeout_us,
		.user = s,
	};
	int ret;

	ret = leat_ep_connect(s->rpc->ep, addr, &params);
	if (ret < 0)
		return ret;
	session_start(s, (uint16_t)ret);
	return 0;
}

struct leat_rpc_session *
leat_rpc_connect(struct leat_rpc *rpc, const char *addr, const struct leat_rpc_session_conf *conf)
{
	struct leat_rpc_session *s;
	int ret;

	if (conf == NULL)
		conf = &defaults;
	if (conf_check(rpc, conf, rpc->priv_max[0]) < 0)
		return NULL;
	s = session_new(rpc, conf);
	if (s == NULL)
		return NULL;
	if (!rpc_reconnect_asked(conf)) {
		ret = rpc_session_connect(s, addr, conf->timeout_us, conf->priv, conf->priv_len);
		return ret < 0 ? NULL : s;
	}
	if (rpc_reconnect_new(s, addr, conf) < 0)
		return NULL;
	if (rpc_reconnect_try(s) < 0) {
		rpc_reconnect_free(s);
		return NULL;
	}
	return s;
}

/* Read the hello of the acceptor. @return true: it opens the session */
static bool
answer_take(struct leat_rpc_session *s, const struct leat_event *ev)
{
	struct rpc_hello h;
	const char *wrong = rpc_hello_get(ev->priv, ev->priv_len, &h);

	if (wrong != NULL) {
		rpc_fail(s, -EPROTONOSUPPORT, "no session: %s", wrong);
		return false;
	}
	switch (h.refused) {
	case RPC_REFUSED_NOT:
		break;
	case RPC_REFUSED_SESSIONS:
		rpc_fail(s, -ECONNREFUSED,
			 "refused: the other side has %u sessions, as many as it allows",
			 h.credits);
		return false;
	case RPC_REFUSED_FEATURES:
		rpc_fail(s, -EPROTONOSUPPORT, "refused: the other side lacks the features %#x",
			 h.credits);
		return false;
	default:
		rpc_fail(s, -ECONNREFUSED, "refused by the application: %s",
			 strerror((int)(h.credits & RPC_ERRNO_MAX)));
		return false;
	}
	if ((h.required & ~RPC_FEATURES) != 0) {
		rpc_fail(s, -EPROTONOSUPPORT, "the other side requires the features %#x",
			 h.required);
		return false;
	}
	hello_take(s, &h);
	return true;
}

void
rpc_session_up(struct leat_rpc_session *s, const struct leat_event *ev)
{
	struct rpc_recv *r, *next;
	struct rpc_head h;

	/* A session that was closed in the meantime is ending. */
	if (s->state != RPC_CONNECTING || (!s->accepted && !answer_take(s, ev)))
		return;
	slots_start(s);
	if (s->dg != NULL)
		rpc_dgram_start(s);
	s->state = RPC_OPEN;
	s->fast = !s->closing && !s->rpc->slow;
	/* From here on received packets are counted by the other side's numbers. */
	s->rx_got += s->peer_first;
	s->rx_granted += s->peer_first;
	s->rx_told = s->rx_granted;
	if (s->reconnect != NULL)
		rpc_reconnect_up(s);
	if (!s->closing)
		rpc_event_queue(s, LEAT_RPC_UP);
	r = s->early;
	s->early = NULL;
	s->rpc->in_process = true;
	for (; r != NULL; r = next) {
		next = r->next;
		(void)rpc_head_get(r->op.buf, r->op.len, &h);
		if (s->state == RPC_OPEN)
			rpc_arrived(s, r, &h);
		rpc_recv_repost(s->rpc, r);
	}
	s->rpc->in_process = false;
	rpc_work_add(s);
}

/* ---- accept ---- */

static void
refuse(struct leat_rpc *rpc, const struct leat_event *ev, enum rpc_refusal why, uint32_t limit)
{
	const struct rpc_hello h = {
		.version = RPC_VERSION,
		.refused = (uint8_t)why,
		.credits = limit,
	};
	uint8_t buf[RPC_HELLO_LEN];
	const struct leat_conn_params params = { .priv = buf, .priv_len = RPC_HELLO_LEN };
	struct rpc_peer *p = &rpc->by_peer[ev->peer];

	rpc_hello_put(buf, &h);
	rpc->stats.refusals++;
	if (leat_ep_accept(rpc->ep, ev->peer, &params) < 0) {
		/* No reason can be sent. The reject fails only if the peer has left. */
		(void)leat_ep_reject(rpc->ep, ev->peer);
		return;
	}
	p->refused_until = leat_time_add(leat_now(), leat_us_to_cycles(REFUSED_US));
	if (p->queued)
		return;
	p->queued = true;
	p->next = RPC_NONE;
	if (rpc->refused_head == RPC_NONE)
		rpc->refused_head = ev->peer;
	else
		rpc->by_peer[rpc->refused_tail].next = ev->peer;
	rpc->refused_tail = ev->peer;
}

void
rpc_refused_sweep(struct leat_rpc *rpc)
{
	const uint64_t now = leat_now();

	while (rpc->refused_head != RPC_NONE) {
		const uint16_t peer = rpc->refused_head;
		struct rpc_peer *p = &rpc->by_peer[peer];

		if (p->refused_until > now)
			return;
		if (p->refused_until != 0)
			(void)leat_ep_disconnect(rpc->ep, peer);
		p->queued = false;
		rpc->refused_head = p->next;
	}
}

void
leat_rpc_refuse(struct leat_rpc *rpc, const struct leat_event *ev, int status)
{
	refuse(rpc, ev, RPC_REFUSED_APP, (uint32_t)-status & RPC_ERRNO_MAX);
}

struct leat_rpc_session *
leat_rpc_accept(struct leat_rpc *rpc, const struct leat_event *ev,
		const struct leat_rpc_session_conf *conf)
{
	uint8_t buf[LEAT_EP_PRIV_MAX];
	struct leat_conn_params params = { .priv = buf };
	char why[LEAT_ERR_MSG_MAX + 1];
	struct leat_rpc_session *s;
	struct rpc_hello h;
	const char *wrong;
	int ret;

	if (conf == NULL)
		conf = &defaults;
	wrong = rpc_hello_get(ev->priv, ev->priv_len, &h);
	if (wrong != NULL || h.refused != RPC_REFUSED_NOT) {
		(void)leat_ep_reject(rpc->ep, ev->peer);
		leat_err(EPROTONOSUPPORT, "rpc on %s: a peer connects, and %s",
			 leat_ep_name(rpc->ep), wrong != NULL ? wrong : "refuses");
		return NULL;
	}
	if ((h.required & ~RPC_FEATURES) != 0) {
		refuse(rpc, ev, RPC_REFUSED_FEATURES, h.required & ~RPC_FEATURES);
		leat_err(EPROTONOSUPPORT, "rpc on %s: a peer requires the features %#x",
			 leat_ep_name(rpc->ep), h.required);
		return NULL;
	}
	if (conf_check(rpc, conf, rpc->priv_max[1]) < 0) {
		refuse(rpc, ev, RPC_REFUSED_APP, EINVAL);
		rte_errno = EINVAL;
		return NULL;
	}
	s = session_new(rpc, conf);
	if (s == NULL) {
		ret = rte_errno;
		refuse(rpc, ev, ret == ENOSPC ? RPC_REFUSED_SESSIONS : RPC_REFUSED_APP,
		       ret == ENOSPC ? rpc->max_sessions : (uint32_t)ret);
		rte_errno = ret;
		return NULL;
	}
	params.priv_len = hello_put(s, conf->priv, conf->priv_len, buf);
	params.user = s;
	ret = leat_ep_accept(rpc->ep, ev->peer, &params);
	if (ret < 0) {
		snprintf(why, sizeof(why), "%s", leat_err_msg());
		/* The reject fails only if the peer has left. */
		(void)leat_ep_reject(rpc->ep, ev->peer);
		leat_err(-ret, "%s", why);
		return NULL;
	}
	s->accepted = true;
	hello_take(s, &h);
	session_start(s, ev->peer);
	return s;
}

const char *
rpc_session_state_name(unsigned int state)
{
	static const char *const names[] = {
		[RPC_FREE] = "FREE", [RPC_CONNECTING] = "CONNECTING",
		[RPC_OPEN] = "OPEN", [RPC_ENDING] = "ENDING",
		[RPC_DOWN] = "DOWN", [RPC_OVER] = "OVER",
	};

	return state < RTE_DIM(names) ? names[state] : "?";
}

struct leat_rpc *
leat_rpc_session_context(const struct leat_rpc_session *s)
{
	return s->rpc;
}

uint16_t
leat_rpc_session_peer(const struct leat_rpc_session *s)
{
	return s->peer_closed ? LEAT_PEER_ANY : s->peer;
}

void *
leat_rpc_session_user(const struct leat_rpc_session *s)
{
	return s->user;
}

uint32_t
leat_rpc_session_small(const struct leat_rpc_session *s)
{
	return s->state == RPC_OPEN ? s->small_max : 0;
}
