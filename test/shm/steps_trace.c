/* SPDX-License-Identifier: BSD-3-Clause */

/* Addresses of a victim's steps, and a breakpoint at one of them: see steps_trace.h. */

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include "../lives/traffic.h" /* CHECK */
#include "steps_trace.h"

/* The processor's first breakpoint: its address, and its control register. */
#define DR0 offsetof(struct user, u_debugreg[0])
#define DR7 offsetof(struct user, u_debugreg[7])

#ifdef __x86_64__
static uint64_t
next_address(pid_t pid)
{
	long at;

	errno = 0;
	at = ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.rip), NULL);
	CHECK(errno == 0, "PTRACE_PEEKUSER: %s", strerror(errno));
	return (uint64_t)at;
}

bool
steps_trace_break(pid_t pid, uint64_t at)
{
	if (at == 0)
		return ptrace(PTRACE_POKEUSER, pid, DR7, 0) == 0;
	return ptrace(PTRACE_POKEUSER, pid, DR0, at) == 0 &&
	       ptrace(PTRACE_POKEUSER, pid, DR7, 1) == 0;
}
#else
/* Stubs: on this processor victims are not single-stepped, as stepper_works() reports. */
static uint64_t
next_address(pid_t pid)
{
	(void)pid;
	return 0;
}

bool
steps_trace_break(pid_t pid, uint64_t at)
{
	(void)pid;
	(void)at;
	return false;
}
#endif

uint64_t
steps_trace_add(struct steps_trace *t, pid_t pid)
{
	if (t->nb == t->room) {
		t->room = t->room == 0 ? 4096 : 2 * t->room;
		t->at = realloc(t->at, t->room * sizeof(*t->at));
		t->seen = realloc(t->seen, t->room * sizeof(*t->seen));
		CHECK(t->at != NULL && t->seen != NULL, "out of memory");
	}
	t->at[t->nb] = next_address(pid);
	return t->at[t->nb++];
}

void
steps_trace_seen(struct steps_trace *t)
{
	t->seen[t->nb_seen++] = t->nb - 1;
}

/* Count how often each step's address was passed before. */
static void
count_passed(struct steps_trace *t)
{
	uint32_t room = 1024, *last, i, slot;

	while (room < 2 * t->nb)
		room *= 2;
	/* Hash table, by address: 1 + the last step at this address; 0: empty. */
	last = calloc(room, sizeof(*last));
	CHECK(last != NULL, "out of memory");
	for (i = 0; i < t->nb; i++) {
		slot = (uint32_t)(t->at[i] * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (room - 1);
		while (last[slot] != 0 && t->at[last[slot] - 1] != t->at[i])
			slot = (slot + 1) & (room - 1);
		t->passed[i] = last[slot] == 0 ? 0 : t->passed[last[slot] - 1] + 1;
		last[slot] = i + 1;
	}
	free(last);
}

void
steps_trace_end(struct steps_trace *t)
{
	uint32_t i, a;

	t->passed = calloc(t->nb + 1, sizeof(*t->passed));
	t->anchor = calloc(t->nb + 1, sizeof(*t->anchor));
	CHECK(t->passed != NULL && t->anchor != NULL, "out of memory");
	count_passed(t);
	for (i = 1; i < t->nb; i++) {
		a = t->anchor[i - 1];
		t->anchor[i] = t->passed[i] < t->passed[a] + (i - a) ? i : a;
	}
}

void
steps_trace_free(struct steps_trace *t)
{
	free(t->at);
	free(t->anchor);
	free(t->passed);
	free(t->seen);
	memset(t, 0, sizeof(*t));
}
