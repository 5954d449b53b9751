/* SPDX-License-Identifier: BSD-3-Clause */

/* The device: probe, limits, and the driver's table. */

#include <stdlib.h>
#include <string.h>

#include "fault_pvt.h"

static int
find_lower(const struct leat_dev *dev, const struct rte_kvargs *kv, struct leat_dev **lower)
{
	const char *name = leat_driver_arg_str(kv, "lower");

	if (name == NULL)
		return leat_err(EINVAL, "%s: argument lower=DEVICE is missing: what to wrap",
				leat_dev_name(dev));
	*lower = leat_dev_by_name(name);
	if (*lower == NULL)
		return leat_err(ENODEV,
				"%s: lower=%s: no such device; --vdev=%s must come before this one",
				leat_dev_name(dev), name, name);
	return 0;
}

/* Check that the lower device has endpoints of the types that the configured faults are about. */
static int
check_types(const struct leat_dev *dev, const struct fault_dev *fd)
{
	const struct fault_conf *c = &fd->conf;
	struct leat_dev_info low;

	if (leat_dev_info_get(fd->lower, &low) < 0)
		return -rte_errno;
	if ((c->loss != 0 || c->dup != 0 || c->overtake != 0) &&
	    (low.ep_types & (1u << LEAT_EP_DATAGRAM)) == 0)
		return leat_err(EINVAL,
				"%s: arguments loss, dup and overtake are about datagrams, and %s "
				"has no datagram endpoints",
				leat_dev_name(dev), low.name);
	if (c->die.shape != FAULT_NEVER && (low.ep_types & (1u << LEAT_EP_RELIABLE)) == 0)
		return leat_err(EINVAL,
				"%s: argument die: a datagram peer's death is not reported, and "
				"%s has no other endpoints; loss=1 makes them all silent",
				leat_dev_name(dev), low.name);
	return 0;
}

/* Log the device's arguments with the seed: with them the run can be repeated. */
static void
log_open(const struct leat_dev *dev, const struct fault_dev *fd, const struct rte_kvargs *kv)
{
	char text[200] = "";
	size_t pos = 0;
	unsigned int i;
	int n;

	for (i = 0; i < kv->count && pos < sizeof(text); i++) {
		if (strcmp(kv->pairs[i].key, "lower") == 0 || strcmp(kv->pairs[i].key, "seed") == 0)
			continue;
		n = snprintf(text + pos, sizeof(text) - pos, ",%s=%s", kv->pairs[i].key,
			     kv->pairs[i].value);
		if (n < 0)
			break;
		pos += (size_t)n;
	}
	LEAT_LOG(NOTICE, driver, "--vdev=%s,lower=%s,seed=%" PRIu64 "%s%s", leat_dev_name(dev),
		 leat_dev_name(fd->lower), fd->conf.seed, text,
		 pos > 0 ? "" : ": no fault is switched on");
}

static int
fault_probe(struct leat_dev *dev, const struct rte_kvargs *kv)
{
	struct fault_dev *fd = calloc(1, sizeof(*fd));
	int ret;

	if (fd == NULL)
		return leat_err(ENOMEM, "%s: out of memory", leat_dev_name(dev));
	ret = find_lower(dev, kv, &fd->lower);
	if (ret == 0)
		ret = fault_conf_parse(kv, &fd->conf);
	if (ret == 0)
		ret = check_types(dev, fd);
	if (ret < 0) {
		free(fd);
		return ret;
	}
	leat_dev_drv_set(dev, fd);
	log_open(dev, fd, kv);
	return 0;
}

static void
fault_remove(struct leat_dev *dev)
{
	free(leat_dev_drv(dev));
}

static void
fault_info(const struct leat_dev *dev, struct leat_dev_info *info)
{
	const struct fault_dev *fd = leat_dev_drv(dev);
	const struct fault_conf *c = &fd->conf;
	struct leat_dev_info low;

	if (leat_dev_info_get(fd->lower, &low) < 0)
		return;
	memcpy(low.name, info->name, sizeof(low.name));
	memcpy(low.driver, info->driver, sizeof(low.driver));
	snprintf(low.interface, sizeof(low.interface), "%s, seed %" PRIu64,
		 leat_dev_name(fd->lower), c->seed);
	/*
	 * Ops that the library emulates for the lower device are left out of this device's ops: the
	 * library then emulates them above this device, so that faults hit the emulation's messages
	 * as well. But if the library emulates even SEND, it emulates all these ops below this
	 * device, and faults hit the emulated ops.
	 */
	if ((low.ops_software & LEAT_OP_BIT(LEAT_OP_SEND)) != 0)
		(void)leat_dev_info_for(fd->lower, low.ops, &low); /* the call above succeeded */
	else
		low.ops &= ~low.ops_software;
	low.ops_software = 0;
	if (c->reorder != 0 || c->delay.shape != FAULT_NEVER || c->error != 0 || c->stall != 0 ||
	    c->loss != 0 || c->dup != 0 || c->overtake != 0)
		low.in_order = low.write_order = false;
	/* With these faults a send may need its buffer after post has returned. */
	if (c->stall != 0 || c->dup != 0 || c->overtake != 0)
		low.inline_max = 0;
	*info = low;
}

static int
fault_list(const struct leat_dev *dev, const struct leat_dev_sink *to)
{
	const struct fault_dev *fd = dev != NULL ? leat_dev_drv(dev) : NULL;

	if (fd == NULL)
		return leat_err(ENODEV, "fabric_fault: wraps another device: lower=DEVICE");
	to->text(to->arg, "lower", leat_dev_name(fd->lower));
	to->number(to->arg, "seed", fd->conf.seed);
	return 0;
}

static const struct leat_driver fault_driver = {
	.name = "fabric_fault",
	.description = "wraps another device, and makes happen what seldom does; replayed by seed",
	.args = fault_args,
	.probe = fault_probe,
	.remove = fault_remove,
	.info = fault_info,
	.list = fault_list,
	.ep_open = fault_ep_open,
	.ep_quiesce = fault_ep_quiesce,
	.ep_abort = fault_ep_abort,
	.ep_close = fault_ep_close,
	.cancel = fault_cancel,
	.progress = fault_progress,
	.listen = fault_listen,
	.listen_addr = fault_listen_addr,
	.connect = fault_connect,
	.accept = fault_accept,
	.reject = fault_reject,
	.disconnect = fault_disconnect,
	.mr_reg = fault_mr_reg,
	.mr_dereg = fault_mr_dereg,
	.fd = fault_ep_fd,
	.arm = fault_ep_arm,
	.disarm = fault_ep_disarm,
};

LEAT_DRIVER_REGISTER(fault_driver)
