/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_TASKS_H
#define RPC_TASKS_H

/*
 * The pair of rpc_pair.h with two sessions. One reactor polls both ends, and runs the tests'
 * tasks.
 */

#include <leat_reactor.h>
#include <leat_rpc_task.h>
#include <leat_task.h>

#include "rpc_pair.h"

extern struct leat_reactor *r;
extern struct leat_tasks *ts;
extern struct leat_rpc_session *sa[2], *sb[2];
extern unsigned int nb_accepted; /* sessions accepted by b; the last ones are in sb */
extern unsigned int nb_done;	 /* done requests of a that no task waits for */
extern bool forbids;		 /* b rejects new sessions */
extern int closed_status;	 /* status with which a session of a was closed last */

/* Call this after pair_setup(), or one of its variants. */
int tasks_setup(void **state);
int tasks_teardown(void **state);

#define turn_until(cond)                                                                           \
	do {                                                                                       \
		struct patience wait_ = { 0 };                                                     \
		while (!(cond)) {                                                                  \
			assert_true(leat_reactor_turn(r) >= 0);                                    \
			if (!patience_left(&wait_))                                                \
				fail_msg("waited in vain: %s", #cond);                             \
		}                                                                                  \
	} while (0)

/*
 * Run fn(arg) as a task.
 * @return the function's result
 */
int run(leat_task_fn fn, void *arg);

#endif /* RPC_TASKS_H */
