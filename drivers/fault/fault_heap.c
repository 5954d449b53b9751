/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A binary heap of proxies (ops of the lower endpoint, see fault_pvt.h), the lowest key first. Each
 * proxy knows its index, so that any proxy can be removed.
 */

#include "fault_pvt.h"

static bool
before(const struct fault_op *a, const struct fault_op *b)
{
	return a->key != b->key ? a->key < b->key : a->nr < b->nr;
}

static void
put(struct fault_heap *h, uint32_t at, struct fault_op *f)
{
	h->op[at] = f;
	f->at = at;
}

static void
up(struct fault_heap *h, uint32_t at, struct fault_op *f)
{
	while (at > 0 && before(f, h->op[(at - 1) / 2])) {
		put(h, at, h->op[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	put(h, at, f);
}

static void
down(struct fault_heap *h, uint32_t at, struct fault_op *f)
{
	uint32_t child;

	while ((child = 2 * at + 1) < h->nb) {
		if (child + 1 < h->nb && before(h->op[child + 1], h->op[child]))
			child++;
		if (!before(h->op[child], f))
			break;
		put(h, at, h->op[child]);
		at = child;
	}
	put(h, at, f);
}

void
fault_heap_push(struct fault_heap *h, struct fault_op *f)
{
	up(h, h->nb++, f);
}

void
fault_heap_remove(struct fault_heap *h, struct fault_op *f)
{
	uint32_t at = f->at;
	struct fault_op *last = h->op[--h->nb];

	if (last == f)
		return;
	if (at > 0 && before(last, h->op[(at - 1) / 2]))
		up(h, at, last);
	else
		down(h, at, last);
}
