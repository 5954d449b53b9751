/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef SCOPE_PVT_H
#define SCOPE_PVT_H

#include "leat_scope.h"
#include "task_pvt.h"

/* leat_scope_wait(), as a wait of the task that calls it. */
struct scope_wait {
	struct task_wait w;
	struct leat_scope *scope;
};

extern const struct task_wait_type scope_wait_type;

/* Give the signal to all branches, and to what is below them, that don't have it. */
void scope_walk(struct leat_scope *top, const struct leat_task *spared);

#endif /* SCOPE_PVT_H */
