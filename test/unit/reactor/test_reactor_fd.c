/* SPDX-License-Identifier: BSD-3-Clause */

/* Descriptors: which events are reported, and how often; in reactors that spin, block and stop. */

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <leat_fd.h>

#include "block_test.h"

#define MANY 10000

/* A socketpair: `near` is added to the reactor, `far` is the test's end. */
struct pair {
	int near, far;
	struct leat_fd f;
	unsigned int calls;
	uint32_t events; /* events of the last call */
	void (*then)(struct pair *p);
	struct pair *other;
};

static void
on_fd(struct leat_fd *f, uint32_t events, void *arg)
{
	struct pair *p = arg;

	assert_ptr_equal(f, &p->f);
	p->calls++;
	p->events = events;
	if (p->then != NULL)
		p->then(p);
}

static void
pair_open(struct pair *p)
{
	int fds[2];

	memset(p, 0, sizeof(*p));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	p->near = fds[0];
	p->far = fds[1];
}

static void
pair_add(struct leat_reactor *r, struct pair *p, uint32_t events)
{
	assert_int_equal(leat_fd_add(r, &p->f, p->near, events, on_fd, p), 0);
}

static void
pair_close(struct pair *p)
{
	leat_fd_del(&p->f);
	assert_int_equal(close(p->near), 0);
	if (p->far >= 0)
		assert_int_equal(close(p->far), 0);
}

static void
far_write(struct pair *p)
{
	assert_int_equal(write(p->far, "x", 1), 1);
}

static void
near_read(struct pair *p)
{
	char c;

	assert_int_equal(read(p->near, &c, 1), 1);
}

/* Run a turn in which the reactor looks at its descriptors. */
static int
look(struct leat_reactor *r)
{
	test_clock += 20 * US;
	return leat_reactor_turn(r);
}

static struct leat_reactor *reactor;

static int
spin_setup(void **state)
{
	int ret = test_clock_setup(state);

	reactor = test_reactor("r");
	return ret;
}

static int
spin_teardown(void **state)
{
	(void)state;
	assert_int_equal(leat_reactor_destroy(reactor), 0);
	return 0;
}

/* ---- reported events ---- */

static void
test_levels(void **state)
{
	struct leat_poller_stats s;
	struct pair a;

	(void)state;
	pair_open(&a);
	pair_add(reactor, &a, EPOLLIN);
	look(reactor);
	assert_int_equal(a.calls, 0);

	/* An event is reported as long as its condition holds. */
	far_write(&a);
	assert_int_equal(look(reactor), 1);
	assert_int_equal(look(reactor), 1);
	assert_int_equal(a.calls, 2);
	assert_int_equal(a.events, EPOLLIN);
	near_read(&a);
	assert_int_equal(look(reactor), 0);
	assert_int_equal(a.calls, 2);

	assert_int_equal(leat_fd_events_set(&a.f, EPOLLIN | EPOLLOUT), 0);
	look(reactor);
	assert_int_equal(a.events, EPOLLOUT);
	far_write(&a);
	look(reactor);
	assert_int_equal(a.events, EPOLLIN | EPOLLOUT);
	assert_int_equal(leat_fd_events_set(&a.f, 0), 0);
	look(reactor);
	assert_int_equal(a.calls, 4);

	/* `far` ends its sending direction (EPOLLRDHUP), then is closed (EPOLLHUP). */
	near_read(&a);
	assert_int_equal(leat_fd_events_set(&a.f, EPOLLRDHUP), 0);
	look(reactor);
	assert_int_equal(a.calls, 4);
	assert_int_equal(shutdown(a.far, SHUT_WR), 0);
	look(reactor);
	assert_int_equal(a.events, EPOLLRDHUP);
	assert_int_equal(leat_fd_events_set(&a.f, 0), 0);
	a.events = 0;
	look(reactor);
	assert_int_equal(a.events, 0);
	assert_int_equal(close(a.far), 0);
	a.far = -1;
	look(reactor);
	assert_int_equal(a.events, EPOLLHUP);

	/* The poller of the descriptors has a name. Each look with an event is a busy run of it. */
	assert_string_equal(leat_poller_name(&reactor->pollers[0]), "descriptors");
	leat_poller_stats_get(&reactor->pollers[0], &s);
	assert_int_equal(s.busy_runs, a.calls);
	pair_close(&a);
}

static void
test_refused(void **state)
{
	struct pair a;
	struct leat_fd f = { 0 };
	int file = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_true(file >= 0);
	pair_open(&a);
	assert_int_equal(leat_fd_add(reactor, &a.f, a.near, EPOLLIN, NULL, NULL), -EINVAL);
	assert_int_equal(leat_fd_add(reactor, &a.f, a.near, EPOLLIN | EPOLLET, on_fd, NULL),
			 -EINVAL);
	assert_int_equal(leat_fd_add(reactor, &f, file, EPOLLIN, on_fd, NULL), -EPERM);
	assert_int_equal(leat_fd_add(reactor, &f, -1, EPOLLIN, on_fd, NULL), -EBADF);
	assert_null(f.reactor);
	assert_int_equal(leat_fd_events_set(&f, EPOLLIN), -ENOENT);
	leat_fd_del(&f);

	pair_add(reactor, &a, EPOLLIN);
	assert_int_equal(leat_fd_add(reactor, &a.f, a.near, EPOLLIN, on_fd, &a), -EALREADY);
	assert_int_equal(leat_fd_add(reactor, &f, a.near, EPOLLIN, on_fd, NULL), -EEXIST);
	assert_int_equal(leat_fd_events_set(&a.f, EPOLLONESHOT), -EINVAL);
	/* None of these refused calls removed the descriptor. */
	far_write(&a);
	look(reactor);
	assert_int_equal(a.calls, 1);
	pair_close(&a);
	leat_fd_del(&a.f);
	assert_int_equal(close(file), 0);
}

/*
 * A reactor without room for one more poller refuses a descriptor (-ENOSPC), until there is room.
 */
static void
test_no_poller(void **state)
{
	struct leat_reactor_conf conf = { .max_pollers = 1, .idle.policy = LEAT_IDLE_SPIN };
	struct leat_reactor *r = leat_reactor_create(&conf);
	struct test_poller t = { .ret = 0 };
	struct pair a;

	(void)state;
	assert_non_null(r);
	test_poller_add(r, &t, "only", 0);
	pair_open(&a);
	assert_int_equal(leat_fd_add(r, &a.f, a.near, EPOLLIN, on_fd, &a), -ENOSPC);
	assert_int_equal(leat_poller_remove(t.p), 0);
	pair_add(r, &a, EPOLLIN);
	far_write(&a);
	look(r);
	assert_int_equal(a.calls, 1);
	pair_close(&a);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

/* ---- deleted in a callback ---- */

static struct pair *left;

static void
free_other(struct pair *p)
{
	struct pair *other = p->other;

	if (other == NULL)
		return;
	/* Whichever callback is called first frees the other pair, which has an event waiting. */
	left = p;
	p->other = NULL;
	pair_close(other);
	free(other);
}

static void
test_delete_other(void **state)
{
	struct pair *a = malloc(sizeof(*a)), *b = malloc(sizeof(*b));

	(void)state;
	assert_non_null(a);
	assert_non_null(b);
	pair_open(a);
	pair_open(b);
	a->other = b;
	b->other = a;
	a->then = b->then = free_other;
	pair_add(reactor, a, EPOLLIN);
	pair_add(reactor, b, EPOLLIN);
	far_write(a);
	far_write(b);
	look(reactor);
	assert_int_equal(left->calls, 1);
	look(reactor);
	assert_int_equal(left->calls, 2);
	pair_close(left);
	free(left);
}

static void
delete_self(struct pair *p)
{
	pair_close(p);
	free(p);
}

static void
test_delete_self(void **state)
{
	struct pair *a = malloc(sizeof(*a));

	(void)state;
	assert_non_null(a);
	pair_open(a);
	a->then = delete_self;
	pair_add(reactor, a, EPOLLIN);
	far_write(a);
	assert_int_equal(look(reactor), 1);
	assert_int_equal(look(reactor), 0);
}

/*
 * Close the other pair, and give its descriptor's number, slot and memory to a new descriptor,
 * which has no event.
 */
static void
replace_other(struct pair *p)
{
	struct pair *other = p->other;
	int near = other->near;
	uint32_t slot = other->f.slot;

	p->then = NULL;
	other->then = NULL;
	pair_close(other);
	pair_open(other);
	if (other->near != near) {
		assert_int_equal(dup3(other->near, near, O_CLOEXEC), near);
		assert_int_equal(close(other->near), 0);
		other->near = near;
	}
	pair_add(reactor, other, EPOLLIN);
	assert_int_equal(other->f.slot, slot);
}

static void
test_reuse(void **state)
{
	struct pair a, b;

	(void)state;
	pair_open(&a);
	pair_open(&b);
	a.other = &b;
	b.other = &a;
	a.then = b.then = replace_other;
	pair_add(reactor, &a, EPOLLIN);
	pair_add(reactor, &b, EPOLLIN);
	far_write(&a);
	far_write(&b);
	look(reactor);
	/* One callback ran, and replaced the other pair, whose new descriptor has no event. */
	assert_int_equal(a.calls + b.calls, 1);
	look(reactor);
	assert_int_equal(a.calls + b.calls, 2);
	assert_true(a.calls == 0 || b.calls == 0);
	pair_close(&a);
	pair_close(&b);
}

/* A callback that switches off the other descriptor's events, which the same look has found. */
static void
want_nothing(struct pair *p)
{
	assert_int_equal(leat_fd_events_set(&p->other->f, 0), 0);
}

static void
test_changed(void **state)
{
	struct pair a, b;

	(void)state;
	pair_open(&a);
	pair_open(&b);
	a.other = &b;
	b.other = &a;
	a.then = b.then = want_nothing;
	pair_add(reactor, &a, EPOLLIN);
	pair_add(reactor, &b, EPOLLIN);
	far_write(&a);
	far_write(&b);
	look(reactor);
	assert_int_equal(a.calls + b.calls, 1);
	pair_close(&a);
	pair_close(&b);
}

/* ---- many descriptors ---- */

/* All ready descriptors are reported in turn, though one look reports only 64 of them. */
static void
test_many(void **state)
{
	struct rlimit limit;
	unsigned int i, n, quiet, rounds = 0;
	struct pair *pairs;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	n = (unsigned int)RTE_MIN((limit.rlim_cur - 64) / 2, (rlim_t)MANY);
	pairs = calloc(n, sizeof(*pairs));
	assert_non_null(pairs);
	for (i = 0; i < n; i++) {
		pair_open(&pairs[i]);
		pair_add(reactor, &pairs[i], EPOLLIN);
		far_write(&pairs[i]);
	}
	do {
		look(reactor);
		rounds++;
		for (i = 0, quiet = 0; i < n; i++)
			quiet += pairs[i].calls == 0;
	} while (quiet > 0 && rounds < n);
	assert_int_equal(quiet, 0);
	/* Each look reports 64 descriptors, and none twice before all were reported. */
	assert_in_range(rounds, n / 64, n / 64 + 1);

	/* Every other descriptor is deleted, and its slot is used again. */
	for (i = 0; i < n; i += 2)
		leat_fd_del(&pairs[i].f);
	for (i = 0; i < n; i += 2)
		pair_add(reactor, &pairs[i], EPOLLIN);
	for (i = 0; i < n; i++) {
		assert_in_range(pairs[i].f.slot, 0, 2 * n);
		pairs[i].calls = 0;
		pairs[i].then = near_read;
	}
	while (look(reactor) == 1)
		;
	for (i = 0; i < n; i++) {
		assert_int_equal(pairs[i].calls, 1);
		pair_close(&pairs[i]);
	}
	free(pairs);
	print_message("%u descriptors\n", n);
}

/* ---- how often the reactor looks ---- */

static void
test_looks(void **state)
{
	struct pair a;
	unsigned int i;

	(void)state;
	pair_open(&a);
	pair_add(reactor, &a, EPOLLIN);
	look(reactor);
	look(reactor);
	/* A silent descriptor is not looked at while the clock stands still. */
	far_write(&a);
	for (i = 0; i < 100; i++)
		assert_int_equal(leat_reactor_turn(reactor), 0);
	assert_int_equal(a.calls, 0);
	/* A descriptor that is added or changed is looked at in the next turn. */
	assert_int_equal(leat_fd_events_set(&a.f, EPOLLIN | EPOLLRDHUP), 0);
	assert_int_equal(leat_reactor_turn(reactor), 1);
	assert_int_equal(a.calls, 1);
	/* An active descriptor is looked at in each turn, even after turns without events. */
	a.then = near_read;
	assert_int_equal(leat_reactor_turn(reactor), 1);
	assert_int_equal(leat_reactor_turn(reactor), 0);
	far_write(&a);
	assert_int_equal(leat_reactor_turn(reactor), 1);
	assert_int_equal(a.calls, 3);
	pair_close(&a);
}

/* ---- blocked ---- */

static struct pair *blocked;

static void
write_meanwhile(void)
{
	os.meanwhile = NULL;
	far_write(blocked);
}

static void
test_block(void **state)
{
	struct leat_reactor_stats before;
	uint64_t then;
	struct pair a;

	(void)state;
	pair_open(&a);
	a.then = near_read;
	blocked = &a;
	turn_until_blocked();
	pair_add(app.r, &a, EPOLLIN);
	turns(100);
	/* The reactor still blocks. */
	assert_int_equal(leat_reactor_idle_effective(app.r), LEAT_IDLE_BLOCK);
	assert_int_equal(os.sleeps, 0);

	/* The descriptor wakes the reactor, and is reported in the very next turn. */
	before = stats();
	os.meanwhile = write_meanwhile;
	then = test_clock;
	turns(1);
	assert_int_equal(test_clock, then + 2 * US);
	assert_int_equal(stats().blocks, before.blocks + 1);
	assert_int_equal(stats().wake_events, before.wake_events + 1);
	assert_int_equal(leat_reactor_turn(app.r), 1);
	assert_int_equal(a.calls, 1);

	/* The descriptor is silent again: the reactor sleeps until the next timeout. */
	turns(60);
	then = test_clock;
	turns(1);
	assert_true(test_clock > then + 100 * US);

	/* A descriptor that is ready before the reactor goes to sleep keeps the reactor awake. */
	far_write(&a);
	then = test_clock;
	while (a.calls == 1)
		turns(1);
	assert_in_range(test_clock, then, then + 20 * US);

	/* A deleted descriptor does not wake the reactor. */
	a.then = NULL;
	leat_fd_del(&a.f);
	far_write(&a);
	turns(60);
	before = stats();
	turns(3);
	assert_int_equal(stats().wake_events, before.wake_events);
	assert_true(stats().blocks > before.blocks);
	assert_int_equal(a.calls, 2);
	pair_close(&a);
}

/* A reactor that can't block looks at its descriptors after each sleep. */
static void
test_fallback(void **state)
{
	struct test_poller t = { .ret = 0 };
	struct pair a;

	(void)state;
	pair_open(&a);
	pair_add(app.r, &a, EPOLLIN);
	test_poller_add(app.r, &t, "busybody", 0);
	turns(70);
	assert_int_equal(leat_reactor_idle_effective(app.r), LEAT_IDLE_SLEEP);
	far_write(&a);
	a.then = near_read;
	turns(2);
	assert_int_equal(a.calls, 1);
	assert_int_equal(leat_poller_remove(t.p), 0);
	pair_close(&a);
}

/*
 * Here the reactor sleeps in the kernel: each byte must wake it, otherwise echo_client() waits for
 * ever.
 */
#define ECHOES 2000

static void
echo(struct pair *p)
{
	near_read(p);
	assert_int_equal(write(p->near, "y", 1), 1);
}

static void *
echo_client(void *arg)
{
	struct leat_reactor *r = arg;
	unsigned int i, good = 0;
	char c;

	for (i = 0; i < ECHOES; i++)
		good += write(blocked->far, "x", 1) == 1 && read(blocked->far, &c, 1) == 1;
	leat_reactor_stop(r, LEAT_REACTOR_STOP_NO_DEADLINE);
	return good == ECHOES ? arg : NULL;
}

static void
test_block_echo(void **state)
{
	struct leat_reactor_conf conf = { .idle = { .policy = LEAT_IDLE_BLOCK, .spin_us = 1 } };
	struct leat_reactor_stats s;
	struct leat_reactor *r;
	struct pair a;
	pthread_t thread;
	void *good;

	(void)state;
	leat_clock_mock_set(NULL);
	r = leat_reactor_create(&conf);
	assert_non_null(r);
	pair_open(&a);
	/* echo_client() blocks in read(). */
	assert_int_equal(fcntl(a.far, F_SETFL, 0), 0);
	a.then = echo;
	blocked = &a;
	pair_add(r, &a, EPOLLIN);
	assert_int_equal(pthread_create(&thread, NULL, echo_client, r), 0);
	assert_int_equal(leat_reactor_run(r), 0);
	assert_int_equal(pthread_join(thread, &good), 0);
	assert_non_null(good);
	assert_int_equal(a.calls, ECHOES);
	leat_reactor_stats_get(r, &s);
	print_message("%u echoes, blocked %u times\n", ECHOES, (unsigned int)s.blocks);
	assert_int_equal(s.sleeps, 0);
	pair_close(&a);
	assert_int_equal(leat_reactor_destroy(r), 0);
}

/* ---- the reactor's end ---- */

static void
test_stop(void **state)
{
	struct pair a;

	(void)state;
	pair_open(&a);
	pair_add(reactor, &a, EPOLLIN);
	far_write(&a);
	look(reactor);
	assert_int_equal(a.calls, 1);
	leat_reactor_stop(reactor, 1000000);
	assert_int_equal(test_turns_until_stopped(reactor), -ESHUTDOWN);
	a.calls = 0;
	assert_int_equal(look(reactor), -ESHUTDOWN);
	assert_int_equal(a.calls, 0);

	/*
	 * leat_reactor_destroy() detaches the descriptor: it can then be deleted, and added to a
	 * different reactor.
	 */
	assert_int_equal(leat_reactor_destroy(reactor), 0);
	assert_null(a.f.reactor);
	leat_fd_del(&a.f);
	reactor = test_reactor("r2");
	pair_add(reactor, &a, EPOLLIN);
	look(reactor);
	assert_int_equal(a.calls, 1);
	pair_close(&a);
}

static void *
add_elsewhere(void *arg)
{
	struct pair *p = arg;

	return leat_fd_add(reactor, &p->f, p->near, EPOLLIN, on_fd, p) == -EPERM ? arg : NULL;
}

static void
test_threads(void **state)
{
	pthread_t thread;
	struct pair a;
	void *good;

	(void)state;
	pair_open(&a);
	test_turns(reactor, 1);
	assert_int_equal(pthread_create(&thread, NULL, add_elsewhere, &a), 0);
	assert_int_equal(pthread_join(thread, &good), 0);
	assert_non_null(good);
	pair_close(&a);
}

#define SPIN(f) cmocka_unit_test_setup_teardown(f, spin_setup, spin_teardown)
#define BLOCK(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		SPIN(test_levels),	 SPIN(test_refused),	 SPIN(test_no_poller),
		SPIN(test_delete_other), SPIN(test_delete_self), SPIN(test_reuse),
		SPIN(test_changed),	 SPIN(test_many),	 SPIN(test_looks),
		BLOCK(test_block),	 BLOCK(test_fallback),	 cmocka_unit_test(test_block_echo),
		SPIN(test_stop),	 SPIN(test_threads),
	};

	return cmocka_run_group_tests(tests, test_mock_start, test_mock_stop);
}
