/* SPDX-License-Identifier: BSD-3-Clause */

/* The checks of AWS Elastic Fabric Adapters: PCI function, module, libfabric's provider. */

#include <string.h>

#include "doctor.h"

#define PCI "/sys/bus/pci/devices"
#define VENDOR_AMAZON 0x1d0f
#define DEVICE_EFA 0xefa0 /* 0xefa0 to 0xefaf: the last digit is the generation, less 1 */

static bool
is_efa(const struct dr *d, const char *addr, uint64_t *device)
{
	uint64_t vendor;

	return dr_read_u64(d, &vendor, PCI "/%s/vendor", addr) && vendor == VENDOR_AMAZON &&
	       dr_read_u64(d, device, PCI "/%s/device", addr) &&
	       (*device & ~UINT64_C(0xf)) == DEVICE_EFA;
}

bool
dr_efa_present(const struct dr *d)
{
	struct dr_names pci;
	unsigned int i;
	uint64_t id;

	(void)dr_list(d, &pci, PCI);
	for (i = 0; i < pci.nb; i++) {
		if (is_efa(d, pci.name[i], &id))
			return true;
	}
	return false;
}

static void
device(struct dr *d)
{
	unsigned int i, n = 0;
	struct dr_names pci;
	struct dr_finding *f;
	uint64_t id;

	(void)dr_list(d, &pci, PCI);
	for (i = 0; i < pci.nb; i++) {
		if (!is_efa(d, pci.name[i], &id))
			continue;
		n++;
		if (!dr_module(d, "efa") || dr_exists(d, PCI "/%s/infiniband", pci.name[i])) {
			f = dr_found(d, DR_OK, pci.name[i], "PCI id 1d0f:%04" PRIx64, id);
			dr_means(f, "an EFA device of generation %" PRIu64, (id & 0xf) + 1);
			continue;
		}
		f = dr_found(d, DR_ERROR, pci.name[i],
			     "PCI id 1d0f:%04" PRIx64 ", but the module made no RDMA device of it",
			     id);
		dr_means(f, "the module did not bind to it: it is too old, or vfio has the device");
		dr_mend(f,
			"dmesg | grep -i efa   # then install AWS's EFA installer's newest module");
	}
	if (n == 0) {
		f = dr_found(d, DR_INFO, "", "none");
		dr_means(f, "fabric_efa can't be used; EFA is found on EC2 instances only");
	}
}

static void
module(struct dr *d)
{
	struct dr_finding *f;
	char version[64];

	if (dr_module(d, "efa")) {
		if (dr_read(d, version, sizeof(version), "/sys/module/efa/version") <= 0)
			snprintf(version, sizeof(version), "without a version (the kernel's own)");
		f = dr_found(d, DR_OK, "", "loaded, %s", version);
		dr_means(f, "EFA devices can be used");
	} else if (!dr_efa_present(d)) {
		f = dr_found(d, DR_OK, "", "not loaded, no EFA device");
		dr_means(f, "nothing needs it");
	} else {
		f = dr_found(d, DR_ERROR, "", "not loaded");
		dr_means(f, "the EFA device that is there can't be used");
		dr_mend(f, dr_modules_possible(d)
				   ? "modprobe efa && echo efa > /etc/modules-load.d/efa.conf"
				   : "boot a kernel with loadable modules: this one has none");
	}
}

static void
provider(struct dr *d)
{
	struct dr_finding *f;

	if (!dr_efa_present(d)) {
		f = dr_found(d, DR_OK, "", "no EFA device");
		dr_means(f, "nothing to check");
		return;
	}
	switch (dr_provider("efa")) {
	case DR_USABLE:
		f = dr_found(d, DR_OK, "", "libfabric's provider efa offers RDM endpoints");
		dr_means(f, "--vdev=fabric_efa0 works");
		break;
	case DR_NOT_USABLE:
		f = dr_found(d, DR_ERROR, "", "libfabric's provider efa finds no device");
		dr_means(f, "--vdev=fabric_efa0 does not open: see efa.module, rdma.access, "
			    "rdma.userspace");
		dr_mend(f,
			"fi_info -p efa   # with FI_LOG_LEVEL=warn in its environment it says why");
		break;
	case DR_NOT_BUILT_IN:
		f = dr_found(d, DR_ERROR, "", "this libfabric has no provider efa");
		dr_means(f, "--vdev=fabric_efa0 does not open");
		dr_mend(f, "apt-get install libfabric1   # or AWS's EFA installer");
		break;
	default:
		f = dr_found(d, DR_ERROR, "", DR_NAME " was built without libfabric");
		dr_means(f, "leat's ofi driver is not there either");
		dr_mend(f, "apt-get install libfabric-dev && meson setup --reconfigure BUILDDIR");
		break;
	}
}

const struct dr_check dr_efa_checks[] = {
	{ "efa.device", "EFA's PCI functions", device },
	{ "efa.module", "its kernel module and version", module },
	{ "efa.provider", "libfabric's provider for it", provider },
	{ NULL, NULL, NULL },
};
