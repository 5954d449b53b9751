/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_LAYER_H
#define LEAT_LAYER_H

/*
 * For layers: parts of leat that give an endpoint ops that its device lacks, or do the device's ops
 * in a different way. This header is not installed: a layer is a part of libleat.so.
 *
 *     application       leat_ep_post(), leat_ep_poll(), leat_ep_events()
 *                         |
 *     outer endpoint    what the application created; its table is struct leat_layer.driver
 *                         |   leat_ep_create_inner(), and the calls of leat_ep.h
 *     inner endpoint    same device, its own driver; created, polled and closed by the layer
 *                         |
 *     device
 *
 * A layer registers itself when the library is loaded. Fabric calls it in slow calls only:
 *
 *     leat_dev_info_get(dev)       layer->ops(info)    returns ops_software; added to info.ops
 *     leat_dev_info_for(dev, ops)  layer->info(info)   if an op of ops is one of ops_software
 *     leat_ep_create(dev, conf)    driver->ep_open()   the layer's, if an op of conf->ops is one of
 *                                                      ops_software; else the device's
 *
 * The layer's ep_open() sets the outer endpoint's post and poll, as every driver's does. So a post
 * is one indirect call: to the layer, or, on an endpoint without a layer, to the driver. Layers add
 * nothing to endpoints that don't use them.
 *
 * A device has one layer at most: of those that can add ops to it, the one whose name sorts first.
 * Layers are not stacked.
 */

#include <stdint.h>

#include "leat_driver.h"

/* Maximum number of layers of a process. */
#define LEAT_LAYERS_MAX 4

/* Longest name of an endpoint, with its NUL. */
#define LEAT_EP_NAME_MAX 64

struct leat_layer {
	const char *name;
	/*
	 * The ops that the layer adds to a device, or takes over from it: a mask of LEAT_OP_BIT.
	 * 0: the layer has nothing to do for this device.
	 */
	uint32_t (*ops)(const struct leat_dev_info *info);
	/* Change a device's info into the info for endpoints with the layer. */
	void (*info)(struct leat_dev_info *info);
	/*
	 * The functions of an endpoint with the layer. probe, remove, info, list and args are
	 * never used, and NULL.
	 */
	const struct leat_driver *driver;
};

/*
 * Register a layer. The order of constructors does not matter: the layers are kept sorted by name,
 * and first called when a device is queried.
 * @return 0; -EEXIST: a layer of that name is registered, and stays; -ENOSPC: LEAT_LAYERS_MAX are
 *   registered. Both are logged.
 */
int leat_layer_register(const struct leat_layer *layer);

/* Define the constructor that registers a layer. */
#define LEAT_LAYER_REGISTER(layer)                                                                 \
	static void __attribute__((constructor)) leat_layer_ctor_##layer(void);                    \
	static void leat_layer_ctor_##layer(void)                                                  \
	{                                                                                          \
		(void)leat_layer_register(&layer);                                                 \
	}

/*
 * Create an endpoint of the same device with the device's own driver: for a layer's ep_open(). The
 * layer polls it, takes its events, and closes it in its ep_close(). leat_cleanup() names the outer
 * endpoint only.
 * @return NULL with rte_errno and leat_err(), as leat_ep_create()
 */
struct leat_ep *leat_ep_create_inner(struct leat_ep *outer, const struct leat_ep_conf *conf);

/*
 * Shut down an endpoint as leat_ep_close() does, without destroying it. If it is shutting down
 * already, the earlier one of the two deadlines counts.
 * @return as leat_ep_close()
 */
int leat_ep_stop(struct leat_ep *ep, uint64_t timeout_us,
		 void (*done)(struct leat_op *op, void *arg), void *arg);

/*
 * Return the table of functions of an endpoint: its layer's, or the driver's if it has no layer.
 * Through the inner endpoint's table a layer calls the functions that have no call in leat_ep.h.
 */
const struct leat_driver *leat_ep_driver(const struct leat_ep *ep);

#endif /* LEAT_LAYER_H */
