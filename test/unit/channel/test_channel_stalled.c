/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A thread that stands still, and goes on when the channel has gone round: a child does one thing
 * with the channel and is stopped before an instruction. Meanwhile its parent sends and reads three
 * laps of frames, or as many as the frames held by the child leave room for. Then the child
 * finishes. No frame may be torn, lost, or delivered twice, and no reader gets an uncommitted
 * frame.
 *
 * The child is stopped before each locked instruction, as these pass frames between participants,
 * and before other instructions: if they are few before each, else before a sample of them, which
 * the argument "more" makes larger: the test then takes a minute. (test_channel_kill.c has children
 * that do not go on.)
 */

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/user.h>

#include "channel_pvt.h"
#include "channel_test.h"
#include "stepper.h"

#define SIZE 4096
#define LEN 200 /* 256 bytes with its header */
#define LAP (SIZE / 256)
#define NUMBERS 4096
#define CHILD 4000  /* number of the child's first frame */
#define STOPS 50000 /* examine at most this many instructions */

static bool more;

struct notes {
	int ret;
	unsigned int nb_read;
	uint32_t read[CHAN_BURST];
	bool torn;
};

struct ctx {
	const struct scenario *sc;
	struct shared s;
	struct leat_channel *parent;
	struct notes *notes; /* what the child reports */
	uint32_t next;
	uint32_t got[NUMBERS];
};

struct scenario {
	const char *name;
	struct leat_channel_opts opts; /* options of the child */
	uint32_t present;
	bool dead; /* a participant died with a peeked frame and a reserved one */
	void (*act)(struct leat_channel *ch, struct notes *notes);
	uint32_t sends; /* number of frames that the child sends */
};

/* ---- what the child does ---- */

static uint8_t data[3][LEN];

static void
act_send(struct leat_channel *ch, struct notes *notes)
{
	notes->ret = leat_channel_send(ch, CHILD + 1, ~(uint64_t)CHILD, data[0], LEN);
}

static void
act_burst(struct leat_channel *ch, struct notes *notes)
{
	struct leat_channel_frame f[3];
	uint32_t i;

	for (i = 0; i < 3; i++)
		f[i] = (struct leat_channel_frame){ .data = data[i],
						    .len = LEN,
						    .type = CHILD + i + 1,
						    .hash = ~(uint64_t)(CHILD + i) };
	notes->ret = leat_channel_send_burst(ch, f, 3);
}

/* Check the contents while the frame is still peeked, as its reader would. */
static void
act_read(struct leat_channel *ch, struct notes *notes)
{
	struct leat_channel_frame f[3];
	uint32_t n = 0;
	int i;

	notes->ret = leat_channel_peek(ch, f, 3);
	for (i = 0; i < notes->ret; i++) {
		notes->torn |= !frame_whole(f[i].data, f[i].len, &n) || f[i].type != n + 1 ||
			       f[i].hash != ~(uint64_t)n;
		notes->read[notes->nb_read++] = n;
	}
	if (notes->ret > 0)
		notes->ret = leat_channel_consume(ch);
}

static void
act_give_back(struct leat_channel *ch, struct notes *notes)
{
	struct leat_channel_frame f[3];

	notes->ret = leat_channel_peek(ch, f, 3);
	if (notes->ret > 0)
		notes->ret = leat_channel_give_back(ch);
}

static void
act_recover(struct leat_channel *ch, struct notes *notes)
{
	notes->ret = leat_channel_recover(ch);
}

static void
act_terminate(struct leat_channel *ch, struct notes *notes)
{
	notes->ret = leat_channel_terminate(ch);
}

static const struct scenario scenarios[] = {
	{ "a writer, and the positions go round", { 0 }, 3, false, act_send, 1 },
	{ "a writer of a burst", { 0 }, 3, false, act_burst, 3 },
	{ "a writer that drops the oldest",
	  { .full = LEAT_CHANNEL_FULL_DROP_OLDEST },
	  LAP - 1,
	  false,
	  act_send,
	  1 },
	{ "a reader, and the positions go round", { 0 }, 3, false, act_read, 0 },
	{ "a reader that gives back", { 0 }, 3, false, act_give_back, 0 },
	/*
	 * Headers of old frames lie where the next frame will be: a reader that read the header
	 * before the mark would get an old header.
	 */
	{ "a reader where nothing is yet: header before mark", { 0 }, 0, false, act_read, 0 },
	{ "who recovers", { 0 }, 3, true, act_recover, 0 },
	{ "who terminates", { 0 }, 3, false, act_terminate, 0 },
};

/* ---- the parent ---- */

static void
receive(struct ctx *c)
{
	uint32_t n;

	while (recv_number(c->parent, &n) == 0) {
		assert_in_range(n, 0, NUMBERS - 1);
		c->got[n]++;
	}
}

static int
send_next(struct ctx *c)
{
	/*
	 * Send a different length each time, so that a header left by an older frame has a wrong
	 * length.
	 */
	int ret = send_number(c->parent, c->next, LEN - c->next % 50);

	if (ret == 0)
		c->next++;
	return ret;
}

/* Send and read three laps of frames, as far as there is room. */
static void
go_round(struct ctx *c)
{
	unsigned int i;
	int ret;

	for (i = 0; i < 3 * LAP; i++) {
		ret = send_next(c);
		assert_true(ret == 0 || ret == -EAGAIN || ret == -ESHUTDOWN);
		receive(c);
	}
}

/* Start a child that is stopped before its act, on a channel that has gone round once. */
static pid_t
start(struct ctx *c)
{
	static const struct leat_channel_conf conf = { .size = SIZE };
	struct leat_channel_opts opts = c->sc->opts;
	struct leat_channel *ch;
	uint32_t i;
	pid_t pid;

	/* Steps take long: the child must not look for dead participants at intervals. */
	opts.check_ms = 60000;
	shared_make(&c->s, &conf);
	c->parent = shared_attach(&c->s, NULL);
	memset(c->notes, 0, sizeof(*c->notes));
	memset(c->got, 0, sizeof(c->got));
	c->next = 0;
	for (i = 0; i < LAP + 3; i++) {
		assert_int_equal(send_next(c), 0);
		receive(c);
	}
	for (i = 0; i < c->sc->present; i++)
		assert_int_equal(send_next(c), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		for (i = 0; i < 3; i++)
			frame_fill(data[i], LEN, CHILD + i);
		ch = leat_channel_attach(c->s.mem, c->s.bytes, &opts, NULL);
		if (ch == NULL || !stepper_here(true))
			_exit(1);
		c->sc->act(ch, c->notes);
		(void)stepper_here(false);
		_exit(0);
	}
	stepper_await(pid);
	/* Make a dead participant only now: the child would have recovered it when it attached. */
	if (c->sc->dead)
		shared_make_dead(&c->s, 1, LEN);
	return pid;
}

/* Check that no frame is missing, none was read twice, and the channel is empty and not corrupt. */
static void
check(struct ctx *c, unsigned int k)
{
	uint32_t i, n, sent = c->notes->ret < 0 ? 0 : c->sc->sends;
	struct leat_channel_info info = { 0 };
	uint64_t missing = 0;

	for (i = 0; i < c->notes->nb_read; i++)
		c->got[c->notes->read[i]]++;
	if (c->notes->torn || leat_channel_inspect(c->parent, &info) != 0)
		fail_msg("%s, before instruction %u: torn, or %s", c->sc->name, k,
			 leat_channel_error());
	for (n = 0; n < c->next; n++) {
		if (c->got[n] > 1)
			fail_msg("%s, before instruction %u: frame %u came %u times", c->sc->name,
				 k, n, c->got[n]);
		missing += c->got[n] == 0;
	}
	assert_int_equal(missing, info.count[LEAT_CHANNEL_OVERWRITTEN]);
	assert_int_equal(info.count[LEAT_CHANNEL_LOST], 0);
	for (i = 0; i < 3; i++)
		assert_int_equal(c->got[CHILD + i], i < sent ? 1 : 0);
	assert_int_equal(info.reserved + info.reading + info.returned + info.committed, 0);
	assert_true(info.write == info.read);
	assert_true(info.ended || leat_channel_recover(c->parent) == 1);
}

/*
 * @return whether the instruction has a lock prefix, or is xchg with memory, possibly behind a REX
 * prefix
 */
static bool
is_locked(pid_t pid)
{
#ifdef __x86_64__
	struct user_regs_struct regs;
	uint64_t code;

	assert_int_equal(ptrace(PTRACE_GETREGS, pid, NULL, &regs), 0);
	errno = 0;
	code = (uint64_t)ptrace(PTRACE_PEEKTEXT, pid, (void *)regs.rip, NULL);
	assert_int_equal(errno, 0);
	if ((code & 0xf0) == 0x40)
		code >>= 8;
	return (code & 0xff) == 0xf0 || ((code & 0xff) == 0x87 && (code >> 14 & 3) != 3);
#else
	(void)pid;
	return false;
#endif
}

static void
stop_before(struct ctx *c, unsigned int k)
{
	pid_t pid = start(c);
	bool there = true;
	unsigned int i;

	/* The child may take fewer instructions this time. */
	for (i = 0; i < k && there; i++)
		there = stepper_step(pid);
	go_round(c);
	if (there)
		stepper_resume(pid);
	if (c->notes->ret < 0 && c->notes->ret != -EAGAIN)
		fail_msg("%s, before instruction %u: %d", c->sc->name, k, c->notes->ret);
	stepper_kill(pid);
	receive(c);
	go_round(c);
	check(c, k);
	leat_channel_close(c->parent);
	shared_free(&c->s);
}

static void
goes_on_later(void **state)
{
	static bool locks[STOPS];
	struct ctx c = { .sc = *state };
	unsigned int i, k = 0, stops = 0, locked = 0, stride;
	pid_t pid;

	if (!stepper_works())
		skip();
	c.notes = mmap(NULL, sizeof(*c.notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	assert_true(c.notes != MAP_FAILED);
	pid = start(&c);
	do {
		if (k < STOPS) {
			locks[k] = is_locked(pid);
			locked += locks[k];
		}
	} while (k++, stepper_step(pid));
	stepper_kill(pid);
	leat_channel_close(c.parent);
	shared_free(&c.s);
	/* A stop before instruction i takes i steps, so longer calls are stopped less often. */
	stride = 1 + (unsigned int)((uint64_t)k * k / (more ? 5000000 : 50000));
	if (stride > k / 16 + 1)
		stride = k / 16 + 1;
	for (i = 0; i < k; i++) {
		if (i % stride != 0 && (i >= STOPS || !locks[i]))
			continue;
		stop_before(&c, i);
		stops++;
	}
	print_message("%s: stopped before %u of %u instructions, %u of these locked\n", c.sc->name,
		      stops, k, locked);
	assert_true(stops > 10);
	assert_int_equal(munmap(c.notes, sizeof(*c.notes)), 0);
}

int
main(int argc, char **argv)
{
	struct CMUnitTest tests[sizeof(scenarios) / sizeof(scenarios[0])];
	size_t i;

	more = argc > 1 && strcmp(argv[1], "more") == 0;
	for (i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		tests[i] = (struct CMUnitTest){
			.name = scenarios[i].name,
			.test_func = goes_on_later,
			.initial_state = (void *)&scenarios[i],
		};
	return _cmocka_run_group_tests("stalled", tests, i, NULL, NULL);
}
