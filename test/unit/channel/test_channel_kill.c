/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Killed after every instruction: a child does one thing with the channel, step by step, and is dead after
 * k instructions, for each k from none to all of it. Then whoever is left must be able to go on: no frame is
 * torn, lost or delivered twice, and nothing stays reserved or in dead hands.
 *
 * What the survivors see of a dead one is the memory it left and that its process is gone. So the child need not
 * be started anew for each k: after each step that changed the memory it is copied, in the copy the child's place is that of a
 * process that has ended, and the survivor works on the copy. At ten of the steps, and with the argument "all"
 * at each, it is killed in earnest, and a new one goes as far.
 */

#include <stdlib.h>

#include "../driver_efa/stepper.h"
#include "kill.h"

static bool all;

static pid_t
fork_or_fail(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	return pid;
}

static void
reserve_slow(struct leat_channel *ch)
{
	void *p;

	assert_int_equal(leat_channel_reserve(ch, SLOW + 1, ~(uint64_t)SLOW, LEN, &p), 0);
	frame_fill(p, LEN, SLOW);
}

static bool
is_slow(const struct ctx *c)
{
	return c->sc->with == SLOW_FIRST || c->sc->with == SLOW_LAST;
}

/* What the child, or the dead one, reserved is set aside, and a frame behind it is there; or was read. */
static void
meddle(struct ctx *c)
{
	uint64_t m = *chan_mark(c->other, c->at);
	uint32_t n;

	if (c->meddled || !mark_is_at(c->other, m, c->at) || mark_state(m) != CHAN_RESERVED)
		return;
	c->meddled = true;
	assert_int_equal(send_number(c->other, BEHIND, LEN), 0);
	assert_int_equal(chan_ready(c->other, true), 1);
	assert_int_equal(mark_state(*chan_mark(c->other, c->at)), CHAN_ASIDE);
	if (c->sc->dead)
		return;
	assert_int_equal(recv_number(c->other, &n), 0);
	assert_int_equal(n, BEHIND);
}

static void
setup(struct ctx *c)
{
	uint32_t n, got;

	shared_make(&c->s, &c->sc->conf);
	c->parent = shared_attach(&c->s, NULL);
	c->other = shared_attach(&c->s, NULL);
	c->meddled = false;
	c->notes->done = 0;
	c->notes->consuming = 0;
	if (is_slow(c))
		reserve_slow(c->other);
	for (n = 0; n < c->sc->present; n++)
		assert_int_equal(send_number(c->parent, n, LEN), 0);
	for (n = 0; n < c->sc->early; n++)
		assert_int_equal(recv_number(c->parent, &got), 0);
	c->at = c->parent->block->write;
	if (c->sc->dead)
		shared_make_dead(&c->s, 3, LEN);
	if (c->sc->with == MEDDLED)
		meddle(c);
	assert_int_equal(c->meddled, c->sc->with == MEDDLED && c->sc->dead);
}

/* The same on another channel, so that what is done once (symbols, stdio) is not stepped through. */
static void
warm_up(const struct ctx *c)
{
	struct ctx warm = { .sc = c->sc, .notes = c->notes };
	struct leat_channel *ch, *slow = NULL;
	uint32_t n;

	for (n = 0; n < 3; n++)
		frame_fill(kill_data[n], LEN, CHILD + n);
	shared_make(&warm.s, &c->sc->conf);
	if (is_slow(c)) {
		slow = leat_channel_attach(warm.s.mem, warm.s.bytes, NULL, NULL);
		if (slow == NULL)
			_exit(1);
		reserve_slow(slow);
	}
	ch = leat_channel_attach(warm.s.mem, warm.s.bytes, &c->sc->opts, NULL);
	for (n = 0; ch != NULL && n < c->sc->present; n++)
		(void)send_number(ch, n, LEN);
	if (ch == NULL)
		_exit(1);
	c->sc->act(ch, &warm);
	leat_channel_close(ch);
	leat_channel_close(slow);
	shared_free(&warm.s);
	atomic_store(&c->notes->consuming, 0);
}

static pid_t
start_child(const struct ctx *c)
{
	struct leat_channel *ch;
	pid_t pid = fork_or_fail();

	if (pid != 0)
		return pid;
	warm_up(c);
	ch = leat_channel_attach(c->s.mem, c->s.bytes, &c->sc->opts, NULL);
	if (ch == NULL || !stepper_here(true))
		_exit(1);
	c->sc->act(ch, c);
	atomic_store(&c->notes->done, 1);
	(void)stepper_here(false);
	_exit(0);
}

/* Reads all there is. @return what ended it */
static int
drain(struct leat_channel *ch, unsigned int patience, uint32_t *got)
{
	unsigned int looks = 0;
	uint32_t n;
	int ret;

	for (;;) {
		ret = recv_number(ch, &n);
		if (ret == 0) {
			assert_true(n < NUMBERS);
			got[n]++;
			looks = 0;
		} else if (ret != -EAGAIN || ++looks >= patience) {
			return ret;
		}
	}
}

/* The slow writer, alive, comes to commit, in the memory that ch has. */
static void
commit_slow(const struct ctx *c, const struct leat_channel *ch)
{
	struct leat_channel slow = *c->other;

	slow.block = ch->block;
	slow.marks = ch->marks;
	slow.data = ch->data;
	assert_int_equal(leat_channel_commit(&slow), 0);
}

/* The survivor goes on: the dead are put in order, everything can be read, the buffer is used twice over. */
static void
survive(const struct ctx *c, struct leat_channel *ch, unsigned int k)
{
	uint32_t got[NUMBERS] = { 0 }, n = 0, i;
	struct leat_channel_info info;
	bool ended;
	int ret;

	assert_in_range(leat_channel_recover(ch), 1, 3);
	assert_int_equal(leat_channel_recover(ch), 0);
	if (c->sc->with == SLOW_LAST)
		assert_int_equal(drain(ch, PATIENCE, got), -EAGAIN);
	if (is_slow(c)) {
		assert_int_equal(got[SLOW], 0);
		commit_slow(c, ch);
	}
	ret = drain(ch, 1, got);
	ended = ret == -ESHUTDOWN;
	if (ret != -EAGAIN && !kill_ends(c->sc))
		fail_msg("%s, dead after %u: %s", c->sc->name, k, leat_channel_error());
	c->sc->check(c, ch, got, atomic_load(&c->notes->done) != 0);
	for (i = 0; i < 40 && !ended; i++) {
		if (send_number(ch, i, LEN) != 0 || recv_number(ch, &n) != 0)
			fail_msg("%s, dead after %u: %s", c->sc->name, k, leat_channel_error());
		assert_int_equal(n, i);
	}
	assert_int_equal(leat_channel_inspect(ch, &info), 0);
	assert_int_equal(info.reserved + info.reading + info.returned + info.committed, 0);
	for (i = 0; i < info.participants; i++)
		assert_int_equal(info.who[i].pid, getpid());
	assert_true(info.write == info.read);
}

static pid_t
start(struct ctx *c)
{
	pid_t pid;
	int st;

	setup(c);
	pid = start_child(c);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFSTOPPED(st) && WSTOPSIG(st) == SIGSTOP);
	return pid;
}

static void
stop(struct ctx *c)
{
	/* It was committed on its behalf. */
	c->other->res_value = 0;
	leat_channel_close(c->other);
	leat_channel_close(c->parent);
	shared_free(&c->s);
}

static void
kill_after(struct ctx *c, unsigned int k)
{
	pid_t pid = start(c);
	unsigned int i;

	for (i = 0; i < k; i++) {
		if (c->sc->with == MEDDLED)
			meddle(c);
		assert_true(stepper_step(pid));
	}
	stepper_kill(pid);
	survive(c, c->parent, k);
	stop(c);
}

/* The same without a kill: on a copy, where each place of pid is that of a process that has ended. */
static void
dead_in_copy(const struct ctx *c, const struct shared *copy, pid_t pid, uint64_t dead,
	     unsigned int k)
{
	struct chan_block *b = copy->mem;
	struct leat_channel *ch;
	uint32_t i;

	memcpy(copy->mem, c->s.mem, copy->bytes);
	for (i = 0; i < b->participants; i++) {
		if ((pid_t)(b->slots[i].who & ((1u << WHO_PID_BITS) - 1)) == pid)
			b->slots[i].who = dead;
	}
	ch = shared_attach(copy, NULL);
	survive(c, ch, k);
	leat_channel_close(ch);
}

static uint64_t
somebody_dead(void)
{
	pid_t pid = fork_or_fail();
	int st;

	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	return (uint64_t)pid;
}

static void
at_every_instruction(void **state)
{
	uint64_t dead = somebody_dead();
	struct ctx c = { .sc = *state };
	struct shared copy, last;
	int notes, last_notes = 0;
	unsigned int k, i, states = 0;
	pid_t pid;

	if (!stepper_works())
		skip();
	c.notes = mmap(NULL, sizeof(*c.notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	assert_true(c.notes != MAP_FAILED);
	pid = start(&c);
	shared_make(&copy, &c.sc->conf);
	k = 0;
	shared_make(&last, &c.sc->conf);
	do {
		if (c.sc->with == MEDDLED)
			meddle(&c);
		notes = c.notes->done + c.notes->consuming;
		if (k++ > 0 && notes == last_notes && memcmp(last.mem, c.s.mem, last.bytes) == 0)
			continue;
		memcpy(last.mem, c.s.mem, last.bytes);
		last_notes = notes;
		dead_in_copy(&c, &copy, pid, dead, k - 1);
		states++;
	} while (stepper_step(pid));
	stepper_kill(pid);
	survive(&c, c.parent, k);
	stop(&c);
	shared_free(&copy);
	shared_free(&last);
	for (i = 0; i < k; i += all ? 1 : k / 10 + 1)
		kill_after(&c, i);
	print_message("%s: dead after each of %u instructions, %u states\n", c.sc->name, k, states);
	assert_true(k > 50 && states > 3);
	assert_int_equal(munmap(c.notes, sizeof(*c.notes)), 0);
}

int
main(int argc, char **argv)
{
	struct CMUnitTest *tests = calloc(kill_nb_scenarios, sizeof(*tests));
	unsigned int i;
	int ret;

	if (tests == NULL)
		return 1;
	all = argc > 1 && strcmp(argv[1], "all") == 0;
	for (i = 0; i < kill_nb_scenarios; i++)
		tests[i] = (struct CMUnitTest){
			.name = kill_scenarios[i].name,
			.test_func = at_every_instruction,
			.initial_state = (void *)&kill_scenarios[i],
		};
	ret = _cmocka_run_group_tests("kill", tests, i, NULL, NULL);
	free(tests);
	return ret;
}
