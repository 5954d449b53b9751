/* SPDX-License-Identifier: BSD-3-Clause */

/* The tree of tasks: each task below its parent; tasks whose parent has ended at the root. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <leat_error.h>

#include "task_pvt.h"

#define DEPTH_SHOWN 20

static int
by_id(const void *a, const void *b)
{
	const struct task_node *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static int
by_parent(const void *a, const void *b)
{
	const struct task_node *x = a, *y = b;

	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	return by_id(a, b);
}

static uint32_t
gather(const struct leat_tasks *ts, struct task_node *node)
{
	uint32_t i, n = 0;

	for (i = 0; i < ts->nb_stacks; i++) {
		const struct leat_task *t = &ts->blocks[i];

		if (t->state == LEAT_TASK_FREE)
			continue;
		node[n++] = (struct task_node){ .parent = t->parent, .id = t->id, .index = i };
	}
	return n;
}

/* Find the first node of a parent among n nodes, sorted by_parent. @return its index; n: none */
static uint32_t
first_child(const struct task_node *node, uint32_t n, uint64_t parent)
{
	uint32_t low = 0, high = n;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (node[mid].parent < parent)
			low = mid + 1;
		else
			high = mid;
	}
	return low < n && node[low].parent == parent ? low : n;
}

/*
 * Bring nodes that are sorted by parent into the order of the tree. Siblings are adjacent in
 * sorted[]. place[d] is the index in sorted of the node at depth d on the path to the current node.
 * The walk ends, since a child has a higher id than its parent: there is no cycle.
 */
static void
arrange(const struct task_node *sorted, uint32_t *place, uint32_t n, struct task_node *out)
{
	uint32_t i = 0, k = 0, depth = 0;

	while (k < n) {
		uint32_t child;

		out[k] = sorted[i];
		out[k].depth = depth;
		place[depth] = i;
		k++;
		child = first_child(sorted, n, sorted[i].id);
		if (child < n) {
			i = child;
			depth++;
			continue;
		}
		/* Go up to the first ancestor that has a next sibling. */
		while (i + 1 >= n || sorted[i + 1].parent != sorted[i].parent) {
			if (depth == 0)
				return;
			i = place[--depth];
		}
		i++;
	}
}

int
task_tree(const struct leat_tasks *ts, struct task_node **nodes)
{
	struct task_node *sorted, *out;
	uint32_t *place, i, n;

	sorted = calloc((size_t)ts->nb_stacks + 1, sizeof(*sorted));
	out = calloc((size_t)ts->nb_stacks + 1, sizeof(*out));
	place = calloc((size_t)ts->nb_stacks + 1, sizeof(*place));
	if (sorted == NULL || out == NULL || place == NULL) {
		free(sorted);
		free(out);
		free(place);
		return leat_err(ENOMEM, "no memory for the tree of %u tasks", ts->nb_stacks);
	}
	n = gather(ts, sorted);
	qsort(sorted, n, sizeof(*sorted), by_id);
	for (i = 0; i < n; i++) {
		struct task_node key = { .id = sorted[i].parent };

		if (bsearch(&key, sorted, n, sizeof(*sorted), by_id) == NULL)
			sorted[i].parent = 0;
	}
	qsort(sorted, n, sizeof(*sorted), by_parent);
	arrange(sorted, place, n, out);
	free(sorted);
	free(place);
	*nodes = out;
	return (int)n;
}

static void
show_one(const struct leat_task *t, uint32_t depth, leat_task_line_fn fn, void *arg)
{
	uint64_t us = leat_cycles_to_ns(leat_now() - t->since) / 1000;
	struct leat_task_info info;
	char line[256];

	leat_task_info_get(t, &info);
	snprintf(line, sizeof(line),
		 "%*s%s (%" PRIu64 ") %s%s%s since %" PRIu64
		 ".%03u ms, stack %u B, peak %u KiB of %zu",
		 (int)(2 * RTE_MIN(depth, (uint32_t)DEPTH_SHOWN)), "", info.name, info.id,
		 leat_task_state_name(info.state), info.waits[0] != '\0' ? " in " : "", info.waits,
		 us / 1000, (unsigned int)(us % 1000), info.stack_used, info.stack_peak / 1024,
		 task_stack_size(&t->ts->stacks) / 1024);
	fn(arg, line);
}

static void
show_more(unsigned int n, leat_task_line_fn fn, void *arg)
{
	char line[64];

	snprintf(line, sizeof(line), "... and %u more", n);
	fn(arg, line);
}

void
task_show_first(struct leat_tasks *ts, unsigned int max, leat_task_line_fn fn, void *arg)
{
	unsigned int shown = 0;
	uint32_t i;

	for (i = 0; i < ts->nb_stacks && shown < max; i++) {
		const struct leat_task *t = &ts->blocks[i];

		if (t->state == LEAT_TASK_FREE || t->state == LEAT_TASK_DONE)
			continue;
		show_one(t, 0, fn, arg);
		shown++;
	}
	if (shown < task_nb_left(ts))
		show_more(task_nb_left(ts) - shown, fn, arg);
}

int
leat_tasks_show(struct leat_tasks *ts, unsigned int max, leat_task_line_fn fn, void *arg)
{
	struct task_node *nodes = NULL;
	unsigned int i;
	int n;

	if (ts == NULL || fn == NULL)
		return leat_err(EINVAL, "show tasks: no %s", fn == NULL ? "function" : "tasks");
	n = task_tree(ts, &nodes);
	if (n < 0 || nodes == NULL)
		return n;
	for (i = 0; i < (unsigned int)n && (max == 0 || i < max); i++)
		show_one(&ts->blocks[nodes[i].index], nodes[i].depth, fn, arg);
	if (i < (unsigned int)n)
		show_more((unsigned int)n - i, fn, arg);
	free(nodes);
	return n;
}
