/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Stacks and their guards. See task_stack.h for the layout.
 *
 * A guard page of mprotect(2) cuts a mapping in two. A process may have 65530 mappings
 * (vm.max_map_count), so some 32,000 tasks would use them up, and then malloc(3) fails as well.
 * There are three kinds of guards, best first:
 *
 *     marker   madvise(MADV_GUARD_INSTALL), Linux 6.13: a mark in the page table. Any number of
 *              marks is possible. An access to a marked page causes SIGSEGV.
 *     page     mprotect(2). The guards of all reactors use at most half of vm.max_map_count.
 *     canary   64 bytes that are checked when the task waits or ends: an overflow is detected after
 *              the fact. The page between two stacks is slack. The canary lies below it, in the top
 *              page of the stack below, which is in use anyway: so it takes no memory.
 *
 *              | stack i-1 ... <-| canary of i | slack | stack i ... <-| canary of i+1 |
 *
 * LEAT_TASK_GUARD_AUTO takes markers if the kernel has them, else pages up to their limit, then
 * canaries.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <leat_error.h>
#include <leat_log.h>
#include <leat_time.h>

#include "task_stack.h"
#include "task_tools.h"

/* In the kernel's headers since 6.13. */
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

/* Bytes for the canary and for the offset of task_stack_top(), beyond the configured size. */
#define EXTRA 1024
#define MAP_COUNT_DEFAULT 65530

#define CANARY_WORDS (TASK_CANARY_SIZE / sizeof(uint64_t))

/* Number of mprotect() guards in the process. */
static unsigned int guard_pages;

/* Get the maximum number of mprotect() guards: with two mappings each, half of vm.max_map_count. */
static unsigned int
guard_pages_max(void)
{
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned int count = MAP_COUNT_DEFAULT;

	if (file != NULL) {
		if (fscanf(file, "%u", &count) != 1)
			count = MAP_COUNT_DEFAULT;
		(void)fclose(file);
	}
	return count / 4;
}

static char *
guard_of(const struct task_stacks *s, uint32_t i)
{
	return task_stack_bottom(s, i) - s->page;
}

static uint64_t *
canary_of(const struct task_stacks *s, uint32_t i)
{
	return (uint64_t *)(void *)(guard_of(s, i) - TASK_CANARY_SIZE);
}

static uint64_t
canary_word(const struct task_stacks *s, uint32_t i, unsigned int word)
{
	return s->secret ^ ((uint64_t)i << 32 | word);
}

/* Tell whether the kernel has guard markers, by a try on the lead page, which is unused. */
static bool
markers_known(const struct task_stacks *s)
{
	return madvise(s->base, s->page, MADV_GUARD_INSTALL) == 0;
}

int
task_stacks_init(struct task_stacks *s, const char *name, uint32_t count, size_t size,
		 enum leat_task_guard guard)
{
	memset(s, 0, sizeof(*s));
	s->page = (size_t)sysconf(_SC_PAGESIZE);
	s->count = count;
	s->stride = RTE_ALIGN_CEIL(size + EXTRA, s->page) + s->page;
	s->length = s->page + count * s->stride;
	s->secret = leat_now() * UINT64_C(0x9e3779b97f4a7c15) ^ (uintptr_t)s;
	s->base = mmap(NULL, s->length, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (s->base == MAP_FAILED) {
		s->base = NULL;
		return leat_err(
			ENOMEM,
			"%s: tasks: no address space for %u stacks of %zu B: %s; check ulimit -v "
			"and vm.overcommit_memory",
			name, count, size, strerror(errno));
	}
	/*
	 * With huge pages the first touch of a stack may commit 2 MiB. A kernel without huge pages
	 * returns EINVAL.
	 */
	if (madvise(s->base, s->length, MADV_NOHUGEPAGE) < 0 && errno != EINVAL)
		LEAT_LOG(DEBUG, task, "%s: MADV_NOHUGEPAGE: %s", name, strerror(errno));

	s->fall_back = guard == LEAT_TASK_GUARD_AUTO;
	s->guard = guard;
	if (guard == LEAT_TASK_GUARD_AUTO)
		s->guard = markers_known(s) ? LEAT_TASK_GUARD_MARKER : LEAT_TASK_GUARD_PAGE;
	else if (guard == LEAT_TASK_GUARD_MARKER && !markers_known(s)) {
		task_stacks_fini(s, 0);
		return leat_err(
			EOPNOTSUPP,
			"%s: tasks: the kernel has no MADV_GUARD_INSTALL (Linux 6.13), or the "
			"process locks its memory; use another kind of guard",
			name);
	}
#ifdef LEAT_VALGRIND
	if (RUNNING_ON_VALGRIND)
		s->valgrind = calloc(count, sizeof(*s->valgrind));
#endif
	return 0;
}

void
task_stacks_fini(struct task_stacks *s, uint32_t used)
{
	uint32_t i;

	for (i = 0; s->valgrind != NULL && i < used; i++)
		task_tools_stack_del(s->valgrind[i]);
	free(s->valgrind);
	s->valgrind = NULL;
	__atomic_fetch_sub(&guard_pages, s->nb_pages, __ATOMIC_RELAXED);
	s->nb_pages = 0;
	if (s->base != NULL && munmap(s->base, s->length) < 0)
		LEAT_LOG(WARNING, task, "stacks: munmap: %s", strerror(errno));
	s->base = NULL;
}

static int
prepare_page(struct task_stacks *s, uint32_t i)
{
	if (__atomic_add_fetch(&guard_pages, 1, __ATOMIC_RELAXED) <= guard_pages_max() &&
	    mprotect(guard_of(s, i), s->page, PROT_NONE) == 0) {
		s->nb_pages++;
		return 0;
	}
	__atomic_fetch_sub(&guard_pages, 1, __ATOMIC_RELAXED);
	if (!s->fall_back)
		return leat_err(
			ENOMEM,
			"stack %u: no mapping left for its guard page; raise vm.max_map_count, "
			"of which stacks take half",
			i);
	LEAT_LOG(
		NOTICE, task,
		"more stacks than a half of vm.max_map_count has guard pages for: overflows of the "
		"others, from number %u on, are noticed when the task waits or ends",
		i);
	s->guard = LEAT_TASK_GUARD_CANARY;
	return 0;
}

static void
prepare_canary(struct task_stacks *s, uint32_t i)
{
	uint64_t *canary = canary_of(s, i);
	unsigned int k;

	for (k = 0; k < CANARY_WORDS; k++)
		canary[k] = canary_word(s, i, k);
	s->nb_canaries++;
}

int
task_stack_prepare(struct task_stacks *s, uint32_t i)
{
	int ret;

	if (s->guard == LEAT_TASK_GUARD_MARKER &&
	    madvise(guard_of(s, i), s->page, MADV_GUARD_INSTALL) < 0)
		return leat_err(ENOMEM, "stack %u: its guard: %s", i, strerror(errno));
	if (s->guard == LEAT_TASK_GUARD_PAGE && (ret = prepare_page(s, i)) < 0)
		return ret;
	if (s->guard == LEAT_TASK_GUARD_CANARY)
		prepare_canary(s, i);
	if (s->valgrind != NULL)
		s->valgrind[i] = task_tools_stack_add(task_stack_bottom(s, i), task_stack_size(s));
	return 0;
}

bool
task_stacks_find(const struct task_stacks *s, uintptr_t addr, uint32_t *i, bool *guard)
{
	uintptr_t offset = addr - (uintptr_t)s->base;

	if (s->base == NULL || offset < s->page || offset >= s->length)
		return false;
	offset -= s->page;
	*i = (uint32_t)(offset / s->stride);
	*guard = offset % s->stride < s->page;
	return true;
}

bool
task_stack_intact(const struct task_stacks *s, uint32_t i)
{
	const uint64_t *canary = canary_of(s, i);
	unsigned int k;

	/* The first nb_pages stacks have guard pages. */
	if (i < s->nb_pages)
		return true;
	for (k = 0; k < CANARY_WORDS; k++)
		if (canary[k] != canary_word(s, i, k))
			return false;
	return true;
}

uint32_t
task_stack_peak(const struct task_stacks *s, uint32_t i)
{
	size_t k, pages = task_stack_size(s) / s->page;
	unsigned char resident[64];
	size_t done;

	/* Search from the lower end for the first resident page. */
	for (done = 0; done < pages; done += sizeof(resident)) {
		size_t n = RTE_MIN(pages - done, sizeof(resident));

		if (mincore(task_stack_bottom(s, i) + done * s->page, n * s->page, resident) < 0)
			return 0;
		for (k = 0; k < n; k++)
			if (resident[k] & 1)
				return (uint32_t)((pages - done - k) * s->page);
	}
	return 0;
}

void
task_stack_trim(const struct task_stacks *s, uint32_t i)
{
	/* MADV_DONTNEED keeps guard markers. */
	if (madvise(task_stack_bottom(s, i), task_stack_size(s) - s->page, MADV_DONTNEED) < 0)
		LEAT_LOG(DEBUG, task, "stack %u: MADV_DONTNEED: %s", i, strerror(errno));
}
