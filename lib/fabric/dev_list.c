/* SPDX-License-Identifier: BSD-3-Clause */

/* What devices there are, and what there is to know of one. */

#include "fabric_pvt.h"

int
leat_dev_candidates(const struct leat_dev_sink *to)
{
	const struct leat_driver *drv;
	char spec[64];
	int i;

	for (i = 0; (drv = leat_driver_at(i)) != NULL; i++) {
		if (drv->list == NULL) {
			snprintf(spec, sizeof(spec), "%s0", drv->name);
			to->device(to->arg, spec);
		} else if (drv->list(NULL, to) < 0) {
			to->none(to->arg, drv->name, leat_err_msg());
		}
	}
	return i > 0 ? 0 : leat_err(EINVAL, "list of devices: no driver is loaded (-d FILE)");
}

int
leat_dev_describe(const struct leat_dev *dev, const struct leat_dev_sink *to)
{
	return dev->driver->list == NULL ? 0 : dev->driver->list(dev, to);
}
