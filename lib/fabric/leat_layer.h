/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_LAYER_H
#define LEAT_LAYER_H

/*
 * For layers: libraries of leat's that give an endpoint ops which its device has not, or does in
 * another way. This header is not installed: a layer is a part of libleat.so.
 *
 *     application       leat_ep_post(), leat_ep_poll(), leat_ep_events()
 *                         |
 *     outer endpoint    what the application created; its table is struct leat_layer.driver
 *                         |   leat_ep_create_inner(), and the calls of leat_ep.h
 *     inner endpoint    same device, its own driver; created, polled and closed by the layer
 *                         |
 *     device
 *
 * A layer registers itself when the library is loaded. What fabric asks of it, in slow calls only:
 *
 *     leat_dev_info_get(dev)       layer->ops(info)    ops_software; added to info.ops
 *     leat_dev_info_for(dev, ops)  layer->info(info)   if an op of ops is one of ops_software
 *     leat_ep_create(dev, conf)    driver->ep_open()   likewise, of conf->ops; else the endpoint is
 *                                                      the device's own
 *
 * ep_open() sets the outer endpoint's post and poll, as that of any driver does. So an op takes
 * the same way as without layers: through one pointer, to the layer of an endpoint that has one,
 * to the driver of one that has not.
 *
 * A device has one layer: of those that can add ops to it, the first one by name. Layers are not
 * stacked.
 */

#include <stdint.h>

#include "leat_driver.h"

/* Layers of a process, at most. */
#define LEAT_LAYERS_MAX 4

/* Of an endpoint's name, with its NUL. */
#define LEAT_EP_NAME_MAX 64

struct leat_layer {
	const char *name;
	/*
	 * The ops that the layer adds to a device, or takes over from it: a mask of LEAT_OP_BIT.
	 * 0: this device is not for the layer.
	 */
	uint32_t (*ops)(const struct leat_dev_info *info);
	/* Makes of a device's info that of an endpoint with the layer. */
	void (*info)(struct leat_dev_info *info);
	/*
	 * What an endpoint with the layer does. Never called, and NULL: probe, remove, info, list,
	 * args.
	 */
	const struct leat_driver *driver;
};

/*
 * Registers a layer. The order of constructors does not matter: the layers are kept by name, and
 * first asked when a device is.
 * @return 0; -EEXIST: there is one of that name, which stays; -ENOSPC: LEAT_LAYERS_MAX are there.
 * Both are logged.
 */
int leat_layer_register(const struct leat_layer *layer);

/* Makes the constructor that registers a layer. */
#define LEAT_LAYER_REGISTER(layer)                                                                 \
	static void __attribute__((constructor)) leat_layer_ctor_##layer(void);                    \
	static void leat_layer_ctor_##layer(void)                                                  \
	{                                                                                          \
		(void)leat_layer_register(&layer);                                                 \
	}

/*
 * For a layer's ep_open(): creates an endpoint of the same device, with the device's own driver.
 * The layer polls it, takes its events, and closes it in its ep_close(). leat_cleanup() names the
 * outer endpoint only.
 * @return NULL with rte_errno and leat_err(), as leat_ep_create()
 */
struct leat_ep *leat_ep_create_inner(struct leat_ep *outer, const struct leat_ep_conf *conf);

/*
 * leat_ep_close() without the end: the endpoint is shut down, and still there.
 * @return as leat_ep_close()
 */
int leat_ep_stop(struct leat_ep *ep, uint64_t timeout_us,
		 void (*done)(struct leat_op *op, void *arg), void *arg);

/*
 * The table of an endpoint; of an inner one, the device's driver. For what has no call in
 * leat_ep.h.
 */
const struct leat_driver *leat_ep_driver(const struct leat_ep *ep);

#endif /* LEAT_LAYER_H */
