/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Shared memory that lies: words of the block are overwritten at random, between calls and during
 * them, with noise and with plausible values. Calls must return, with errors or with frames within
 * the block, and never touch memory outside: an inaccessible page lies on either side.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "channel_pvt.h"
#include "channel_test.h"

#define SIZE 4096
#define PAGE 4096

static unsigned int scale = 1;

struct fenced {
	uint8_t *all, *mem;
	size_t bytes, map;
};

/* Map and format a block that ends at an inaccessible page. */
static void
fence(struct fenced *f, const struct leat_channel_conf *conf)
{
	f->bytes = leat_channel_bytes(conf);
	f->map = (f->bytes + PAGE - 1) / PAGE * PAGE + 2 * PAGE;
	f->all = mmap(NULL, f->map, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(f->all != MAP_FAILED);
	assert_int_equal(mprotect(f->all + PAGE, f->map - 2 * PAGE, PROT_READ | PROT_WRITE), 0);
	f->mem = f->all + f->map - PAGE - f->bytes;
	assert_int_equal((uintptr_t)f->mem % CHAN_LINE, 0);
	assert_int_equal(leat_channel_format(f->mem, f->bytes, conf), 0);
}

static uint64_t
lie(uint64_t *rnd, uint64_t old)
{
	switch (test_random(rnd) % 6) {
	case 0:
		return test_random(rnd);
	case 1:
		return old ^ UINT64_C(1) << test_random(rnd) % 64;
	case 2:
		return old + test_random(rnd) % 9 - 4;
	case 3:
		return old + (test_random(rnd) % 9 - 4) * 64;
	case 4:
		return 0;
	default:
		return ~UINT64_C(0);
	}
}

static void
lie_somewhere(const struct fenced *f, uint64_t *rnd)
{
	_Atomic uint64_t *w = (_Atomic uint64_t *)f->mem;
	size_t words = f->bytes / 8, at = test_random(rnd) % words;

	/*
	 * In half of the cases, overwrite the first word of a line: write, read, free, data, room
	 * or count.
	 */
	if (test_random(rnd) % 2 == 0)
		at = CHAN_LINE / 8 * (test_random(rnd) % 6 + 1);
	atomic_store_explicit(&w[at], lie(rnd, w[at]), memory_order_relaxed);
}

static bool
inside(const struct fenced *f, const struct leat_channel_frame *x)
{
	return (uint8_t *)x->data >= f->mem && x->len > 0 &&
	       x->len <= (size_t)(f->mem + f->bytes - (uint8_t *)x->data);
}

static void
use(const struct fenced *f, struct leat_channel *ch, uint64_t *rnd)
{
	static uint8_t data[SIZE];
	struct leat_channel_frame x[64];
	struct leat_channel_info info;
	int i, n;

	switch (test_random(rnd) % 9) {
	case 0:
	case 1:
		(void)leat_channel_send(ch, 1, 0, data, 1 + test_random(rnd) % 1000);
		break;
	case 2:
		for (i = 0; i < 16; i++)
			x[i] = (struct leat_channel_frame){ .data = data, .len = 100, .type = 1 };
		(void)leat_channel_send_burst(ch, x, 16);
		break;
	case 3:
	case 4:
		n = leat_channel_peek(ch, x, 1 + test_random(rnd) % 64);
		for (i = 0; i < n; i++) {
			assert_true(inside(f, &x[i]));
			memcpy(data, x[i].data, x[i].len);
		}
		if (n > 0)
			(void)(test_random(rnd) % 2 ? leat_channel_consume(ch)
						    : leat_channel_give_back(ch));
		break;
	case 5:
		(void)leat_channel_recover(ch);
		break;
	case 6:
		(void)leat_channel_inspect(ch, &info);
		break;
	case 7:
		(void)leat_channel_wait(ch, test_random(rnd) % 1000);
		break;
	case 8:
		(void)leat_channel_wait_room(ch, 1 + test_random(rnd) % 1000,
					     test_random(rnd) % 1000);
		break;
	}
}

/* One word of the block is overwritten before each call. */
static void
lies_between_calls(void **state)
{
	struct leat_channel_opts opts = { .wait = LEAT_CHANNEL_WAIT_PAUSE };
	struct leat_channel_conf conf = { .size = SIZE, .participants = 4 };
	unsigned int i, k, used = 0;
	struct leat_channel *ch;
	uint64_t rnd = 7;
	struct fenced f;

	(void)state;
	fence(&f, &conf);
	for (i = 0; i < 3000 * scale; i++) {
		assert_int_equal(leat_channel_format(f.mem, f.bytes, &conf), 0);
		opts.full = i % 4 == 1 ? 0 : i % 4;
		opts.invalid = i / 4 % 2;
		ch = leat_channel_attach(f.mem, f.bytes, &opts, NULL);
		assert_non_null(ch);
		for (k = 0; k < 40; k++) {
			lie_somewhere(&f, &rnd);
			use(&f, ch, &rnd);
			used++;
		}
		leat_channel_close(ch);
		ch = leat_channel_attach(f.mem, f.bytes, NULL, NULL);
		leat_channel_close(ch);
	}
	print_message("%u calls\n", used);
	assert_int_equal(munmap(f.all, f.map), 0);
}

struct liar {
	struct fenced *f;
	atomic_bool stop;
};

static void *
lie_on(void *arg)
{
	struct liar *l = arg;
	uint64_t rnd = 99;

	while (!atomic_load_explicit(&l->stop, memory_order_relaxed))
		lie_somewhere(l->f, &rnd);
	return NULL;
}

/*
 * Another thread overwrites the block all the time: attach refuses impossible values, and the
 * values that it accepts do no harm.
 */
static void
lies_during_calls(void **state)
{
	struct leat_channel_opts opts = { .wait = LEAT_CHANNEL_WAIT_PAUSE };
	struct leat_channel_conf conf = { .size = SIZE, .participants = 4 };
	struct leat_channel *ch;
	unsigned int i, k, in = 0;
	uint64_t rnd = 3;
	struct fenced f;
	struct liar l = { .f = &f };
	pthread_t t;

	(void)state;
	fence(&f, &conf);
	assert_int_equal(pthread_create(&t, NULL, lie_on, &l), 0);
	for (i = 0; i < 2000 * scale; i++) {
		assert_int_equal(leat_channel_format(f.mem, f.bytes, &conf), 0);
		opts.full = i % 4 == 1 ? 0 : i % 4;
		opts.invalid = i / 4 % 2;
		ch = leat_channel_attach(f.mem, f.bytes, &opts, NULL);
		for (k = 0; ch != NULL && k < 20; k++)
			use(&f, ch, &rnd);
		in += ch != NULL;
		leat_channel_close(ch);
	}
	atomic_store(&l.stop, true);
	assert_int_equal(pthread_join(t, NULL), 0);
	print_message("attached %u times\n", in);
	assert_true(in > 10);
	assert_int_equal(munmap(f.all, f.map), 0);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lies_between_calls),
		cmocka_unit_test(lies_during_calls),
	};

	if (argc > 1)
		scale = (unsigned int)atoi(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
