/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Frames whose writer stands still between reserving and committing: readers set them aside (go
 * past them), and lose none.
 */

#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "channel_pvt.h"
#include "channel_test.h"

#define SMALL 4096
#define LEN 100
#define PATIENCE (8 * CHAN_LOOKS) /* this many polls set aside several reservations in a row */

struct trio {
	struct shared s;
	struct leat_channel *slow, *writer, *reader;
};

static void
trio_make(struct trio *t)
{
	const struct leat_channel_conf conf = { .size = SMALL };

	shared_make(&t->s, &conf);
	t->slow = shared_attach(&t->s, NULL);
	t->writer = shared_attach(&t->s, NULL);
	t->reader = shared_attach(&t->s, NULL);
}

/* Check that all frames are read and all granules are free again, and close the channel. */
static void
trio_free(struct trio *t)
{
	struct leat_channel_info info;
	uint32_t i, n;

	for (i = 0; i < SMALL / 64; i++) {
		assert_int_equal(send_number(t->writer, i, LEN), 0);
		assert_int_equal(recv_number(t->reader, &n), 0);
		assert_int_equal(n, i);
	}
	assert_int_equal(leat_channel_inspect(t->reader, &info), 0);
	assert_int_equal(info.reserved + info.committed + info.reading + info.returned, 0);
	leat_channel_close(t->slow);
	leat_channel_close(t->writer);
	leat_channel_close(t->reader);
	shared_free(&t->s);
}

static void
reserve_number(struct leat_channel *ch, uint32_t n)
{
	void *p;

	assert_int_equal(leat_channel_reserve(ch, n + 1, ~(uint64_t)n, LEN, &p), 0);
	frame_fill(p, LEN, n);
}

/* As recv_number(), but poll up to PATIENCE times. */
static int
recv_polling(struct leat_channel *ch, uint32_t *n)
{
	unsigned int i;
	int ret = -EAGAIN;

	for (i = 0; i < PATIENCE && ret == -EAGAIN; i++)
		ret = recv_number(ch, n);
	return ret;
}

static void
expect(struct leat_channel *ch, uint32_t number)
{
	uint32_t n;

	assert_int_equal(recv_polling(ch, &n), 0);
	assert_int_equal(n, number);
}

static void
expect_none(struct leat_channel *ch)
{
	uint32_t n;

	assert_int_equal(recv_polling(ch, &n), -EAGAIN);
}

static void
a_slow_writer_holds_up_no_reader(void **state)
{
	struct leat_channel_info info;
	struct trio t;
	uint32_t n;

	(void)state;
	trio_make(&t);
	reserve_number(t.slow, 0);
	/* A reservation with no frame after it is not set aside, however often a reader looks. */
	for (n = 0; n < 20; n++)
		expect_none(t.reader);
	assert_true(t.reader->block->read == 0);
	for (n = 1; n < 8; n++)
		assert_int_equal(send_number(t.writer, n, LEN), 0);
	for (n = 1; n < 8; n++)
		expect(t.reader, n);
	expect_none(t.reader);
	assert_int_equal(leat_channel_inspect(t.reader, &info), 0);
	assert_int_equal(info.reserved, 1);
	assert_int_equal(leat_channel_commit(t.slow), 0);
	expect(t.reader, 0);
	expect_none(t.reader);
	trio_free(&t);
}

/* Several reservations in a row; the one in the middle is committed first. */
static void
several_slow_writers(void **state)
{
	enum { SLOW = 5 };
	struct leat_channel *slow[SLOW];
	struct trio t;
	uint32_t n;

	(void)state;
	trio_make(&t);
	for (n = 0; n < SLOW; n++) {
		slow[n] = shared_attach(&t.s, NULL);
		reserve_number(slow[n], n);
	}
	assert_int_equal(send_number(t.writer, SLOW, LEN), 0);
	expect(t.reader, SLOW);
	assert_int_equal(leat_channel_commit(slow[2]), 0);
	expect(t.reader, 2);
	assert_int_equal(leat_channel_commit(slow[4]), 0);
	assert_int_equal(leat_channel_commit(slow[0]), 0);
	assert_int_equal(leat_channel_commit(slow[1]), 0);
	expect(t.reader, 0);
	expect(t.reader, 1);
	expect(t.reader, 4);
	expect_none(t.reader);
	assert_int_equal(leat_channel_commit(slow[3]), 0);
	expect(t.reader, 3);
	for (n = 0; n < SLOW; n++)
		leat_channel_close(slow[n]);
	trio_free(&t);
}

/*
 * A waiting reader sets the reservation aside before it sleeps: it was woken for the frame after
 * the reservation, and no other wake-up will come.
 */
static void
a_waiting_reader_goes_past_it(void **state)
{
	static const enum leat_channel_wait_how hows[] = {
		LEAT_CHANNEL_WAIT_NOTIFY, LEAT_CHANNEL_WAIT_SPIN, LEAT_CHANNEL_WAIT_PAUSE,
		LEAT_CHANNEL_WAIT_YIELD, LEAT_CHANNEL_WAIT_SLEEP
	};
	struct leat_channel_opts opts = { .check_ms = 60000 };
	struct leat_channel *reader;
	struct trio t;
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(hows) / sizeof(hows[0]); i++) {
		trio_make(&t);
		opts.wait = hows[i];
		reader = shared_attach(&t.s, &opts);
		reserve_number(t.slow, 0);
		assert_int_equal(send_number(t.writer, 1, LEN), 0);
		assert_int_equal(leat_channel_wait(reader, UINT64_C(30000000000)), 0);
		expect(reader, 1);
		assert_int_equal(leat_channel_commit(t.slow), 0);
		assert_int_equal(leat_channel_wait(reader, UINT64_C(30000000000)), 0);
		expect(reader, 0);
		leat_channel_close(reader);
		trio_free(&t);
	}
}

/*
 * Frame A (10) is set aside, then committed, then its writer sends frame B (11): every reader gets
 * A before B, also in bursts.
 */
static void
one_writers_order_holds(void **state)
{
	struct leat_channel_frame f[3];
	struct leat_channel *second;
	struct trio t;
	uint32_t n;

	(void)state;
	trio_make(&t);
	second = shared_attach(&t.s, NULL);
	reserve_number(t.slow, 10);
	assert_int_equal(send_number(t.writer, 1, LEN), 0);
	expect(second, 1);
	assert_int_equal(send_number(t.writer, 2, LEN), 0);
	assert_int_equal(leat_channel_commit(t.slow), 0);
	assert_int_equal(send_number(t.slow, 11, LEN), 0);
	/* t.reader did not set A aside: in its bursts A comes before B, too. */
	assert_int_equal(leat_channel_peek(t.reader, f, 3), 1);
	assert_true(frame_whole(f[0].data, f[0].len, &n));
	assert_int_equal(n, 10);
	assert_int_equal(leat_channel_consume(t.reader), 0);
	assert_int_equal(leat_channel_peek(t.reader, f, 3), 2);
	assert_true(frame_whole(f[1].data, f[1].len, &n));
	assert_int_equal(n, 11);
	assert_int_equal(leat_channel_consume(t.reader), 0);
	leat_channel_close(second);
	trio_free(&t);
}

/*
 * A frame that was reserved before the END is delivered, or aborted, before any call reports the
 * end.
 */
static void
the_end_waits_for_it(void **state)
{
	struct leat_channel *late;
	bool commit = true;
	struct trio t;
	uint32_t n;

	(void)state;
	do {
		trio_make(&t);
		late = shared_attach(&t.s, NULL);
		reserve_number(t.slow, 0);
		reserve_number(late, 1);
		assert_int_equal(send_number(t.writer, 2, LEN), 0);
		assert_int_equal(leat_channel_terminate(t.writer), 0);
		expect(t.reader, 2);
		expect_none(t.reader);
		assert_int_equal(leat_channel_wait(t.reader, 1000000), -ETIMEDOUT);
		assert_int_equal(commit ? leat_channel_commit(late) : leat_channel_abort(late), 0);
		if (commit)
			expect(t.reader, 1);
		expect_none(t.reader);
		assert_int_equal(leat_channel_wait(t.reader, 1000000), -ETIMEDOUT);
		assert_int_equal(commit ? leat_channel_commit(t.slow) : leat_channel_abort(t.slow),
				 0);
		if (commit) {
			assert_int_equal(leat_channel_wait(t.reader, LEAT_CHANNEL_FOREVER), 0);
			expect(t.reader, 0);
		}
		assert_int_equal(recv_polling(t.reader, &n), -ESHUTDOWN);
		assert_int_equal(leat_channel_wait(t.reader, LEAT_CHANNEL_FOREVER), -ESHUTDOWN);
		leat_channel_close(late);
		leat_channel_close(t.slow);
		leat_channel_close(t.writer);
		leat_channel_close(t.reader);
		shared_free(&t.s);
		commit = !commit;
	} while (!commit);
}

/*
 * A participant sleeps until the channel ends, or until there is room, and a reservation that was
 * set aside prevents both: the writer's abort wakes the participant.
 */
static void
its_end_wakes_sleepers(void **state)
{
	struct leat_channel_opts opts = { .check_ms = 60000 };
	unsigned int i;
	struct trio t;
	pid_t pid;
	int st;

	(void)state;
	for (i = 0; i < 2; i++) {
		trio_make(&t);
		reserve_number(t.slow, 0);
		assert_int_equal(send_number(t.writer, 1, LEN), 0);
		expect(t.reader, 1);
		while (i == 1 && send_number(t.writer, 2, LEN) == 0)
			;
		if (i == 0)
			assert_int_equal(leat_channel_terminate(t.writer), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct leat_channel *ch =
				leat_channel_attach(t.s.mem, t.s.bytes, &opts, NULL);
			uint64_t before = test_now_ns();
			int ret = ch == NULL ? 1
				  : i == 0   ? leat_channel_wait(ch, LEAT_CHANNEL_FOREVER)
					   : leat_channel_wait_room(ch, LEN, LEAT_CHANNEL_FOREVER);

			_exit(ret == (i == 0 ? -ESHUTDOWN : 0) &&
					      test_now_ns() - before < UINT64_C(30000000000)
				      ? 0
				      : 1);
		}
		while (atomic_load(i == 0 ? &t.reader->block->data.sleepers
					  : &t.reader->block->room.sleepers) == 0)
			sched_yield();
		assert_int_equal(leat_channel_abort(t.slow), 0);
		assert_int_equal(waitpid(pid, &st, 0), pid);
		assert_int_equal(st, 0);
		leat_channel_close(t.slow);
		leat_channel_close(t.writer);
		leat_channel_close(t.reader);
		shared_free(&t.s);
	}
}

/*
 * A reservation that was set aside does not hold up readers, but it keeps its room until its writer
 * aborts it, or commits it and the frame is read or overwritten.
 */
static void
room_and_aborts(void **state)
{
	struct trio t;
	uint32_t n;

	(void)state;
	trio_make(&t);
	reserve_number(t.slow, 0);
	/*
	 * The reservation keeps its room until it is aborted. Other writers can fill the room that
	 * is left.
	 */
	for (n = 1; send_number(t.writer, n, LEN) == 0; n++)
		expect(t.reader, n);
	assert_int_equal(send_number(t.writer, n, LEN), -EAGAIN);
	assert_int_equal(leat_channel_abort(t.slow), 0);
	assert_int_equal(send_number(t.writer, n, LEN), 0);
	expect(t.reader, n);
	expect_none(t.reader);
	/*
	 * The reservation is the oldest, so overwriting committed frames would make no room: a
	 * writer with DROP_OLDEST overwrites none.
	 */
	{
		const struct leat_channel_opts opts = { .full = LEAT_CHANNEL_FULL_DROP_OLDEST };
		struct leat_channel *drop = shared_attach(&t.s, &opts);

		reserve_number(t.slow, 0);
		assert_int_equal(send_number(drop, 1, LEN), 0);
		expect(t.reader, 1);
		for (n = 2; send_number(drop, n, LEN) == 0; n++)
			;
		assert_int_equal(count_of(drop, LEAT_CHANNEL_OVERWRITTEN), 0);
		assert_int_equal(leat_channel_commit(t.slow), 0);
		/* The frame that t.slow committed is the oldest now, and is overwritten. */
		assert_int_equal(send_number(drop, n, LEN), 0);
		assert_int_equal(count_of(drop, LEAT_CHANNEL_OVERWRITTEN), 1);
		while (n-- > 2) {
			uint32_t got;

			assert_int_equal(recv_polling(t.reader, &got), 0);
			assert_int_not_equal(got, 0);
		}
		expect(t.reader, 2 + SMALL / 128 - 3);
		leat_channel_close(drop);
	}
	trio_free(&t);
}

static void
its_writer_dies(void **state)
{
	struct trio t;
	uint32_t n;
	pid_t pid;
	int st;

	(void)state;
	trio_make(&t);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct leat_channel *ch = leat_channel_attach(t.s.mem, t.s.bytes, NULL, NULL);
		void *p;

		_exit(ch != NULL && leat_channel_reserve(ch, 1, 1, LEN, &p) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_int_equal(send_number(t.writer, 1, LEN), 0);
	/*
	 * The reservation is set aside at once, before any participant has checked whether its
	 * writer is alive.
	 */
	assert_int_equal(chan_ready(t.reader, true), 1);
	assert_int_equal(mark_state(*chan_mark(t.reader, 0)), CHAN_ASIDE);
	expect(t.reader, 1);
	/* A writer that has no room finds that the reservation's writer is dead. */
	for (n = 2; n < SMALL / 64; n++) {
		unsigned int i;

		for (i = 0; i < PATIENCE && send_number(t.writer, n, LEN) != 0; i++)
			;
		expect(t.reader, n);
	}
	assert_int_equal(count_of(t.reader, LEAT_CHANNEL_ABORTED), 1);
	trio_free(&t);
}

/*
 * The mark of the reservation was overwritten: its writer gets an error, and the frame is not
 * published.
 */
static void
a_mark_that_lies(void **state)
{
	struct trio t;

	(void)state;
	trio_make(&t);
	reserve_number(t.slow, 0);
	*chan_mark(t.slow, 0) ^= UINT64_C(1) << MARK_OWNER_SHIFT;
	assert_int_equal(leat_channel_commit(t.slow), -EPROTO);
	assert_int_equal(send_number(t.slow, 1, LEN), -EPROTO);
	leat_channel_close(t.slow);
	leat_channel_close(t.writer);
	leat_channel_close(t.reader);
	shared_free(&t.s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_writer_holds_up_no_reader),
		cmocka_unit_test(several_slow_writers),
		cmocka_unit_test(a_waiting_reader_goes_past_it),
		cmocka_unit_test(one_writers_order_holds),
		cmocka_unit_test(the_end_waits_for_it),
		cmocka_unit_test(its_end_wakes_sleepers),
		cmocka_unit_test(room_and_aborts),
		cmocka_unit_test(its_writer_dies),
		cmocka_unit_test(a_mark_that_lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
