/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * When the reactor stops, tasks that are left are cancelled, so that what they wait for ends; they
 * have until the reactor's deadline to clean up.
 *
 *     blocks   0 ............ stop_next ............ stop_end ......... nb_stacks
 *              | have the signal |  get it, some in      | first used since:
 *              |                 |  each housekeeping    | born cancelled
 *
 * A task may be spawned meanwhile, since to clean up may need one. It is born cancelled wherever
 * its block is, so each block is looked at once. How many have not ended is counted, not searched
 * for.
 *
 * Tasks that spawn others again and again have until the deadline, too. A poller, a timer or a
 * message that spawns one in each turn does not hold up the stop: such a task is ready when the
 * reactor asks, and is run to its end then.
 */

#include <stdio.h>

#include <leat_error.h>
#include <leat_log.h>

#include "task_pvt.h"

/* Blocks looked at in a housekeeping: the pollers wait meanwhile. */
#define AT_ONCE 2048

/*
 * After so many questions in a row at which only ready ones were there, and ended, it is quiet.
 * What they did may have given the other pollers work: these were asked in between.
 */
#define RUNS_ENOUGH 16

/* Lines of the list in the log. */
#define SHOWN 100

/* A tree of more tasks than that takes too long for the end of a stop. */
#define TREE_MAX 20000

static void
on_line(void *arg, const char *line)
{
	const struct leat_tasks *ts = arg;

	LEAT_LOG(WARNING, task, "%s: %s", leat_reactor_name(ts->reactor), line);
}

static void
stop_begin(struct leat_tasks *ts)
{
	ts->stopping = true;
	ts->stop_next = 0;
	ts->stop_end = ts->nb_stacks;
	ts->stop_runs = 0;
	ts->stop_id = ts->next_id;
}

/* Cancels those of the next n blocks. */
static void
stop_cancel(struct leat_tasks *ts, uint32_t n)
{
	uint32_t end = ts->stop_next + RTE_MIN(n, ts->stop_end - ts->stop_next);

	for (; ts->stop_next < end; ts->stop_next++) {
		struct leat_task *t = &ts->blocks[ts->stop_next];

		if (t->state != LEAT_TASK_FREE && t->state != LEAT_TASK_DONE)
			(void)task_cancel(t);
	}
}

/* Has the reactor to go on for them? */
static int
stop_ask(struct leat_tasks *ts)
{
	stop_cancel(ts, AT_ONCE);
	if (task_nb_left(ts) == 0)
		return 0;
	/* One that yields does so for the pollers: they come first. */
	if (task_nb_left(ts) == task_nb_ready(ts) && ts->yielded.head == NULL) {
		(void)task_poll(ts, leat_now());
		if (task_nb_left(ts) == 0)
			return ++ts->stop_runs < RUNS_ENOUGH;
	}
	ts->stop_runs = 0;
	return 1;
}

/* Names those that are left at the deadline. */
static void
stop_name(struct leat_tasks *ts, char *what, size_t len)
{
	const struct leat_task *first = task_first_left(ts);
	uint64_t late = ts->next_id - ts->stop_id;
	int n;

	n = snprintf(what, len, "%u tasks that have not ended, one is %s", task_nb_left(ts),
		     first != NULL ? leat_task_name(first) : "?");
	if (late > 0 && n > 0 && (size_t)n < len)
		snprintf(what + n, len - (size_t)n, "; %" PRIu64 " spawned meanwhile", late);
	/* Those that have ended must not fill the list. */
	if (task_nb_left(ts) > TREE_MAX || ts->nb_done > SHOWN / 2)
		task_show_first(ts, SHOWN, on_line, ts);
	else if (leat_tasks_show(ts, SHOWN, on_line, ts) < 0)
		LEAT_LOG(WARNING, task, "%s", leat_err_msg());
}

int
task_quiesce(void *arg, char *what, size_t len)
{
	struct leat_tasks *ts = arg;

	if (!ts->stopping)
		stop_begin(ts);
	if (what == NULL)
		return stop_ask(ts);
	/* The stop ends here, at its deadline or since all is quiet; another one begins anew. */
	stop_cancel(ts, UINT32_MAX);
	if (task_nb_left(ts) > 0)
		stop_name(ts, what, len);
	ts->stopping = false;
	return task_nb_left(ts) > 0;
}
