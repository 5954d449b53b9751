/* SPDX-License-Identifier: BSD-3-Clause */

#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <leat_error.h>

#include "side.h"

/*
 * Interval of ticks, us. The system calls of a tick delay one message. If a round trip takes less
 * than 4 us, ticks delay fewer than one message in 1000, which p99.9 does not show.
 */
#define TICK_US 4000

/* How long to wait for the cause of a failed op, and at close for ops in flight. */
#define LAST_WORD_US (PERF_US / 2)
#define CLOSE_US PERF_US

/* Longest sleep with PERF_IDLE_BLOCK while the device has work whose end causes no wakeup. */
#define BUSY_NS 50000

int
perf_fail(struct perf_side *s, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(s->why, sizeof(s->why), fmt, ap);
	va_end(ap);
	return err > 0 ? -err : -EIO;
}

int
perf_op_failed(struct perf_side *s, const struct leat_op *op)
{
	const char *hint = "";

	if (op->status == -EMSGSIZE)
		hint = " (the message does not fit the receive buffer or the device)";
	return perf_fail(s, -op->status, "a %s of %" PRIu64 " B failed: %s%s",
			 leat_op_type_name(op->type), op->size, strerror(-op->status), hint);
}

static void
fill_card(struct perf_side *s)
{
	struct perf_card *c = &s->card;

	cpu_where_get(&c->at);
	c->max_msg = s->info.max_msg;
	c->ops = s->info.ops;
	snprintf(c->dev, sizeof(c->dev), "%.31s", s->info.name);
	snprintf(c->driver, sizeof(c->driver), "%.31s", s->info.driver);
	snprintf(c->provider, sizeof(c->provider), "%.39s", s->info.provider);
	snprintf(c->interface, sizeof(c->interface), "%.39s", s->info.interface);
}

int
perf_dev_info(const struct leat_dev *dev, bool tags, struct leat_dev_info *info)
{
	int ret = leat_dev_info_get(dev, info);

	if (ret == 0 && tags)
		return leat_dev_info_for(dev, info->ops, info);
	/* If the library itself implements SEND, its limits hold without --tags as well. */
	if (ret == 0 && (info->ops_software & LEAT_OP_BIT(LEAT_OP_SEND)) != 0)
		return leat_dev_info_for(dev, info->ops, info);
	info->ops &= ~info->ops_software;
	return ret;
}

int
perf_side_open(struct perf_side *s, const struct perf_side_conf *conf)
{
	struct leat_ep_conf ec = { 0 };
	int ret;

	memset(s, 0, sizeof(*s));
	s->stop = conf->stop;
	s->server = conf->server;
	s->idle = PERF_IDLE_YIELD;
	s->ctl_len = wire_len(0);
	s->tick = leat_us_to_cycles(TICK_US);
	s->timeout = leat_us_to_cycles(conf->timeout_us);
	if (perf_dev_info(conf->dev, conf->tags, &s->info) < 0)
		return perf_fail(s, EINVAL, "%s", leat_err_msg());
	if ((s->info.ep_types & (1u << LEAT_EP_RELIABLE)) == 0)
		return perf_fail(s, EOPNOTSUPP,
				 "%s (%s) has datagram endpoints only: leat-perf measures reliable "
				 "ones, where nothing is lost",
				 s->info.name, s->info.driver);
	fill_card(s);

	ret = perf_mem_open(s, conf);
	if (ret < 0)
		return ret;
	ec.name = conf->name;
	ec.ops = conf->ops | LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV);
	if (conf->tags)
		ec.ops |= s->info.ops_software;
	ec.tx_depth = conf->tx_depth;
	/* lib/msg posts its receives while the receives of the previous run are still posted. */
	if (perf_op_offered(ec.ops, PERF_OP_MSG))
		ec.rx_depth = RTE_MIN(s->info.rx_depth + PERF_MSG_RX, s->info.rx_depth_max);
	ec.max_peers = conf->max_peers;
	ec.wait = conf->wait;
	ec.mempools = &s->pool;
	ec.nb_mempools = 1;
	s->ep = leat_ep_create(conf->dev, &ec);
	if (s->ep == NULL) {
		ret = perf_fail(s, rte_errno, "%s", leat_err_msg());
		perf_mem_close(s, false);
		return ret;
	}
	s->pool_mr = leat_ep_mempool_mr(s->ep, s->pool);
	perf_side_restart_timers(s);
	return perf_tune_open(s, conf);
}

int
perf_side_close(struct perf_side *s)
{
	uint64_t end = rte_rdtsc() + leat_us_to_cycles(2 * CLOSE_US);
	struct leat_op *done[PERF_POLL];
	bool stuck;

	if (s->ep == NULL)
		return 0;
	stuck = perf_msg_close(s) < 0;
	/* No tick serves the settings from here on. */
	perf_tune_close(s);
	/* The arena can be deregistered only when no op uses it any more. */
	(void)leat_ep_shutdown(s->ep, CLOSE_US);
	while (leat_ep_inflight(s->ep) > 0 && rte_rdtsc() < end) {
		(void)leat_ep_poll(s->ep, done, RTE_DIM(done));
		(void)leat_ep_events(s->ep, NULL, 0);
		sched_yield();
	}
	stuck |= perf_mem_unregister(s) < 0;
	if (leat_ep_close(s->ep, CLOSE_US, NULL, NULL) == -EBUSY) {
		perf_msg("%s", leat_err_msg());
		stuck = true;
	}
	s->ep = NULL;
	perf_mem_close(s, stuck);
	return stuck ? -EBUSY : 0;
}

void
perf_side_restart_timers(struct perf_side *s)
{
	struct leat_ep_stats st;
	uint64_t now = rte_rdtsc();

	leat_ep_stats_get(s->ep, &st);
	s->stall_seen = st.returned;
	s->stall_at = now + s->timeout;
	s->next_tick = now + s->tick;
}

int
perf_side_events(struct perf_side *s)
{
	struct leat_event ev[8];
	uint16_t i, n = leat_ep_events(s->ep, ev, RTE_DIM(ev));
	int ret = 0, err;

	for (i = 0; i < n; i++) {
		if (perf_msg_event(s, &ev[i]))
			continue;
		switch (ev[i].type) {
		case LEAT_EV_CONNECT_REQ:
			/* One client at a time: a rejected client tries again. */
			if (!perf_msg_request(s, &ev[i]))
				(void)leat_ep_reject(s->ep, ev[i].peer);
			break;
		case LEAT_EV_DISCONNECTED:
			if (!s->up || ev[i].peer != s->peer)
				break;
			s->up = false;
			err = ev[i].status == 0 ? ECONNRESET : -ev[i].status;
			ret = perf_fail(s, err, "the %s %s: %s", s->server ? "client" : "listener",
					ev[i].status == 0 ? "closed the connection" : "is gone",
					ev[i].text);
			break;
		default:
			break;
		}
	}
	return ret < 0 ? ret : perf_msg_events(s);
}

static void
progress(struct perf_side *s, uint64_t now, uint64_t returned)
{
	double sec;

	if (now < s->progress_at)
		return;
	s->progress_at = now + leat_us_to_cycles(PERF_US);
	sec = (double)leat_cycles_to_ns(now - s->progress_start) / 1e9;
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%s: %.0f s, %" PRIu64 " ops done \033[K\r", s->progress, sec,
			returned);
	else
		fprintf(stderr, "%s: %.0f s, %" PRIu64 " ops done\n", s->progress, sec, returned);
}

int
perf_side_tick(struct perf_side *s, uint64_t now)
{
	struct leat_ep_stats st;
	uint32_t n;
	int ret;

	s->next_tick = now + s->tick;
	leat_tune_serve(s->tune);
	if (*s->stop != 0)
		return -EINTR;
	ret = perf_side_events(s);
	if (ret < 0)
		return ret;
	if (s->nb_rx_wait > 0) {
		n = s->nb_rx_wait;
		s->nb_rx_wait = 0;
		perf_rx_repost(s, s->rx_wait, n);
	}
	leat_ep_stats_get(s->ep, &st);
	if (s->progress != NULL)
		progress(s, now, st.returned);
	if (st.returned != s->stall_seen || (s->no_timeout && !s->ctl_full)) {
		s->stall_seen = st.returned;
		s->stall_at = now + s->timeout;
	} else if (now > s->stall_at) {
		return perf_fail(s, ETIMEDOUT, "the %s has not answered for %.0f s (--timeout)",
				 s->server ? "client" : "listener",
				 (double)leat_cycles_to_ns(s->timeout) / 1e9);
	}
	return 0;
}

void
perf_side_block(struct perf_side *s)
{
	struct pollfd fd = { .fd = leat_ep_fd(s->ep), .events = POLLIN };
	uint64_t ns = BUSY_NS, end, now;
	struct timespec ts;
	int ret = leat_ep_arm(s->ep);

	s->woken = ret == -EAGAIN;
	if (ret == 0) {
		end = s->next_tick + s->tick;
		now = rte_rdtsc();
		ns = end > now ? leat_cycles_to_ns(end - now) : 0;
	}
	if (ret == 0 || ret == -EBUSY) {
		ts = (struct timespec){ .tv_nsec = (long)RTE_MIN(ns, UINT64_C(999999999)) };
		s->woken = ppoll(&fd, 1, &ts, NULL) > 0;
	}
	leat_ep_disarm(s->ep);
}

void
perf_nap(void)
{
	struct timespec ts = { .tv_nsec = 1000000 };

	(void)nanosleep(&ts, NULL); /* a signal ends it early */
}

bool
perf_progress_wanted(const struct perf_options *o)
{
	return o->progress || isatty(STDERR_FILENO);
}

void
perf_side_find_cause(struct perf_side *s)
{
	uint64_t end = rte_rdtsc() + leat_us_to_cycles(LAST_WORD_US);
	struct leat_op *done[PERF_POLL];

	/* The failed op is the effect; the event that ends the connection tells the cause. */
	while (s->up && rte_rdtsc() < end) {
		(void)perf_poll(s, done, RTE_DIM(done));
		if (perf_side_events(s) < 0)
			return;
		sched_yield();
	}
}
