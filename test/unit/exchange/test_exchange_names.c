/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Names of UNIX sockets: what addresses stand for, who owns the directory, and what happens to
 * names that killed listeners leave.
 */

#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "exchange_side.h"

#define NOBODY 65534

static const struct leat_exchange_data none;

static const char *
path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", side_dir, name);
	return path;
}

static bool
exists(const char *name)
{
	struct stat st;

	return lstat(path_of(name), &st) == 0;
}

/* Start a process that listens until it is killed. */
static pid_t
listener_start(const char *addr)
{
	struct leat_exchange_conf conf = { .kind = "ring", .dir = side_dir };
	int pipefd[2];
	char c = 0;
	pid_t pid;

	assert_int_equal(pipe(pipefd), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct leat_exchange *x = leat_exchange_create(&conf);

		if (x == NULL || leat_exchange_listen(x, addr) != 0 ||
		    write(pipefd[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(pipefd[1]);
	assert_int_equal(read(pipefd[0], &c, 1), 1);
	close(pipefd[0]);
	return pid;
}

static void
process_kill(pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* Leave a name without a listener. */
static void
stale(const char *addr)
{
	process_kill(listener_start(addr));
}

/* ---- addresses ------------------------------------------------------------------------------ */

static unsigned long
port_of(const struct side *s)
{
	return strtoul(strrchr(s->addr, ':') + 1, NULL, 10);
}

static void
test_addresses(void **state)
{
	static const char *const bad[] = {
		"",
		".hidden",
		"a b",
		"a/b",
		"..",
		"a@b",
		"host:",
		"host:1x",
		"::1:7000",
		"[::1:7000",
		"localhost:0",
		":0",
		"01234567890123456789012345678901234567890123456789012345678901234",
	};
	static const char *const remote[] = { "192.0.2.77:7000", "[2001:db8::1]:7000",
					      "no-such-host.invalid:7000" };
	/* Hosts that mean this machine. */
	static const char *const here[] = {
		"",	"*",	     "localhost", "LOCALHOST", "0.0.0.0",
		"[::]", "127.9.9.9", "[::1]",	  "127.0.0.1", "[::ffff:127.0.0.1]"
	};
	char own[64], addr[LEAT_EXCHANGE_ADDR_MAX];
	struct side a, b;
	unsigned int i;

	(void)state;
	side_open(&a, NULL, NULL);
	assert_int_equal(leat_exchange_connect(a.x, NULL, 0, &none, NULL), -EINVAL);
	for (i = 0; i < RTE_DIM(bad); i++) {
		assert_int_equal(leat_exchange_connect(a.x, bad[i], 0, &none, NULL), -EINVAL);
		assert_non_null(strstr(leat_err_msg(), bad[i]));
	}
	for (i = 0; i < RTE_DIM(remote); i++) {
		assert_int_equal(leat_exchange_connect(a.x, remote[i], 0, &none, NULL),
				 -EHOSTUNREACH);
		assert_non_null(strstr(leat_err_msg(), "processes of this machine only"));
		assert_int_equal(leat_exchange_listen(a.x, remote[i]), -EHOSTUNREACH);
	}
	for (i = 0; i < RTE_DIM(here); i++) {
		snprintf(addr, sizeof(addr), "%s:7000", here[i]);
		side_open(&b, NULL, addr);
		assert_string_equal(b.addr, addr);
		assert_true(exists("port-7000"));
		side_close(&b);
		assert_false(exists("port-7000"));
	}
	assert_int_equal(gethostname(own, sizeof(own)), 0);
	snprintf(addr, sizeof(addr), "%s:0", own);
	side_open(&b, NULL, addr);
	assert_in_range(port_of(&b), 49152, 65535);
	side_close(&b);
	side_close(&a);
}

/* Over UNIX sockets the host of an address does not matter: one listener serves the port. */
static void
test_ports(void **state)
{
	char addr[LEAT_EXCHANGE_ADDR_MAX];
	struct side a, b, c;
	int ca, cb;

	(void)state;
	side_open(&a, NULL, ":0");
	assert_in_range(port_of(&a), 49152, 65535);
	side_open(&b, NULL, "localhost:0");
	assert_in_range(port_of(&b), 49152, 65535);
	assert_int_not_equal(port_of(&a), port_of(&b));
	side_open(&c, NULL, NULL);
	snprintf(addr, sizeof(addr), "127.0.0.1:%lu", port_of(&b));
	assert_int_equal(leat_exchange_listen(c.x, addr), -EADDRINUSE);
	assert_non_null(strstr(leat_err_msg(), "another process listens there"));
	memcpy(b.addr, addr, sizeof(b.addr));
	side_connect(&c, &b, &ca, &cb);
	side_close(&a);
	side_close(&c);
	side_close(&b);
}

static void
test_abstract(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring" };
	struct side a, b, c;
	char prefix[64];
	int ca, cb;

	(void)state;
	snprintf(prefix, sizeof(prefix), "@leat-test-%d", (int)getpid());
	conf.dir = prefix;
	side_open(&a, &conf, NULL);
	side_open(&b, &conf, "cache");
	side_connect(&a, &b, &ca, &cb);
	assert_int_equal(leat_exchange_listen(a.x, "cache"), -EADDRINUSE);
	side_open(&c, &conf, "localhost:0");
	side_connect(&a, &c, &ca, &cb);
	side_close(&c);
	side_close(&b);
	assert_int_equal(leat_exchange_listen(a.x, "cache"), 0);
	side_close(&a);
}

/* ---- the directory -------------------------------------------------------------------------- */

static struct leat_exchange *
create_in(const char *dir, bool any_user)
{
	return leat_exchange_create(
		&(struct leat_exchange_conf){ .kind = "ring", .dir = dir, .any_user = any_user });
}

static void
test_directory(void **state)
{
	static char endless[200];
	struct leat_exchange *x;
	char dir[128];
	struct stat st;
	mode_t mask = umask(0);

	(void)state;
	snprintf(dir, sizeof(dir), "%s/made/", side_dir);
	x = create_in(dir, false);
	assert_non_null(x);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(leat_exchange_listen(x, "cache"), 0);
	assert_int_equal(lstat(path_of("made/name-cache"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	leat_exchange_destroy(x);
	(void)umask(mask);

	assert_int_equal(chmod(path_of("made"), 0770), 0);
	assert_null(create_in(dir, false));
	assert_int_equal(rte_errno, EACCES);
	assert_non_null(strstr(leat_err_msg(), "chmod 700"));
	/* Without a sticky bit on the directory, other users could remove this listener's name. */
	x = create_in(dir, true);
	assert_non_null(x);
	assert_int_equal(leat_exchange_listen(x, "cache"), -EACCES);
	assert_non_null(strstr(leat_err_msg(), "chmod +t"));
	assert_int_equal(chmod(path_of("made"), 01777), 0);
	assert_int_equal(leat_exchange_listen(x, "cache"), 0);
	assert_int_equal(lstat(path_of("made/name-cache"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0666);
	leat_exchange_destroy(x);

	assert_int_equal(chmod(path_of("made"), 0700), 0);
	assert_int_equal(symlink("made", path_of("link")), 0);
	snprintf(dir, sizeof(dir), "%s/link", side_dir);
	assert_null(create_in(dir, false));
	assert_int_equal(unlink(path_of("link")), 0);
	assert_int_equal(rmdir(path_of("made")), 0);

	assert_null(create_in("relative", false));
	assert_int_equal(rte_errno, EINVAL);
	assert_null(create_in("", false));
	assert_null(create_in("@", false));
	assert_null(create_in("/dev/null", false));
	assert_int_equal(rte_errno, ENOTDIR);
	snprintf(dir, sizeof(dir), "%s/not/there", side_dir);
	assert_null(create_in(dir, false));
	assert_int_equal(rte_errno, ENOENT);
	memset(endless, 'x', sizeof(endless) - 1);
	endless[0] = '/';
	assert_null(create_in(endless, false));
	assert_int_equal(rte_errno, ENAMETOOLONG);
}

/* While another process holds the lock of the directory, listening fails with -EBUSY. */
static void
test_locked(void **state)
{
	struct leat_exchange *x = create_in(side_dir, false);
	int fd = open(side_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_non_null(x);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(leat_exchange_listen(x, "cache"), -EBUSY);
	assert_non_null(strstr(leat_err_msg(), side_dir));
	close(fd);
	assert_int_equal(leat_exchange_listen(x, "cache"), 0);
	leat_exchange_destroy(x);
}

/* The path of a deep directory leaves room for ports, but not for long names. */
static void
test_long_path(void **state)
{
	static const char name[] = "a-name-that-is-rather-long-but-allowed";
	char dir[97];
	struct leat_exchange *x;

	(void)state;
	memset(dir, 'd', sizeof(dir));
	memcpy(dir, side_dir, strlen(side_dir));
	dir[strlen(side_dir)] = '/';
	dir[sizeof(dir) - 1] = '\0';
	x = create_in(dir, false);
	assert_non_null(x);
	assert_int_equal(leat_exchange_listen(x, name), -ENAMETOOLONG);
	assert_non_null(strstr(leat_err_msg(), name));
	assert_int_equal(leat_exchange_connect(x, name, 0, &none, NULL), -ENAMETOOLONG);
	assert_int_equal(leat_exchange_listen(x, "localhost:65535"), 0);
	leat_exchange_destroy(x);
	assert_int_equal(rmdir(dir), 0);
}

/* A connector waits for its listener to appear, and for the directory. */
static void
test_directory_later(void **state)
{
	struct leat_exchange_event *ev;
	struct side a, b;

	(void)state;
	side_open(&a, NULL, NULL);
	assert_int_equal(rmdir(side_dir), 0);
	assert_true(leat_exchange_connect(a.x, "cache", 60000000, &none, NULL) > 0);
	side_quiet(&a, NULL);
	assert_int_equal(leat_exchange_listen(a.x, "cache"), -ENOENT);
	side_open(&b, NULL, "cache");
	ev = side_event(&b, &a);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	assert_int_equal(leat_exchange_accept(b.x, ev->conn, &none, NULL), 0);
	assert_int_equal(side_event(&a, &b)->type, LEAT_EXCHANGE_CONNECTED);
	side_close(&a);
	side_close(&b);
}

/* ---- names of killed listeners --------------------------------------------------------------- */

static void
test_stale(void **state)
{
	struct side a, b;
	pid_t first, second;
	int ca, cb, fd;

	(void)state;
	side_open(&a, NULL, NULL);
	first = listener_start("cache");
	second = listener_start("localhost:7000");
	process_kill(first);
	process_kill(second);
	assert_true(exists("name-cache"));
	assert_true(exists("port-7000"));
	/* Any listener removes the names of killed listeners, and no other files. */
	fd = open(path_of("name-file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	side_open(&b, NULL, "other");
	assert_false(exists("name-cache"));
	assert_false(exists("port-7000"));
	assert_true(exists("name-other"));
	assert_true(exists("name-file"));
	assert_int_equal(leat_exchange_listen(a.x, "file"), -EADDRINUSE);
	assert_int_equal(unlink(path_of("name-file")), 0);
	side_close(&b);

	stale("cache");
	side_open(&b, NULL, "cache");
	side_connect(&a, &b, &ca, &cb);
	side_close(&a);

	/*
	 * A name that was removed by hand, and created again by another listener, belongs to that
	 * listener.
	 */
	assert_int_equal(unlink(path_of("name-cache")), 0);
	side_open(&a, NULL, "cache");
	side_close(&b);
	assert_true(exists("name-cache"));
	side_close(&a);
	assert_false(exists("name-cache"));
}

/*
 * When a connection ends without a BYE, the other side removes the name that the peer's process
 * left.
 */
static void
test_swept(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .dir = side_dir };
	struct leat_exchange_event *ev;
	struct side b;
	int status;
	pid_t pid;

	(void)state;
	side_open(&b, NULL, "cache");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct leat_exchange *x = leat_exchange_create(&conf);
		struct leat_exchange_event event;

		if (x == NULL || leat_exchange_listen(x, "peer") != 0 ||
		    leat_exchange_connect(x, "cache", 0, &none, NULL) < 0)
			_exit(1);
		for (;;)
			if (leat_exchange_poll(x, leat_now(), &event, 1) == 1 &&
			    event.type != LEAT_EXCHANGE_CONNECTED)
				_exit(1);
	}
	ev = side_event(&b, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_REQUEST);
	assert_int_equal(leat_exchange_accept(b.x, ev->conn, &none, NULL), 0);
	assert_int_equal(side_event(&b, NULL)->type, LEAT_EXCHANGE_CONNECTED);
	assert_true(exists("name-peer"));
	assert_int_equal(kill(pid, SIGKILL), 0);
	ev = side_event(&b, NULL);
	assert_int_equal(ev->type, LEAT_EXCHANGE_DOWN);
	assert_int_equal(ev->status, -ECONNRESET);
	side_until(&b, !exists("name-peer"));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	side_close(&b);
}

#define MANY_STALE 600

/* One poll does not look at all MANY_STALE names: the next one goes on where it stopped. */
static void
test_many_stale(void **state)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct leat_exchange_event ev;
	unsigned int i, left = MANY_STALE;
	struct side b;
	char name[32];

	(void)state;
	for (i = 0; i < MANY_STALE; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		assert_true(fd >= 0);
		snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/name-stale-%u", side_dir, i);
		assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
		close(fd);
	}
	side_open(&b, NULL, "cache");
	while (left > 0) {
		assert_int_equal(leat_exchange_poll(b.x, leat_now(), &ev, 1), 0);
		for (i = 0, left = 0; i < MANY_STALE; i++) {
			snprintf(name, sizeof(name), "name-stale-%u", i);
			left += exists(name);
		}
	}
	side_close(&b);
}

#define RACERS 4

/* Of several processes that find the same stale name, one becomes its listener. */
static void
test_race(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring", .dir = side_dir };
	unsigned int round, i;

	(void)state;
	for (round = 0; round < 30; round++) {
		int start[2], result[2], won = 0;
		pid_t pid[RACERS];
		char c;

		stale("cache");
		assert_int_equal(pipe(start), 0);
		assert_int_equal(pipe(result), 0);
		for (i = 0; i < RACERS; i++) {
			pid[i] = fork();
			assert_true(pid[i] >= 0);
			if (pid[i] == 0) {
				struct leat_exchange *x = leat_exchange_create(&conf);
				int ret;

				close(start[1]);
				if (x == NULL || read(start[0], &c, 1) != 0)
					_exit(1);
				ret = leat_exchange_listen(x, "cache");
				c = ret == 0 ? 'w' : ret == -EADDRINUSE ? 'l' : '?';
				if (write(result[1], &c, 1) != 1)
					_exit(1);
				for (;;)
					pause();
			}
		}
		close(start[0]);
		close(start[1]);
		for (i = 0; i < RACERS; i++) {
			assert_int_equal(read(result[0], &c, 1), 1);
			assert_int_not_equal(c, '?');
			won += c == 'w';
		}
		assert_int_equal(won, 1);
		for (i = 0; i < RACERS; i++)
			process_kill(pid[i]);
		close(result[0]);
		close(result[1]);
	}
	assert_int_equal(unlink(path_of("name-cache")), 0);
}

/* ---- users ---------------------------------------------------------------------------------- */

/*
 * Connect to b from a process of the user NOBODY. @return the status of its event; 0: connected; 2:
 * the event's text lacks `text`
 */
static int
connect_as_nobody(struct side *b, const struct leat_exchange_conf *conf, const char *text)
{
	struct leat_exchange_event *ev;
	int pipefd[2], result[1] = { 1 }, status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe2(pipefd, O_NONBLOCK | O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct leat_exchange_event event;
		struct leat_exchange *x;

		if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
			_exit(1);
		x = leat_exchange_create(conf);
		if (x == NULL || leat_exchange_connect(x, b->addr, 10000000, &none, NULL) < 0)
			_exit(1);
		while (leat_exchange_poll(x, leat_now(), &event, 1) == 0)
			sched_yield();
		if (text != NULL && strstr(event.text, text) == NULL)
			event.status = 2;
		if (write(pipefd[1], &event.status, sizeof(event.status)) < 0)
			_exit(1);
		leat_exchange_destroy(x);
		_exit(0);
	}
	close(pipefd[1]);
	for (;;) {
		side_poll(b);
		n = read(pipefd[0], result, sizeof(result));
		if (n >= 0)
			break;
		assert_int_equal(errno, EAGAIN);
		if (b->head == b->tail)
			continue;
		ev = &b->ev[b->head++ % SIDE_EVENTS];
		if (ev->type == LEAT_EXCHANGE_REQUEST)
			assert_int_equal(leat_exchange_accept(b->x, ev->conn, &none, NULL), 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(pipefd[0]);
	return result[0];
}

static void
test_other_user(void **state)
{
	struct leat_exchange_conf conf = { .kind = "ring" }, any;
	char prefix[64], dir[80];
	struct side b;

	(void)state;
	if (geteuid() != 0)
		skip();
	snprintf(prefix, sizeof(prefix), "@leat-test-%d", (int)getpid());
	conf.dir = prefix;
	any = conf;
	any.any_user = true;

	/* Listeners without any_user refuse a different user, and so do such connectors. */
	side_open(&b, &conf, "cache");
	assert_int_equal(connect_as_nobody(&b, &any, "process of uid 65534"), -EACCES);
	assert_int_equal(side_stats(&b).other_user, 1);
	side_close(&b);
	side_open(&b, &any, "cache");
	assert_int_equal(connect_as_nobody(&b, &conf, "the listener is a process of uid 0"),
			 -EACCES);
	assert_int_equal(connect_as_nobody(&b, &any, NULL), 0);
	side_until(&b, side_stats(&b).connected == 1);
	side_close(&b);

	/* The same in a directory, which other users may enter. */
	snprintf(dir, sizeof(dir), "%s/open", side_dir);
	any.dir = dir;
	assert_int_equal(chmod(side_dir, 0755), 0);
	side_open(&b, &any, "cache");
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(connect_as_nobody(&b, &any, NULL), 0);
	side_close(&b);
	conf.dir = dir;
	side_open(&b, &conf, "cache");
	assert_int_equal(connect_as_nobody(&b, &any, "Permission denied"), -EACCES);
	side_close(&b);
	assert_int_equal(chown(dir, NOBODY, NOBODY), 0);
	assert_null(leat_exchange_create(&conf));
	assert_int_equal(rte_errno, EACCES);
	assert_non_null(strstr(leat_err_msg(), "belongs to uid 65534"));
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(chmod(side_dir, 0700), 0);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_abstract),
		cmocka_unit_test(test_directory),
		cmocka_unit_test(test_locked),
		cmocka_unit_test(test_long_path),
		cmocka_unit_test(test_directory_later),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_swept),
		cmocka_unit_test(test_many_stale),
		cmocka_unit_test(test_race),
		cmocka_unit_test(test_other_user),
	};

	return cmocka_run_group_tests_name("exchange names", tests, side_over_unix, side_unix_end);
}
