/* SPDX-License-Identifier: BSD-3-Clause */

/* The layers of this process: they register from constructors of libleat.so. */

#include <string.h>

#include "fabric_pvt.h"

/* No lock: constructors run one at a time, and no device is opened before the last one ended. */
static const struct leat_layer *layers[LEAT_LAYERS_MAX];
static int nb_layers;

int
leat_layer_register(const struct leat_layer *layer)
{
	int i;

	for (i = 0; i < nb_layers; i++) {
		if (strcmp(layers[i]->name, layer->name) == 0) {
			LEAT_LOG(ERR, fabric, "layer %s is registered already: the first one stays",
				 layer->name);
			return -EEXIST;
		}
	}
	if (nb_layers == LEAT_LAYERS_MAX) {
		LEAT_LOG(ERR, fabric, "layer %s: more than %d layers", layer->name,
			 LEAT_LAYERS_MAX);
		return -ENOSPC;
	}
	/* Sorted, so that a device's layer does not depend on the order of the constructors. */
	for (i = nb_layers; i > 0 && strcmp(layers[i - 1]->name, layer->name) > 0; i--)
		layers[i] = layers[i - 1];
	layers[i] = layer;
	nb_layers++;
	return 0;
}

const struct leat_layer *
leat_layer_of(const struct leat_dev_info *info, uint32_t *ops)
{
	int i;

	for (i = 0; i < nb_layers; i++) {
		*ops = layers[i]->ops(info);
		if (*ops != 0)
			return layers[i];
	}
	*ops = 0;
	return NULL;
}
