/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * When sessions connect again, how often, and when they give up. The test plays the servers, which
 * answer connection requests as srv.answer says. A mock clock advances when the test says.
 */

#include <errno.h>
#include <string.h>

#include "rpc_pair.h"
#include "rpc_pvt.h"
#include "rpc_reconnect.h"
#include "rpc_wire.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define MIN_US 1000
#define MAX_US 64000

static volatile uint64_t now;

/* A server's answer to a connection request. */
enum answer {
	REJECT,	    /* the endpoint rejects */
	GARBAGE,    /* another protocol */
	VERSION,    /* another version */
	FEATURES,   /* refused: features are missing */
	REQUIRES,   /* accepted, with required features that a does not have */
	FULL,	    /* refused: no room */
	FORBIDDEN,  /* refused by the application */
	ACCEPT,	    /* accepted */
	ACCEPT_DIE, /* accepted, and disconnected at once */
};

static struct {
	struct leat_ep *ep;
	enum answer answer;
	unsigned int requests;
	struct leat_event last; /* the last connection request */
} srv;

static int
setup(void **state)
{
	const struct leat_ep_conf conf = { .name = "srv", .max_peers = 8 };

	now = 1000 * MS;
	leat_clock_mock_set(&now);
	(void)pair_setup(state);
	memset(&srv, 0, sizeof(srv));
	srv.ep = leat_ep_create(leat_dev_by_name(PAIR_RING), &conf);
	assert_non_null(srv.ep);
	assert_int_equal(leat_ep_listen(srv.ep, "srv:0"), 0);
	assert_int_equal(leat_ep_listen_addr(srv.ep, addr, sizeof(addr)), 0);
	a.conf = (struct leat_rpc_session_conf){ .reconnect_min_us = MIN_US,
						 .reconnect_max_us = MAX_US };
	return 0;
}

static int
teardown(void **state)
{
	int ret;

	assert_int_equal(leat_ep_close(srv.ep, 100000, NULL, NULL), 0);
	ret = pair_teardown(state);
	leat_clock_mock_set(NULL);
	return ret;
}

static void
answer(const struct leat_event *ev)
{
	struct rpc_hello h = {
		.version = RPC_VERSION,
		.slots = 4,
		.features = RPC_FEATURES,
		.token = 77,
		.credits = 16,
		.packet = 4096,
		.max_msg = 1 << 20,
	};
	uint8_t buf[RPC_HELLO_LEN];
	const struct leat_conn_params params = { .priv = buf, .priv_len = sizeof(buf) };

	srv.requests++;
	srv.last = *ev;
	switch (srv.answer) {
	case REJECT:
		assert_int_equal(leat_ep_reject(srv.ep, ev->peer), 0);
		return;
	case VERSION:
		h.version++;
		break;
	case FEATURES:
		h.refused = RPC_REFUSED_FEATURES;
		break;
	case REQUIRES:
		h.required = UINT32_C(1) << 31;
		break;
	case FULL:
		h.refused = RPC_REFUSED_SESSIONS;
		break;
	case FORBIDDEN:
		h.refused = RPC_REFUSED_APP;
		h.credits = EACCES;
		break;
	default:
		break;
	}
	rpc_hello_put(buf, &h);
	if (srv.answer == GARBAGE)
		memset(buf, 'x', sizeof(buf));
	assert_int_equal(leat_ep_accept(srv.ep, ev->peer, &params), 0);
}

static void
turn(void)
{
	struct leat_event ev;

	end_drive(&a);
	(void)leat_ep_poll(srv.ep, NULL, 0);
	while (leat_ep_events(srv.ep, &ev, 1) == 1) {
		if (ev.type == LEAT_EV_CONNECT_REQ)
			answer(&ev);
		else if (ev.type == LEAT_EV_CONNECTED && srv.answer == ACCEPT_DIE)
			(void)leat_ep_disconnect(srv.ep, ev.peer);
	}
}

/* Turn until the condition holds; the clock advances by step before each turn. */
#define turn_until(step, cond)                                                                     \
	do {                                                                                       \
		struct patience wait_ = { 0 };                                                     \
		while (!(cond)) {                                                                  \
			now += (step);                                                             \
			turn();                                                                    \
			if (!patience_left(&wait_))                                                \
				fail_msg("waited in vain: %s", #cond);                             \
		}                                                                                  \
	} while (0)

static struct leat_rpc_session *
begin(void)
{
	struct leat_rpc_session *s = leat_rpc_connect(a.rpc, addr, &a.conf);

	if (s == NULL)
		fail_msg("leat_rpc_connect: %s", leat_err_msg());
	return s;
}

static void
finish(struct leat_rpc_session *s)
{
	assert_int_equal(leat_rpc_close(s, 0), 0);
	turn_until(0, stats_of(&a).sessions == 0);
}

/* ---- pauses ---- */

/*
 * Wait for the next attempt: nothing may happen before the pause is over.
 * @return the pause, us
 */
static uint64_t
pause_us(const struct leat_rpc_session *s)
{
	const uint64_t retries = stats_of(&a).retries;
	uint64_t from, i;

	turn_until(0, s->state == RPC_DOWN);
	from = now;
	assert_true(s->reconnect->next > now);
	now = s->reconnect->next - 1;
	for (i = 0; i < 20; i++)
		turn();
	assert_int_equal(stats_of(&a).retries, retries);
	now++;
	turn_until(0, stats_of(&a).retries == retries + 1);
	return (now - from) / US;
}

static void
test_pauses(void **state)
{
	uint64_t most = 2 * MIN_US, longest = 0, us;
	struct leat_rpc_session *s = begin();
	unsigned int i;

	(void)state;
	for (i = 0; i < 200; i++) {
		us = pause_us(s);
		assert_in_range(us, MIN_US, most);
		longest = us > longest ? us : longest;
		most = 2 * most < MAX_US ? 2 * most : MAX_US;
	}
	/* The longest pause was more than half of the maximum. */
	assert_true(longest > MAX_US / 2);
	assert_int_equal(srv.requests, 201);
	assert_int_equal(a.nb_ev[LEAT_RPC_DOWN], 1);
	finish(s);
	/* After the close, no attempt comes any more. */
	now += 1000 * MS;
	for (i = 0; i < 100; i++)
		turn();
	assert_int_equal(srv.requests, 201);
}

/*
 * A server that accepts, and disconnects at once, is tried no more often than a server that does
 * not exist.
 */
static void
test_flapping(void **state)
{
	struct leat_rpc_session *s;
	uint64_t sum = 0;
	unsigned int i;

	(void)state;
	srv.answer = ACCEPT;
	s = begin();
	for (i = 0; i < 50; i++) {
		uint64_t us;

		turn_until(0, s->state == RPC_OPEN);
		/* The session was up for 1 ns less than the time that resets the pauses. */
		now += MAX_US * US - 1;
		assert_int_equal(leat_ep_disconnect(srv.ep, srv.last.peer), 0);
		us = pause_us(s);
		assert_in_range(us, MIN_US, MAX_US);
		if (i >= 10)
			sum += us;
	}
	/*
	 * With pauses evenly distributed from min to max, the mean of 40 is over a quarter of max;
	 * if each pause were again one after a first failure, it would be 1.5 times the minimum.
	 */
	assert_true(sum / 40 > MAX_US / 4);
	/* After a session that was up for long enough, the pauses begin at the minimum. */
	turn_until(0, s->state == RPC_OPEN);
	now += MAX_US * US;
	turn();
	assert_int_equal(leat_ep_disconnect(srv.ep, srv.last.peer), 0);
	assert_in_range(pause_us(s), MIN_US, 2 * MIN_US);
	assert_int_equal(stats_of(&a).reconnects, 50);
	finish(s);
}

#define HERD 1000
#define BINS 10

static int
setup_herd(void **state)
{
	pair_ep_conf.max_peers = HERD + 16;
	pair_ep_conf.rx_depth = 4096;
	pair_conf.max_sessions = HERD;
	pair_conf.packet = 256;
	pair_conf.slots = 2;
	return setup(state);
}

/*
 * A thousand sessions whose attempts to connect fail at the same moment don't try again at the same
 * moment.
 */
static void
test_herd(void **state)
{
	static struct leat_rpc_session *s[HERD];
	unsigned int bins[BINS] = { 0 }, i;
	uint64_t first;

	(void)state;
	/* No listener exists: only the peers of a are needed. */
	a.conf.reconnect_max_us = MIN_US;
	a.conf.timeout_us = 100;
	for (i = 0; i < HERD; i++) {
		s[i] = leat_rpc_connect(a.rpc, "nowhere:1", &a.conf);
		assert_non_null(s[i]);
		s[i]->reconnect->max = leat_us_to_cycles(MAX_US);
		s[i]->reconnect->most = leat_us_to_cycles(MAX_US);
	}
	now += 200 * US;
	turn_until(0, a.nb_ev[LEAT_RPC_DOWN] == HERD);
	first = now + MIN_US * US;
	for (i = 0; i < HERD; i++) {
		const uint64_t at = s[i]->reconnect->next;

		assert_in_range(at, first, now + MAX_US * US);
		bins[(at - first) * BINS / ((MAX_US - MIN_US) * US + 1)]++;
	}
	/* 100 sessions are expected in each bin; the standard deviation is 10. */
	for (i = 0; i < BINS; i++)
		assert_in_range(bins[i], 20, 200);
	for (i = 0; i < HERD; i++)
		assert_int_equal(leat_rpc_close(s[i], 0), 0);
	turn_until(0, stats_of(&a).sessions == 0);
}

/* ---- refusals ---- */

/* Refusals after which another attempt makes no sense: the session ends with -EPROTONOSUPPORT. */
static void
hopeless(enum answer how)
{
	struct leat_rpc_req req = { .type = ECHO };
	struct leat_rpc_session *s;

	srv.answer = how;
	s = begin();
	req.session = s;
	post1(&req);
	turn_until(0, a.nb_ev[LEAT_RPC_ENDED] == 1 && req.state == 0);
	assert_int_equal(a.ev.status, -EPROTONOSUPPORT);
	assert_int_equal(req.status, -EPROTONOSUPPORT);
	assert_int_equal(req.refused, 1);
	assert_int_equal(a.nb_ev[LEAT_RPC_DOWN], 0);
	assert_int_equal(stats_of(&a).retries, 0);
	finish(s);

	/* The session ends likewise if the first server had accepted, and its successor refuses. */
	a.nb_ev[LEAT_RPC_ENDED] = 0;
	srv.answer = ACCEPT;
	s = begin();
	turn_until(0, s->state == RPC_OPEN);
	srv.answer = how;
	assert_int_equal(leat_ep_disconnect(srv.ep, srv.last.peer), 0);
	turn_until(0, s->state == RPC_DOWN);
	req.session = s;
	post1(&req);
	turn_until(MS, a.nb_ev[LEAT_RPC_ENDED] == 1 && req.state == 0);
	assert_int_equal(req.status, -EPROTONOSUPPORT);
	assert_int_equal(a.nb_ev[LEAT_RPC_UP], 1);
	finish(s);
}

#define HOPELESS(name, how)                                                                        \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		hopeless(how);                                                                     \
	}

HOPELESS(garbage, GARBAGE)
HOPELESS(version, VERSION)
HOPELESS(features, FEATURES)
HOPELESS(requires, REQUIRES)

/* Refusals that might be withdrawn later: the session tries again. */
static void
passing(enum answer how, const char *text)
{
	struct leat_rpc_req req = { .type = ECHO, .deadline = LEAT_RPC_NO_DEADLINE };
	struct leat_rpc_session *s;
	unsigned int i;

	srv.answer = how;
	s = begin();
	req.session = s;
	post1(&req);
	for (i = 0; i < 10; i++)
		assert_in_range(pause_us(s), MIN_US, MAX_US);
	assert_int_equal(a.nb_ev[LEAT_RPC_DOWN], 1);
	assert_int_equal(a.nb_ev[LEAT_RPC_ENDED], 0);
	assert_int_equal(a.ev.status, -ECONNREFUSED);
	assert_non_null(strstr(a.ev.text, text));
	srv.answer = ACCEPT;
	turn_until(MS, a.nb_ev[LEAT_RPC_UP] == 1);
	assert_int_not_equal(req.state, 0);
	finish(s);
	assert_int_equal(req.status, -ECANCELED);
}

static void
test_full(void **state)
{
	(void)state;
	passing(FULL, "has 16 sessions");
}

static void
test_forbidden(void **state)
{
	(void)state;
	passing(FORBIDDEN, strerror(EACCES));
}

static void
test_rejected(void **state)
{
	(void)state;
	passing(REJECT, "");
}

/* ---- limits ---- */

static void
test_tries(void **state)
{
	struct leat_rpc_req req = { .type = ECHO, .deadline = LEAT_RPC_NO_DEADLINE };
	struct leat_rpc_session *s;

	(void)state;
	a.conf.reconnect_tries = 3;
	s = begin();
	req.session = s;
	post1(&req);
	turn_until(MS, a.nb_ev[LEAT_RPC_ENDED] == 1 && req.state == 0);
	assert_int_equal(srv.requests, 3);
	assert_int_equal(a.ev.status, -ECONNREFUSED);
	assert_non_null(strstr(a.ev.text, "after 3 attempts: "));
	assert_int_equal(req.status, -ECONNREFUSED);
	assert_int_equal(req.refused, 1);
	/* A call that is posted after the end gets the status of the end, as with any session. */
	post1(&req);
	turn_until(0, req.state == 0);
	assert_int_equal(req.status, -ECONNREFUSED);
	finish(s);

	/*
	 * A connection that lasted MAX_US resets the count of attempts, one that ends at once does
	 * not: after the first request there are three more.
	 */
	srv.requests = a.nb_ev[LEAT_RPC_ENDED] = 0;
	srv.answer = ACCEPT;
	s = begin();
	turn_until(0, s->state == RPC_OPEN);
	now += MAX_US * US;
	assert_int_equal(leat_ep_disconnect(srv.ep, srv.last.peer), 0);
	srv.answer = ACCEPT_DIE;
	turn_until(MS, a.nb_ev[LEAT_RPC_ENDED] == 1);
	assert_int_equal(srv.requests, 4);
	assert_int_equal(a.ev.status, 0);
	finish(s);
}

static void
test_for(void **state)
{
	const uint64_t from = now;
	struct leat_rpc_session *s;

	(void)state;
	a.conf.reconnect_for_us = 500000;
	s = begin();
	turn_until(MS, a.nb_ev[LEAT_RPC_ENDED] == 1);
	assert_in_range(now - from, 500 * MS - MAX_US * US, 501 * MS);
	assert_true(srv.requests > 5);
	finish(s);

	/* An attempt does not last beyond reconnect_for_us. */
	a.nb_ev[LEAT_RPC_ENDED] = 0;
	a.conf.reconnect_for_us = 20000;
	s = leat_rpc_connect(a.rpc, "nowhere:1", &a.conf);
	assert_non_null(s);
	now += 19 * MS;
	turn();
	turn();
	assert_int_equal(s->state, RPC_CONNECTING);
	now += MS;
	turn_until(0, a.nb_ev[LEAT_RPC_ENDED] == 1);
	finish(s);
}

/* A session connects again only if its configuration asks for it. */
static void
test_not_asked(void **state)
{
	struct leat_rpc_session *s;

	(void)state;
	a.conf = (struct leat_rpc_session_conf){ 0 };
	s = begin();
	turn_until(0, a.nb_ev[LEAT_RPC_ENDED] == 1);
	now += 1000 * MS;
	turn();
	turn();
	assert_int_equal(srv.requests, 1);
	assert_int_equal(a.nb_ev[LEAT_RPC_DOWN], 0);
	finish(s);
}

static void
test_conf(void **state)
{
	const uint64_t day = LEAT_RPC_RECONNECT_US_MAX;
	const uint64_t memory = stats_of(&a).memory;
	struct leat_rpc_session *s;
	char name[LEAT_ADDR_MAX + 1];

	(void)state;
	a.conf = (struct leat_rpc_session_conf){ .reconnect_min_us = 2, .reconnect_max_us = 1 };
	assert_null(leat_rpc_connect(a.rpc, addr, &a.conf));
	assert_int_equal(rte_errno, EINVAL);
	a.conf = (struct leat_rpc_session_conf){ .reconnect_max_us = day + 1 };
	assert_null(leat_rpc_connect(a.rpc, addr, &a.conf));
	a.conf = (struct leat_rpc_session_conf){ .reconnect_min_us = UINT64_MAX };
	assert_null(leat_rpc_connect(a.rpc, addr, &a.conf));
	a.conf = (struct leat_rpc_session_conf){ .reconnect_for_us = day + 1 };
	assert_null(leat_rpc_connect(a.rpc, addr, &a.conf));
	a.conf = (struct leat_rpc_session_conf){ .reconnect_tries = 1 };
	memset(name, 'x', sizeof(name));
	name[LEAT_ADDR_MAX] = '\0';
	assert_null(leat_rpc_connect(a.rpc, name, &a.conf));
	assert_null(leat_rpc_connect(a.rpc, NULL, &a.conf));
	assert_null(leat_rpc_connect(a.rpc, "no address", &a.conf));
	assert_int_equal(rte_errno, EINVAL);
	assert_int_equal(stats_of(&a).memory, memory);
	assert_int_equal(stats_of(&a).sessions, 0);

	/* Unset values follow from those that are set. */
	s = begin();
	assert_int_equal(s->reconnect->min, 10 * MS);
	assert_int_equal(s->reconnect->max, 2000 * MS);
	finish(s);
	a.conf = (struct leat_rpc_session_conf){ .reconnect_min_us = day };
	s = begin();
	assert_int_equal(s->reconnect->max, leat_us_to_cycles(day));
	finish(s);
	a.conf = (struct leat_rpc_session_conf){ .reconnect_max_us = 7 };
	s = begin();
	assert_int_equal(s->reconnect->min, 7 * US);
	/* min equals max, 7 us: each pause is 7 us. */
	assert_int_equal(pause_us(s), 7);
	assert_int_equal(pause_us(s), 7);
	finish(s);
	assert_int_equal(stats_of(&a).memory, memory);
}

/* Private data of the first connect go with each attempt. */
static void
test_priv(void **state)
{
	struct leat_rpc_session *s;
	char priv[] = "who I am", to[LEAT_ADDR_MAX];
	const void *got;
	uint16_t len;
	unsigned int i;

	(void)state;
	memcpy(to, addr, sizeof(to));
	a.conf.priv = priv;
	a.conf.priv_len = sizeof(priv);
	s = leat_rpc_connect(a.rpc, to, &a.conf);
	assert_non_null(s);
	memset(priv, 0, sizeof(priv));
	memset(to, 0, sizeof(to));
	for (i = 1; i < 5; i++) {
		turn_until(0, srv.requests == i);
		got = leat_rpc_priv(&srv.last, &len);
		assert_int_equal(len, sizeof(priv));
		assert_memory_equal(got, "who I am", sizeof(priv));
		(void)pause_us(s);
	}
	finish(s);
}

/*
 * The endpoint has room for one peer. While the application uses it, each attempt fails, and is
 * repeated.
 */
static int
setup_peers(void **state)
{
	pair_ep_conf.max_peers = 1;
	return setup(state);
}

static void
test_no_peer(void **state)
{
	const struct leat_conn_params params = { .timeout_us = 10000000 };
	struct leat_rpc_session *s;
	int peer;

	(void)state;
	srv.answer = ACCEPT;
	s = begin();
	turn_until(0, s->state == RPC_OPEN);
	assert_int_equal(leat_ep_disconnect(srv.ep, srv.last.peer), 0);
	turn_until(0, s->state == RPC_DOWN);
	/* The application takes the only peer. */
	turn();
	peer = leat_ep_connect(a.ep, "nowhere:1", &params);
	assert_true(peer >= 0);
	turn_until(100 * US, stats_of(&a).retries == 5);
	assert_int_equal(s->state, RPC_DOWN);
	assert_int_equal(s->status, -ENOSPC);
	assert_int_equal(a.nb_ev[LEAT_RPC_DOWN], 1);
	assert_int_equal(leat_ep_disconnect(a.ep, (uint16_t)peer), 0);
	for (struct leat_event ev = { 0 }; ev.type != LEAT_EV_CONNECT_FAILED;) {
		if (leat_ep_events(a.ep, &ev, 1) == 1)
			assert_int_equal(ev.peer, peer);
	}
	turn_until(MS, a.nb_ev[LEAT_RPC_UP] == 2);
	finish(s);
}

#define on(setup, test)                                                                            \
	{                                                                                          \
#test, test, setup, teardown, NULL                                                 \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		on(setup, test_pauses),	       on(setup, test_flapping), on(setup_herd, test_herd),
		on(setup, test_garbage),       on(setup, test_version),	 on(setup, test_features),
		on(setup, test_requires),      on(setup, test_full),	 on(setup, test_forbidden),
		on(setup, test_rejected),      on(setup, test_tries),	 on(setup, test_for),
		on(setup, test_not_asked),     on(setup, test_conf),	 on(setup, test_priv),
		on(setup_peers, test_no_peer),
	};

	return cmocka_run_group_tests_name("rpc-backoff", tests, pair_start, pair_stop);
}
