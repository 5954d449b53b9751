/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LIST_H
#define LIST_H

/*
 * --list-drivers and --list-devices: print leat's drivers and devices to stdout.
 *
 *     list.c        as text
 *     list_json.c   as JSON
 *
 * All functions return 0 or a negative errno with leat_err() set.
 */

#include <stdbool.h>

/* List the loaded drivers with the arguments of their devices, and plugins that failed to load. */
int list_drivers(bool json);

/* List the open devices; if none is open, the devices that could be opened here. */
int list_devices(bool json);

/* ---- list_json.c ---- */

int list_drivers_json(void);
int list_devices_json(void);

#endif /* LIST_H */
