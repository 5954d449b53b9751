/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Cancel from everywhere, at any moment: random trees of scopes, races, operations and masks, and
 * signals that come from the tasks themselves, a poller, a timer, an event of an endpoint, and a
 * message of another thread.
 *
 *     round: root task -- random steps --+-- waits in operations, masked or not
 *                                        +-- scopes of random policies: their branches take steps
 *                                        `-- races, cancels of scopes and tasks
 *
 * Each signal is checked when it is sent: it reaches exactly those tasks that expect_scope() or
 * expect_task() finds; the operation in which such a task waits is cancelled once, and the task
 * starts no other. Each round ends, and leaves no task behind.
 *
 *     test_scope_storm [ROUNDS]
 */

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include <rte_pause.h>

#include <leat_fabric.h>
#include <leat_task_op.h>
#include <leat_task_race.h>

#include "mock_driver.h"
#include "scope_pvt.h"
#include "scope_test.h"

/* A task is much slower under sanitizers. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS 500
#else
#define ROUNDS 20000
#endif
#define TASKS 64
#define BRANCHES 3
#define DEPTH 3
/* Maximum turns of a round. A round takes far fewer, unless it hangs. */
#define TURNS_MAX 100000

static unsigned int nb_rounds = ROUNDS;
static uint64_t seed = 20261123;

static unsigned int
dice(unsigned int n)
{
	return (unsigned int)(test_random(&seed) >> 33) % n;
}

/* ---- where a cancel comes from ---- */

enum from { TASK, PARENT, POLLER, TIMER, EVENT, THREAD, FROMS };

static const char *const from_names[] = { "task", "parent", "poller", "timer", "event", "thread" };
static unsigned int sent[FROMS], delivered[FROMS], late_refs;

/* ---- operations ---- */

struct storm_wait {
	struct task_wait w;
	enum leat_cancel answer;
	unsigned int cancels;
	bool promised;
};

static struct storm_wait *under_way[TASKS];

static int
storm_cancel(struct task_wait *w)
{
	struct storm_wait *o = container_of(w, struct storm_wait, w);

	assert_int_equal(o->cancels, 0);
	o->cancels++;
	if (o->answer == LEAT_CANCEL_LATE)
		return -EALREADY;
	o->promised = true;
	if (o->answer == LEAT_CANCEL_FREED)
		assert_true(task_wake(w, -ECANCELED));
	return 0;
}

static const struct task_wait_type storm_type = { .name = "storm", .cancel = storm_cancel };

static void
operation(void)
{
	struct leat_task *self = leat_task_current();
	struct storm_wait o = { .answer = (enum leat_cancel)dice(3) };
	bool flagged = (self->cancel & TASK_CANCELLED) != 0;
	int ret = task_may_wait("storm");

	/*
	 * The wait is refused if and only if the task was cancelled, and does not mask its cancel.
	 */
	assert_int_equal(ret, flagged && !self->masked ? -ECANCELED : 0);
	if (ret < 0)
		return;
	task_wait_init(&o.w, &storm_type);
	under_way[self->index] = &o;
	ret = task_park(&o.w);
	under_way[self->index] = NULL;
	assert_int_equal(ret, o.promised ? -ECANCELED : 0);
	assert_true(o.cancels == 0 || (self->cancel & TASK_CANCELLED) != 0);
}

/*
 * Complete each operation with a probability of 1 in 4. If patient, only of 1 in 100, so that the
 * cancel of the other thread often comes before the completion, however slow that thread is.
 */
static void
complete_some(bool patient)
{
	unsigned int i;

	for (i = 0; i < TASKS; i++)
		if (under_way[i] != NULL && dice(patient ? 100 : 4) == 0)
			(void)task_wake(&under_way[i]->w, under_way[i]->promised ? -ECANCELED : 0);
}

/* ---- open scopes ---- */

struct open_scope {
	struct leat_scope *s; /* NULL: unused */
	bool called_off;      /* cancelled by leat_scope_cancel() */
};

static struct open_scope scopes[TASKS];
static struct leat_tasks *ts;
static struct leat_task *driver;

static bool
alive(const struct leat_task *t)
{
	return t->state != LEAT_TASK_FREE && t->state != LEAT_TASK_DONE;
}

/* ---- tasks that a signal must reach ---- */

static bool expected[TASKS];

static void expect_task(const struct leat_task *t);

static void
expect_scope(const struct leat_scope *s)
{
	const struct leat_task *t;

	for (t = s->first; t != NULL; t = t->branch_next)
		expect_task(t);
}

static void
expect_task(const struct leat_task *t)
{
	const struct task_wait *w = t->wait;

	expected[t->index] = true;
	if (w != NULL && w->type == &scope_wait_type && !w->woken && !t->masked)
		expect_scope(container_of(w, const struct scope_wait, w)->scope);
}

struct before {
	bool flagged[TASKS];
	bool asked[TASKS]; /* tasks whose operation a signal would cancel */
	unsigned int cancels[TASKS];
};

static void
look(struct before *b)
{
	unsigned int i;

	memset(b, 0, sizeof(*b));
	memset(expected, 0, sizeof(expected));
	for (i = 0; i < ts->nb_stacks; i++) {
		const struct leat_task *t = &ts->blocks[i];

		b->flagged[i] = (t->cancel & TASK_CANCELLED) != 0;
		if (under_way[i] == NULL)
			continue;
		b->cancels[i] = under_way[i]->cancels;
		b->asked[i] = !t->masked && !under_way[i]->w.woken;
	}
}

/*
 * Check that exactly the expected tasks have got the signal since look(b), and that the signal has
 * cancelled the operations in which they wait.
 */
static void
check(const struct before *b)
{
	unsigned int i;

	for (i = 0; i < ts->nb_stacks; i++) {
		const struct leat_task *t = &ts->blocks[i];
		bool reached = expected[i] && !b->flagged[i];

		if (!alive(t))
			continue;
		assert_int_equal((t->cancel & TASK_CANCELLED) != 0, b->flagged[i] || reached);
		if (under_way[i] != NULL)
			assert_int_equal(under_way[i]->cancels,
					 b->cancels[i] + (reached && b->asked[i]));
	}
}

static void
cancel_scope(struct open_scope *os, enum from from)
{
	struct leat_scope *s = os->s;
	int want = 0, ret;
	struct before b;

	look(&b);
	if ((s->flags & SCOPE_ENDED) != 0 || (s->first == NULL && s->wait != NULL))
		want = -ESRCH;
	else if ((s->flags & SCOPE_CANCELLED) != 0)
		want = -EEXIST;
	if (want != -ESRCH)
		expect_scope(s);
	ret = leat_scope_cancel(s);
	assert_int_equal(ret, want);
	check(&b);
	os->called_off |= ret == 0;
	sent[from]++;
	delivered[from] += ret == 0;
}

static void
cancel_task(struct leat_task *t, enum from from)
{
	int want = 0, ret;
	struct before b;

	look(&b);
	if (!alive(t))
		want = -ESRCH;
	else if ((t->cancel & TASK_CANCELLED) != 0)
		want = -EEXIST;
	else
		expect_task(t);
	ret = leat_task_cancel(t);
	assert_int_equal(ret, want);
	check(&b);
	sent[from]++;
	delivered[from] += ret == 0;
}

/* Cancel a random scope, or a random task other than the driver. */
static void
cancel_any(enum from from)
{
	unsigned int i = dice(TASKS), n;

	for (n = 0; n < TASKS; n++, i = (i + 1) % TASKS) {
		struct leat_task *t = &ts->blocks[i];

		if (scopes[i].s != NULL) {
			cancel_scope(&scopes[i], from);
			return;
		}
		if (i < ts->nb_stacks && alive(t) && t != driver && dice(3) == 0) {
			cancel_task(t, from);
			return;
		}
	}
}

/* ---- the steps of tasks ---- */

static int steps(void *arg);

static void
turns(unsigned int n)
{
	while (n-- > 0)
		(void)leat_task_yield();
}

/* @return the argument for the children of a step, which is their level in the tree of tasks */
static void *
deeper(const void *arg)
{
	return (void *)((uintptr_t)arg + 1);
}

static void
check_result(const struct leat_scope *s, const struct open_scope *os, enum leat_scope_policy policy,
	     const int *rets, unsigned int n, int ret)
{
	unsigned int i, successes = 0;

	for (i = 0; i < n; i++)
		successes += rets[i] >= 0;
	assert_null(s->first);
	if (policy == LEAT_SCOPE_FIRST_SUCCESS) {
		assert_int_equal(ret >= 0, successes > 0);
		if (ret >= 0) {
			assert_true((unsigned int)ret < n && rets[ret] >= 0);
			return;
		}
	}
	if (os->called_off)
		assert_int_equal(ret, -ECANCELED);
	else if (policy == LEAT_SCOPE_BRANCHES && !leat_task_cancelled())
		assert_int_equal(ret, 0);
	else if (successes == n && n > 0 && !leat_task_cancelled())
		assert_int_equal(ret, 0);
}

static void
scope(void *arg)
{
	enum leat_scope_policy policy = (enum leat_scope_policy)dice(4);
	struct open_scope *os = &scopes[leat_task_current()->index];
	unsigned int n = 1 + dice(BRANCHES), i, started = 0;
	int rets[BRANCHES], ret;
	struct leat_scope s;

	leat_scope_init(&s);
	assert_int_equal(leat_scope_policy_set(&s, policy), 0);
	*os = (struct open_scope){ .s = &s };
	for (i = 0; i < n; i++) {
		rets[i] = 99;
		if (leat_scope_branch(&s, "branch", steps, deeper(arg), &rets[i]) < 0)
			break;
		started++;
		if (dice(8) == 0)
			turns(dice(3));
	}
	if (dice(6) == 0)
		cancel_scope(os, PARENT);
	ret = leat_scope_wait(&s);
	if (started == n)
		check_result(&s, os, policy, rets, n, ret);
	else
		assert_true(ret < 0 || policy == LEAT_SCOPE_FIRST_SUCCESS);
	for (i = 0; i < started; i++)
		assert_int_not_equal(rets[i], 99);
	os->s = NULL;
}

static void
race(void *arg)
{
	struct leat_task_branch b[BRANCHES];
	unsigned int n = 1 + dice(BRANCHES), i;
	enum leat_scope_policy policy = (enum leat_scope_policy)dice(4);
	uint64_t after_us = 0;
	int ret;

	for (i = 0; i < n; i++) {
		after_us += dice(3);
		b[i] = (struct leat_task_branch){ .fn = steps,
						  .arg = deeper(arg),
						  .after_us = after_us };
	}
	ret = leat_task_within(1 + dice(60), leat_task_run(policy, b, n));
	if (policy == LEAT_SCOPE_FIRST_SUCCESS && ret >= 0)
		assert_true(b[ret].ret >= 0);
	for (i = 0; i < n; i++)
		assert_true(policy != LEAT_SCOPE_FIRST_SUCCESS || ret >= 0 || b[i].ret < 0);
}

static void
step(void *arg)
{
	bool leaf = (uintptr_t)arg >= DEPTH;
	struct leat_task_mask_state mask;

	switch (dice(leaf ? 5 : 9)) {
	case 0:
		turns(1 + dice(3));
		break;
	case 1:
	case 2:
		operation();
		break;
	case 3:
		(void)leat_scope_cancel_siblings();
		break;
	case 4:
		if (dice(4) == 0)
			cancel_any(TASK);
		break;
	case 5:
		leat_task_mask(&mask);
		step(arg);
		leat_task_unmask(&mask);
		break;
	case 6:
		race(arg);
		break;
	default:
		scope(arg);
		break;
	}
}

static int
steps(void *arg)
{
	unsigned int n = dice(4) + (arg == NULL);

	while (n-- > 0)
		step(arg);
	return dice(3) == 0 ? -EIO : 0;
}

/* ---- senders outside of tasks ---- */

#define SENDERS 3
#define LETTERS 2

struct sender {
	struct leat_timer timer;
	unsigned int turns; /* turns until the poller sends; 0: the poller does not send */
	enum from from;
};

/*
 * A reference to a task. The reactor's thread passes it to the other thread, which sends it back in
 * a message that cancels the task (on_letter()). By then the task's block may belong to another
 * task.
 */
struct letter {
	struct leat_task_ref ref;
	unsigned int spins;
	bool free;
};

static struct letter letters[LETTERS];
static unsigned int written;	/* letters sent, counted by the reactor's thread */
static unsigned int read_up_to; /* letters read, counted by the other thread */
static struct sender senders[SENDERS];
static struct leat_reactor *reactor;
static struct leat_ep *ep;
static bool over;
static bool letter_out;	  /* the other thread has a letter */
static bool patient;	  /* this round completes few operations while a letter is out */
static bool event_raised; /* this round has raised an event */

static void
on_letter(void *arg)
{
	struct letter *l = arg;
	struct leat_task *t = leat_task_ref_get(&l->ref);

	if (t == NULL) {
		late_refs++;
	} else {
		assert_int_equal(leat_task_id(t), l->ref.id);
		cancel_task(t, THREAD);
	}
	/* Cancel a random scope or task as well, among those that exist now. */
	cancel_any(THREAD);
	l->free = true;
	letter_out = !letters[0].free || !letters[1].free;
}

static void *
other_thread(void *arg)
{
	uint64_t own_seed = 7;

	(void)arg;
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		unsigned int spins = (unsigned int)(test_random(&own_seed) >> 33) % 2000;
		struct letter *l;

		if (__atomic_load_n(&written, __ATOMIC_ACQUIRE) == read_up_to) {
			(void)sched_yield();
			continue;
		}
		l = &letters[read_up_to++ % LETTERS];
		while (spins-- > 0)
			rte_pause();
		while (leat_reactor_call(reactor, on_letter, l) == -EAGAIN)
			(void)sched_yield();
	}
	return NULL;
}

static void
write_letter(struct leat_task *root)
{
	struct letter *l = &letters[written % LETTERS];

	if (!l->free)
		return;
	l->free = false;
	letter_out = true;
	l->ref = leat_task_ref_make(root);
	__atomic_store_n(&written, written + 1, __ATOMIC_RELEASE);
}

static void
on_event(void *arg, struct leat_ep *from, const struct leat_event *ev)
{
	(void)arg;
	if (ev->type != LEAT_EV_CONNECT_REQ)
		return;
	cancel_any(EVENT);
	event_raised = false;
	assert_int_equal(leat_ep_reject(from, ev->peer), 0);
}

static void
on_timer(struct leat_timer *timer, void *arg, uint64_t now)
{
	(void)timer;
	(void)arg;
	(void)now;
	cancel_any(TIMER);
}

static int
on_poll(void *arg, uint64_t now)
{
	unsigned int i;

	(void)arg;
	(void)now;
	complete_some(letter_out && patient);
	for (i = 0; i < SENDERS; i++) {
		struct sender *sd = &senders[i];

		if (sd->turns == 0 || --sd->turns > 0)
			continue;
		if (sd->from == POLLER)
			cancel_any(POLLER);
		else if (!event_raised)
			event_raised = leat_peer_request(ep, "nowhere", NULL, 0) != NULL;
	}
	return 0;
}

static void
senders_start(struct leat_task *root)
{
	unsigned int i;

	patient = dice(2) == 0;
	for (i = 0; i < SENDERS; i++) {
		struct sender *sd = &senders[i];

		sd->from = (enum from)(POLLER + dice(FROMS - POLLER));
		sd->turns = 0;
		if (sd->from == TIMER)
			leat_timer_start(reactor, &sd->timer, dice(12));
		else if (sd->from == THREAD)
			write_letter(root);
		else
			sd->turns = 1 + dice(12);
	}
}

/* ---- rounds ---- */

static unsigned int rounds_done;

static int
storm(void *arg)
{
	struct leat_tasks_stats st;
	unsigned int i;

	(void)arg;
	driver = leat_task_current();
	for (i = 0; i < nb_rounds; i++) {
		struct leat_task *root = leat_task_spawn(ts, "root", steps, NULL);

		assert_non_null(root);
		senders_start(root);
		assert_int_equal(leat_task_join(root, NULL), 0);
		leat_tasks_stats_get(ts, &st);
		assert_int_equal(st.tasks, 1);
		rounds_done++;
	}
	return 0;
}

static void
test_storm(void **state)
{
	static const struct leat_ep_conf ep_conf = { .name = "ep",
						     .ops = LEAT_OP_BIT(LEAT_OP_RECV) };
	/* Look for events of the endpoint every 4 us: a turn takes 1 us. */
	const struct leat_reactor_conf r_conf = { .idle.policy = LEAT_IDLE_SPIN, .events_us = 4 };
	const struct leat_tasks_conf conf = { .max_tasks = TASKS };
	unsigned int i, done = 0, turns_left = TURNS_MAX;
	struct leat_poller *poller;
	struct leat_task *task;
	struct task_test t;
	pthread_t thread;

	(void)state;
	t.r = leat_reactor_create(&r_conf);
	assert_non_null(t.r);
	t.ts = leat_tasks_create(t.r, &conf);
	assert_non_null(t.ts);
	ts = t.ts;
	reactor = t.r;
	ep = leat_ep_create(leat_dev_get(0), &ep_conf);
	assert_non_null(ep);
	assert_non_null(leat_tasks_ep_add(ts, ep, on_event, NULL));
	poller = leat_reactor_poller_add(reactor, "storm", on_poll, NULL, 0);
	assert_non_null(poller);
	for (i = 0; i < SENDERS; i++)
		leat_timer_init(&senders[i].timer, on_timer, NULL);
	for (i = 0; i < LETTERS; i++)
		letters[i].free = true;
	assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
	task = task_test_spawn(&t, "driver", storm, NULL);
	while (leat_task_state(task) != LEAT_TASK_DONE) {
		test_turns(reactor, 1);
		test_clock += US;
		if (letter_out)
			(void)sched_yield();
		if (rounds_done != done) {
			done = rounds_done;
			turns_left = TURNS_MAX;
		}
		assert_true(turns_left-- > 0);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (i = 0; i < SENDERS; i++)
		leat_timer_stop(&senders[i].timer);
	/* Run messages that the other thread has sent. */
	test_turns(reactor, 10);
	assert_int_equal(leat_task_join(task, NULL), 0);
	assert_int_equal(leat_poller_remove(poller), 0);
	task_test_end(&t);
	assert_int_equal(leat_ep_close(ep, 0, NULL, NULL), 0);
	for (i = 0; i < FROMS; i++) {
		print_message("from %s: %u cancels, %u delivered\n", from_names[i], sent[i],
			      delivered[i]);
		assert_true(delivered[i] >= nb_rounds / 100);
	}
	print_message("%u messages found no task any more\n", late_refs);
	assert_true(late_refs > 0);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(test_storm),
	};

	if (argc > 1)
		nb_rounds = (unsigned int)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, test_mock_start, test_mock_stop);
}
