/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What each call and each policy does, in one thread, and the known ways in which a shared ring can
 * fail.
 */

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "channel_pvt.h"
#include "channel_test.h"

#define SMALL 4096
#define LEN 240 /* 256 bytes with its header */
#define FIT 15	/* frames of LEN for which SMALL has room: one granule stays free */

static void
fill_up(struct leat_channel *ch, uint32_t frames)
{
	uint32_t n;

	for (n = 0; n < frames; n++)
		assert_int_equal(send_number(ch, n, LEN), 0);
}

static void
lengths_out_of_range(void **state)
{
	struct leat_channel_conf conf = { .size = SMALL };
	static uint8_t data[SMALL];
	struct leat_channel *ch;
	struct shared s;

	(void)state;
	shared_make(&s, &conf);
	ch = shared_attach(&s, NULL);
	assert_int_equal(leat_channel_max(ch), SMALL / 2 - LEAT_CHANNEL_HEADER);
	assert_int_equal(leat_channel_send(ch, 1, 0, data, 0), -EINVAL);
	assert_int_equal(leat_channel_send(ch, 0, 0, data, 1), -EINVAL);
	assert_int_equal(leat_channel_send(ch, 1, 0, data, leat_channel_max(ch) + 1), -EMSGSIZE);
	assert_int_equal(leat_channel_send(ch, 1, 0, data, UINT32_MAX), -EMSGSIZE);
	/* An empty channel has room for the longest frame, wherever the frame begins. */
	for (unsigned int i = 0; i < 200; i++) {
		uint32_t len = leat_channel_max(ch) - i % 3 * 64, n;

		frame_fill(data, len, i);
		assert_int_equal(leat_channel_send(ch, i + 1, ~(uint64_t)i, data, len), 0);
		assert_int_equal(recv_number(ch, &n), 0);
		assert_int_equal(n, i);
	}
	leat_channel_close(ch);
	shared_free(&s);
}

/*
 * Frames are delivered at each position in the buffer, also near and across 2^64, and where the lap
 * in the marks wraps.
 */
static void
positions_near_2_64(void **state)
{
	static const uint64_t starts[] = { 0, (uint64_t)0 - 3 * SMALL, (uint64_t)0 - 64,
					   UINT64_C(1) << 58, (UINT64_C(1) << 58) - SMALL };
	struct leat_channel_conf conf = { .size = SMALL };
	struct leat_channel *ch;
	uint32_t i, n, len;
	struct shared s;
	unsigned int k;

	(void)state;
	for (k = 0; k < sizeof(starts) / sizeof(starts[0]); k++) {
		conf.start = starts[k];
		shared_make(&s, &conf);
		ch = shared_attach(&s, NULL);
		for (i = 0; i < 500; i++) {
			len = 4 + i * 37 % 900;
			assert_int_equal(send_number(ch, i, len), 0);
			assert_int_equal(recv_number(ch, &n), 0);
			assert_int_equal(n, i);
			assert_int_equal(recv_number(ch, &n), -EAGAIN);
		}
		leat_channel_close(ch);
		shared_free(&s);
	}
}

static void
full_without_reader(void **state)
{
	struct leat_channel_conf conf = { .size = SMALL };
	struct leat_channel_opts opts = { 0 };
	struct leat_channel *ch;
	uint64_t before;
	struct shared s;
	uint32_t n;

	(void)state;
	for (opts.full = LEAT_CHANNEL_FULL_FAIL; opts.full <= LEAT_CHANNEL_FULL_DROP_OLDEST;
	     opts.full++) {
		opts.full_ns = 3000000;
		shared_make(&s, &conf);
		ch = shared_attach(&s, &opts);
		fill_up(ch, FIT);
		before = test_now_ns();
		switch (opts.full) {
		case LEAT_CHANNEL_FULL_FAIL:
			assert_int_equal(send_number(ch, FIT, LEN), -EAGAIN);
			break;
		case LEAT_CHANNEL_FULL_WAIT:
			assert_int_equal(send_number(ch, FIT, LEN), -EAGAIN);
			assert_true(test_now_ns() - before >= opts.full_ns);
			break;
		case LEAT_CHANNEL_FULL_DROP_NEWEST:
			assert_int_equal(send_number(ch, FIT, LEN), LEAT_CHANNEL_DROPPED);
			break;
		case LEAT_CHANNEL_FULL_DROP_OLDEST:
			assert_int_equal(send_number(ch, FIT, LEN), 0);
			assert_int_equal(count_of(ch, LEAT_CHANNEL_OVERWRITTEN), 1);
			break;
		}
		assert_int_equal(recv_number(ch, &n), 0);
		assert_int_equal(n, opts.full == LEAT_CHANNEL_FULL_DROP_OLDEST ? 1 : 0);
		if (opts.full != LEAT_CHANNEL_FULL_DROP_OLDEST)
			assert_int_equal(count_of(ch, LEAT_CHANNEL_FULL), 1);
		leat_channel_close(ch);
		shared_free(&s);
	}
}

/*
 * Run a process that peeks `take` frames, reserves one of `reserve` bytes, and dies while it holds
 * them. `take` 0: it peeks none; `reserve` 0: it reserves none.
 */
static void
die_with(const struct shared *s, unsigned int take, uint32_t reserve)
{
	struct leat_channel_frame f[CHAN_BURST];
	struct leat_channel *ch;
	pid_t pid = fork();
	void *data;
	int st;

	assert_true(pid >= 0);
	if (pid == 0) {
		ch = leat_channel_attach(s->mem, s->bytes, NULL, NULL);
		if (ch == NULL || (take > 0 && leat_channel_peek(ch, f, take) != (int)take) ||
		    (reserve > 0 && leat_channel_reserve(ch, 7, 7, reserve, &data) != 0))
			_exit(1);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
}

static void
full_with_dead_reader(void **state)
{
	struct leat_channel_conf conf = { .size = SMALL };
	struct leat_channel_opts opts = { 0 };
	struct leat_channel *ch;
	struct shared s;
	uint32_t n, i;
	int ret;

	(void)state;
	for (conf.on_death = LEAT_CHANNEL_REDELIVER; conf.on_death <= LEAT_CHANNEL_DROP;
	     conf.on_death++) {
		for (opts.full = LEAT_CHANNEL_FULL_FAIL; opts.full <= LEAT_CHANNEL_FULL_DROP_OLDEST;
		     opts.full++) {
			opts.full_ns = 2000000;
			shared_make(&s, &conf);
			ch = shared_attach(&s, &opts);
			fill_up(ch, FIT);
			die_with(&s, 4, 0);
			/*
			 * With DROP a writer frees the dead reader's room by trying again; with
			 * REDELIVER the oldest frame must be read again first.
			 */
			for (i = 0, ret = -1; i < 200 && ret != 0; i++) {
				if (conf.on_death == LEAT_CHANNEL_REDELIVER && i == 100) {
					assert_int_equal(recv_number(ch, &n), 0);
					assert_int_equal(n, 0);
				}
				ret = send_number(ch, FIT, LEN);
			}
			assert_int_equal(ret, 0);
			assert_int_equal(count_of(ch, conf.on_death == LEAT_CHANNEL_DROP
							      ? LEAT_CHANNEL_LOST
							      : LEAT_CHANNEL_RETURNED),
					 4);
			leat_channel_close(ch);
			shared_free(&s);
		}
	}
}

/*
 * A dead writer's reservation lies where the buffer has marks of older, larger frames, or none:
 * recovery must not mistake these for marks of this lap.
 */
static void
recovery_is_not_fooled_by_older_marks(void **state)
{
	struct leat_channel_conf conf = { .size = SMALL };
	struct leat_channel *ch;
	struct shared s;
	uint32_t n, i;

	(void)state;
	shared_make(&s, &conf);
	ch = shared_attach(&s, NULL);
	/*
	 * Send two laps of large frames, whose marks stay in the buffer. The small frames that
	 * follow begin where a large frame began, and inside large frames.
	 */
	for (i = 0; i < 8; i++) {
		assert_int_equal(send_number(ch, i, 1000), 0);
		assert_int_equal(recv_number(ch, &n), 0);
	}
	for (i = 0; i < 200; i++) {
		die_with(&s, 0, 40 + i % 5 * 64);
		assert_int_equal(send_number(ch, i, LEN), 0);
		assert_int_equal(leat_channel_recover(ch), 1);
		assert_int_equal(recv_number(ch, &n), 0);
		assert_int_equal(n, i);
		assert_int_equal(recv_number(ch, &n), -EAGAIN);
	}
	assert_int_equal(count_of(ch, LEAT_CHANNEL_ABORTED), 200);
	leat_channel_close(ch);
	shared_free(&s);
}

/* A reader that polls finds the dead writer, without a call of leat_channel_recover(). */
static void
dead_writer_holds_nobody_up(void **state)
{
	struct leat_channel_conf conf = { .size = SMALL };
	struct leat_channel *ch;
	struct shared s;
	uint32_t n, i;

	(void)state;
	shared_make(&s, &conf);
	ch = shared_attach(&s, NULL);
	die_with(&s, 0, LEN);
	assert_int_equal(send_number(ch, 1, LEN), 0);
	for (i = 0; i < 100 && recv_number(ch, &n) == -EAGAIN; i++)
		;
	assert_in_range(i, 2, 99);
	assert_int_equal(n, 1);
	/* A reader that sleeps finds the dead writer, too. */
	die_with(&s, 0, LEN);
	assert_int_equal(send_number(ch, 2, LEN), 0);
	assert_int_equal(leat_channel_wait(ch, LEAT_CHANNEL_FOREVER), 0);
	assert_int_equal(recv_number(ch, &n), 0);
	assert_int_equal(n, 2);
	leat_channel_close(ch);
	shared_free(&s);
}

/* A writer that stands still is not dead: others do not recover its reservation. */
static void
a_stalled_writer_is_not_dead(void **state)
{
	struct leat_channel_conf conf = { .size = SMALL };
	struct leat_channel *ch, *slow;
	struct shared s;
	uint32_t n, i;
	void *data;

	(void)state;
	shared_make(&s, &conf);
	ch = shared_attach(&s, NULL);
	slow = shared_attach(&s, NULL);
	assert_int_equal(leat_channel_reserve(slow, 1, ~UINT64_C(0), LEN, &data), 0);
	for (i = 0; i < 10000; i++)
		assert_int_equal(recv_number(ch, &n), -EAGAIN);
	assert_int_equal(leat_channel_recover(ch), 0);
	frame_fill(data, LEN, 0);
	assert_int_equal(leat_channel_commit(slow), 0);
	assert_int_equal(recv_number(ch, &n), 0);
	assert_int_equal(leat_channel_commit(slow), -EINVAL);
	leat_channel_close(slow);
	leat_channel_close(ch);
	shared_free(&s);
}

/* A slot of a dead process is recovered though a living participant has its pid by now. */
static void
a_pid_used_again(void **state)
{
	struct leat_channel_conf conf = { .size = SMALL };
	struct chan_block *b;
	struct leat_channel *ch;
	struct shared s;

	(void)state;
	shared_make(&s, &conf);
	b = s.mem;
	ch = shared_attach(&s, NULL);
	b->slots[5].owner = ch->owner - (UINT64_C(1) << OWNER_PID_BITS);
	assert_int_equal(leat_channel_recover(ch), 1);
	b->slots[5].owner = ch->owner;
	assert_int_equal(leat_channel_recover(ch), 0);
	b->slots[5].owner = 0;
	leat_channel_close(ch);
	shared_free(&s);
}

/*
 * A thread stands still just before its compare-and-swap, while the positions go round the buffer:
 * the mark and the position that the thread read never come again, so its compare-and-swap fails.
 */
static void
compare_and_swap_a_lap_later(void **state)
{
	struct leat_channel_conf conf = { .size = SMALL };
	uint64_t w, seen[2], want;
	struct leat_channel *ch;
	uint32_t n, i, lap;
	struct shared s;

	(void)state;
	shared_make(&s, &conf);
	ch = shared_attach(&s, NULL);
	for (lap = 0; lap < 5; lap++) {
		w = ch->block->write;
		/*
		 * seen[0] is the mark that a writer reads before it reserves, seen[1] the mark that
		 * a reader reads before it claims.
		 */
		seen[0] = *chan_mark(ch, w);
		assert_int_equal(send_number(ch, 0, LEN), 0);
		seen[1] = *chan_mark(ch, w);
		do {
			assert_int_equal(recv_number(ch, &n), 0);
			for (i = 0; i < 2; i++) {
				want = seen[i];
				assert_false(
					atomic_compare_exchange_strong(chan_mark(ch, w), &want, 0));
				/* The write position never becomes w again, either. */
				want = w;
				assert_false(atomic_compare_exchange_strong(&ch->block->write,
									    &want, 0));
			}
			assert_int_equal(send_number(ch, 0, 40 + lap * 64), 0);
		} while (ch->block->write - w < 4 * SMALL);
		assert_int_equal(recv_number(ch, &n), 0);
	}
	leat_channel_close(ch);
	shared_free(&s);
}

static void
attach_to_a_live_channel(void **state)
{
	struct leat_channel_conf conf = { .size = SMALL, .participants = 3 };
	struct leat_channel_info before, after;
	struct leat_channel *ch, *more;
	struct shared s;
	uint32_t n, i;

	(void)state;
	shared_make(&s, &conf);
	ch = shared_attach(&s, NULL);
	fill_up(ch, 8);
	assert_int_equal(recv_number(ch, &n), 0);
	assert_int_equal(leat_channel_inspect(ch, &before), 0);
	more = shared_attach(&s, NULL);
	assert_int_equal(leat_channel_inspect(ch, &after), 0);
	assert_true(before.write == after.write && before.read == after.read &&
		    before.free == after.free);
	assert_int_equal(after.participants, 2);
	/* The two readers take turns, and get each frame once. */
	for (i = 1; i < 8; i++) {
		assert_int_equal(recv_number(i % 2 ? more : ch, &n), 0);
		assert_int_equal(n, i);
	}
	assert_int_equal(recv_number(more, &n), -EAGAIN);
	assert_int_equal(recv_number(ch, &n), -EAGAIN);
	/*
	 * The slot of a dead participant is free again: `third` gets it, and then no slot is free.
	 */
	die_with(&s, 0, LEN);
	{
		struct leat_channel *third = shared_attach(&s, NULL);

		assert_null(leat_channel_attach(s.mem, s.bytes, NULL, NULL));
		assert_int_equal(errno, EUSERS);
		leat_channel_close(third);
	}
	leat_channel_close(more);
	leat_channel_close(ch);
	shared_free(&s);
}

static void
attach_to_what_is_none(void **state)
{
	struct leat_channel_conf conf = { .size = SMALL };
	struct chan_block *b, saved;
	struct shared s;
	unsigned int i;

	(void)state;
	shared_make(&s, &conf);
	b = s.mem;
	memcpy(&saved, b, sizeof(saved));
	for (i = 0; i < 10; i++) {
		memcpy(b, &saved, sizeof(saved));
		switch (i) {
		case 0:
			b->magic = 0;
			break;
		case 1:
			b->magic++;
			break;
		case 2:
			b->version++;
			break;
		case 3:
			b->size *= 2;
			break;
		case 4:
			b->size--;
			break;
		case 5:
			b->participants = 65;
			break;
		case 6:
			b->notify = 9;
			break;
		case 7:
			b->write = SMALL;
			break;
		case 8:
			b->read = 64;
			break;
		case 9:
			b->free = 1;
			break;
		}
		assert_null(leat_channel_attach(s.mem, s.bytes, NULL, NULL));
		assert_int_equal(errno, i == 0 ? EAGAIN : EPROTO);
	}
	memcpy(b, &saved, sizeof(saved));
	assert_null(leat_channel_attach(s.mem, s.bytes - 1, NULL, NULL));
	assert_null(leat_channel_attach((uint8_t *)s.mem + 64, s.bytes, NULL, NULL));
	leat_channel_close(shared_attach(&s, NULL));
	shared_free(&s);
}

static int
refuse_odd(void *arg, const struct leat_channel_frame *frame)
{
	*(uint32_t *)arg += 1;
	return frame->type % 2 == 0 ? -5 : 0;
}

/*
 * The frame that the callback refuses is given back, and so are the frames after it. A frame that
 * is refused each time is delivered LEAT_CHANNEL_DELIVERIES times.
 */
static void
a_callback_that_fails(void **state)
{
	struct leat_channel_conf conf = { .size = SMALL };
	struct leat_channel *ch;
	uint32_t calls = 0;
	struct shared s;
	int ret;

	(void)state;
	shared_make(&s, &conf);
	ch = shared_attach(&s, NULL);
	fill_up(ch, 2);
	/*
	 * Two frames, of types 1 and 2: the callback accepts the first, and fails for the second.
	 */
	assert_int_equal(leat_channel_dispatch(ch, 8, refuse_odd, &calls), 1);
	assert_int_equal(calls, 2);
	while ((ret = leat_channel_dispatch(ch, 8, refuse_odd, &calls)) == -5)
		;
	assert_int_equal(ret, -EAGAIN);
	assert_int_equal(calls, 1 + LEAT_CHANNEL_DELIVERIES);
	assert_int_equal(count_of(ch, LEAT_CHANNEL_LOST), 1);
	assert_int_equal(count_of(ch, LEAT_CHANNEL_RETURNED), LEAT_CHANNEL_DELIVERIES - 1);
	assert_int_equal(count_of(ch, LEAT_CHANNEL_RECEIVED), 1);
	leat_channel_close(ch);
	shared_free(&s);
}

static void
an_orderly_end(void **state)
{
	struct leat_channel_conf conf = { .size = SMALL };
	struct leat_channel *ch, *late;
	struct shared s;
	void *data;
	uint32_t n;

	(void)state;
	shared_make(&s, &conf);
	ch = shared_attach(&s, NULL);
	late = shared_attach(&s, NULL);
	fill_up(ch, 2);
	assert_int_equal(leat_channel_reserve(late, 3, ~UINT64_C(2), LEN, &data), 0);
	assert_int_equal(leat_channel_terminate(ch), 0);
	assert_int_equal(leat_channel_terminate(ch), 0);
	assert_int_equal(send_number(ch, 3, LEN), -ESHUTDOWN);
	assert_int_equal(leat_channel_wait_room(ch, LEN, 0), -ESHUTDOWN);
	assert_int_equal(recv_number(ch, &n), 0);
	assert_int_equal(recv_number(ch, &n), 0);
	/* A frame that was reserved before the end is delivered once it is committed. */
	assert_int_equal(recv_number(ch, &n), -EAGAIN);
	frame_fill(data, LEN, 2);
	assert_int_equal(leat_channel_commit(late), 0);
	assert_int_equal(recv_number(ch, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(recv_number(ch, &n), -ESHUTDOWN);
	assert_int_equal(leat_channel_wait(ch, LEAT_CHANNEL_FOREVER), -ESHUTDOWN);
	leat_channel_close(late);
	leat_channel_close(ch);
	shared_free(&s);
}

static void
bursts(void **state)
{
	struct leat_channel_conf conf = { .size = SMALL };
	struct leat_channel_frame f[64], g[64];
	static uint8_t data[64][LEN];
	uint32_t sent = 0, got = 0, i, n;
	struct leat_channel *ch;
	uint64_t rnd = 1;
	struct shared s;
	int ret;

	(void)state;
	shared_make(&s, &conf);
	ch = shared_attach(&s, NULL);
	while (sent < 20000) {
		uint32_t want = 1 + test_random(&rnd) % 64;

		for (i = 0; i < want; i++) {
			uint32_t len = 4 + test_random(&rnd) % (LEN - 4);

			frame_fill(data[i], len, sent + i);
			f[i] = (struct leat_channel_frame){ .data = data[i],
							    .len = len,
							    .type = sent + i + 1,
							    .hash = ~(uint64_t)(sent + i) };
		}
		ret = leat_channel_send_burst(ch, f, want);
		assert_true(ret > 0 || ret == -EAGAIN);
		sent += ret > 0 ? (uint32_t)ret : 0;
		ret = leat_channel_peek(ch, g, 1 + test_random(&rnd) % 64);
		if (ret == -EAGAIN)
			continue;
		assert_true(ret > 0);
		assert_int_equal(leat_channel_peek(ch, g + ret, 1), -EBUSY);
		for (i = 0; i < (uint32_t)ret; i++) {
			assert_true(frame_whole(g[i].data, g[i].len, &n));
			assert_int_equal(n, got++);
		}
		assert_int_equal(leat_channel_consume(ch), 0);
	}
	while (recv_number(ch, &n) != -EAGAIN)
		got++;
	assert_int_equal(got, sent);
	leat_channel_close(ch);
	shared_free(&s);
}

static void
positions_have_lines_of_their_own(void **state)
{
	static const size_t at[] = {
		offsetof(struct chan_block, write), offsetof(struct chan_block, read),
		offsetof(struct chan_block, free),  offsetof(struct chan_block, data),
		offsetof(struct chan_block, room),  offsetof(struct chan_block, slots)
	};
	unsigned int i;

	(void)state;
	assert_true(at[0] >= 64);
	for (i = 1; i < sizeof(at) / sizeof(at[0]); i++)
		assert_true(at[i] / 64 > at[i - 1] / 64);
}

static void
by_name_and_by_socket(void **state)
{
	struct leat_channel_conf conf = { .size = SMALL, .notify = LEAT_CHANNEL_NOTIFY_EVENTFD };
	struct leat_channel *a, *b;
	struct leat_channel_info info;
	char name[64];
	int sv[2];
	uint32_t n;

	(void)state;
	/*
	 * Processes with other pid namespaces may share /dev/shm, so the pid alone is no unique
	 * name.
	 */
	snprintf(name, sizeof(name), "/leat-test-%d-%llu", (int)getpid(),
		 (unsigned long long)test_now_ns());
	assert_null(leat_channel_create(name, &conf, NULL));
	assert_int_equal(errno, EINVAL);
	a = leat_channel_create(name, NULL, NULL);
	assert_non_null(a);
	assert_null(leat_channel_create(name, NULL, NULL));
	assert_int_equal(errno, EEXIST);
	b = leat_channel_open(name, NULL);
	assert_non_null(b);
	assert_int_equal(send_number(a, 1, LEN), 0);
	assert_int_equal(recv_number(b, &n), 0);
	assert_int_equal(leat_channel_inspect_name(name, &info), 0);
	assert_int_equal(info.participants, 2);
	assert_int_equal(info.count[LEAT_CHANNEL_SENT], 1);
	assert_int_equal(leat_channel_unlink(name), 0);
	assert_int_equal(leat_channel_unlink(name), -ENOENT);
	leat_channel_close(a);
	leat_channel_close(b);
	assert_null(leat_channel_open(name, NULL));
	assert_int_equal(errno, ENOENT);

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	a = leat_channel_memfd(&conf, NULL);
	assert_non_null(a);
	assert_int_equal(leat_channel_pass(a, sv[0]), 0);
	b = leat_channel_accept(sv[1], NULL);
	assert_non_null(b);
	assert_int_equal(send_number(a, 1, LEN), 0);
	assert_int_equal(leat_channel_wait(b, LEAT_CHANNEL_FOREVER), 0);
	assert_int_equal(recv_number(b, &n), 0);
	assert_int_equal(leat_channel_wait(b, 1000000), -ETIMEDOUT);
	leat_channel_close(a);
	assert_int_equal(send(sv[0], "x", 1, 0), 1);
	assert_null(leat_channel_accept(sv[1], NULL));
	assert_int_equal(errno, EPROTO);
	close(sv[0]);
	assert_null(leat_channel_accept(sv[1], NULL));
	assert_int_equal(errno, ECONNRESET);
	close(sv[1]);
	assert_int_equal(send_number(b, 1, LEN), 0);
	leat_channel_close(b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths_out_of_range),
		cmocka_unit_test(positions_near_2_64),
		cmocka_unit_test(full_without_reader),
		cmocka_unit_test(full_with_dead_reader),
		cmocka_unit_test(recovery_is_not_fooled_by_older_marks),
		cmocka_unit_test(dead_writer_holds_nobody_up),
		cmocka_unit_test(a_stalled_writer_is_not_dead),
		cmocka_unit_test(a_pid_used_again),
		cmocka_unit_test(compare_and_swap_a_lap_later),
		cmocka_unit_test(attach_to_a_live_channel),
		cmocka_unit_test(attach_to_what_is_none),
		cmocka_unit_test(a_callback_that_fails),
		cmocka_unit_test(an_orderly_end),
		cmocka_unit_test(bursts),
		cmocka_unit_test(positions_have_lines_of_their_own),
		cmocka_unit_test(by_name_and_by_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
