/* SPDX-License-Identifier: BSD-3-Clause */

/* The devices of this process: opened by leat_init(), closed by leat_cleanup(). */

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fabric_pvt.h"

#define DEVS_MAX 64

/*
 * leat_init() and leat_cleanup() change the list of devices, under the mutex. Telemetry's thread
 * reads the list and its devices under the mutex. All other uses come after leat_init() and before
 * leat_cleanup(), and need no lock.
 */
static pthread_mutex_t devs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct leat_dev *devs[DEVS_MAX];
static unsigned int nb_devs;

int
leat_dev_foreach(leat_dev_visit_fn fn, void *arg)
{
	unsigned int i;
	int ret = 0;

	(void)pthread_mutex_lock(&devs_lock);
	for (i = 0; i < nb_devs && ret >= 0; i++)
		ret = fn(devs[i], arg);
	(void)pthread_mutex_unlock(&devs_lock);
	return ret;
}

unsigned int
leat_dev_count(void)
{
	return nb_devs;
}

struct leat_dev *
leat_dev_get(unsigned int id)
{
	return id < nb_devs ? devs[id] : NULL;
}

struct leat_dev *
leat_dev_by_name(const char *name)
{
	unsigned int i;

	for (i = 0; i < nb_devs; i++) {
		if (strcmp(devs[i]->name, name) == 0)
			return devs[i];
	}
	return NULL;
}

const char *
leat_dev_name(const struct leat_dev *dev)
{
	return dev->name;
}

void
leat_dev_drv_set(struct leat_dev *dev, void *drv)
{
	dev->drv = drv;
}

void *
leat_dev_drv(const struct leat_dev *dev)
{
	return dev->drv;
}

int
leat_dev_info_layer(const struct leat_dev *dev, uint32_t ops, struct leat_dev_info *info,
		    const struct leat_layer **layer)
{
	if (dev == NULL || info == NULL)
		return leat_err(EINVAL, "device info: no device or nowhere to put it");
	memset(info, 0, sizeof(*info));
	snprintf(info->name, sizeof(info->name), "%s", dev->name);
	snprintf(info->driver, sizeof(info->driver), "%s", dev->driver->name);
	info->numa_node = -1;
	info->priv_connect = LEAT_EP_PRIV_MAX;
	info->priv_accept = LEAT_EP_PRIV_MAX;
	dev->driver->info(dev, info);
	if (dev->driver->fd == NULL || dev->driver->arm == NULL || dev->driver->disarm == NULL)
		info->wait = false;
	*layer = leat_layer_of(info, &info->ops_software);
	info->ops |= info->ops_software;
	if ((ops & info->ops_software) != 0)
		(*layer)->info(info);
	else
		*layer = NULL;
	return 0;
}

int
leat_dev_info_for(const struct leat_dev *dev, uint32_t ops, struct leat_dev_info *info)
{
	const struct leat_layer *layer;

	return leat_dev_info_layer(dev, ops, info, &layer);
}

int
leat_dev_info_get(const struct leat_dev *dev, struct leat_dev_info *info)
{
	return leat_dev_info_for(dev, 0, info);
}

/* ---- list of devices, and their details ---- */

int
leat_dev_list(const struct leat_dev_sink *to)
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

/* ---- opening and closing ---- */

static int
dev_probe(struct leat_dev *dev, const char *args)
{
	struct rte_kvargs *kv;
	int ret;

	kv = leat_driver_kvargs(dev->driver, dev->name, args);
	if (kv == NULL)
		return -EINVAL;
	ret = dev->driver->probe(dev, kv);
	rte_kvargs_free(kv);
	if (ret < 0 && strncmp(leat_err_msg(), dev->name, strlen(dev->name)) != 0)
		return leat_err(-ret, "%s: %s", dev->name, leat_err_msg());
	return ret;
}

const struct leat_driver *
leat_dev_driver(const char *spec)
{
	const struct leat_driver *driver;
	size_t len = strcspn(spec, ",");
	char names[256];

	if (len >= sizeof(((struct leat_dev *)NULL)->name) || len == 0 ||
	    !isdigit((unsigned char)spec[len - 1])) {
		leat_err(EINVAL,
			 "--vdev=%s: a driver's name and a number expected, like fabric_ring0",
			 spec);
		return NULL;
	}
	driver = leat_driver_by_dev_name(spec);
	if (driver == NULL)
		leat_err(EINVAL, "--vdev=%s: no such driver; known: %s", spec,
			 leat_driver_names(names, sizeof(names)));
	return driver;
}

int
leat_dev_open(const char *spec)
{
	const struct leat_driver *driver = leat_dev_driver(spec);
	size_t len = strcspn(spec, ",");
	struct leat_dev *dev;
	int ret;

	if (driver == NULL)
		return -EINVAL;
	if (nb_devs == DEVS_MAX)
		return leat_err(ENOSPC, "--vdev=%s: more than %d devices", spec, DEVS_MAX);

	dev = calloc(1, sizeof(*dev));
	if (dev == NULL)
		return leat_err(ENOMEM, "--vdev=%s: out of memory", spec);
	memcpy(dev->name, spec, len);
	dev->driver = driver;
	dev->id = nb_devs;
	if (leat_dev_by_name(dev->name) != NULL) {
		free(dev);
		return leat_err(EINVAL, "--vdev=%s: there is a device of that name already", spec);
	}
	ret = dev_probe(dev, spec[len] == ',' ? spec + len + 1 : "");
	if (ret < 0) {
		free(dev);
		return ret;
	}
	(void)pthread_mutex_lock(&devs_lock);
	devs[nb_devs++] = dev;
	(void)pthread_mutex_unlock(&devs_lock);
	return 0;
}

void
leat_dev_close_all(void)
{
	while (nb_devs > 0) {
		struct leat_dev *dev;

		/* After this telemetry does not find the device, and has stopped reading it. */
		(void)pthread_mutex_lock(&devs_lock);
		dev = devs[--nb_devs];
		devs[nb_devs] = NULL;
		(void)pthread_mutex_unlock(&devs_lock);
		dev->driver->remove(dev);
		free(dev);
	}
}
