/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * When the reactor stops, the remaining tasks are cancelled, so that their waits end. They have
 * until the reactor's deadline to clean up.
 *
 *     blocks   0 ............ stop_next ............ stop_end ......... nb_stacks
 *              | have the signal |  get it, some in      | first used since:
 *              |                 |  each housekeeping    | born cancelled
 *
 * New tasks may be spawned meanwhile, since a cleanup may need them. Each is born cancelled,
 * whichever block it gets, so one look at each block is enough. The number of tasks that have not
 * ended is a counter, not a search.
 *
 * Tasks that spawn tasks again and again hold up the stop until its deadline. A poller, a timer or
 * a message that spawns a task in each turn does not: that task is ready when the reactor asks
 * whether the tasks are quiet, and then stop_ask() runs it to its end.
 */

#include <stdio.h>

#include <leat_error.h>
#include <leat_log.h>

#include "task_pvt.h"

/* Maximum number of blocks that one stop_ask() looks at: the pollers do not run meanwhile. */
#define AT_ONCE 2048

/*
 * The reactor calls stop_ask() again and again, to ask whether the tasks are quiet. They are quiet
 * when no task is left. If new tasks keep appearing, the tasks count as quiet after this many calls
 * in a row, each of which found all remaining tasks ready and ran them to their end. These tasks
 * may have given other pollers work; the reactor has asked those pollers in between.
 */
#define RUNS_UNTIL_QUIET 16

/* Maximum number of lines of the list of tasks in the log. */
#define SHOWN 100

/* Maximum number of tasks shown as a tree: a larger tree takes too long at the end of a stop. */
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

/* Cancel the tasks of the next n blocks. */
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

/* Cancel the tasks of AT_ONCE blocks, run the ready tasks. @return 1: not quiet yet; 0: quiet */
static int
stop_ask(struct leat_tasks *ts)
{
	stop_cancel(ts, AT_ONCE);
	if (task_nb_left(ts) == 0)
		return 0;
	/* Not after a task has yielded: the pollers must run before that task does. */
	if (task_nb_left(ts) == task_nb_ready(ts) && ts->yielded.head == NULL) {
		(void)task_poll(ts, leat_now());
		if (task_nb_left(ts) == 0)
			return ++ts->stop_runs < RUNS_UNTIL_QUIET;
	}
	ts->stop_runs = 0;
	return 1;
}

/* Name the tasks that are left at the deadline. */
static void
stop_name(struct leat_tasks *ts, char *what, size_t len)
{
	const struct leat_task *first = task_first_left(ts);
	uint64_t late = ts->next_id - ts->stop_id;
	int n;

	n = snprintf(what, len, "%u tasks that have not ended, e.g. %s", task_nb_left(ts),
		     first != NULL ? leat_task_name(first) : "?");
	if (late > 0 && n > 0 && (size_t)n < len)
		snprintf(what + n, len - (size_t)n, "; %" PRIu64 " spawned since the stop began",
			 late);
	/* With many ended tasks, a tree would leave no lines for those that have not ended. */
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
	/* The stop ends now, quiet or at its deadline. Cancel the tasks not looked at yet. */
	stop_cancel(ts, UINT32_MAX);
	if (task_nb_left(ts) > 0)
		stop_name(ts, what, len);
	ts->stopping = false;
	return task_nb_left(ts) > 0;
}
