/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RENDEZVOUS_TEST_H
#define RENDEZVOUS_TEST_H

/*
 * For tests of several processes that share a directory. A child runs a function, which returns 0,
 * or the line of the check that failed. No test sleeps for a fixed time: it checks its condition
 * again and again, and gives up after a minute.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <leat_cmocka.h>
#include <leat_error.h>
#include <leat_rendezvous.h>

#include "record.h"

/* Time that a failing call may take on a loaded machine, beyond its limit. */
#define PATIENCE_S 60
#define MS UINT64_C(1000)

/* A check in a child. */
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #cond,              \
				leat_err_msg());                                                   \
			return __LINE__;                                                           \
		}                                                                                  \
	} while (0)

struct test_dir {
	char path[64];
};

struct child {
	pid_t pid;
};

static inline double
seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static inline struct child
spawn(int (*fn)(void *arg), void *arg)
{
	struct child c;

	fflush(NULL);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (c.pid == 0) {
		/* A child must not outlive a test that failed. */
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(fn(arg) == 0 ? 0 : 1);
	}
	return c;
}

static inline void
await_end(struct child c)
{
	int status = 0;

	assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static inline void
kill_child(struct child c)
{
	int status = 0;

	assert_int_equal(kill(c.pid, SIGKILL), 0);
	assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
	assert_true(WIFSIGNALED(status));
}

/* ---- the directory ---- */

static inline unsigned int
count_files(const struct test_dir *d)
{
	DIR *dir = opendir(d->path);
	struct dirent *e;
	unsigned int n = 0;

	if (dir == NULL)
		return 0;
	/* cppcheck-suppress readdirCalled ; no other function has this directory open */
	while ((e = readdir(dir)) != NULL)
		n += e->d_name[0] != '.';
	closedir(dir);
	return n;
}

static inline char *
path_of(const struct test_dir *d, const char *name, char path[128])
{
	snprintf(path, 128, "%s/%s", d->path, name);
	return path;
}

static inline void
make_dir(struct test_dir *d)
{
	snprintf(d->path, sizeof(d->path), "/tmp/leat-rendezvous-XXXXXX");
	assert_non_null(mkdtemp(d->path));
}

static inline void
remove_dir(struct test_dir *d)
{
	DIR *dir = opendir(d->path);
	struct dirent *e;

	/* cppcheck-suppress readdirCalled ; no other function has this directory open */
	while (dir != NULL && (e = readdir(dir)) != NULL)
		(void)unlinkat(dirfd(dir), e->d_name, 0);
	if (dir != NULL)
		closedir(dir);
	(void)rmdir(d->path);
}

static inline void
write_file(const struct test_dir *d, const char *name, const void *data, size_t len)
{
	char path[128];
	int fd = open(path_of(d, name, path), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), (ssize_t)len);
	close(fd);
}

/*
 * Read a record from a file.
 * @return false: there is none yet
 */
static inline bool
read_record(const struct test_dir *d, const char *name, struct record *rec)
{
	static uint8_t buf[1 << 18];
	const char *why;
	char path[128];
	ssize_t len;
	int fd = open(path_of(d, name, path), O_RDONLY);

	if (fd < 0)
		return false;
	len = read(fd, buf, sizeof(buf));
	close(fd);
	return len > 0 && record_parse(buf, (size_t)len, rec, &why) == 0;
}

/* Wait until rank's file is of this session (0: any), and of this round or a later one. */
static inline void
await_rank(const struct test_dir *d, unsigned int rank, uint64_t session, uint64_t round)
{
	double until = seconds() + PATIENCE_S;
	struct record rec;
	char name[32];

	snprintf(name, sizeof(name), "leat.%u", rank);
	while (!read_record(d, name, &rec) || (session != 0 && rec.session != session) ||
	       rec.round < round) {
		assert_true(seconds() < until);
		sched_yield();
	}
}

/*
 * Wait for a session in this state whose number is not `not`.
 * @return its number
 */
static inline uint64_t
await_session(const struct test_dir *d, enum record_session state, uint64_t not )
{
	double until = seconds() + PATIENCE_S;
	struct record rec;

	while (!read_record(d, "leat.session", &rec) || rec.flags != (uint32_t)state ||
	       rec.session == not ) {
		assert_true(seconds() < until);
		sched_yield();
	}
	return rec.session;
}

static inline struct leat_rendezvous_conf
conf_of(const struct test_dir *d, uint32_t rank, uint32_t size)
{
	return (struct leat_rendezvous_conf){
		.dir = d->path,
		.rank_given = true,
		.rank = rank,
		.size = size,
		.timeout_us = PATIENCE_S * 1000 * MS,
	};
}

static inline void
assert_msg_has(const char *text)
{
	if (strstr(leat_err_msg(), text) == NULL)
		fail_msg("'%s' is not in '%s'", text, leat_err_msg());
}

#endif /* RENDEZVOUS_TEST_H */
