/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Killed after every instruction: a child does one thing with the channel, step by step, and is
 * killed after k instructions, for each k from none to all. Then the survivors must be able to go
 * on: no frame is torn, lost or delivered twice, and nothing stays reserved or held by the dead.
 *
 * Survivors see two things of a dead participant: the memory it left, and that its process does not
 * exist. So the child need not be started anew for each k. After each step that changed the memory,
 * the memory is copied, the child's slot in the copy is given the pid of a process that has ended,
 * and the survivor works on the copy. At ten of the steps, and with the argument "all" at each, the
 * child is really killed, and a new child is run to the same step.
 */

#include <stdlib.h>
#include <sys/prctl.h>

#include "kill.h"
#include "stepper.h"

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

/*
 * Send a frame after what the child, or the dead writer, has reserved, and set that reservation
 * aside. If no writer is dead, also read the frame.
 */
static void
set_aside(struct ctx *c)
{
	uint64_t m = *chan_mark(c->other, c->at);
	uint32_t n;

	if (c->aside || !mark_is_at(c->other, m, c->at) || mark_state(m) != CHAN_RESERVED)
		return;
	c->aside = true;
	assert_int_equal(send_number(c->other, BEHIND, LEN), 0);
	assert_int_equal(chan_ready(c->other, true), 1);
	assert_int_equal(mark_state(*chan_mark(c->other, c->at)), CHAN_ASIDE);
	if (c->sc->dead)
		return;
	assert_int_equal(recv_number(c->other, &n), 0);
	assert_int_equal(n, BEHIND);
}

static void
setup(struct ctx *c, bool file)
{
	uint32_t n, got;

	if (file)
		shared_make_file(&c->s, &c->sc->conf);
	else
		shared_make(&c->s, &c->sc->conf);
	c->parent = shared_attach(&c->s, NULL);
	c->other = shared_attach(&c->s, NULL);
	c->aside = false;
	c->notes->done = 0;
	c->notes->consuming = 0;
	if (is_slow(c))
		reserve_slow(c->other);
	for (n = 0; n < c->sc->present; n++)
		assert_int_equal(send_number(c->parent, n, LEN), 0);
	for (n = 0; n < c->sc->early; n++)
		assert_int_equal(recv_number(c->parent, &got), 0);
	c->at = c->parent->block->write;
}

/*
 * Start a participant that peeks n frames, or reserves one if n is 0, and lives until it is killed.
 */
static pid_t
start_victim(const struct ctx *c, unsigned int n)
{
	struct leat_channel_frame f[8];
	struct leat_channel *ch;
	int ready[2];
	pid_t pid;
	void *p;
	char ok;

	assert_int_equal(pipe(ready), 0);
	pid = fork_or_fail();
	if (pid == 0) {
		ch = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 ? shared_try(&c->s, NULL) : NULL;
		if (ch == NULL ||
		    (n > 0 ? leat_channel_peek(ch, f, n) != (int)n
			   : leat_channel_reserve(ch, 9, 9, LEN, &p) != 0) ||
		    write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &ok, 1), 1);
	close(ready[0]);
	return pid;
}

/*
 * Kill two participants. Both are attached before either dies: the second would recover the first.
 */
static void
make_two_dead(const struct ctx *c)
{
	pid_t reader = start_victim(c, 3), writer = start_victim(c, 0);

	stepper_kill(writer);
	stepper_kill(reader);
	assert_int_equal(send_number(c->parent, BEHIND, LEN), -EAGAIN);
}

/* Call this when the child is attached: a participant that attaches recovers what the dead left. */
static void
setup_dead(struct ctx *c)
{
	if (c->sc->dead)
		shared_make_dead(&c->s, 3, LEN);
	if (c->sc->with == TWO_DEAD)
		make_two_dead(c);
	if (c->sc->with == ASIDE)
		set_aside(c);
	assert_int_equal(c->aside, c->sc->with == ASIDE && c->sc->dead);
}

/*
 * In the child, do the scenario's action on another channel first, so that work that happens only
 * once per process (symbols, stdio) is not stepped through.
 */
static void
warm_up(const struct ctx *c)
{
	struct ctx warm = { .sc = c->sc, .notes = c->notes };
	struct leat_channel *ch, *slow = NULL;
	uint32_t n;

	for (n = 0; n < 3; n++)
		frame_fill(kill_data[n], LEN, CHILD + n);
	if (c->s.fd >= 0)
		shared_make_file(&warm.s, &c->sc->conf);
	else
		shared_make(&warm.s, &c->sc->conf);
	if (is_slow(c)) {
		slow = shared_try(&warm.s, NULL);
		if (slow == NULL)
			_exit(1);
		reserve_slow(slow);
	}
	ch = shared_try(&warm.s, &c->sc->opts);
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
	struct leat_channel_opts opts = c->sc->opts;
	struct leat_channel *ch;
	pid_t pid = fork_or_fail();

	if (pid != 0)
		return pid;
	warm_up(c);
	/* Steps take long: the child must not look for dead participants at intervals. */
	opts.check_ms = 60000;
	ch = shared_try(&c->s, &opts);
	if (ch == NULL || !stepper_here(true))
		_exit(1);
	c->sc->act(ch, c);
	atomic_store(&c->notes->done, 1);
	(void)stepper_here(false);
	_exit(0);
}

/*
 * Read all frames, until an error or `patience` reads in a row that find none.
 * @return the errno of the last read
 */
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

/* Let the slow writer, which is alive, commit in the memory of ch. */
static void
commit_slow(const struct ctx *c, const struct leat_channel *ch)
{
	struct leat_channel slow = *c->other;

	slow.block = ch->block;
	slow.marks = ch->marks;
	slow.data = ch->data;
	assert_int_equal(leat_channel_commit(&slow), 0);
}

/*
 * The survivor goes on: it recovers dead participants, reads all frames, and goes round the buffer
 * twice.
 */
static void
survive(const struct ctx *c, struct leat_channel *ch, unsigned int k)
{
	uint32_t got[NUMBERS] = { 0 }, n = 0, i;
	struct leat_channel_info info;
	bool ended;
	int ret;

	/*
	 * c->parent was attached before the death, so it finds at least one dead participant.
	 * Another survivor has recovered the dead already, when it attached.
	 */
	assert_in_range(leat_channel_recover(ch), ch == c->parent ? 1 : 0, 3);
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
start(struct ctx *c, bool file)
{
	pid_t pid;

	setup(c, file);
	pid = start_child(c);
	stepper_await(pid);
	setup_dead(c);
	return pid;
}

static void
stop(struct ctx *c)
{
	/*
	 * survive() has committed the reservation of this participant, so the close must not abort
	 * it.
	 */
	c->other->res_value = 0;
	leat_channel_close(c->other);
	leat_channel_close(c->parent);
	shared_free(&c->s);
}

/* Really kill the child. The channel is in a file, where the kernel's locks show the death. */
static void
kill_after(struct ctx *c, unsigned int k)
{
	pid_t pid = start(c, true);
	unsigned int i;

	for (i = 0; i < k; i++) {
		if (c->sc->with == ASIDE)
			set_aside(c);
		/*
		 * The call took fewer instructions this time: the child is killed after the call.
		 */
		if (!stepper_step(pid))
			break;
	}
	stepper_kill(pid);
	survive(c, c->parent, k);
	stop(c);
}

static void
go_round(struct leat_channel *ch)
{
	uint32_t i, n;

	for (i = 0; i < 40; i++) {
		assert_int_equal(send_number(ch, i, LEN), 0);
		assert_int_equal(recv_number(ch, &n), 0);
		assert_int_equal(n, i);
	}
}

/*
 * Stop the child when it has changed the memory `changes` times. Meanwhile another participant
 * recovers and, if laps is set, reads all frames and goes round the buffer twice. Then let the
 * child go on.
 * @return whether the child changed the memory that often
 */
static bool
stop_after(struct ctx *c, unsigned int changes, bool laps)
{
	uint32_t got[NUMBERS] = { 0 };
	struct leat_channel_info info;
	pid_t pid = start(c, true);
	bool ended = false;
	struct shared last;
	unsigned int seen = 0;

	shared_make(&last, &c->sc->conf);
	memcpy(last.mem, c->s.mem, last.bytes);
	while (seen < changes && !ended) {
		ended = !stepper_step(pid);
		if (memcmp(last.mem, c->s.mem, last.bytes) == 0)
			continue;
		memcpy(last.mem, c->s.mem, last.bytes);
		seen++;
	}
	/* The child, which recovers, may have freed both dead participants' slots already. */
	assert_in_range(leat_channel_recover(c->parent), 0, 2);
	assert_int_equal(leat_channel_recover(c->parent), 0);
	if (laps) {
		assert_int_equal(drain(c->parent, 1, got), -EAGAIN);
		go_round(c->parent);
	}
	if (!ended)
		stepper_resume(pid);
	assert_int_equal(drain(c->parent, 1, got), -EAGAIN);
	c->sc->check(c, c->parent, got, true);
	go_round(c->parent);
	assert_int_equal(leat_channel_inspect(c->parent, &info), 0);
	assert_int_equal(info.reserved + info.reading + info.returned + info.committed, 0);
	assert_int_equal(info.count[LEAT_CHANNEL_ABORTED], 1);
	stepper_kill(pid);
	assert_int_equal(leat_channel_recover(c->parent), 1);
	stop(c);
	shared_free(&last);
	return !ended;
}

/*
 * As kill_after(), without a kill: work on a copy of the memory in which the pid of the child is
 * replaced by that of a process that has ended.
 */
static void
dead_in_copy(const struct ctx *c, const struct shared *copy, pid_t pid, uint64_t dead,
	     unsigned int k)
{
	struct chan_block *b = copy->mem;
	struct leat_channel *ch;
	uint32_t i;

	memcpy(copy->mem, c->s.mem, copy->bytes);
	for (i = 0; i < b->participants; i++) {
		if ((pid_t)(b->slots[i].owner & OWNER_PID_MASK) == pid)
			b->slots[i].owner = dead;
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
	pid = start(&c, false);
	shared_make(&copy, &c.sc->conf);
	k = 0;
	shared_make(&last, &c.sc->conf);
	do {
		if (c.sc->with == ASIDE)
			set_aside(&c);
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
	if (c.sc->with == TWO_DEAD) {
		for (i = 0; stop_after(&c, i, i % 2 == 0); i++)
			;
		assert_true(i > 5);
	}
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
