/* SPDX-License-Identifier: BSD-3-Clause */

/* The checks of the kernel: IOMMU, vfio, ptrace between processes, socket buffers. */

#include <string.h>

#include "doctor.h"

#define GROUPS "/sys/kernel/iommu_groups"
#define RMEM (512 << 10) /* receive buffer that the ofi driver asks for with provider=sockets */

static void
iommu(struct dr *d)
{
	char type[32], val[64], options[DR_TEXT] = "";
	static const char *const keys[] = { "intel_iommu", "amd_iommu", "iommu",
					    "iommu.passthrough" };
	unsigned int i, translated = 0;
	struct dr_names groups;
	struct dr_finding *f;
	size_t pos = 0;

	for (i = 0; i < RTE_DIM(keys); i++) {
		if (dr_boot_option(d, keys[i], val, sizeof(val)) && pos < sizeof(options))
			pos += (size_t)snprintf(options + pos, sizeof(options) - pos, " %s=%s",
						keys[i], val);
	}
	(void)dr_list(d, &groups, GROUPS);
	for (i = 0; i < groups.nb; i++) {
		if (dr_read(d, type, sizeof(type), GROUPS "/%s/type", groups.name[i]) > 0 &&
		    strncmp(type, "DMA", 3) == 0)
			translated++;
	}
	if (groups.nb == 0) {
		f = dr_found(d, DR_OK, "", "no groups%s%s",
			     options[0] != '\0' ? ", booted with" : "", options);
		dr_means(f, "devices reach memory without translation");
		return;
	}
	f = dr_found(d, translated > 0 ? DR_INFO : DR_OK, "",
		     "%u groups, %u of them translated%s%s", groups.nb, translated,
		     options[0] != '\0' ? ", booted with" : "", options);
	if (translated == 0) {
		dr_means(f, "devices reach memory without translation");
		return;
	}
	dr_means(f, "registering memory takes longer, and devices may miss in the IOMMU's TLB");
	dr_mend(f, DR_BOOT_MEND("iommu=pt"));
}

static void
vfio(struct dr *d)
{
	struct dr_finding *f;

	f = dr_found(d, DR_OK, "", "vfio_pci is %sloaded%s", dr_module(d, "vfio_pci") ? "" : "not ",
		     dr_exists(d, "/dev/vfio/vfio") ? ", /dev/vfio/vfio is there" : "");
	dr_means(f, "only DPDK's own PCI drivers need it; leat's devices stay with the kernel's");
}

static void
ptrace(struct dr *d)
{
	static const char path[] = "/proc/sys/kernel/yama/ptrace_scope";
	struct dr_finding *f;
	uint64_t scope = 0;

	if (!dr_exists(d, "%s", path)) {
		f = dr_found(d, DR_OK, "", "no Yama");
		dr_means(f, "provider shm may copy between the processes of a user");
		return;
	}
	if (!dr_read_u64(d, &scope, "%s", path)) {
		dr_report_unknown(d, "", "ptrace_scope", path);
		return;
	}
	f = dr_found(d, scope > 1 ? DR_WARNING : DR_OK, "", "ptrace_scope %" PRIu64, scope);
	if (scope == 0) {
		dr_means(f, "provider shm may copy between the processes of a user");
	} else if (scope == 1) {
		dr_means(f, "the driver permits provider shm's copies for its own process");
	} else {
		dr_means(f, "a device with provider=shm does not open; fabric_shm0 does");
		dr_mend(f, scope == 2 ? "sysctl -w kernel.yama.ptrace_scope=1"
				      : "set kernel.yama.ptrace_scope=1 in /etc/sysctl.d, reboot");
	}
}

static void
rmem(struct dr *d)
{
	static const char path[] = "/proc/sys/net/core/rmem_max";
	struct dr_finding *f;
	uint64_t max;

	if (!dr_read_u64(d, &max, "%s", path)) {
		dr_report_unknown(d, "", "largest receive buffer", path);
		return;
	}
	f = dr_found(d, max < RMEM ? DR_INFO : DR_OK, "", "rmem_max %" PRIu64 " B", max);
	if (max >= RMEM) {
		dr_means(f, "enough for the socket providers' receive buffers");
		return;
	}
	dr_means(f, "provider=sockets on one machine may pause for 0.2 s; udp loses more packets");
	dr_mend(f, "sysctl -w net.core.rmem_max=4194304");
}

const struct dr_check dr_kernel_checks[] = {
	{ "kernel.iommu", "IOMMU groups and their translation", iommu },
	{ "kernel.vfio", "vfio", vfio },
	{ "kernel.ptrace", "Yama's ptrace_scope, for libfabric's shm", ptrace },
	{ "kernel.rmem", "net.core.rmem_max, for the socket providers", rmem },
	{ NULL, NULL, NULL },
};
