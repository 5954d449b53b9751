/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LIST_H
#define LIST_H

/*
 * What programs print of leat's drivers and devices, to stdout.
 *
 *     list.c        as text
 *     list_json.c   as JSON
 *
 * All return 0 or a negative errno with leat_err() set.
 */

#include <stdbool.h>

/* The drivers that are loaded, with their devices' arguments, and the plugins that could not be. */
int list_drivers(bool json);

/* The open devices, or if there are none those that could be opened here. */
int list_devices(bool json);

/* ---- list_json.c ---- */

int list_drivers_json(void);
int list_devices_json(void);

#endif /* LIST_H */
