/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef APP_PVT_H
#define APP_PVT_H

/*
 * Shared between the files of lib/app.
 *
 *     app.c     leat_app_run(): calls the others step by step; signals
 *     args.c    splits the arguments: leat_init()'s and the program's own
 *     lcore.c   a reactor with tasks per lcore, from creation to end
 */

#include <stdbool.h>

#include "leat_app.h"

#define APP_DEVICE "fabric_ring0"
#define APP_STOP_US 1000000

/* ---- args.c ---- */

struct app_args {
	char **init; /* nb_init arguments for leat_init(), and a NULL */
	int nb_init;
	char **own; /* nb_own arguments for parse(), and a NULL */
	int nb_own;
	char *vdev; /* "--vdev=DEVICE" for the default device, or NULL */
	char *name; /* program's name, for messages */
};

/* Split the arguments. @return 0, or -ENOMEM; call app_args_free() in both cases. */
int app_args_split(struct app_args *a, int argc, char **argv, const struct leat_app *app);
void app_args_free(struct app_args *a);

/* ---- lcore.c ---- */

/*
 * Create reactors and tasks of all lcores, once EAL runs. @return 0, or a negative errno with
 * leat_err().
 */
int app_lcores_create(const struct leat_app *app);
/* Run the reactors until all have stopped. @return 0, or the first failure, which is logged. */
int app_lcores_run(void);
/*
 * Destroy reactors and tasks of all lcores. @return 0, or -EBUSY: a task has not ended, or a
 * reactor can't be destroyed. The log says which.
 */
int app_lcores_destroy(void);

/* Time that a stop may take, us. */
uint64_t app_stop_us(void);

#endif /* APP_PVT_H */
