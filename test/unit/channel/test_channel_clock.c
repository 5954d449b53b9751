/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * How long calls take, by a mock clock that advances only while a call sleeps. Other participants
 * act at given times of that clock.
 */

#include "channel_pvt.h"
#include "channel_test.h"

#define SIZE 4096
#define MS UINT64_C(1000000)

static uint64_t now_ns = UINT64_C(1000000000);
/* Called after the clock has advanced. */
static void (*meanwhile)(void);

/* The library under test calls these functions in place of libc's. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
int
clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void)clock;
	*ts = (struct timespec){ .tv_sec = (time_t)(now_ns / UINT64_C(1000000000)),
				 .tv_nsec = (long)(now_ns % UINT64_C(1000000000)) };
	return 0;
}

int(nanosleep)(const struct timespec *ts, struct timespec *left)
{
	(void)left;
	now_ns += (uint64_t)ts->tv_sec * UINT64_C(1000000000) + (uint64_t)ts->tv_nsec;
	if (meanwhile != NULL)
		meanwhile();
	return 0;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* A reader that receives a frame at each of these times. */
static struct {
	struct leat_channel *ch;
	uint64_t at[16];
	unsigned int i, n;
} reader;

static void
read_in_time(void)
{
	uint32_t n;

	while (reader.i < reader.n && now_ns >= reader.at[reader.i]) {
		assert_int_equal(recv_number(reader.ch, &n), 0);
		reader.i++;
	}
}

static struct leat_channel *
make_writer(struct shared *s, uint64_t start, uint64_t full_ns)
{
	struct leat_channel_conf conf = { .size = SIZE, .start = start };
	struct leat_channel_opts opts = { .full = LEAT_CHANNEL_FULL_WAIT,
					  .full_ns = full_ns,
					  .wait = LEAT_CHANNEL_WAIT_SLEEP };

	shared_make(s, &conf);
	reader.ch = shared_attach(s, NULL);
	reader.i = 0;
	meanwhile = read_in_time;
	return shared_attach(s, &opts);
}

static void
free_writer(struct shared *s, struct leat_channel *ch)
{
	meanwhile = NULL;
	leat_channel_close(ch);
	leat_channel_close(reader.ch);
	shared_free(s);
}

/* Room for a frame appears every 60 ms. The time limit, full_ns, is for the whole burst. */
static void
a_burst_waits_no_longer_than_one_frame(void **state)
{
	static const struct {
		uint64_t full_ns;
		int sent;
	} waits[] = { { 50 * MS, -EAGAIN }, { 100 * MS, 1 }, { 190 * MS, 3 }, { 1000 * MS, 8 } };
	struct leat_channel_frame f[8];
	struct leat_channel *ch;
	uint8_t data[1000];
	struct shared s;
	unsigned int i, k;
	uint64_t from;

	(void)state;
	for (k = 0; k < sizeof(waits) / sizeof(waits[0]); k++) {
		ch = make_writer(&s, 0, waits[k].full_ns);
		/* Three frames of 1 KiB: a fourth does not fit, since a granule stays free. */
		for (i = 0; i < 3; i++)
			assert_int_equal(send_number(reader.ch, i, 1000), 0);
		frame_fill(data, sizeof(data), 9);
		for (i = 0; i < 8; i++)
			f[i] = (struct leat_channel_frame){
				.data = data, .len = sizeof(data), .type = 10, .hash = ~UINT64_C(9)
			};
		from = now_ns;
		for (i = 0; i < 8; i++)
			reader.at[i] = now_ns + (i + 1) * 60 * MS;
		reader.n = 8;
		assert_int_equal(leat_channel_send_burst(ch, f, 8), waits[k].sent);
		assert_true(now_ns - from <= waits[k].full_ns + MS);
		free_writer(&s, ch);
	}
}

/*
 * The first room that appears is too short for the frame: the send waits on, but not beyond its
 * time limit.
 */
static void
a_send_waits_no_longer_than_it_may(void **state)
{
	struct leat_channel *ch;
	struct shared s;
	unsigned int k;
	uint64_t from;
	uint32_t i;
	int ret;

	(void)state;
	for (k = 0; k < 2; k++) {
		/*
		 * Fill the buffer with 7 frames of 512 bytes and one of 448. The next frame, of 1
		 * KiB, has no room until more than one of them was read.
		 */
		ch = make_writer(&s, 0, k == 0 ? 100 * MS : 200 * MS);
		for (i = 0; i < 7; i++)
			assert_int_equal(send_number(reader.ch, i, 496), 0);
		assert_int_equal(send_number(reader.ch, 7, 400), 0);
		reader.n = 0;
		from = now_ns;
		reader.at[reader.n++] = from + 60 * MS;
		for (i = 0; i < 3; i++)
			reader.at[reader.n++] = from + 130 * MS;
		ret = send_number(ch, 8, 1000);
		assert_int_equal(ret, k == 0 ? -EAGAIN : 0);
		assert_true(now_ns - from <= (k == 0 ? 101 * MS : 140 * MS));
		free_writer(&s, ch);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_burst_waits_no_longer_than_one_frame),
		cmocka_unit_test(a_send_waits_no_longer_than_it_may),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
