/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * When handles check for dead participants: each at its own interval (check_ms), whatever calls it
 * makes, and earlier if a frame of a dead participant blocks it. A mock clock advances when the
 * test says, and while calls sleep.
 */

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "channel_pvt.h"
#include "channel_test.h"

#define SIZE 4096
#define LEN 240 /* 256 bytes with its header */
#define FIT 15	/* frames of LEN for which the channel has room */
#define MS UINT64_C(1000000)
#define S (1000 * MS)

static uint64_t now_ns = S;
static unsigned long clock_reads;

/* The library under test calls these functions in place of libc's. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
int
clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void)clock;
	clock_reads++;
	*ts = (struct timespec){ .tv_sec = (time_t)(now_ns / S), .tv_nsec = (long)(now_ns % S) };
	return 0;
}

int(nanosleep)(const struct timespec *ts, struct timespec *left)
{
	(void)left;
	now_ns += (uint64_t)ts->tv_sec * S + (uint64_t)ts->tv_nsec;
	return 0;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/*
 * Participants that are going to die. Each peeks `take` frames, and reserves one of `reserve`
 * bytes; all are attached before the first dies.
 */
struct victim {
	unsigned int take;
	uint32_t reserve;
	pid_t pid;
};

static void
victim_start(const struct shared *s, struct victim *v)
{
	struct leat_channel_frame f[CHAN_BURST];
	struct leat_channel *ch;
	int ready[2];
	void *p;
	char c;

	assert_int_equal(pipe(ready), 0);
	v->pid = fork();
	assert_true(v->pid >= 0);
	if (v->pid == 0) {
		ch = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 ? shared_try(s, NULL) : NULL;
		if (ch == NULL ||
		    (v->take > 0 && leat_channel_peek(ch, f, v->take) != (int)v->take) ||
		    (v->reserve > 0 && leat_channel_reserve(ch, 7, 7, v->reserve, &p) != 0) ||
		    write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
}

static void
victim_end(struct victim *v)
{
	int st;

	assert_int_equal(kill(v->pid, SIGKILL), 0);
	assert_int_equal(waitpid(v->pid, &st, 0), v->pid);
	assert_true(WIFSIGNALED(st));
}

struct pair {
	struct shared s;
	struct leat_channel *writer, *reader;
};

static void
pair_make(struct pair *p, uint64_t start, const struct leat_channel_opts *opts)
{
	const struct leat_channel_conf conf = { .size = SIZE, .start = start };

	shared_make_file(&p->s, &conf);
	p->writer = shared_attach(&p->s, opts);
	p->reader = shared_attach(&p->s, opts);
}

static void
pair_free(struct pair *p)
{
	leat_channel_close(p->writer);
	leat_channel_close(p->reader);
	shared_free(&p->s);
}

/* ---- checks at intervals ---- */

/*
 * A reader has died while it held frame 0. Frames arrive every gap_ns, and each call of the living
 * reader finds one. A reader that was busy before may read the clock only after 8 more calls.
 * @return the time from the death until the living reader gets frame 0, ns
 */
static uint64_t
time_until_it_comes(uint64_t gap_ns, bool waits)
{
	const struct leat_channel_opts opts = { .check_ms = 10 };
	struct victim v = { .take = 1 };
	uint64_t died;
	struct pair p;
	uint32_t n, i;

	pair_make(&p, 0, &opts);
	assert_int_equal(send_number(p.writer, 0, 8), 0);
	victim_start(&p.s, &v);
	/*
	 * Keep the reader busy before the death. As long as frame 0 is held there is room for 62
	 * frames.
	 */
	for (i = 1; i < 10; i++) {
		assert_int_equal(send_number(p.writer, i, 8), 0);
		assert_int_equal(recv_number(p.reader, &n), 0);
	}
	victim_end(&v);
	died = now_ns;
	for (; i < 60; i++) {
		now_ns += gap_ns;
		assert_int_equal(send_number(p.writer, i, 8), 0);
		if (waits)
			assert_int_equal(leat_channel_wait(p.reader, S), 0);
		assert_int_equal(recv_number(p.reader, &n), 0);
		if (n == 0)
			break;
	}
	assert_int_equal(n, 0);
	pair_free(&p);
	return now_ns - died;
}

static void
a_busy_reader_finds_it_in_time(void **state)
{
	static const uint64_t gaps[] = { MS, 2 * MS, 3 * MS, 5 * MS, 9 * MS };
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(gaps) / sizeof(gaps[0]); i++) {
		assert_in_range(time_until_it_comes(gaps[i], false), 0, 10 * MS + 9 * gaps[i]);
		assert_in_range(time_until_it_comes(gaps[i], true), 0, 10 * MS + 9 * gaps[i]);
	}
}

/*
 * Waits shorter than check_ms add up: on an idle channel they, too, find the dead reader in time.
 */
static void
short_waits_add_up(void **state)
{
	static const uint64_t waits[] = { MS / 1000, MS / 10, MS, 5 * MS, 9 * MS };
	const struct leat_channel_opts opts = { .check_ms = 10, .wait = LEAT_CHANNEL_WAIT_SLEEP };
	struct victim v = { .take = 1 };
	uint64_t died;
	unsigned int i, k;
	struct pair p;
	uint32_t n;
	int ret;

	(void)state;
	for (i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		pair_make(&p, 0, &opts);
		assert_int_equal(send_number(p.writer, 3, 8), 0);
		victim_start(&p.s, &v);
		victim_end(&v);
		died = now_ns;
		for (k = 0, ret = -ETIMEDOUT; k < 100000 && ret == -ETIMEDOUT; k++) {
			ret = leat_channel_wait(p.reader, waits[i]);
			/*
			 * In every third round time also passes between calls, and one call does
			 * not wait.
			 */
			if (k % 3 == 0 && ret == -ETIMEDOUT) {
				now_ns += waits[i];
				ret = leat_channel_wait(p.reader, 0);
			}
		}
		assert_int_equal(ret, 0);
		assert_in_range(now_ns - died, 0, 11 * MS + 2 * waits[i]);
		assert_int_equal(recv_number(p.reader, &n), 0);
		assert_int_equal(n, 3);
		pair_free(&p);
	}
}

/* A writer that always has room, and never waits, recovers what a dead reader left. */
static void
a_busy_writer_finds_it_in_time(void **state)
{
	const struct leat_channel_opts opts = { .check_ms = 10 };
	struct leat_channel_frame f;
	struct victim v = { .take = 1 };
	struct pair p;
	uint64_t died;
	uint32_t i;
	bool burst;

	(void)state;
	for (burst = false;; burst = true) {
		pair_make(&p, 0, &opts);
		assert_int_equal(send_number(p.writer, 0, 8), 0);
		victim_start(&p.s, &v);
		victim_end(&v);
		died = now_ns;
		f = (struct leat_channel_frame){ .data = &died, .len = sizeof(died), .type = 1 };
		for (i = 0; i < 20 && count_of(p.writer, LEAT_CHANNEL_RETURNED) == 0; i++) {
			now_ns += MS;
			if (burst) {
				struct leat_channel_frame two[2] = { f, f };

				assert_int_equal(leat_channel_send_burst(p.writer, two, 2), 2);
			} else {
				assert_int_equal(leat_channel_send(p.writer, 1, 0, &i, sizeof(i)),
						 0);
			}
		}
		assert_int_equal(count_of(p.writer, LEAT_CHANNEL_RETURNED), 1);
		assert_in_range(now_ns - died, 0, 14 * MS);
		pair_free(&p);
		if (burst)
			break;
	}
}

/* A caller that polls without a pause looks at the clock in every 32nd call. */
static void
the_clock_is_read_seldom(void **state)
{
	const struct leat_channel_opts opts = { .check_ms = 10 };
	unsigned int i;
	struct pair p;
	uint32_t n;

	(void)state;
	pair_make(&p, 0, &opts);
	clock_reads = 0;
	for (i = 0; i < 64000; i++) {
		now_ns += 50;
		assert_int_equal(recv_number(p.reader, &n), -EAGAIN);
	}
	assert_in_range(clock_reads, 2000, 2100);
	pair_free(&p);
}

/*
 * A participant that attaches recovers dead participants at once, without a wait or a call of
 * leat_channel_recover().
 */
static void
attach_recovers(void **state)
{
	const struct leat_channel_opts opts = { .check_ms = 60000 };
	struct victim v = { .take = 2, .reserve = 100 };
	struct leat_channel *ch;
	struct pair p;
	uint32_t n;

	(void)state;
	pair_make(&p, 0, &opts);
	for (n = 0; n < 3; n++)
		assert_int_equal(send_number(p.writer, n, LEN), 0);
	victim_start(&p.s, &v);
	victim_end(&v);
	ch = shared_attach(&p.s, &opts);
	assert_int_equal(count_of(ch, LEAT_CHANNEL_RETURNED), 2);
	assert_int_equal(count_of(ch, LEAT_CHANNEL_ABORTED), 1);
	assert_int_equal(recv_number(ch, &n), 0);
	assert_int_equal(n, 0);
	leat_channel_close(ch);
	pair_free(&p);
}

/* ---- checks because a frame blocks the handle ---- */

/*
 * The ring is full. Its four oldest frames are held by a dead reader; the last frame, at the read
 * position, is reserved by a dead writer. The living participant peeks (p) and sends (s) by one
 * handle, in the order of the pattern. Time stands still, yet both dead participants must be
 * recovered.
 */
static void
two_deaths(const char *pattern, uint64_t start, bool reader_first)
{
	struct leat_channel_opts opts = { .check_ms = 60000 };
	struct victim reader = { .take = 4 }, writer = { .reserve = LEN };
	const char *next = pattern;
	unsigned int turn;
	struct pair p;
	uint32_t n, got = 0;

	pair_make(&p, start, &opts);
	for (n = 0; n < FIT - 1; n++)
		assert_int_equal(send_number(p.writer, n, LEN), 0);
	victim_start(&p.s, &reader);
	for (n = 4; n < FIT - 1; n++) {
		uint32_t one;

		assert_int_equal(recv_number(p.reader, &one), 0);
	}
	victim_start(&p.s, &writer);
	victim_end(reader_first ? &reader : &writer);
	victim_end(reader_first ? &writer : &reader);
	assert_int_equal(send_number(p.reader, 50, LEN), -EAGAIN);
	for (turn = 0; turn < 2000; turn++) {
		if (*next == '\0')
			next = pattern;
		if (*next++ == 's')
			(void)send_number(p.reader, 60, LEN);
		else if (recv_number(p.reader, &n) == 0)
			got++;
		if (got >= 4 && count_of(p.reader, LEAT_CHANNEL_ABORTED) == 1)
			break;
	}
	assert_int_equal(count_of(p.reader, LEAT_CHANNEL_ABORTED), 1);
	assert_int_equal(count_of(p.reader, LEAT_CHANNEL_RETURNED), 4);
	assert_in_range(turn, 1, 1999);
	pair_free(&p);
}

static void
each_cause_counts_for_itself(void **state)
{
	static const char *const patterns[] = { "ps", "sp", "pps", "psss", "ppsspspssp" };
	static const uint64_t starts[] = { 0, 1024, (uint64_t)0 - 2048, (uint64_t)0 - SIZE };
	unsigned int i, k;

	(void)state;
	for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		for (k = 0; k < sizeof(starts) / sizeof(starts[0]); k++)
			two_deaths(patterns[i], starts[k], (i + k) % 2 != 0);
	}
}

/* ---- the end of the channel ---- */

static void
end_with_held(enum leat_channel_on_death on_death, unsigned int frames, bool gives_back)
{
	const struct leat_channel_conf conf = { .size = SIZE, .on_death = on_death };
	const struct leat_channel_opts opts = { .check_ms = 10, .wait = LEAT_CHANNEL_WAIT_SLEEP };
	struct leat_channel_frame f[CHAN_BURST];
	struct leat_channel *holder, *ch;
	struct shared s;
	uint32_t n;

	shared_make_file(&s, &conf);
	ch = shared_attach(&s, &opts);
	holder = shared_attach(&s, &opts);
	for (n = 0; n < frames; n++)
		assert_int_equal(send_number(ch, n, 8), 0);
	assert_int_equal(leat_channel_peek(holder, f, frames), (int)frames);
	assert_int_equal(leat_channel_terminate(ch), 0);
	/* While another participant holds frames, no call reports the end. */
	assert_int_equal(recv_number(ch, &n), -EAGAIN);
	assert_int_equal(leat_channel_wait(ch, 0), -ETIMEDOUT);
	assert_int_equal(leat_channel_wait(ch, 50 * MS), -ETIMEDOUT);
	for (n = 0; n < 10000; n++)
		assert_int_equal(leat_channel_peek(ch, f, 1), -EAGAIN);
	/* The holder of the last frame gets -ESHUTDOWN: it does not wait for itself. */
	assert_int_equal(leat_channel_wait(holder, S), -ESHUTDOWN);
	if (gives_back) {
		assert_int_equal(leat_channel_give_back(holder), 0);
		for (n = 0; n < frames; n++)
			assert_int_equal(leat_channel_recv(ch, f, sizeof(f), NULL, NULL), 8);
	} else {
		assert_int_equal(leat_channel_consume(holder), 0);
	}
	assert_int_equal(recv_number(ch, &n), -ESHUTDOWN);
	assert_int_equal(leat_channel_wait(ch, S), -ESHUTDOWN);
	assert_int_equal(recv_number(holder, &n), -ESHUTDOWN);
	leat_channel_close(holder);
	leat_channel_close(ch);
	shared_free(&s);
}

static void
all_is_read_when_it_is(void **state)
{
	static const unsigned int frames[] = { 1, 2, 15 };
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		end_with_held(LEAT_CHANNEL_REDELIVER, frames[i], false);
		end_with_held(LEAT_CHANNEL_REDELIVER, frames[i], true);
		end_with_held(LEAT_CHANNEL_DROP, frames[i], false);
	}
}

/*
 * After the END, participants die that hold frames. The reader, which waits for these frames, gets
 * them, and after the last one -ESHUTDOWN.
 */
static void
its_frames_are_read_at_the_end(void **state)
{
	const struct leat_channel_opts opts = { .check_ms = 10, .wait = LEAT_CHANNEL_WAIT_SLEEP };
	/* Frames 0 and 1 end at the buffer's end, which the frames of one call never cross. */
	struct victim v[3] = { { .take = 2 }, { .take = 3 }, { .take = 1 } };
	unsigned int i, got = 0;
	struct pair p;
	uint32_t n;
	int ret;

	(void)state;
	pair_make(&p, (uint64_t)0 - 512, &opts);
	for (n = 0; n < 6; n++)
		assert_int_equal(send_number(p.writer, n, LEN), 0);
	for (i = 0; i < 3; i++)
		victim_start(&p.s, &v[i]);
	assert_int_equal(leat_channel_terminate(p.writer), 0);
	assert_int_equal(recv_number(p.reader, &n), -EAGAIN);
	for (i = 0; i < 3; i++) {
		victim_end(&v[i]);
		/* wait returns 0 when there may be a frame: recv_number() may find none. */
		while ((ret = leat_channel_wait(p.reader, 30 * MS)) == 0)
			got += recv_number(p.reader, &n) == 0;
		assert_int_equal(ret, i < 2 ? -ETIMEDOUT : -ESHUTDOWN);
		assert_int_equal(got, i == 0 ? 2 : i == 1 ? 5 : 6);
	}
	pair_free(&p);
}

/*
 * No participant looks for the dead at intervals here. The reader that consumes or gives back the
 * last frames wakes the others, whether they wait in a call or in an event loop.
 */
static void
last_frames_wake_the_others(void **state)
{
	const struct leat_channel_conf conf = { .size = SIZE,
						.participants = 4,
						.notify = LEAT_CHANNEL_NOTIFY_EVENTFD };
	const struct leat_channel_opts opts = { .check_ms = 60000 };
	struct leat_channel *holder, *loop, *caller;
	struct leat_channel_frame f[2];
	unsigned int way;
	uint64_t n, bit;
	pid_t pid;
	int st;

	(void)state;
	for (way = 0; way < 2; way++) {
		holder = leat_channel_memfd(&conf, &opts);
		assert_non_null(holder);
		loop = leat_channel_join(holder, &opts);
		assert_non_null(loop);
		assert_int_equal(send_number(holder, 1, 8), 0);
		assert_int_equal(send_number(holder, 2, 8), 0);
		assert_int_equal(leat_channel_peek(holder, f, 2), 2);
		/* The loop was armed before the end, and is armed again after it. */
		assert_int_equal(leat_channel_arm(loop, LEAT_CHANNEL_ARM_FRAMES, 0), 0);
		assert_int_equal(leat_channel_terminate(holder), 0);
		assert_int_equal(read(leat_channel_fd(loop), &n, sizeof(n)), sizeof(n));
		assert_int_equal(leat_channel_arm(loop, LEAT_CHANNEL_ARM_FRAMES, 0), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			caller = leat_channel_join(holder, &opts);
			if (caller == NULL)
				_exit(2);
			if (leat_channel_wait(caller, LEAT_CHANNEL_FOREVER) !=
			    (way == 0 ? -ESHUTDOWN : 0))
				_exit(1);
			_exit(0);
		}
		bit = ~(UINT64_C(1) << loop->slot | UINT64_C(1) << holder->slot);
		while ((atomic_load(&loop->block->room.sleepers) & bit) == 0) {
			/* The child can't have ended yet, unless its join has failed. */
			assert_int_equal(waitpid(pid, &st, WNOHANG), 0);
			sched_yield();
		}
		if (way == 0)
			assert_int_equal(leat_channel_consume(holder), 0);
		else
			assert_int_equal(leat_channel_give_back(holder), 0);
		assert_int_equal(read(leat_channel_fd(loop), &n, sizeof(n)), sizeof(n));
		assert_int_equal(waitpid(pid, &st, 0), pid);
		assert_int_equal(st, 0);
		assert_int_equal(leat_channel_arm(loop, LEAT_CHANNEL_ARM_FRAMES, 0),
				 way == 0 ? -ESHUTDOWN : LEAT_CHANNEL_ARM_FRAMES);
		leat_channel_close(loop);
		leat_channel_close(holder);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_busy_reader_finds_it_in_time),
		cmocka_unit_test(short_waits_add_up),
		cmocka_unit_test(a_busy_writer_finds_it_in_time),
		cmocka_unit_test(the_clock_is_read_seldom),
		cmocka_unit_test(attach_recovers),
		cmocka_unit_test(each_cause_counts_for_itself),
		cmocka_unit_test(all_is_read_when_it_is),
		cmocka_unit_test(its_frames_are_read_at_the_end),
		cmocka_unit_test(last_frames_wake_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
