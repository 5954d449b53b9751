/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_DEV_LIST_H
#define LEAT_DEV_LIST_H

/**
 * @file
 * What devices this machine has, and what there is to know of one: ports, state, speed, addresses, limits.
 *
 * Drivers tell it value by value, the caller takes it as it likes: as text, as JSON, to look for
 * something. Of a machine with one adapter the calls are
 *
 *     device(arg, "fabric_verbs0,dev=mlx5_0")
 *     text(arg, "state", "active")
 *     text(arg, "speed", "100 Gb/s")
 *     item(arg, "gids", "0: fe80::1, RoCE v1")
 *     item(arg, "gids", "1: 10.0.0.1, RoCE v2")
 *     number(arg, "max_qp", 131072)
 *     none(arg, "fabric_efa", "fabric_efa: libfabric offers no RDM endpoints")
 *
 * Keys are words of small letters, digits and underscores; which there are is the driver's affair, and told in
 * its page of doc/drivers.
 *
 * Thread rules: main thread.
 */

#include <stdint.h>

#include "leat_common.h"
#include "leat_dev.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Takes what is told. Strings are valid during the call only. All functions have to be there. */
struct leat_dev_sink {
	/** A device that `--vdev=spec` opens, or would open if it were up; what follows is of it. */
	void (*device)(void *arg, const char *spec);
	/** A driver has none to offer, and why, in a line that begins with its name. */
	void (*none)(void *arg, const char *driver, const char *why);
	/** A value. */
	void (*text)(void *arg, const char *key, const char *value);
	/** A value that is a number. */
	void (*number)(void *arg, const char *key, uint64_t value);
	/** One of several values; those of one key come one after the other. */
	void (*item)(void *arg, const char *key, const char *value);
	void *arg; /**< the caller's own */
};

/**
 * Tells what could be opened on this machine, of all drivers that are loaded, whether it is open or not.
 * Needs no leat_init(), only leat_drivers_load().
 * @return 0, or -EINVAL: no driver is loaded
 */
LEAT_API int leat_dev_candidates(const struct leat_dev_sink *to);

/** Tells the details of an open device, beyond leat_dev_info_get(). @return 0, or -EIO: it can't be asked */
LEAT_API int leat_dev_describe(const struct leat_dev *dev, const struct leat_dev_sink *to);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_DEV_LIST_H */
