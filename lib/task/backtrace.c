/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Call stacks of tasks. The unwinder of libgcc can walk the running stack only, so task_call_on()
 * runs it on the task's stack. It then appears to be called by the function in which the
 * task is suspended.
 */

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <unwind.h>

#include <leat_error.h>

#include "task_pvt.h"

#define FRAMES 128
/* Bytes of stack that the unwinder needs. */
#define ROOM 8192

struct trace {
	uintptr_t ip[FRAMES];
	int n;
};

static _Unwind_Reason_Code
on_frame(struct _Unwind_Context *context, void *arg)
{
	struct trace *t = arg;

	if (t->n == FRAMES)
		return _URC_END_OF_STACK;
	t->ip[t->n++] = _Unwind_GetIP(context);
	return _URC_NO_REASON;
}

static __rte_noinline void
collect(void *arg)
{
	struct trace *t = arg;

	t->n = 0;
	_Unwind_Backtrace(on_frame, t);
}

static void
report_line(int number, uintptr_t ip, leat_task_line_fn fn, void *arg)
{
	char line[256];
	Dl_info info;

	/*
	 * Look up the byte before the return address: after a call that never returns, the address
	 * itself can be the first byte of the next function.
	 */
	if (dladdr((void *)(ip - 1), &info) == 0 || info.dli_fname == NULL)
		snprintf(line, sizeof(line), "#%d 0x%" PRIxPTR, number, ip);
	else if (info.dli_sname == NULL)
		snprintf(line, sizeof(line), "#%d 0x%" PRIxPTR " (%s+0x%" PRIxPTR ")", number, ip,
			 info.dli_fname, ip - (uintptr_t)info.dli_fbase);
	else
		snprintf(line, sizeof(line), "#%d 0x%" PRIxPTR " %s+0x%" PRIxPTR " (%s)", number,
			 ip, info.dli_sname, ip - (uintptr_t)info.dli_saddr, info.dli_fname);
	fn(arg, line);
}

int
leat_task_backtrace(struct leat_task *task, leat_task_line_fn fn, void *arg)
{
	const struct task_stacks *s;
	struct trace t;
	int i, first = 1; /* skips the frame of collect() */

	if (task == NULL || fn == NULL)
		return leat_err(EINVAL, "backtrace of %s: no %s", leat_task_name(task),
				fn == NULL ? "function" : "task");
	s = &task->ts->stacks;
	/*
	 * Run once on the caller's stack: the first run of the unwinder loads and resolves symbols,
	 * for which the task's stack may be too small.
	 */
	collect(&t);
	if (task != task_self()) {
		if (task->sp == NULL ||
		    (task->state != LEAT_TASK_WAITING && task->state != LEAT_TASK_READY))
			return leat_err(ESRCH, "backtrace of %s: it is %s, and runs no function",
					leat_task_name(task), leat_task_state_name(task->state));
		if ((char *)task->sp - task_stack_bottom(s, task->index) < ROOM)
			return leat_err(ENOSPC, "backtrace of %s: less than %d B of stack left",
					leat_task_name(task), ROOM);
		task_call_on(task->sp, collect, &t);
		first = 2; /* skips task_call_on() as well */
	}
	for (i = first; i < t.n; i++)
		report_line(i - first, t.ip[i], fn, arg);
	return RTE_MAX(t.n - first, 0);
}
