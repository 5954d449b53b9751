/* SPDX-License-Identifier: BSD-3-Clause */

/* How the client connects: it tries until a listener accepts it, or --timeout has passed. */

#include <string.h>

#include <leat_error.h>

#include "client.h"

/* Handle an event of a connecting peer. @return 1: connected, 0: not yet, or a negative errno */
static int
connect_event(struct client *c, const struct leat_event *ev, uint16_t peer)
{
	struct perf_side *s = &c->s;

	if (ev->peer != peer)
		return 0;
	switch (ev->type) {
	case LEAT_EV_CONNECTED:
		s->peer = peer;
		s->up = true;
		return 1;
	case LEAT_EV_CONNECT_FAILED:
	case LEAT_EV_DISCONNECTED:
		return perf_fail(s, ev->status != 0 ? -ev->status : ECONNREFUSED, "%s", ev->text);
	default:
		return 0;
	}
}

static int
connect_once(struct client *c, uint64_t end, uint64_t *say_at, uint64_t begin)
{
	struct leat_conn_params params = { 0 };
	struct perf_side *s = &c->s;
	struct leat_event ev;
	uint64_t now = rte_rdtsc();
	int peer, ret = 0;

	params.timeout_us =
		RTE_MAX(leat_cycles_to_ns(end > now ? end - now : 0) / 1000, UINT64_C(1000));
	peer = leat_ep_connect(s->ep, s->peer_addr, &params);
	if (peer < 0)
		return perf_fail(s, -peer, "%s", leat_err_msg());
	while (ret == 0) {
		(void)leat_ep_poll(s->ep, NULL, 0);
		if (leat_ep_events(s->ep, &ev, 1) > 0) {
			ret = connect_event(c, &ev, (uint16_t)peer);
			continue;
		}
		if (*s->stop != 0)
			return -EINTR;
		now = rte_rdtsc();
		if (now > *say_at) {
			perf_msg("waiting for a listener at %s (%.0f of %.0f s)", s->peer_addr,
				 (double)leat_cycles_to_ns(now - begin) / 1e9,
				 (double)c->o->timeout_us / (double)PERF_US);
			*say_at = now + leat_us_to_cycles(2 * PERF_US);
		}
		if (now > end + leat_us_to_cycles(PERF_US))
			return perf_fail(s, ETIMEDOUT, "connect to %s: no outcome in time",
					 s->peer_addr);
		perf_nap();
	}
	return ret;
}

int
perf_client_connect(struct client *c)
{
	uint64_t begin = rte_rdtsc(), end = begin + leat_us_to_cycles(c->o->timeout_us);
	uint64_t say_at = begin + leat_us_to_cycles(2 * PERF_US), nap_end;
	int ret;

	for (;;) {
		ret = connect_once(c, end, &say_at, begin);
		/* No listener yet, or it is busy with another client: try again. */
		if ((ret != -ECONNREFUSED && ret != -ECONNRESET) || rte_rdtsc() >= end)
			break;
		nap_end = rte_rdtsc() + leat_us_to_cycles(50000);
		while (rte_rdtsc() < nap_end) {
			if (*c->s.stop != 0)
				return -EINTR;
			perf_nap();
		}
	}
	return ret < 0 ? ret : perf_chan_hello(&c->s);
}
