/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What calls report of frames: whether a frame was delivered before, how large it is, and how many
 * frames of a burst were sent.
 */

#include "channel_pvt.h"
#include "channel_test.h"

#define SIZE 4096

/*
 * Positions at which a channel begins (leat_channel_conf.start). In a channel that begins at one of
 * the first IN_A_LAP positions, a reader gets a whole burst at once. In a channel that begins at
 * the last position, 64 bytes before the buffer's end, a burst crosses the end, and is delivered in
 * two parts.
 */
static const uint64_t starts[] = { 0, -(uint64_t)SIZE, -UINT64_C(64) };
#define STARTS (sizeof(starts) / sizeof(starts[0]))
#define IN_A_LAP (STARTS - 1)

static struct leat_channel *
make(struct shared *s, unsigned int i, enum leat_channel_full full)
{
	struct leat_channel_conf conf = { .size = SIZE, .start = starts[i], .participants = 3 };
	struct leat_channel_opts opts = { .full = full };

	shared_make(s, &conf);
	return shared_attach(s, &opts);
}

static void
unmake(struct shared *s, struct leat_channel *ch)
{
	leat_channel_close(ch);
	shared_free(s);
}

/*
 * A reader dies while it holds three frames: these are delivered again with f.redelivered set, the
 * other frames with 0.
 */
static void
a_frame_of_a_dead_reader_is_marked(void **state)
{
	struct leat_channel_frame f[8];
	struct leat_channel *ch;
	unsigned int i, seen;
	struct shared s;
	uint32_t n, k;
	int ret;

	(void)state;
	for (i = 0; i < IN_A_LAP; i++) {
		ch = make(&s, i, LEAT_CHANNEL_FULL_FAIL);
		for (n = 0; n < 5; n++)
			assert_int_equal(send_number(ch, n, 8), 0);
		shared_make_dead(&s, 3, 8);
		assert_int_equal(leat_channel_recover(ch), 1);
		for (seen = 0; (ret = leat_channel_peek(ch, f, 8)) > 0;) {
			for (k = 0; k < (uint32_t)ret; k++, seen++) {
				assert_true(frame_whole(f[k].data, f[k].len, &n));
				assert_int_equal(f[k].redelivered, n < 3);
			}
			assert_int_equal(leat_channel_consume(ch), 0);
		}
		assert_int_equal(seen, 5);
		unmake(&s, ch);
	}
}

/*
 * f.redelivered counts how often the frame was given back. A frame that was set aside and committed
 * late counts as new.
 */
static void
redelivered_counts_deliveries(void **state)
{
	struct leat_channel *ch, *writer;
	struct leat_channel_frame f;
	uint8_t data[8];
	struct shared s;
	uint32_t k;
	void *p;

	(void)state;
	ch = make(&s, 0, LEAT_CHANNEL_FULL_FAIL);
	assert_int_equal(send_number(ch, 7, 8), 0);
	for (k = 0; k < LEAT_CHANNEL_DELIVERIES - 1; k++) {
		assert_int_equal(leat_channel_peek(ch, &f, 1), 1);
		assert_int_equal(f.redelivered, k);
		assert_int_equal(leat_channel_give_back(ch), 0);
	}
	assert_int_equal(leat_channel_recv_frame(ch, data, sizeof(data), &f), 8);
	assert_int_equal(f.redelivered, LEAT_CHANNEL_DELIVERIES - 1);
	assert_ptr_equal(f.data, data);
	assert_int_equal(f.type, 8);

	writer = shared_attach(&s, NULL);
	assert_int_equal(leat_channel_reserve(writer, 1, 1, 8, &p), 0);
	assert_int_equal(send_number(ch, 1, 8), 0);
	while (leat_channel_peek(ch, &f, 1) == -EAGAIN)
		;
	assert_int_equal(f.redelivered, 0);
	assert_int_equal(leat_channel_consume(ch), 0);
	assert_int_equal(leat_channel_commit(writer), 0);
	assert_int_equal(leat_channel_peek(ch, &f, 1), 1);
	assert_int_equal(f.redelivered, 0);
	assert_int_equal(leat_channel_consume(ch), 0);
	leat_channel_close(writer);
	unmake(&s, ch);
}

static void
too_small_a_buffer_learns_the_size(void **state)
{
	static const uint32_t lens[] = { 1, 47, 48, 49, 1000, SIZE / 2 - LEAT_CHANNEL_HEADER };
	struct leat_channel_frame f;
	struct leat_channel *ch;
	uint8_t data[FRAME_MAX] = { 0 };
	struct shared s;
	unsigned int i, k;

	(void)state;
	for (i = 0; i < STARTS; i++) {
		ch = make(&s, i, LEAT_CHANNEL_FULL_FAIL);
		for (k = 0; k < sizeof(lens) / sizeof(lens[0]); k++) {
			assert_int_equal(leat_channel_send(ch, 3, 4, data, lens[k]), 0);
			assert_int_equal(leat_channel_recv_frame(ch, data, lens[k] - 1, &f),
					 -EMSGSIZE);
			assert_int_equal(f.len, lens[k]);
			assert_int_equal(f.type, 3);
			assert_null(f.data);
			assert_int_equal(leat_channel_recv_frame(ch, data, f.len, &f),
					 (int)lens[k]);
			assert_int_equal(f.redelivered, 1);
		}
		unmake(&s, ch);
	}
}

/*
 * There is room for only some frames of a burst. With DROP_NEWEST the frames that fit are sent,
 * wherever they are in the burst, and the others are dropped. With FAIL the call stops at the first
 * frame that does not fit.
 */
static void
a_burst_says_what_became_of_it(void **state)
{
	static const uint32_t lens[] = { 1000, 1000, 1000, 2000, 100, 2000, 700, 8 };
	struct leat_channel_frame f[8];
	struct leat_channel_sent done;
	struct leat_channel *ch;
	uint8_t data[FRAME_MAX] = { 0 };
	struct shared s;
	unsigned int i, k;

	(void)state;
	for (k = 0; k < 8; k++)
		f[k] = (struct leat_channel_frame){ .data = data, .len = lens[k], .type = 1 };
	for (i = 0; i < STARTS; i++) {
		ch = make(&s, i, LEAT_CHANNEL_FULL_DROP_NEWEST);
		assert_int_equal(leat_channel_send_frames(ch, f, 8, &done), 0);
		assert_int_equal(done.sent + done.dropped, 8);
		assert_true(done.sent >= 4 && done.dropped >= 2);
		assert_int_equal(done.sent, count_of(ch, LEAT_CHANNEL_SENT));
		assert_int_equal(done.dropped, count_of(ch, LEAT_CHANNEL_FULL));
		unmake(&s, ch);

		ch = make(&s, i, LEAT_CHANNEL_FULL_FAIL);
		assert_int_equal(leat_channel_send_frames(ch, f, 8, &done), -EAGAIN);
		assert_int_equal(done.dropped, 0);
		assert_int_equal(done.sent, count_of(ch, LEAT_CHANNEL_SENT));
		assert_true(done.sent >= 2 && done.sent < 8);
		/* Frames after an invalid one are not looked at; those before it are sent. */
		unmake(&s, ch);
		ch = make(&s, i, LEAT_CHANNEL_FULL_FAIL);
		f[2].type = 0;
		assert_int_equal(leat_channel_send_frames(ch, f, 8, &done), -EINVAL);
		assert_int_equal(done.sent, 2);
		f[2].type = 1;
		assert_int_equal(leat_channel_terminate(ch), 0);
		assert_int_equal(leat_channel_send_frames(ch, f, 8, &done), -ESHUTDOWN);
		assert_int_equal(done.sent + done.dropped, 0);
		assert_int_equal(leat_channel_send_frames(ch, f, 0, &done), 0);
		unmake(&s, ch);
	}
}

/*
 * Some frames are consumed. The others are still held, and delivered again if they are given back.
 */
static void
consuming_some(void **state)
{
	struct leat_channel_frame f[8], again[8];
	struct leat_channel *ch;
	struct shared s;
	unsigned int i;
	uint32_t n;

	(void)state;
	for (i = 0; i < IN_A_LAP; i++) {
		ch = make(&s, i, LEAT_CHANNEL_FULL_FAIL);
		assert_int_equal(leat_channel_held(ch, NULL, 0), 0);
		assert_int_equal(leat_channel_consume_some(ch, 1), -EINVAL);
		for (n = 0; n < 6; n++)
			assert_int_equal(send_number(ch, n, 8), 0);
		assert_int_equal(leat_channel_peek(ch, f, 6), 6);
		assert_int_equal(leat_channel_held(ch, again, 8), 6);
		for (n = 0; n < 6; n++)
			assert_ptr_equal(f[n].data, again[n].data);
		assert_int_equal(leat_channel_consume_some(ch, 0), -EINVAL);
		assert_int_equal(leat_channel_consume_some(ch, 2), 0);
		assert_int_equal(leat_channel_held(ch, again, 1), 4);
		assert_true(frame_whole(again[0].data, again[0].len, &n));
		assert_int_equal(n, 2);
		assert_int_equal(leat_channel_consume_some(ch, 1), 0);
		assert_int_equal(leat_channel_settle(ch, false, ch, NULL), 0);
		assert_int_equal(leat_channel_held(ch, NULL, 0), 0);
		for (n = 0; leat_channel_peek(ch, f, 8) > 0; n++) {
			assert_int_equal(f[0].redelivered, 1);
			assert_int_equal(leat_channel_settle(ch, false, ch, ch, 1, 2), 0);
		}
		assert_int_equal(n, 3);
		assert_int_equal(count_of(ch, LEAT_CHANNEL_RECEIVED), 6);
		assert_int_equal(count_of(ch, LEAT_CHANNEL_RETURNED), 3);
		unmake(&s, ch);
	}
}

/*
 * A slot's counters are those of its present owner, from zero; the channel's counters are sums over
 * all participants that it ever had.
 */
static void
counters_are_of_the_slots_owner(void **state)
{
	struct leat_channel *ch, *other;
	struct leat_channel_info info;
	struct shared s;
	unsigned int i;
	uint32_t n;

	(void)state;
	ch = make(&s, 0, LEAT_CHANNEL_FULL_FAIL);
	/* The count of sent frames in slot 1 is about to wrap. */
	ch->block->slots[1].count[LEAT_CHANNEL_SENT] = UINT64_MAX - 2;
	for (i = 0; i < 3; i++) {
		other = shared_attach(&s, NULL);
		for (n = 0; n < 4; n++)
			assert_int_equal(send_number(other, n, 8), 0);
		assert_int_equal(recv_number(other, &n), 0);
		assert_int_equal(leat_channel_inspect(ch, &info), 0);
		assert_int_equal(info.participants, 2);
		assert_int_equal(info.who[1].slot, 1);
		assert_int_equal(info.who[1].count[LEAT_CHANNEL_SENT], 4);
		assert_int_equal(info.who[1].count[LEAT_CHANNEL_RECEIVED], 1);
		assert_int_equal(info.who[0].count[LEAT_CHANNEL_SENT], 0);
		assert_true(info.count[LEAT_CHANNEL_SENT] == UINT64_MAX - 2 + 4 * (i + 1));
		assert_int_equal(info.count[LEAT_CHANNEL_RECEIVED], i + 1);
		leat_channel_close(other);
	}
	unmake(&s, ch);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_frame_of_a_dead_reader_is_marked),
		cmocka_unit_test(redelivered_counts_deliveries),
		cmocka_unit_test(too_small_a_buffer_learns_the_size),
		cmocka_unit_test(a_burst_says_what_became_of_it),
		cmocka_unit_test(consuming_some),
		cmocka_unit_test(counters_are_of_the_slots_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
