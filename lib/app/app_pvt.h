/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef APP_PVT_H
#define APP_PVT_H

/*
 * What the files of lib/app share.
 *
 *     app.c     leat_app_run(): a table of contents; signals
 *     args.c    whose argument is which
 *     lcore.c   a reactor with tasks per lcore, from creation to end
 */

#include <stdbool.h>

#include "leat_app.h"

#define APP_DEVICE "fabric_ring0"
#define APP_STOP_US 1000000

/* ---- args.c ---- */

struct app_args {
	char **init; /* for leat_init(), nb_init of them, and NULL */
	int nb_init;
	char **own; /* for parse(), nb_own of them, and NULL */
	int nb_own;
	char *vdev; /* the argument for the default device, or NULL */
	char *name; /* of the program, for messages */
};

/* 0, or -ENOMEM; app_args_free() either way. */
int app_args_split(struct app_args *a, int argc, char **argv, const struct leat_app *app);
void app_args_free(struct app_args *a);

/* ---- lcore.c ---- */

/* Reactors and tasks of all lcores; EAL runs. 0 or a negative errno with leat_err(). */
int app_lcores_create(const struct leat_app *app);
/* Runs them until all have stopped. 0, or the first failure, which was logged. */
int app_lcores_run(void);
/* -EBUSY: something is still running, which was logged; the program can't be cleaned up. */
int app_lcores_destroy(void);

/* The deadline of a stop. */
uint64_t app_stop_us(void);

#endif /* APP_PVT_H */
