/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The two drivers of this plugin, and their arguments:
 *
 *     --vdev=fabric_ofi0,provider=tcp      any RDM provider of libfabric, which must be named
 *     --vdev=fabric_efa0                   provider efa: AWS's Elastic Fabric Adapter
 *
 * Both share all other code. Devices of the two differ only in the row of their provider.
 */

#include <errno.h>

#include "ofi_pvt.h"

/* clang-format off */
#define ARGS_BOTH \
	{ "domain", "NAME", "", "libfabric domain, as fi_info shows it, e.g. rdmap0s6-rdm" }, \
	{ "tx", "1..32768", "", "send depth that endpoints get by default" }, \
	{ "rx", "1..32768", "", "receive depth that endpoints get by default" }, \
	{ "tags", "0|1", "0", \
	  "0: the library matches messages to receives; 1: the provider does, which is " \
	  "faster, but may keep without a limit what a peer sends unreceived" }, \
	{ "per_source", "0..32767", "0", \
	  "connections that one host may hold at an endpoint; 0: all" }, \
	{ NULL, NULL, NULL, NULL }

static const struct leat_driver_arg ofi_args[] = {
	{ "provider", "NAME", "",
	  "libfabric RDM provider: shm, tcp, tcp;ofi_rxm, sockets, ...; must be given" },
	{ "iface", "NAME", "", "network interface whose address is used" },
	{ "src", "ADDR", "", "local address; instead of iface" },
	ARGS_BOTH,
};

/* Without iface= and src=: EFA devices have no network address. */
static const struct leat_driver_arg efa_args[] = {
	{ "provider", "efa", "efa", "the only value; for other providers use fabric_ofi" },
	ARGS_BOTH,
};
/* clang-format on */

static int
ofi_probe(struct leat_dev *dev, const struct rte_kvargs *kv)
{
	const char *provider = leat_driver_arg_str(kv, "provider");
	char list[256];

	ofi_provider_prepare();
	if (provider == NULL)
		return leat_err(EINVAL, "%s: provider=NAME is missing; RDM providers here: %s",
				leat_dev_name(dev), ofi_provider_list(list, sizeof(list)));
	return ofi_dev_probe(dev, kv, provider);
}

static int
efa_probe(struct leat_dev *dev, const struct rte_kvargs *kv)
{
	const char *provider = leat_driver_arg_str(kv, "provider");

	if (provider != NULL && strcmp(provider, OFI_PROVIDER_EFA) != 0)
		return leat_err(EINVAL,
				"%s: provider=%s: it is always efa here; use "
				"--vdev=fabric_ofi0,provider=%s",
				leat_dev_name(dev), provider, provider);
	ofi_provider_prepare();
	return ofi_dev_probe(dev, kv, OFI_PROVIDER_EFA);
}

/* The functions that both drivers share. */
#define OFI_FUNCTIONS                                                                              \
	.remove = ofi_dev_remove, .info = ofi_dev_info, .ep_open = ofi_ep_open,                    \
	.ep_quiesce = ofi_ep_quiesce, .ep_abort = ofi_ep_abort, .ep_halt = ofi_ep_halt,            \
	.ep_close = ofi_ep_close, .cancel = ofi_ep_cancel, .progress = ofi_progress,               \
	.listen = ofi_listen, .listen_addr = ofi_listen_addr, .connect = ofi_connect,              \
	.accept = ofi_accept, .reject = ofi_reject, .disconnect = ofi_disconnect,                  \
	.mr_reg = ofi_mr_reg, .mr_dereg = ofi_mr_dereg, .fd = ofi_ep_fd, .arm = ofi_ep_arm,        \
	.disarm = ofi_ep_disarm, .option = ofi_ep_option

static const struct leat_driver ofi_driver = {
	.name = "fabric_ofi",
	.description = "RDM endpoints of libfabric's providers: tcp, shm, sockets, ...",
	.args = ofi_args,
	.probe = ofi_probe,
	.list = ofi_list,
	OFI_FUNCTIONS,
};

static const struct leat_driver efa_driver = {
	.name = "fabric_efa",
	.description = "AWS Elastic Fabric Adapter: libfabric's provider efa",
	.args = efa_args,
	.probe = efa_probe,
	.list = ofi_list_efa,
	OFI_FUNCTIONS,
};

LEAT_DRIVER_REGISTER(ofi_driver)
LEAT_DRIVER_REGISTER(efa_driver)
