/* SPDX-License-Identifier: BSD-3-Clause */

/* Mutex, condition, semaphore, queue. */

#include <leat_task_sync.h>

#include "task_pvt.h"
#include "task_test.h"

#define TASKS 5

struct sync_test {
	struct leat_task_mutex m;
	struct leat_task_cond c;
	struct leat_task_sem s;
	struct leat_task_queue q;
	void *slots[3];
	int order[32];
	unsigned int n;
	bool ready;
	int items[16];
};

static struct sync_test st;

static int
setup(void **state)
{
	memset(&st, 0, sizeof(st));
	leat_task_mutex_init(&st.m, "the-mutex");
	leat_task_cond_init(&st.c, "the-condition");
	leat_task_sem_init(&st.s, 0, "the-semaphore");
	leat_task_queue_init(&st.q, st.slots, 3, "the-queue");
	return test_clock_setup(state);
}

static const int number[TASKS] = { 0, 1, 2, 3, 4 };

static void
note(const void *arg)
{
	assert_in_range(st.n, 0, 31);
	st.order[st.n++] = *(const int *)arg;
}

static void
spawn_all(struct task_test *t, struct leat_task **task, leat_task_fn fn)
{
	int i;

	for (i = 0; i < TASKS; i++)
		task[i] = task_test_spawn(t, "task", fn, (void *)(uintptr_t)&number[i]);
}

static int
holder(void *arg)
{
	int ret = leat_task_mutex_lock(&st.m);

	if (ret < 0)
		return ret;
	assert_int_equal(leat_task_mutex_lock(&st.m), -EDEADLK);
	note(arg);
	assert_int_equal(leat_task_sleep(10), 0);
	/* No other task was in the critical section. */
	assert_int_equal(st.order[st.n - 1], *(int *)arg);
	assert_int_equal(leat_task_mutex_unlock(&st.m), 0);
	assert_int_equal(leat_task_mutex_unlock(&st.m), -EPERM);
	return 0;
}

/* Tasks get the mutex in the order of their calls; a cancelled task does not get it. */
static void
test_mutex(void **state)
{
	struct leat_task *task[TASKS];
	struct leat_task_info info;
	struct task_test t;
	int i;

	(void)state;
	task_test_begin(&t, NULL);
	assert_int_equal(leat_task_mutex_lock(&st.m), -EPERM);
	assert_int_equal(leat_task_mutex_trylock(&st.m), -EPERM);
	assert_int_equal(leat_task_mutex_unlock(&st.m), -EPERM);
	spawn_all(&t, task, holder);
	test_turns(t.r, 1);
	leat_task_info_get(task[2], &info);
	assert_string_equal(info.waits, "mutex the-mutex");
	assert_int_equal(task_cancel(task[2]), 0);
	assert_int_equal(task_cancel(task[2]), -EEXIST);
	for (i = 0; i < TASKS; i++)
		assert_int_equal(task_test_join(&t, task[i]), i == 2 ? -ECANCELED : 0);
	assert_int_equal(st.n, 4);
	for (i = 0; i < 4; i++)
		assert_int_equal(st.order[i], i < 2 ? i : i + 1);
	task_test_end(&t);
}

/*
 * The unlock passes the mutex to the waiting task, even if that task is cancelled before it runs. A
 * task that calls lock in between does not get it first.
 */
static int
snatcher(void *arg)
{
	assert_int_equal(leat_task_mutex_lock(&st.m), 0);
	while (!st.ready)
		assert_int_equal(leat_task_yield(), 0);
	assert_int_equal(leat_task_mutex_unlock(&st.m), 0);
	assert_int_equal(leat_task_mutex_trylock(&st.m), -EBUSY);
	/* The waiter (arg) has the mutex already: this cancel comes too late for its lock call. */
	assert_int_equal(task_cancel(arg), 0);
	assert_int_equal(leat_task_mutex_lock(&st.m), 0);
	assert_int_equal(leat_task_mutex_unlock(&st.m), 0);
	return 0;
}

static int
lock_once(void *arg)
{
	int ret;

	(void)arg;
	ret = leat_task_mutex_lock(&st.m);
	if (ret == 0) {
		assert_int_equal(leat_task_sleep(1), -ECANCELED);
		assert_int_equal(leat_task_mutex_unlock(&st.m), 0);
	}
	return ret;
}

static void
test_mutex_handed_over(void **state)
{
	struct leat_task *s, *w;
	struct task_test t;

	(void)state;
	task_test_begin(&t, NULL);
	w = task_test_spawn(&t, "waiter", lock_once, NULL);
	s = task_test_spawn(&t, "snatcher", snatcher, w);
	/* Put the snatcher before the waiter in the list of ready tasks. */
	assert_ptr_equal(t.ts->ready.head, w);
	t.ts->ready.head = s;
	s->next = w;
	w->next = NULL;
	t.ts->ready.tail = &w->next;
	test_turns(t.r, 2);
	assert_int_equal(leat_task_state(w), LEAT_TASK_WAITING);
	st.ready = true;
	assert_int_equal(task_test_join(&t, s), 0);
	assert_int_equal(task_test_join(&t, w), 0);
	task_test_end(&t);
}

static int
cond_waiter(void *arg)
{
	int ret;

	assert_int_equal(leat_task_cond_wait(&st.c, &st.m), -EPERM);
	assert_int_equal(leat_task_mutex_lock(&st.m), 0);
	ret = leat_task_cond_wait(&st.c, &st.m);
	/* The mutex is locked, whatever the wait returned. */
	assert_ptr_equal(st.m.owner, leat_task_current());
	note(arg);
	if (ret == 0)
		assert_int_equal(leat_task_sleep(5), 0);
	assert_int_equal(leat_task_mutex_unlock(&st.m), 0);
	return ret;
}

static void
test_cond(void **state)
{
	struct leat_task *task[TASKS];
	struct task_test t;
	int i;

	(void)state;
	task_test_begin(&t, NULL);
	/* A signal without a waiting task is lost. */
	leat_task_cond_signal(&st.c);
	spawn_all(&t, task, cond_waiter);
	test_turns(t.r, 2);
	assert_int_equal(st.n, 0);
	leat_task_cond_signal(&st.c);
	assert_int_equal(task_test_join(&t, task[0]), 0);
	test_turns(t.r, 10);
	assert_int_equal(st.n, 1);
	assert_int_equal(task_cancel(task[3]), 0);
	assert_int_equal(task_test_join(&t, task[3]), -ECANCELED);
	leat_task_cond_broadcast(&st.c);
	for (i = 1; i < TASKS; i++)
		if (i != 3)
			assert_int_equal(task_test_join(&t, task[i]), 0);
	assert_int_equal(st.n, TASKS);
	assert_int_equal(st.order[1], 3);
	assert_int_equal(st.order[2], 1);
	assert_int_equal(st.order[3], 2);
	assert_int_equal(st.order[4], 4);
	task_test_end(&t);
}

static int
taker(void *arg)
{
	int ret = leat_task_sem_wait(&st.s);

	if (ret == 0)
		note(arg);
	return ret;
}

static int
late_taker(void *arg)
{
	leat_task_deadline_set(test_clock + 20 * US);
	return taker(arg);
}

static void
test_sem(void **state)
{
	struct leat_task *task[TASKS], *late;
	struct task_test t;
	int i;

	(void)state;
	task_test_begin(&t, NULL);
	assert_int_equal(leat_task_sem_trywait(&st.s), -EAGAIN);
	late = task_test_spawn(&t, "late", late_taker, NULL);
	spawn_all(&t, task, taker);
	assert_int_equal(task_test_join(&t, late), -ETIMEDOUT);
	assert_int_equal(st.n, 0);
	for (i = 0; i < TASKS; i++) {
		assert_int_equal(leat_task_sem_post(&st.s), 0);
		/* The unit is passed to task[i], which waits: nothing is left for this call. */
		assert_int_equal(leat_task_sem_trywait(&st.s), -EAGAIN);
	}
	for (i = 0; i < TASKS; i++) {
		assert_int_equal(task_test_join(&t, task[i]), 0);
		assert_int_equal(st.order[i], i);
	}
	assert_int_equal(leat_task_sem_post(&st.s), 0);
	assert_true(leat_task_sem_value(&st.s) == 1);
	late = task_test_spawn(&t, "late", late_taker, (void *)(uintptr_t)&number[0]);
	assert_int_equal(task_test_join(&t, late), 0);
	leat_task_sem_init(&st.s, UINT32_MAX, NULL);
	assert_int_equal(leat_task_sem_post(&st.s), -EOVERFLOW);
	task_test_end(&t);
}

#define ITEMS 10

static int
putter(void *arg)
{
	int i, ret;

	(void)arg;
	for (i = 0; i < ITEMS; i++) {
		ret = leat_task_queue_put(&st.q, &st.items[i]);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int
getter(void *arg)
{
	void *item;
	int i, ret;

	(void)arg;
	for (i = 0;; i++) {
		ret = leat_task_queue_get(&st.q, &item);
		if (ret < 0)
			return ret;
		assert_ptr_equal(item, &st.items[i % ITEMS]);
		st.n++;
	}
}

static void
test_queue(void **state)
{
	struct leat_task *p, *g, *c;
	struct task_test t;
	void *item;

	(void)state;
	task_test_begin(&t, NULL);
	/* The putter fills the queue, then waits; items can also be taken outside of tasks. */
	p = task_test_spawn(&t, "put", putter, NULL);
	test_turns(t.r, 1);
	assert_true(leat_task_queue_count(&st.q) == 3);
	assert_int_equal(leat_task_queue_tryput(&st.q, NULL), -EAGAIN);
	assert_int_equal(leat_task_queue_tryget(&st.q, &item), 0);
	assert_ptr_equal(item, &st.items[0]);
	assert_true(leat_task_queue_count(&st.q) == 3);
	st.n = 1;
	while (leat_task_queue_tryget(&st.q, &item) == 0) {
		assert_ptr_equal(item, &st.items[st.n]);
		st.n++;
		test_turns(t.r, 1);
	}
	assert_int_equal(st.n, ITEMS);
	assert_int_equal(task_test_join(&t, p), 0);

	/* The getter waits before the putter begins. */
	st.n = 0;
	g = task_test_spawn(&t, "get", getter, NULL);
	test_turns(t.r, 1);
	p = task_test_spawn(&t, "put", putter, NULL);
	assert_int_equal(task_test_join(&t, p), 0);
	test_turns(t.r, 2);
	assert_int_equal(st.n, ITEMS);

	/* Cancel a getter that waits: the item that is put next stays in the queue. */
	assert_int_equal(task_cancel(g), 0);
	assert_int_equal(leat_task_queue_tryput(&st.q, &st.items[0]), 0);
	assert_int_equal(task_test_join(&t, g), -ECANCELED);
	assert_true(leat_task_queue_count(&st.q) == 1);

	/*
	 * After the close, the putter c, which waits for room, gets -EPIPE. The getter still gets
	 * the items that are in the queue, then -EPIPE.
	 */
	c = task_test_spawn(&t, "put", putter, NULL);
	test_turns(t.r, 1);
	leat_task_queue_close(&st.q);
	assert_int_equal(task_test_join(&t, c), -EPIPE);
	assert_int_equal(leat_task_queue_tryput(&st.q, NULL), -EPIPE);
	assert_int_equal(leat_task_queue_tryget(&st.q, &item), 0);
	assert_ptr_equal(item, &st.items[0]);
	st.n = 0;
	g = task_test_spawn(&t, "get", getter, NULL);
	assert_int_equal(task_test_join(&t, g), -EPIPE);
	assert_int_equal(st.n, 2);
	assert_int_equal(leat_task_queue_tryget(&st.q, &item), -EPIPE);
	/* A getter that waits for an item when the queue is closed gets -EPIPE. */
	leat_task_queue_init(&st.q, st.slots, 3, NULL);
	g = task_test_spawn(&t, "get", getter, NULL);
	test_turns(t.r, 1);
	leat_task_queue_close(&st.q);
	assert_int_equal(task_test_join(&t, g), -EPIPE);
	task_test_end(&t);
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_mutex), CASE(test_mutex_handed_over), CASE(test_cond), CASE(test_sem),
		CASE(test_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
