/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The file of a named channel is truncated, as by another process, at each moment of its use: calls
 * return -EPROTO.
 */

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>

#include "channel_pvt.h"
#include "channel_test.h"

#define SIZE 65536
#define LEN 1000

static const struct leat_channel_opts opts = { .check_ms = 1 };

struct cut {
	char name[64];
	int fd;
	struct leat_channel *ch, *joined, *other; /* joined shares ch's mapping */
};

static void
make(struct cut *c)
{
	struct leat_channel_conf conf = { .size = SIZE, .participants = 4 };
	uint32_t i;

	snprintf(c->name, sizeof(c->name), "/leat-test-%d-%llu", (int)getpid(),
		 (unsigned long long)test_now_ns());
	c->ch = leat_channel_create(c->name, &conf, &opts);
	assert_non_null(c->ch);
	c->joined = leat_channel_join(c->ch, &opts);
	c->other = leat_channel_open(c->name, &opts);
	assert_non_null(c->other);
	for (i = 0; i < 8; i++)
		assert_int_equal(send_number(c->ch, i, LEN), 0);
	c->fd = shm_open(c->name, O_RDWR, 0);
	assert_true(c->fd >= 0);
}

static void
unmake(struct cut *c)
{
	leat_channel_close(c->ch);
	leat_channel_close(c->joined);
	leat_channel_close(c->other);
	assert_int_equal(leat_channel_unlink(c->name), 0);
	close(c->fd);
}

/* Sizes to which the file is truncated. */
static const off_t sizes[] = { 0, 1, 4096 };

static void
check_broken(struct cut *c, struct leat_channel *ch)
{
	struct leat_channel_frame f;
	uint8_t data[LEN];

	(void)c;
	/*
	 * If the file still has a part of a page, the rest of that page reads as zeros, which
	 * leat_channel_recover() detects.
	 */
	assert_int_equal(leat_channel_recover(ch), -EPROTO);
	assert_int_equal(leat_channel_peek(ch, &f, 1), -EPROTO);
	assert_int_equal(leat_channel_recv(ch, data, LEN, NULL, NULL), -EPROTO);
	assert_int_equal(leat_channel_send(ch, 1, 1, data, LEN), -EPROTO);
	assert_int_equal(leat_channel_wait(ch, LEAT_CHANNEL_FOREVER), -EPROTO);
	assert_int_equal(leat_channel_wait_room(ch, LEN, LEAT_CHANNEL_FOREVER), -EPROTO);
	assert_int_equal(leat_channel_recover(ch), -EPROTO);
	assert_int_equal(leat_channel_terminate(ch), -EPROTO);
}

static void
under_a_reader(void **state)
{
	struct leat_channel_frame f[4];
	uint8_t data[LEN];
	struct cut c;
	unsigned int i, k;
	int ret;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		make(&c);
		/* Truncate the file before c.other reads, and while c.ch holds four frames. */
		assert_int_equal(leat_channel_peek(c.ch, f, 4), 4);
		assert_int_equal(ftruncate(c.fd, sizes[i]), 0);
		ret = leat_channel_recv(c.other, data, LEN, NULL, NULL);
		assert_true(ret == -EPROTO || (ret == -EAGAIN && sizes[i] == 1));
		if (sizes[i] < 4096)
			check_broken(&c, c.other);
		for (k = 0; k < 4; k++)
			(void)*(volatile const uint8_t *)f[k].data;
		assert_int_equal(leat_channel_consume(c.ch), -EPROTO);
		check_broken(&c, c.ch);
		check_broken(&c, c.joined);
		unmake(&c);
	}
}

static void
under_a_writer(void **state)
{
	struct cut c;
	unsigned int i;
	void *p;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		make(&c);
		assert_int_equal(leat_channel_reserve(c.ch, 1, 1, LEN, &p), 0);
		assert_int_equal(ftruncate(c.fd, sizes[i]), 0);
		memset(p, 1, LEN);
		assert_int_equal(leat_channel_commit(c.ch), -EPROTO);
		check_broken(&c, c.ch);
		assert_int_equal(send_number(c.other, 1, LEN), -EPROTO);
		check_broken(&c, c.other);
		unmake(&c);
	}
}

struct waiter {
	struct leat_channel *ch;
	pthread_t thread;
	bool room;
	int ret;
};

static void *
wait_on(void *arg)
{
	struct waiter *w = arg;

	w->ret = w->room ? leat_channel_wait_room(w->ch, SIZE / 2 - 16, LEAT_CHANNEL_FOREVER)
			 : leat_channel_wait(w->ch, LEAT_CHANNEL_FOREVER);
	return NULL;
}

static void
under_waiters(void **state)
{
	struct waiter w[2];
	struct cut c;
	unsigned int i, k;
	uint32_t n;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		make(&c);
		while (send_number(c.ch, 9, LEN) == 0)
			;
		for (k = 0; k < 2; k++) {
			w[k] = (struct waiter){ .ch = k ? c.joined : c.other, .room = k == 1 };
			/*
			 * Thread 0 waits for a frame, so the channel is emptied first. Thread 1
			 * waits for room, so the channel is filled first.
			 */
			if (k == 0) {
				while (recv_number(c.ch, &n) == 0)
					;
			} else {
				while (send_number(c.ch, 9, 8) == 0)
					;
			}
			assert_int_equal(pthread_create(&w[k].thread, NULL, wait_on, &w[k]), 0);
			while ((k == 0 ? w[k].ch->block->data.sleepers
				       : w[k].ch->block->room.sleepers) == 0)
				sched_yield();
			assert_int_equal(ftruncate(c.fd, sizes[i]), 0);
			assert_int_equal(pthread_join(w[k].thread, NULL), 0);
			if (w[k].ret != -EPROTO && (k == 0 || sizes[i] != 1))
				fail_msg("%u: %d of %d", k, w[k].ret, (int)sizes[i]);
			check_broken(&c, w[k].ch);
			unmake(&c);
			make(&c);
		}
		unmake(&c);
	}
}

static void
under_one_that_looks_on(void **state)
{
	struct leat_channel_info info;
	struct cut c;

	(void)state;
	make(&c);
	assert_int_equal(leat_channel_inspect_name(c.name, &info), 0);
	assert_int_equal(ftruncate(c.fd, 16384), 0);
	assert_int_equal(leat_channel_inspect_name(c.name, &info), -EPROTO);
	assert_null(leat_channel_open(c.name, NULL));
	assert_int_equal(errno, EPROTO);
	/* The file is truncated, then grown again: its contents are zeros. */
	assert_int_equal(ftruncate(c.fd, 0), 0);
	assert_int_equal(ftruncate(c.fd, 1 << 20), 0);
	assert_int_equal(leat_channel_recover(c.ch), -EPROTO);
	unmake(&c);
}

/* ---- other mappings ---- */

static sigjmp_buf back;
static volatile sig_atomic_t caught;

static void
on_former(int sig)
{
	caught++;
	siglongjmp(back, sig);
}

/*
 * @return a mapped page of a file that is no channel and was truncated to 0 bytes: access raises
 * SIGBUS
 */
static volatile char *
cut_page(void)
{
	int fd = memfd_create("test", 0);
	char *p;

	assert_int_equal(ftruncate(fd, 4096), 0);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(p != MAP_FAILED);
	assert_int_equal(ftruncate(fd, 0), 0);
	close(fd);
	return p;
}

/*
 * Must be the first test: a handler installed before the first channel gets the signals that are
 * not for a channel's mapping.
 */
static void
other_signals_pass(void **state)
{
	struct sigaction sa = { .sa_handler = on_former };
	volatile char *p = cut_page();
	struct cut c;
	pid_t pid;
	int st, k;

	(void)state;
	assert_int_equal(sigaction(SIGBUS, &sa, NULL), 0);
	make(&c);
	for (k = 1; k < 3; k++) {
		if (sigsetjmp(back, 1) == 0)
			*p = 1;
		assert_int_equal(caught, k);
	}
	if (sigsetjmp(back, 1) == 0)
		(void)raise(SIGBUS);
	assert_int_equal(caught, 3);
	unmake(&c);
	/* A process with the default action for the signal is killed, as without the library. */
	pid = fork();
	if (pid == 0) {
		/* The next channel puts the library's handler in front of the default action. */
		(void)signal(SIGBUS, SIG_DFL);
		make(&c);
		*p = 1;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFSIGNALED(st) && WTERMSIG(st) == SIGBUS);
	assert_int_equal(leat_channel_guard(true), 0);
	assert_int_equal(leat_channel_guard(false), -EBUSY);
}

static struct sigaction before;

static void
on_later(int sig, siginfo_t *info, void *context)
{
	caught++;
	before.sa_sigaction(sig, info, context);
}

/*
 * A handler that is installed after the library's handler passes the signal on to it. Then the
 * library installs its handler once more, in front: the handlers must not call each other without
 * end.
 */
static void
a_later_handler_may_call_ours(void **state)
{
	struct sigaction sa = { .sa_sigaction = on_later, .sa_flags = SA_SIGINFO };
	struct sigaction first = { .sa_handler = on_former };
	volatile char *p = cut_page();
	struct cut c, d;
	int k;

	(void)state;
	assert_int_equal(sigaction(SIGBUS, &first, NULL), 0);
	make(&c);
	assert_int_equal(sigaction(SIGBUS, &sa, &before), 0);
	caught = 0;
	assert_int_equal(ftruncate(c.fd, 0), 0);
	check_broken(&c, c.ch);
	assert_int_equal(caught, 1);
	make(&d);
	assert_int_equal(ftruncate(d.fd, 0), 0);
	check_broken(&d, d.ch);
	assert_int_equal(caught, 1);
	/*
	 * The signal passes from the library's handler to the later one, from there to the
	 * library's again, and then to the handler that was installed first.
	 */
	for (k = 0; k < 3; k++) {
		caught = 0;
		if (sigsetjmp(back, 1) == 0)
			*p = 1;
		assert_int_equal(caught, 2);
	}
	unmake(&c);
	unmake(&d);
}

/*
 * More mappings than one part of the table in guard.c has room for. They are removed one by one,
 * and only the channels whose files were truncated fail.
 */
static void
many_channels(void **state)
{
	struct cut c[100];
	unsigned int i;

	(void)state;
	for (i = 0; i < 100; i++)
		make(&c[i]);
	for (i = 0; i < 100; i += 3)
		assert_int_equal(ftruncate(c[i].fd, 4096), 0);
	for (i = 0; i < 100; i++) {
		assert_int_equal(send_number(c[i].other, 1, LEN), i % 3 == 0 ? -EPROTO : 0);
		assert_int_equal(send_number(c[i].ch, 1, LEN), i % 3 == 0 ? -EPROTO : 0);
		unmake(&c[i]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_signals_pass),
		cmocka_unit_test(under_a_reader),
		cmocka_unit_test(under_a_writer),
		cmocka_unit_test(under_waiters),
		cmocka_unit_test(under_one_that_looks_on),
		cmocka_unit_test(a_later_handler_may_call_ours),
		cmocka_unit_test(many_channels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
