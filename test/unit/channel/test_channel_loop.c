/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Participants in event loops: which participant is notified of what, and that none clears the
 * notification of another.
 */

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "channel_pvt.h"
#include "channel_test.h"

#define SIZE 4096
#define NEVER_MS 60000
#define PARTICIPANTS 5
#define FRAMES LEAT_CHANNEL_ARM_FRAMES
#define ROOM LEAT_CHANNEL_ARM_ROOM

static const struct leat_channel_opts opts = { .check_ms = NEVER_MS };

static struct leat_channel *
make(uint64_t start)
{
	struct leat_channel_conf conf = { .size = SIZE,
					  .start = start,
					  .participants = PARTICIPANTS,
					  .notify = LEAT_CHANNEL_NOTIFY_EVENTFD };
	struct leat_channel *ch = leat_channel_memfd(&conf, &opts);

	assert_non_null(ch);
	return ch;
}

static bool
is_notified(struct leat_channel *ch)
{
	struct pollfd p = { .fd = leat_channel_fd(ch), .events = POLLIN };

	assert_true(p.fd >= 0);
	return poll(&p, 1, 0) == 1;
}

/*
 * Three participants are armed (leat_channel_arm()) and notified of a frame, and one receives it:
 * the other two stay notified, and all are notified of the next frame.
 */
static void
each_is_told(void **state)
{
	struct leat_channel *ch = make(-(uint64_t)SIZE), *r[3];
	uint32_t n, round;
	int i;

	(void)state;
	for (i = 0; i < 3; i++)
		r[i] = leat_channel_join(ch, &opts);
	for (round = 0; round < 200; round++) {
		for (i = 0; i < 3; i++) {
			assert_int_equal(leat_channel_arm(r[i], FRAMES, 0), 0);
			assert_false(is_notified(r[i]));
		}
		assert_int_equal(send_number(ch, round, 8), 0);
		for (i = 0; i < 3; i++)
			assert_true(is_notified(r[i]));
		assert_int_equal(recv_number(r[round % 3], &n), 0);
		/*
		 * Neither a wait of one participant nor its next arming clears the others'
		 * notifications.
		 */
		assert_int_equal(leat_channel_wait(r[round % 3], 1000), -ETIMEDOUT);
		assert_int_equal(leat_channel_arm(r[round % 3], FRAMES, 0), 0);
		assert_false(is_notified(r[round % 3]));
		assert_true(is_notified(r[(round + 1) % 3]));
		assert_true(is_notified(r[(round + 2) % 3]));
	}
	for (i = 0; i < 3; i++)
		leat_channel_close(r[i]);
	leat_channel_close(ch);
}

/* No frame is missed, whether it arrives between arming and the poll or before arming. */
static void
nothing_is_missed(void **state)
{
	struct leat_channel *ch = make(0), *r = leat_channel_join(ch, &opts);
	uint32_t n;

	(void)state;
	assert_int_equal(send_number(ch, 1, 8), 0);
	assert_int_equal(leat_channel_arm(r, FRAMES, 0), FRAMES);
	assert_int_equal(leat_channel_arm(r, FRAMES | ROOM, 8), FRAMES | ROOM);
	assert_true(ch->block->data.sleepers == 0 && ch->block->room.sleepers == 0);
	assert_int_equal(recv_number(r, &n), 0);
	assert_int_equal(leat_channel_arm(r, FRAMES, 0), 0);
	assert_int_equal(send_number(ch, 2, 8), 0);
	assert_true(is_notified(r));
	assert_int_equal(recv_number(r, &n), 0);
	/*
	 * r is not armed when the next frame arrives: arm reports that frame, and does not notify.
	 */
	assert_int_equal(send_number(ch, 3, 8), 0);
	assert_int_equal(leat_channel_arm(r, FRAMES, 0), FRAMES);
	assert_false(is_notified(r));
	leat_channel_close(r);
	leat_channel_close(ch);
}

/*
 * Participants 0 to k - 1 arm before r[3] receives the only frame, and all four afterwards. The end
 * notifies all but r[2], which asks for room, and has it. Then arm reports the end to each.
 */
static void
the_end_is_told_to_all(void **state)
{
	struct leat_channel *ch, *r[4];
	uint32_t n;
	int i, k;

	(void)state;
	for (k = 0; k < 4; k++) {
		ch = make(64 * (uint64_t)k);
		for (i = 0; i < 4; i++)
			r[i] = leat_channel_join(ch, &opts);
		for (i = 0; i < k; i++)
			assert_int_equal(leat_channel_arm(r[i], FRAMES, 0), 0);
		assert_int_equal(send_number(ch, 1, 8), 0);
		assert_int_equal(recv_number(r[3], &n), 0);
		for (i = 0; i < 4; i++)
			assert_int_equal(leat_channel_arm(r[i], i == 2 ? ROOM : FRAMES, 2000),
					 i == 2 ? ROOM : 0);
		assert_int_equal(leat_channel_terminate(ch), 0);
		for (i = 0; i < 4; i++) {
			if (i != 2)
				assert_true(is_notified(r[i]));
			assert_int_equal(leat_channel_arm(r[i], i == 2 ? ROOM : FRAMES, 2000),
					 -ESHUTDOWN);
			leat_channel_close(r[i]);
		}
		leat_channel_close(ch);
	}
}

static void
room_is_told(void **state)
{
	struct leat_channel_opts drop = { .full = LEAT_CHANNEL_FULL_DROP_OLDEST };
	struct leat_channel *ch = make(0), *w = leat_channel_join(ch, &opts), *d;
	uint32_t n, i;

	(void)state;
	for (i = 0; i < 3; i++)
		assert_int_equal(send_number(ch, i, 1000), 0);
	assert_int_equal(send_number(ch, 3, 900), 0);
	assert_int_equal(leat_channel_arm(w, ROOM, 8), 0);
	assert_int_equal(leat_channel_arm(w, ROOM | FRAMES, 8), FRAMES);
	assert_int_equal(leat_channel_arm(w, ROOM, 900), 0);
	assert_false(is_notified(w));
	assert_int_equal(recv_number(ch, &n), 0);
	assert_true(is_notified(w));
	assert_int_equal(leat_channel_arm(w, ROOM, 900), ROOM);
	assert_int_equal(send_number(w, 4, 900), 0);
	/* The room comes from another writer, which overwrites the oldest frame. */
	assert_int_equal(leat_channel_arm(w, ROOM, 8), 0);
	d = leat_channel_join(ch, &drop);
	assert_int_equal(send_number(d, 5, 8), 0);
	assert_true(is_notified(w));
	assert_int_equal(leat_channel_arm(w, ROOM, 8), ROOM);
	leat_channel_close(d);
	leat_channel_close(w);
	leat_channel_close(ch);
}

static void
what_is_refused(void **state)
{
	struct leat_channel_conf conf = { .size = SIZE, .participants = 2 };
	struct leat_channel *ch = leat_channel_memfd(&conf, NULL), *other;
	struct shared s;
	int fds[3], i;

	(void)state;
	assert_int_equal(leat_channel_fd(ch), -EOPNOTSUPP);
	assert_int_equal(leat_channel_arm(ch, FRAMES, 0), -EOPNOTSUPP);
	assert_int_equal(leat_channel_set_eventfds(ch, NULL, 2), -EINVAL);
	leat_channel_close(ch);
	ch = make(0);
	assert_int_equal(leat_channel_arm(ch, 0, 0), -EINVAL);
	assert_int_equal(leat_channel_arm(ch, 4, 0), -EINVAL);
	assert_int_equal(leat_channel_arm(ch, ROOM, SIZE), -EMSGSIZE);
	assert_int_equal(leat_channel_set_eventfds(ch, NULL, PARTICIPANTS), -EBUSY);
	leat_channel_close(ch);

	/* A channel in the caller's memory has no descriptor until the caller sets eventfds. */
	conf.notify = LEAT_CHANNEL_NOTIFY_EVENTFD;
	shared_make(&s, &conf);
	ch = shared_attach(&s, &opts);
	assert_int_equal(leat_channel_fd(ch), -EOPNOTSUPP);
	for (i = 0; i < 3; i++)
		fds[i] = eventfd(0, 0);
	assert_int_equal(leat_channel_set_eventfds(ch, fds, 1), -EINVAL);
	assert_int_equal(leat_channel_set_eventfds(ch, fds, 3), -EINVAL);
	i = fds[1];
	fds[1] = -1;
	assert_int_equal(leat_channel_set_eventfds(ch, fds, 2), -EBADF);
	fds[1] = i;
	assert_int_equal(leat_channel_set_eventfds(ch, fds, 2), 0);
	other = shared_attach(&s, &opts);
	assert_int_equal(leat_channel_set_eventfds(other, fds, 2), 0);
	for (i = 0; i < 3; i++)
		close(fds[i]);
	assert_int_equal(leat_channel_arm(ch, FRAMES, 0), 0);
	assert_int_equal(send_number(other, 1, 8), 0);
	assert_true(is_notified(ch));
	assert_false(is_notified(other));
	leat_channel_close(other);
	leat_channel_close(ch);
	shared_free(&s);
}

/* ---- loops in threads ---- */

struct loop {
	struct leat_channel *ch;
	pthread_t thread;
	uint64_t sum;
	bool late;
};

static void *
run_loop(void *arg)
{
	struct loop *l = arg;
	struct epoll_event ev = { .events = EPOLLIN }, got;
	int ep = epoll_create1(0), ret;
	uint32_t n;

	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, leat_channel_fd(l->ch), &ev) != 0)
		return arg;
	for (;;) {
		while (recv_number(l->ch, &n) == 0)
			l->sum += n;
		ret = leat_channel_arm(l->ch, FRAMES, 0);
		if (ret < 0)
			break;
		if (ret == 0 && epoll_wait(ep, &got, 1, NEVER_MS / 2) != 1) {
			l->late = true;
			break;
		}
	}
	close(ep);
	return ret == -ESHUTDOWN ? NULL : arg;
}

/*
 * Three loops and a writer that waits for room; one of the four handles came over a socket. Each
 * frame must be received, with no loop asleep for NEVER_MS / 2.
 */
static void
loops_lose_no_wake_up(void **state)
{
	struct leat_channel_opts wait = { .check_ms = NEVER_MS,
					  .full = LEAT_CHANNEL_FULL_WAIT,
					  .full_ns = NEVER_MS / 2 * UINT64_C(1000000) };
	struct leat_channel *ch = make(0), *w = leat_channel_join(ch, &wait);
	uint64_t sum = 0, got = 0;
	struct loop l[3];
	uint32_t i, n;
	void *bad;
	int sv[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	assert_int_equal(leat_channel_pass(ch, sv[0]), 0);
	for (i = 0; i < 3; i++) {
		l[i] = (struct loop){ .ch = i == 0 ? leat_channel_accept(sv[1], &opts)
						   : leat_channel_join(ch, &opts) };
		assert_non_null(l[i].ch);
		assert_int_equal(pthread_create(&l[i].thread, NULL, run_loop, &l[i]), 0);
	}
	for (n = 0; n < 20000; n++) {
		assert_int_equal(send_number(w, n, 8 + n % 100), 0);
		sum += n;
		/* After every 16th frame, give the loops time to read all frames and to sleep. */
		if (n % 16 == 0)
			sched_yield();
	}
	assert_int_equal(leat_channel_terminate(w), 0);
	for (i = 0; i < 3; i++) {
		assert_int_equal(pthread_join(l[i].thread, &bad), 0);
		assert_null(bad);
		assert_false(l[i].late);
		got += l[i].sum;
		leat_channel_close(l[i].ch);
	}
	assert_true(sum == got);
	leat_channel_close(w);
	leat_channel_close(ch);
	close(sv[0]);
	close(sv[1]);
}

/* Let this process open n descriptors more. @return the first of them */
static int
allow_descriptors(int n)
{
	struct rlimit lim;
	int fds[8] = { 0 }, i;

	assert_in_range(n, 0, 7);
	for (i = 0; i <= n; i++) {
		fds[i] = dup(0);
		assert_true(fds[i] >= 0);
	}
	while (i-- > 0)
		assert_int_equal(close(fds[i]), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &lim), 0);
	lim.rlim_cur = (rlim_t)fds[n];
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lim), 0);
	return fds[0];
}

/* However many descriptors a process lacks for a channel, accept() says that, and closes all. */
static void
accept_without_descriptors(void **state)
{
	const struct leat_channel_conf conf = { .size = SIZE,
						.participants = 2,
						.notify = LEAT_CHANNEL_NOTIFY_EVENTFD };
	struct leat_channel *a = leat_channel_memfd(&conf, NULL), *b;
	struct rlimit before;
	int sv[2], n, first;

	(void)state;
	assert_non_null(a);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (n = 0;; n++) {
		assert_int_equal(leat_channel_pass(a, sv[0]), 0);
		first = allow_descriptors(n);
		b = leat_channel_accept(sv[1], NULL);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		if (b != NULL)
			break;
		/* With four descriptors the file can't be opened again for its lock. */
		assert_true(errno == EMFILE || (n == 4 && errno == EXDEV));
		assert_non_null(strstr(leat_channel_error(), "Too many open files"));
		assert_int_equal(allow_descriptors(7), first);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	}
	/* Three descriptors arrive, and each is duplicated. */
	assert_int_equal(n, 6);
	leat_channel_close(b);
	leat_channel_close(a);
	close(sv[0]);
	close(sv[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_told),
		cmocka_unit_test(nothing_is_missed),
		cmocka_unit_test(the_end_is_told_to_all),
		cmocka_unit_test(room_is_told),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(loops_lose_no_wake_up),
		cmocka_unit_test(accept_without_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
