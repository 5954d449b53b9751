/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What the child is doing when it is killed, and what must be true for the survivors; see kill.h.
 */

#include "kill.h"

/* ---- what the child is doing ---- */

uint8_t kill_data[3][LEN];

static void
act_send(struct leat_channel *ch, const struct ctx *c)
{
	(void)c;
	(void)leat_channel_send(ch, CHILD + 1, ~(uint64_t)CHILD, kill_data[0], LEN);
}

static void
act_burst(struct leat_channel *ch, const struct ctx *c)
{
	struct leat_channel_frame f[3];
	uint32_t i;

	(void)c;
	for (i = 0; i < 3; i++)
		f[i] = (struct leat_channel_frame){ .data = kill_data[i],
						    .len = LEN,
						    .type = CHILD + i + 1,
						    .hash = ~(uint64_t)(CHILD + i) };
	(void)leat_channel_send_burst(ch, f, 3);
}

static void
act_abort(struct leat_channel *ch, const struct ctx *c)
{
	void *p;

	(void)c;
	if (leat_channel_reserve(ch, 1, 1, LEN, &p) == 0)
		(void)leat_channel_abort(ch);
}

static void
act_read(struct leat_channel *ch, const struct ctx *c)
{
	struct leat_channel_frame f[3];

	if (leat_channel_peek(ch, f, 3) != 3)
		return;
	atomic_store(&c->notes->consuming, 1);
	(void)leat_channel_consume(ch);
}

/* Read three frames, past a frame that is only reserved. */
static void
act_read_past(struct leat_channel *ch, const struct ctx *c)
{
	struct leat_channel_frame f[3];
	unsigned int i;

	for (i = 0; i < PATIENCE; i++) {
		if (leat_channel_peek(ch, f, 3) == 3) {
			atomic_store(&c->notes->consuming, 1);
			(void)leat_channel_consume(ch);
			return;
		}
	}
}

/*
 * Wait for a frame while another writer's frame is only reserved. A reader that is about to sleep
 * sets such a frame aside at once if other frames follow it, instead of waiting for its writer.
 */
static void
act_wait_past(struct leat_channel *ch, const struct ctx *c)
{
	(void)c;
	(void)leat_channel_wait(ch, LEAT_CHANNEL_FOREVER);
}

static void
act_give_back(struct leat_channel *ch, const struct ctx *c)
{
	struct leat_channel_frame f[2];

	(void)c;
	if (leat_channel_peek(ch, f, 2) > 0)
		(void)leat_channel_give_back(ch);
}

static void
act_recover(struct leat_channel *ch, const struct ctx *c)
{
	(void)c;
	(void)leat_channel_recover(ch);
}

static void
act_terminate(struct leat_channel *ch, const struct ctx *c)
{
	(void)c;
	(void)leat_channel_terminate(ch);
}

static void
act_attach(struct leat_channel *ch, const struct ctx *c)
{
	struct leat_channel *more = leat_channel_join(ch, NULL);

	(void)c;
	leat_channel_close(more);
}

/* ---- what must be true afterwards ---- */

static void
present_once(const struct ctx *c, const uint32_t *got)
{
	uint32_t n;

	for (n = 0; n < c->sc->present; n++)
		assert_int_equal(got[n], n < c->sc->early ? 0 : 1);
}

static void
check_send(const struct ctx *c, const struct leat_channel *ch, const uint32_t *got, bool done)
{
	(void)ch;
	present_once(c, got);
	assert_true(got[CHILD] <= 1);
	if (done)
		assert_int_equal(got[CHILD], 1);
}

static void
check_burst(const struct ctx *c, const struct leat_channel *ch, const uint32_t *got, bool done)
{
	check_send(c, ch, got, done);
	/* The burst was sent whole or not at all. */
	assert_int_equal(got[CHILD + 1], got[CHILD]);
	assert_int_equal(got[CHILD + 2], got[CHILD]);
}

static void
check_none(const struct ctx *c, const struct leat_channel *ch, const uint32_t *got, bool done)
{
	(void)ch;
	(void)done;
	present_once(c, got);
	assert_int_equal(got[CHILD], 0);
	assert_int_equal(got[BEHIND], c->sc->with == ASIDE && c->sc->dead);
}

/* The three frames that the dead reader held are dropped; all others are delivered. */
static void
check_dropped(const struct ctx *c, const struct leat_channel *ch, const uint32_t *got, bool done)
{
	uint32_t n;

	(void)done;
	for (n = 0; n < c->sc->present; n++)
		assert_int_equal(got[n], n < 3 ? 0 : 1);
	/*
	 * A participant that is killed between dropping and counting has dropped one frame more
	 * than it has counted.
	 */
	assert_in_range(count_of(ch, LEAT_CHANNEL_LOST), 2, 3);
}

static void
check_read(const struct ctx *c, const struct leat_channel *ch, const uint32_t *got, bool done)
{
	uint64_t lost = count_of(ch, LEAT_CHANNEL_LOST), missing = 0;
	uint32_t n;

	assert_int_equal(got[SLOW], c->sc->with == SLOW_FIRST || c->sc->with == SLOW_LAST);
	for (n = 0; n < PRESENT; n++) {
		assert_true(got[n] <= 1);
		missing += got[n] == 0;
		/* The child peeks at most the first three frames. */
		if (n >= 3)
			assert_int_equal(got[n], 1);
	}
	if (done) {
		assert_int_equal(missing, 3);
		return;
	}
	if (atomic_load(&c->notes->consuming) == 0)
		assert_int_equal(missing, lost);
	else
		assert_true(missing >= lost);
	if (c->sc->conf.on_death == LEAT_CHANNEL_REDELIVER)
		assert_int_equal(lost, 0);
	else
		assert_int_equal(count_of(ch, LEAT_CHANNEL_RETURNED), 0);
}

static void
check_wait(const struct ctx *c, const struct leat_channel *ch, const uint32_t *got, bool done)
{
	check_none(c, ch, got, done);
	assert_int_equal(got[SLOW], 1);
}

/*
 * Either the oldest frame was overwritten for the child's, or nothing happened. No frame is both
 * delivered and counted as overwritten.
 */
static void
check_oldest(const struct ctx *c, const struct leat_channel *ch, const uint32_t *got, bool done)
{
	uint64_t gone = 0;
	uint32_t n;

	for (n = 0; n < c->sc->present; n++) {
		assert_true(got[n] <= 1);
		/* Frames were overwritten from the oldest on. */
		if (got[n] == 0)
			assert_int_equal(gone++, n);
	}
	/*
	 * A participant that is killed between overwriting and counting has overwritten one frame
	 * more than it has counted.
	 */
	assert_in_range(gone - count_of(ch, LEAT_CHANNEL_OVERWRITTEN), 0, 1);
	assert_true(got[CHILD] <= 1);
	if (done)
		assert_int_equal(got[CHILD], 1);
}

const struct scenario kill_scenarios[] = {
	{ "send", { .size = SIZE }, { 0 }, PRESENT, 0, false, act_send, check_send },
	/*
	 * Only 64 bytes are left before the buffer's end: an empty frame fills them, and the
	 * child's frame goes to the buffer's begin.
	 */
	{ "send with link",
	  { .size = SIZE, .start = SIZE - 64 },
	  { 0 },
	  0,
	  0,
	  false,
	  act_send,
	  check_send },
	{ "send near 2^64",
	  { .size = SIZE, .start = (uint64_t)0 - 64 },
	  { 0 },
	  0,
	  0,
	  false,
	  act_send,
	  check_send },
	/* The buffer is full, but four frames are read: the send moves `free` over these. */
	{ "send with reclaim", { .size = SIZE }, { 0 }, 15, 4, false, act_send, check_send },
	{ "burst", { .size = SIZE }, { 0 }, PRESENT, 0, false, act_burst, check_burst },
	{ "abort", { .size = SIZE }, { 0 }, PRESENT, 0, false, act_abort, check_none },
	{ "read, redeliver", { .size = SIZE }, { 0 }, PRESENT, 0, false, act_read, check_read },
	{ "read, drop",
	  { .size = SIZE, .on_death = LEAT_CHANNEL_DROP },
	  { 0 },
	  PRESENT,
	  0,
	  false,
	  act_read,
	  check_read },
	{ "give back", { .size = SIZE }, { 0 }, PRESENT, 0, false, act_give_back, check_none },
	{ "drop oldest",
	  { .size = SIZE },
	  { .full = LEAT_CHANNEL_FULL_DROP_OLDEST },
	  15,
	  0,
	  false,
	  act_send,
	  check_oldest },
	{ "recover", { .size = SIZE }, { 0 }, PRESENT, 0, true, act_recover, check_none },
	/* 14 frames and the dead writer's reservation fill the buffer. */
	{ "recover two on a full ring",
	  { .size = SIZE },
	  { 0 },
	  14,
	  0,
	  false,
	  act_recover,
	  check_none,
	  TWO_DEAD },
	{ "drop two on a full ring",
	  { .size = SIZE, .on_death = LEAT_CHANNEL_DROP, .start = (uint64_t)0 - SIZE / 2 },
	  { 0 },
	  14,
	  0,
	  false,
	  act_recover,
	  check_dropped,
	  TWO_DEAD },
	{ "terminate", { .size = SIZE }, { 0 }, PRESENT, 0, false, act_terminate, check_none },
	{ "attach and leave", { .size = SIZE }, { 0 }, PRESENT, 0, false, act_attach, check_none },
	{ "send, set aside", { .size = SIZE }, { 0 }, 0, 0, false, act_send, check_send, ASIDE },
	{ "link set aside",
	  { .size = SIZE, .start = SIZE - 64 },
	  { 0 },
	  0,
	  0,
	  false,
	  act_send,
	  check_send,
	  ASIDE },
	{ "burst, set aside", { .size = SIZE }, { 0 }, 0, 0, false, act_burst, check_burst, ASIDE },
	{ "abort, set aside", { .size = SIZE }, { 0 }, 0, 0, false, act_abort, check_none, ASIDE },
	{ "recover what was set aside",
	  { .size = SIZE },
	  { 0 },
	  1,
	  0,
	  true,
	  act_recover,
	  check_none,
	  ASIDE },
	{ "set aside, committed",
	  { .size = SIZE },
	  { 0 },
	  PRESENT,
	  0,
	  false,
	  act_read_past,
	  check_read,
	  SLOW_FIRST },
	{ "set aside, committed late",
	  { .size = SIZE },
	  { 0 },
	  PRESENT,
	  0,
	  false,
	  act_read_past,
	  check_read,
	  SLOW_LAST },
	{ "set aside before sleeping",
	  { .size = SIZE },
	  { 0 },
	  PRESENT,
	  0,
	  false,
	  act_wait_past,
	  check_wait,
	  SLOW_LAST },
};

const unsigned int kill_nb_scenarios = sizeof(kill_scenarios) / sizeof(kill_scenarios[0]);

bool
kill_ends(const struct scenario *sc)
{
	return sc->act == act_terminate;
}
