/* SPDX-License-Identifier: BSD-3-Clause */

/* Features of the address exchange over UNIX sockets only: notes, and the end of processes. */

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "exchange_leaks.h"

/* ---- processes ------------------------------------------------------------------------------- */

/*
 * A process that forked a child is killed: its connection ends, though the child holds the same
 * sockets. What the process had sent before still arrives.
 */
static void
test_killed_parent(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .dir = side_dir };
	struct leat_exchange_data none = { 0 };
	struct leat_exchange_event *ev, event;
	int pipefd[2], status;
	pid_t pid, child = 0;
	struct side b;

	(void)state;
	side_open(&b, NULL, "cache");
	assert_int_equal(pipe(pipefd), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct leat_exchange *x = leat_exchange_create(&conf);
		int conn;

		if (x == NULL)
			_exit(1);
		conn = leat_exchange_connect(x, "cache", 0, &none, NULL);
		while (leat_exchange_poll(x, leat_now(), &event, 1) == 0)
			sched_yield();
		child = fork();
		if (child == 0)
			for (;;)
				pause();
		if (leat_exchange_note(x, conn) != 0 ||
		    write(pipefd[1], &child, sizeof(child)) != sizeof(child))
			_exit(1);
		for (;;)
			pause();
	}
	ev = side_event(&b, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	assert_int_equal(leat_exchange_accept(b.x, ev->conn, &none, NULL), 0);
	assert_int_equal(side_event(&b, NULL)->type, LEAT_EXCHANGE_CONNECTED);
	assert_int_equal(read(pipefd[0], &child, sizeof(child)), sizeof(child));
	assert_true(child > 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(side_event(&b, NULL)->type, LEAT_EXCHANGE_NOTE);
	ev = side_event(&b, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(ev->status, -ECONNRESET);
	assert_int_equal(kill(child, 0), 0);
	assert_int_equal(kill(child, SIGKILL), 0);
	close(pipefd[0]);
	close(pipefd[1]);
	side_close(&b);
}

/* A listener in a different pid namespace gets 0 as the pid of each connector. */
static void
test_foreign_process(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .dir = side_dir };
	struct leat_exchange_data none = { 0 };
	struct leat_exchange_event *ev, event;
	int status, conn;
	struct side a;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct leat_exchange *x;
		bool text = false;

		/* The child is the first process of the new namespace. */
		if (unshare(CLONE_NEWPID) != 0)
			_exit(77);
		pid = fork();
		if (pid != 0)
			_exit(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1);
		x = leat_exchange_create(&conf);
		if (x == NULL || leat_exchange_listen(x, "cache") != 0)
			_exit(1);
		do {
			event.type = LEAT_EXCHANGE_PROVE;
			if (leat_exchange_poll(x, leat_now(), &event, 1) == 0)
				sched_yield();
			else if (event.type == LEAT_EXCHANGE_REQUEST &&
				 leat_exchange_accept(x, event.conn, &none, NULL) == 0)
				text = strcmp(event.addr, "uid-0:pid-0") == 0;
			if (event.type == LEAT_EXCHANGE_NOTE &&
			    leat_exchange_note(x, event.conn) != 0)
				_exit(1);
		} while (event.type != LEAT_EXCHANGE_DOWN);
		leat_exchange_destroy(x);
		_exit(text && event.status == 0 ? 0 : 1);
	}
	side_open(&a, NULL, NULL);
	conn = leat_exchange_connect(a.x, "cache", 0, &none, NULL);
	assert_true(conn > 0);
	ev = side_event(&a, NULL);
	if (ev->type == LEAT_EXCHANGE_CONNECTED) {
		assert_int_equal(leat_exchange_note(a.x, conn), 0);
		assert_int_equal(side_event(&a, NULL)->type, LEAT_EXCHANGE_NOTE);
	}
	side_close(&a);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* Not every root may create namespaces. */
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

/* ---- notes ---------------------------------------------------------------------------------- */

static bool
readable(const struct side *s)
{
	struct pollfd p = { .fd = leat_exchange_fd(s->x), .events = POLLIN };
	int n = poll(&p, 1, 0);

	assert_true(n >= 0);
	return n == 1;
}

static void
test_note(void **state)
{
	struct side a, b;
	unsigned int i;
	int ca, cb;

	(void)state;
	side_open(&a, NULL, NULL);
	side_open(&b, NULL, "cache");
	assert_int_equal(leat_exchange_note(a.x, 1), -ENOTCONN);
	side_connect(&a, &b, &ca, &cb);
	side_quiet(&a, &b);
	side_quiet(&b, &a);
	assert_false(readable(&a));
	assert_false(readable(&b));

	assert_int_equal(leat_exchange_note(a.x, ca), 0);
	assert_true(readable(&b));
	assert_false(readable(&a));
	for (i = 0; i < 9; i++)
		assert_int_equal(leat_exchange_note(a.x, ca), 0);
	assert_int_equal(side_event(&b, NULL)->type, LEAT_EXCHANGE_NOTE);
	side_quiet(&b, &a);
	assert_false(readable(&b));
	assert_int_equal(leat_exchange_note(b.x, cb), 0);
	assert_int_equal(side_event(&a, NULL)->type, LEAT_EXCHANGE_NOTE);

	/*
	 * More notes than the socket holds; then notes work as before, and the event of the
	 * connection's end comes after them.
	 */
	for (i = 0; i < 100000; i++)
		assert_int_equal(leat_exchange_note(a.x, ca), 0);
	while (readable(&b)) {
		side_poll(&b);
		while (b.head != b.tail)
			assert_int_equal(b.ev[b.head++ % SIDE_EVENTS].type, LEAT_EXCHANGE_NOTE);
	}
	assert_int_equal(leat_exchange_note(a.x, ca), 0);
	assert_int_equal(side_event(&b, NULL)->type, LEAT_EXCHANGE_NOTE);
	assert_int_equal(leat_exchange_note(a.x, ca), 0);
	assert_int_equal(leat_exchange_close(a.x, ca, NULL), 0);
	assert_int_equal(leat_exchange_note(a.x, ca), -ENOTCONN);
	assert_int_equal(side_event(&b, NULL)->type, LEAT_EXCHANGE_NOTE);
	assert_int_equal(side_event(&b, NULL)->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(leat_exchange_note(b.x, cb), -ENOTCONN);
	side_close(&a);
	side_close(&b);
}
int
main(void)
{
	static const struct CMUnitTest tests[] = {
		LEAKLESS(test_note),
		LEAKLESS(test_killed_parent),
		LEAKLESS(test_foreign_process),
	};

	return cmocka_run_group_tests_name("exchange local", tests, side_over_unix, side_unix_end);
}
