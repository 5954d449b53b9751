/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Blocks with a few wrong values, chosen to do harm: impossible positions and marks are reported
 * with -EPROTO, and recovery looks at each mark only a few times. (test_channel_hostile.c stores
 * random values.)
 */

#include "channel_pvt.h"
#include "channel_test.h"

#define SIZE 4096

/* ---- what recovery costs ---- */

struct crafted {
	const char *name;
	uint32_t (*len)(uint32_t i, uint32_t n); /* length in the mark of granule i of n */
	enum chan_state state;			 /* state of all marks but the first */
};

static uint32_t
to_the_end(uint32_t i, uint32_t n)
{
	return n - i;
}

static uint32_t
one(uint32_t i, uint32_t n)
{
	return i == 0 ? n : 1;
}

/*
 * The first mark claims all granules. In the first half, each further mark reaches to the end of
 * that half; in the second half each is one granule long.
 */
static uint32_t
half(uint32_t i, uint32_t n)
{
	return i == 0 ? n : i < n / 2 ? n / 2 - i : 1;
}

static const struct crafted shapes[] = {
	{ "each up to the end, claimed", to_the_end, CHAN_READING },
	{ "each up to the end, committed", to_the_end, CHAN_COMMITTED },
	{ "frames of one granule", one, CHAN_COMMITTED },
	{ "nested, then single ones", half, CHAN_COMMITTED },
	{ "reserved", one, CHAN_RESERVED },
};

/*
 * Let the dead participant in this slot hold the whole buffer.
 * @return the number of granules that it holds
 */
static uint32_t
craft(struct leat_channel *ch, const struct crafted *c, uint32_t slot)
{
	uint32_t i, n = ch->granules - 1;

	for (i = 0; i < n; i++)
		ch->marks[i] = mark_make(ch, (uint64_t)i << CHAN_SHIFT, c->len(i, n), slot,
					 i == 0 ? CHAN_READING : c->state);
	atomic_store(&ch->block->write, (uint64_t)n << CHAN_SHIFT);
	atomic_store(&ch->block->read, (uint64_t)n << CHAN_SHIFT);
	return n;
}

/* @return the slot of a dead participant that holds two frames, which the test then overwrites */
static uint32_t
make_dead(const struct shared *s, struct leat_channel *ch)
{
	uint32_t i;

	assert_int_equal(send_number(ch, 0, 8), 0);
	shared_make_dead(s, 1, 8);
	for (i = 0; i < ch->participants; i++) {
		if (i != ch->slot && ch->block->slots[i].owner != 0)
			return i;
	}
	fail_msg("no slot of a dead participant");
	return 0;
}

static void
recover_crafted(uint64_t size, const struct crafted *c, bool read_all)
{
	struct leat_channel_conf conf = { .size = size, .participants = 4 };
	struct leat_channel_opts opts = { .invalid = LEAT_CHANNEL_INVALID_SKIP };
	struct leat_channel_frame f;
	struct leat_channel *ch;
	uint32_t n, slot;
	struct shared s;
	int ret;

	shared_make(&s, &conf);
	ch = shared_attach(&s, &opts);
	slot = make_dead(&s, ch);
	n = craft(ch, c, slot);
	ret = leat_channel_recover(ch);
	print_message("%s, %u granules: %d, looked at %llu marks\n", c->name, n, ret,
		      (unsigned long long)ch->looked);
	assert_true(ret == 1 || ret == -EPROTO);
	assert_true(ch->looked <= 6 * (uint64_t)n);
	if (ret == 1)
		assert_true(ch->block->slots[slot].owner == 0);
	if (read_all && ret == 1) {
		ch->looked = 0;
		/*
		 * The payload does not matter: frames are consumed unread, or skipped as invalid.
		 */
		while ((ret = leat_channel_peek(ch, &f, 1)) > 0)
			assert_int_equal(leat_channel_consume(ch), 0);
		assert_int_equal(ret, -EAGAIN);
		assert_true(ch->looked <= 6 * (uint64_t)n);
	}
	leat_channel_close(ch);
	shared_free(&s);
}

static void
recovery_looks_at_each_mark_a_few_times(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		recover_crafted(SIZE, &shapes[i], true);
		recover_crafted(UINT64_C(16) << 20, &shapes[i], true);
	}
	recover_crafted(UINT64_C(256) << 20, &shapes[0], false);
}

/*
 * Twenty dead participants hold frames in all parts of the buffer: recovery walks the buffer once
 * for all of them.
 */
static void
many_dead_are_one_walk(void **state)
{
	struct leat_channel_conf conf = { .size = 1 << 20 };
	struct leat_channel *ch;
	int st, ready[2], go[2];
	struct shared s;
	uint32_t i, n;
	pid_t pid[20];
	char c;

	(void)state;
	shared_make(&s, &conf);
	ch = shared_attach(&s, NULL);
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	/*
	 * All must be attached before one dies: a participant that attaches later would recover it.
	 */
	for (i = 0; i < 20; i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (pid[i] == 0) {
			close(go[1]);
			if (leat_channel_attach(s.mem, s.bytes, NULL, NULL) == NULL ||
			    write(ready[1], "r", 1) != 1 || read(go[0], &c, 1) != 0)
				_exit(1);
			_exit(0);
		}
		assert_int_equal(read(ready[0], &c, 1), 1);
	}
	close(go[1]);
	for (i = 0; i < 20; i++) {
		assert_int_equal(waitpid(pid[i], &st, 0), pid[i]);
		assert_int_equal(st, 0);
	}
	close(go[0]);
	close(ready[0]);
	close(ready[1]);
	n = ch->granules - 1;
	for (i = 0; i < n; i++)
		ch->marks[i] = mark_make(ch, (uint64_t)i << CHAN_SHIFT, 1, i % 21, CHAN_READING);
	atomic_store(&ch->block->write, (uint64_t)n << CHAN_SHIFT);
	atomic_store(&ch->block->read, (uint64_t)n << CHAN_SHIFT);
	ch->looked = 0;
	assert_int_equal(leat_channel_recover(ch), 20);
	assert_true(ch->looked <= 2 * (uint64_t)n);
	leat_channel_close(ch);
	shared_free(&s);
}

/*
 * A dead reader's claim covers several frames whose lengths do not add up to that of the claim:
 * recovery reports this as corrupt, and does not walk without end.
 */
static void
frames_claimed_together_must_fit(void **state)
{
	static const uint32_t lens[] = { 0, 3, 63 };
	struct leat_channel_conf conf = { .size = SIZE, .participants = 4 };
	struct leat_channel *ch;
	struct shared s;
	unsigned int i;
	uint32_t slot;

	(void)state;
	for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		shared_make(&s, &conf);
		ch = shared_attach(&s, NULL);
		slot = make_dead(&s, ch);
		ch->marks[0] = mark_make(ch, 0, 4, slot, CHAN_READING);
		ch->marks[1] = mark_make(ch, 64, 1, slot, CHAN_COMMITTED);
		ch->marks[2] = mark_make(ch, 128, lens[i], slot, CHAN_COMMITTED);
		atomic_store(&ch->block->write, 256);
		atomic_store(&ch->block->read, 256);
		assert_int_equal(leat_channel_recover(ch), -EPROTO);
		assert_int_equal(leat_channel_recover(ch), -EPROTO);
		leat_channel_close(ch);
		shared_free(&s);
	}
}

/* ---- impossible positions and marks ---- */

struct lying {
	struct shared s;
	struct leat_channel *writer, *reader;
};

/* Send 8 frames: frames 0 and 1 are read, frame 2 is given back, and the others wait to be read. */
static void
lying_make(struct lying *l, uint64_t start)
{
	struct leat_channel_conf conf = { .size = SIZE, .participants = 4, .start = start };
	struct leat_channel_opts opts = { .check_ms = 1 };
	struct leat_channel_frame f;
	uint32_t i, n;

	shared_make(&l->s, &conf);
	l->writer = shared_attach(&l->s, &opts);
	l->reader = shared_attach(&l->s, &opts);
	for (i = 0; i < 8; i++)
		assert_int_equal(send_number(l->writer, i, 100), 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(recv_number(l->reader, &n), 0);
	assert_int_equal(leat_channel_peek(l->reader, &f, 1), 1);
	assert_int_equal(leat_channel_give_back(l->reader), 0);
}

static void
lying_free(struct lying *l)
{
	leat_channel_close(l->writer);
	leat_channel_close(l->reader);
	shared_free(&l->s);
}

/*
 * Read until a call fails, which must happen within 100 turns.
 * @return the errno of that call
 */
static int
read_out(struct leat_channel *ch)
{
	struct leat_channel_frame f;
	unsigned int turn;
	int ret = 0;

	for (turn = 0; turn < 100; turn++) {
		ret = leat_channel_peek(ch, &f, 1);
		if (ret > 0) {
			assert_int_equal(leat_channel_consume(ch), 0);
			continue;
		}
		if (ret == -EAGAIN)
			ret = leat_channel_wait(ch, UINT64_C(20000000000));
		if (ret < 0)
			return ret;
	}
	fail_msg("neither a frame, nor an error, nor the end of the time");
	return 0;
}

static int
write_full(struct leat_channel *ch)
{
	unsigned int turn;
	int ret;

	for (turn = 0; turn < 100; turn++) {
		ret = send_number(ch, 1, 100);
		if (ret == -EAGAIN)
			ret = leat_channel_wait_room(ch, 100, UINT64_C(20000000000));
		if (ret < 0)
			return ret;
	}
	fail_msg("neither room, nor an error, nor the end of the time");
	return 0;
}

static const uint64_t starts[] = { 0, -(uint64_t)SIZE, -UINT64_C(256) };

static void
a_bad_free_is_said(void **state)
{
	static const int64_t off[] = { 64, 1, -64, 1 << 20, -(1 << 20), INT64_MIN, 640, 10 * 128 };
	struct lying l;
	unsigned int i, k;

	(void)state;
	for (i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		for (k = 0; k < 3; k++) {
			lying_make(&l, starts[k]);
			atomic_fetch_add(&l.writer->block->free, (uint64_t)off[i]);
			assert_int_equal(read_out(l.reader), -EPROTO);
			assert_int_equal(leat_channel_wait(l.reader, LEAT_CHANNEL_FOREVER),
					 -EPROTO);
			assert_int_equal(write_full(l.writer), -EPROTO);
			lying_free(&l);
		}
	}
}

static void
a_bad_lap_is_said(void **state)
{
	struct leat_channel_frame f;
	struct lying l;
	unsigned int bit, k;
	uint64_t p;

	(void)state;
	/*
	 * Flip one bit of the lap in one of three marks: that of the oldest frame, of the frame
	 * that was given back, and of the frame at the read position.
	 */
	for (bit = MARK_LEN_SHIFT + 6; bit < 64; bit += 5) {
		for (k = 0; k < 9; k++) {
			lying_make(&l, starts[k % 3]);
			p = k / 3 == 0	 ? l.writer->block->free
			    : k / 3 == 1 ? starts[k % 3] + 256
					 : l.writer->block->read;
			atomic_fetch_xor(chan_mark(l.writer, p), UINT64_C(1) << bit);
			assert_int_equal(read_out(l.reader), -EPROTO);
			assert_int_equal(leat_channel_peek(l.reader, &f, 1), -EPROTO);
			lying_free(&l);
		}
	}
}

/* A state that does not exist in a mark, and an impossible read position, are reported. */
static void
other_lies_are_said(void **state)
{
	struct lying l;
	unsigned int i;

	(void)state;
	for (i = CHAN_END + 1; i < 16; i++) {
		lying_make(&l, 0);
		atomic_fetch_or(chan_mark(l.writer, l.writer->block->read), i);
		assert_int_equal(read_out(l.reader), -EPROTO);
		lying_free(&l);
	}
	for (i = 0; i < 4; i++) {
		lying_make(&l, 0);
		atomic_fetch_add(&l.writer->block->read, i == 0	  ? 1
							 : i == 1 ? 64
							 : i == 2 ? SIZE
								  : -SIZE);
		assert_int_equal(read_out(l.reader), -EPROTO);
		lying_free(&l);
	}
	/* A file that was truncated and grown again reads as zeros: this is reported, too. */
	lying_make(&l, 64);
	memset(l.s.mem, 0, l.s.bytes);
	assert_int_equal(read_out(l.reader), -EPROTO);
	assert_int_equal(leat_channel_recover(l.writer), -EPROTO);
	lying_free(&l);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recovery_looks_at_each_mark_a_few_times),
		cmocka_unit_test(many_dead_are_one_walk),
		cmocka_unit_test(frames_claimed_together_must_fit),
		cmocka_unit_test(a_bad_free_is_said),
		cmocka_unit_test(a_bad_lap_is_said),
		cmocka_unit_test(other_lies_are_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
