/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHANNEL_TEST_H
#define CHANNEL_TEST_H

/*
 * Shared by the tests of the channel: a channel in memory that children of a fork share, and frames
 * whose bytes are computed from the frame's number, so that a test recognizes a torn frame.
 *
 * Words of channel_pvt.h that the tests use: a granule is 64 bytes of the buffer; its mark is the
 * word that holds its state and owner; a lap is one round through the buffer; readers set a
 * reservation aside when they go past it because its writer is slow.
 */

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "leat_channel.h"
#include "leat_cmocka.h"

struct shared {
	void *mem;
	uint64_t bytes;
	int fd; /* -1: memory without a file */
};

static inline void
shared_make(struct shared *s, const struct leat_channel_conf *conf)
{
	s->bytes = leat_channel_bytes(conf);
	assert_true(s->bytes > 0);
	s->mem = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(s->mem != MAP_FAILED);
	s->fd = -1;
	assert_int_equal(leat_channel_format(s->mem, s->bytes, conf), 0);
}

/*
 * As shared_make(), but in a file. Each participant then holds a lock on the file while it lives.
 */
static inline void
shared_make_file(struct shared *s, const struct leat_channel_conf *conf)
{
	s->bytes = leat_channel_bytes(conf);
	assert_true(s->bytes > 0);
	s->fd = memfd_create("test", MFD_CLOEXEC);
	assert_true(s->fd >= 0);
	assert_int_equal(ftruncate(s->fd, (off_t)s->bytes), 0);
	s->mem = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	assert_true(s->mem != MAP_FAILED);
	assert_int_equal(leat_channel_format(s->mem, s->bytes, conf), 0);
}

static inline void
shared_free(struct shared *s)
{
	assert_int_equal(munmap(s->mem, s->bytes), 0);
	if (s->fd >= 0)
		close(s->fd);
}

static inline struct leat_channel *
shared_try(const struct shared *s, const struct leat_channel_opts *opts)
{
	return s->fd >= 0 ? leat_channel_attach_fd(s->fd, opts, NULL)
			  : leat_channel_attach(s->mem, s->bytes, opts, NULL);
}

/*
 * Attach a participant. Without opts it checks for dead participants only after a minute, so that
 * the test decides when they are found.
 */
static inline struct leat_channel *
shared_attach(const struct shared *s, const struct leat_channel_opts *opts)
{
	const struct leat_channel_opts patient = { .check_ms = 60000 };
	struct leat_channel *ch = shared_try(s, opts != NULL ? opts : &patient);

	if (ch == NULL)
		fail_msg("attach: %s", leat_channel_error());
	return ch;
}

/*
 * Leave a dead participant behind: a process that peeks up to n frames, reserves one more of len
 * bytes, and exits.
 */
static inline void
shared_make_dead(const struct shared *s, unsigned int n, uint32_t len)
{
	struct leat_channel_frame f[8];
	struct leat_channel *ch;
	pid_t pid;
	void *p;
	int st;

	assert_in_range(n, 1, sizeof(f) / sizeof(f[0]));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		ch = shared_try(s, NULL);
		_exit(ch != NULL && leat_channel_peek(ch, f, n) > 0 &&
				      leat_channel_reserve(ch, 9, 9, len, &p) == 0
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
}

#define FRAME_MAX 2048

/* Fill the payload of frame n: its number, then bytes that follow from it. */
static inline void
frame_fill(uint8_t *data, uint32_t len, uint32_t n)
{
	uint32_t i;

	memcpy(data, &n, sizeof(n));
	for (i = sizeof(n); i < len; i++)
		data[i] = (uint8_t)(n * 7 + i);
}

/* @return whether the payload is whole, as frame_fill() wrote it; *n gets the frame's number */
static inline bool
frame_whole(const uint8_t *data, uint32_t len, uint32_t *n)
{
	uint32_t i;

	if (len < sizeof(*n))
		return false;
	memcpy(n, data, sizeof(*n));
	for (i = sizeof(*n); i < len; i++) {
		if (data[i] != (uint8_t)(*n * 7 + i))
			return false;
	}
	return true;
}

static inline int
send_number(struct leat_channel *ch, uint32_t n, uint32_t len)
{
	uint8_t data[FRAME_MAX];

	frame_fill(data, len, n);
	return leat_channel_send(ch, n + 1, ~(uint64_t)n, data, len);
}

/*
 * Read a frame and its number. Fails the test if the frame is torn.
 * @return 0, or the negative errno of leat_channel_peek()
 */
static inline int
recv_number(struct leat_channel *ch, uint32_t *n)
{
	struct leat_channel_frame f;
	int ret = leat_channel_peek(ch, &f, 1);

	*n = 0;
	if (ret < 0)
		return ret;
	assert_int_equal(ret, 1);
	assert_true(frame_whole(f.data, f.len, n));
	assert_int_equal(f.type, *n + 1);
	assert_true(f.hash == ~(uint64_t)*n);
	assert_int_equal(leat_channel_consume(ch), 0);
	return 0;
}

static inline uint64_t
count_of(const struct leat_channel *ch, enum leat_channel_counter what)
{
	struct leat_channel_info info;

	assert_int_equal(leat_channel_inspect(ch, &info), 0);
	return info.count[what];
}

static inline uint64_t
test_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

#endif /* CHANNEL_TEST_H */
