/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The timer wheel compared with the obvious implementation, an array that is searched. Operations
 * are random, some of them from callbacks, over all distances, ticks and jumps of the clock.
 */

#include "leat_cmocka.h"

#include <string.h>

#include <leat_wheel.h>

#define TIMERS 40
#define STEPS 12000
#define NEVER UINT64_MAX
#define ALL UINT32_MAX

struct timer {
	struct leat_wheel_node node;
	uint64_t expiry; /* the model's expiry; NEVER: not queued */
	uint64_t place;	 /* the tick with whose timers this one fires */
	uint32_t added;	 /* the run whose callback added the timer; 0: none */
};

static struct leat_wheel wheel;
static struct timer timers[TIMERS];
static uint64_t seed;
static uint64_t now;
static uint32_t run_nr;
static bool in_run;
static uint64_t last_place;
static unsigned int nb_queued, fired, far_bits;

static uint64_t
rnd(uint64_t n)
{
	return test_random(&seed) % n;
}

/* An expiry from the past to the far future, each magnitude as likely as any other. */
static uint64_t
some_expiry(void)
{
	uint64_t r = test_random(&seed), away = r >> (64 - 1 - rnd(far_bits));

	switch (rnd(16)) {
	case 0:
		return now - RTE_MIN(now, away);
	case 1:
		return now;
	case 2:
		return UINT64_MAX - 1 - away % 1000;
	default:
		return now > UINT64_MAX - 1 - away ? UINT64_MAX - 1 : now + away;
	}
}

static void
add(struct timer *t, uint64_t expiry)
{
	t->expiry = expiry;
	leat_wheel_add(&wheel, &t->node, expiry);
	t->place = RTE_MAX(expiry >> wheel.shift, wheel.tick);
	t->added = in_run ? run_nr : 0;
}

static void
some_change(void)
{
	uint64_t expiry;
	struct timer *t = &timers[rnd(TIMERS)];
	bool queued = t->expiry != NEVER;

	assert_int_equal(leat_wheel_queued(&t->node), queued);
	switch (rnd(6)) {
	case 0:
		leat_wheel_del(&wheel, &t->node);
		t->expiry = NEVER;
		break;
	case 1:
		/* Postpone the timer, as an idle timeout is, or make it expire a bit earlier. */
		if (!queued)
			return;
		expiry = t->expiry;
		expiry += expiry < UINT64_MAX / 2 ? rnd(UINT64_C(1) << rnd(34)) : 0;
		expiry -= rnd(3) == 0 ? RTE_MIN(expiry, rnd(100)) : 0;
		add(t, expiry);
		break;
	default:
		add(t, some_expiry());
		break;
	}
	nb_queued += (t->expiry != NEVER) - queued;
	assert_int_equal(leat_wheel_count(&wheel), nb_queued);
}

static void
on_timer(struct leat_wheel_node *node, void *arg)
{
	struct timer *t = container_of(node, struct timer, node);

	assert_ptr_equal(arg, &wheel);
	assert_false(leat_wheel_queued(node));
	assert_true(t->expiry <= now);
	assert_int_not_equal(t->added, run_nr);
	assert_true(t->place >= last_place);
	last_place = t->place;
	t->expiry = NEVER;
	nb_queued--;
	fired++;
	if (rnd(3) == 0)
		some_change();
}

static uint64_t
first_expiry(unsigned int *due)
{
	uint64_t first = NEVER;
	unsigned int i;

	*due = 0;
	for (i = 0; i < TIMERS; i++) {
		first = RTE_MIN(first, timers[i].expiry);
		*due += timers[i].expiry <= now;
	}
	return first;
}

/* leat_wheel_next() is never late, and exact while timers are few. */
static void
check_next(void)
{
	unsigned int due;
	uint64_t first = first_expiry(&due);

	assert_true(leat_wheel_due(&wheel) <= first);
	assert_true(leat_wheel_next(&wheel) <= first);
	/*
	 * After a run that reached its limit (leat_wheel_due() is 0) leat_wheel_next() may be too
	 * early.
	 */
	if (nb_queued <= 8 && due == 0 && leat_wheel_due(&wheel) != 0)
		assert_int_equal(leat_wheel_next(&wheel), first);
}

static void
run(unsigned int max)
{
	unsigned int n;

	run_nr++;
	last_place = 0;
	fired = 0;
	in_run = true;
	n = leat_wheel_run(&wheel, now, on_timer, &wheel, max);
	in_run = false;
	assert_int_equal(n, fired);
	assert_true(fired <= max);
}

static void
run_all(void)
{
	unsigned int i, due;

	check_next();
	(void)first_expiry(&due);
	/*
	 * Expired timers may be left by runs that reached their limit, or because the clock went
	 * back. They fire with the timers of the wheel's present tick.
	 */
	for (i = 0; i < TIMERS; i++)
		timers[i].place = RTE_MAX(timers[i].place, wheel.tick);
	run(ALL);
	/* Fewer fire if callbacks deleted or moved some. */
	assert_true(fired <= due);
	for (i = 0; i < TIMERS; i++)
		if (timers[i].expiry <= now)
			assert_int_equal(timers[i].added, run_nr);
	check_next();
}

/* Fire a few timers per run, with as many runs as that takes. */
static void
run_some(void)
{
	unsigned int i, j, due = 1;

	for (i = 0; i < 1000 && due > 0; i++) {
		for (j = 0; j < TIMERS; j++)
			timers[j].place = RTE_MAX(timers[j].place, wheel.tick);
		run((unsigned int)rnd(4));
		(void)first_expiry(&due);
		assert_true(due == 0 || leat_wheel_due(&wheel) <= now);
	}
}

static void
advance(void)
{
	unsigned int due;
	uint64_t first = first_expiry(&due), step;

	switch (rnd(8)) {
	case 0: /* a jump of hours or years */
		step = test_random(&seed) >> (1 + rnd(63));
		break;
	case 1: /* sleep until the next expiry */
		step = leat_wheel_next(&wheel);
		step = step > now && step != NEVER ? step - now : 0;
		break;
	case 2: /* wake just before the next expiry */
		step = first > now && first != NEVER ? first - now - 1 : 0;
		break;
	default:
		step = rnd(UINT64_C(4) << wheel.shift);
		break;
	}
	/* The clock comes near its end, but does not reach it. */
	if (step < UINT64_MAX / 4 - now / 4)
		now += step;
	if (rnd(50) == 0)
		now -= RTE_MIN(now, rnd(UINT64_C(64) << wheel.shift));
}

static void
against_model(uint64_t tick, uint64_t start, unsigned int bits)
{
	unsigned int i;

	leat_wheel_init(&wheel, tick, start);
	memset(timers, 0, sizeof(timers));
	for (i = 0; i < TIMERS; i++)
		timers[i].expiry = NEVER;
	now = start;
	nb_queued = 0;
	run_nr = 0;
	far_bits = bits;
	for (i = 0; i < STEPS; i++) {
		unsigned int n = (unsigned int)rnd(4);

		while (n-- > 0)
			some_change();
		advance();
		if (rnd(8) == 0)
			leat_wheel_advance(&wheel, now);
		if (rnd(4) == 0)
			run_some();
		else
			run_all();
	}
}

static void
test_against_model(void **state)
{
	static const uint64_t ticks[] = { 1, 1024, 65536, UINT64_C(1) << 40, UINT64_C(1) << 56 };
	/* Ticks and slots just before a carry, and the ends of the clock. */
	static const uint64_t starts[] = {
		0,
		(UINT64_C(1) << 32) - 200,
		(UINT64_C(1) << 47) - 3,
		(UINT64_C(1) << 63) - 1000,
		UINT64_MAX - (UINT64_C(1) << 33),
	};
	static const unsigned int bits[] = { 12, 24, 40, 63 };
	unsigned int i, j, k;

	(void)state;
	seed = 4711;
	for (i = 0; i < RTE_DIM(ticks); i++)
		for (j = 0; j < RTE_DIM(starts); j++)
			for (k = 0; k < RTE_DIM(bits); k++)
				against_model(ticks[i], starts[j], bits[k]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
