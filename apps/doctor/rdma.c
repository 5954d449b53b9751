/* SPDX-License-Identifier: BSD-3-Clause */

/* The checks of RDMA devices, modules and access, from files of the kernel, without a library. */

#include <string.h>

#include "doctor.h"

#define IB "/sys/class/infiniband"
#define UVERBS "/sys/class/infiniband_verbs"

/* NIC drivers whose RDMA part is a module of its own. */
static const struct {
	const char *nic, *module;
	bool sure; /* every NIC of this driver can do RDMA */
} rdma_parts[] = {
	{ "mlx5_core", "mlx5_ib", true }, { "mlx4_core", "mlx4_ib", true },
	{ "ice", "irdma", false },	  { "bnxt_en", "bnxt_re", false },
	{ "qede", "qedr", false },	  { "cxgb4", "iw_cxgb4", false },
};

bool
dr_rdma_present(const struct dr *d)
{
	struct dr_names devs;

	return dr_list(d, &devs, IB) > 0;
}

/* Get the driver of a device: the value of DRIVER= in its uevent. */
static bool
driver_of(const struct dr *d, char *name, size_t len, const char *dir)
{
	char text[4096], *line, *save = NULL;

	if (dr_read(d, text, sizeof(text), "%s/uevent", dir) <= 0)
		return false;
	for (line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		if (strncmp(line, "DRIVER=", 7) == 0) {
			snprintf(name, len, "%s", line + 7);
			return true;
		}
	}
	return false;
}

/* Is there an RDMA device other than EFA? Such devices need rdma_cm. */
static bool
has_other_than_efa(const struct dr *d)
{
	char dir[128], driver[64];
	struct dr_names devs;
	unsigned int i;

	(void)dr_list(d, &devs, IB);
	for (i = 0; i < devs.nb; i++) {
		snprintf(dir, sizeof(dir), IB "/%s/device", devs.name[i]);
		if (!driver_of(d, driver, sizeof(driver), dir) || strcmp(driver, "efa") != 0)
			return true;
	}
	return false;
}

/* Find a network interface that is up, for soft-RoCE. */
static bool
find_up_netdev(const struct dr *d, char *name, size_t len)
{
	struct dr_names nets;
	unsigned int i;
	char state[32];

	(void)dr_list(d, &nets, "/sys/class/net");
	for (i = 0; i < nets.nb; i++) {
		if (dr_plain(nets.name[i]) && strcmp(nets.name[i], "lo") != 0 &&
		    dr_read(d, state, sizeof(state), "/sys/class/net/%s/operstate", nets.name[i]) >
			    0 &&
		    strcmp(state, "up") == 0) {
			snprintf(name, len, "%s", nets.name[i]);
			return true;
		}
	}
	return false;
}

static void
devices(struct dr *d)
{
	char dir[128], type[64], desc[80], driver[64], fw[64], node[16], net[DR_NAME_LEN];
	struct dr_names devs;
	struct dr_finding *f;
	unsigned int i;

	(void)dr_list(d, &devs, IB);
	if (devs.nb == 0) {
		f = dr_found(d, DR_INFO, "", "none");
		dr_means(f, "no verbs, no EFA; leat runs on its ring and shm devices, and on "
			    "libfabric's tcp");
		if (dr_modules_possible(d) && find_up_netdev(d, net, sizeof(net)))
			dr_mend(f,
				"modprobe rdma_rxe && rdma link add rxe0 type rxe netdev %s   "
				"# soft-RoCE, to try it",
				net);
		return;
	}
	for (i = 0; i < devs.nb; i++) {
		if (dr_read(d, type, sizeof(type), IB "/%s/node_type", devs.name[i]) <= 0) {
			dr_report_unknown(d, devs.name[i], "type", IB "/.../node_type");
			continue;
		}
		(void)dr_read(d, desc, sizeof(desc), IB "/%s/node_desc", devs.name[i]);
		(void)dr_read(d, fw, sizeof(fw), IB "/%s/fw_ver", devs.name[i]);
		(void)dr_read(d, node, sizeof(node), IB "/%s/device/numa_node", devs.name[i]);
		snprintf(dir, sizeof(dir), IB "/%s/device", devs.name[i]);
		if (!driver_of(d, driver, sizeof(driver), dir))
			snprintf(driver, sizeof(driver), "none (software)");
		f = dr_found(d, DR_OK, devs.name[i],
			     "type %s, '%s', PCI driver %s, firmware %s%s%s", type, desc, driver,
			     fw[0] != '\0' ? fw : "-",
			     node[0] != '\0' && node[0] != '-' ? ", NUMA node " : "",
			     node[0] != '\0' && node[0] != '-' ? node : "");
		dr_means(f, "leat can use it, if the checks of ports and access are well");
	}
}

static void
module_missing(struct dr *d, enum dr_severity severity, const char *module, const char *for_what)
{
	struct dr_finding *f = dr_found(d, severity, module, "not loaded");

	dr_means(f, "%s", for_what);
	if (dr_modules_possible(d))
		dr_mend(f, "modprobe %s && echo %s > /etc/modules-load.d/%s.conf", module, module,
			module);
	else
		dr_mend(f, "boot a kernel with loadable modules: this one has none");
}

/* Report NICs whose RDMA module is not loaded. @return the number of modules missing */
static unsigned int
parts_missing(struct dr *d)
{
	char dir[128], driver[64];
	struct dr_names pci;
	unsigned int i, j, n = 0, said = 0;

	(void)dr_list(d, &pci, "/sys/bus/pci/devices");
	for (i = 0; i < pci.nb; i++) {
		snprintf(dir, sizeof(dir), "/sys/bus/pci/devices/%s", pci.name[i]);
		if (!driver_of(d, driver, sizeof(driver), dir))
			continue;
		for (j = 0; j < RTE_DIM(rdma_parts); j++) {
			if (strcmp(rdma_parts[j].nic, driver) != 0 || (said >> j & 1) != 0 ||
			    dr_exists(d, "%s/infiniband", dir) ||
			    dr_module(d, rdma_parts[j].module))
				continue;
			said |= 1u << j;
			module_missing(
				d, rdma_parts[j].sure ? DR_WARNING : DR_INFO, rdma_parts[j].module,
				rdma_parts[j].sure
					? "a NIC that can do RDMA is there, without its driver"
					: "a NIC is there that may be able to do RDMA");
			n++;
		}
	}
	return n;
}

static void
modules(struct dr *d)
{
	static const char *const known[] = { "ib_uverbs", "rdma_ucm", "rdma_rxe", "siw", "mlx5_ib",
					     "mlx4_ib",	  "irdma",    "bnxt_re",  "efa" };
	char list[DR_TEXT] = "";
	struct dr_finding *f;
	unsigned int i, bad;
	size_t pos = 0;

	bad = parts_missing(d);
	if (dr_rdma_present(d)) {
		if (!dr_module(d, "ib_uverbs") && !dr_exists(d, UVERBS)) {
			module_missing(d, DR_ERROR, "ib_uverbs",
				       "no program can use the RDMA devices that are there");
			bad++;
		}
		if (has_other_than_efa(d) && !dr_module(d, "rdma_ucm") &&
		    !dr_exists(d, "/sys/class/misc/rdma_cm")) {
			module_missing(d, DR_ERROR, "rdma_ucm",
				       "verbs endpoints can't listen or connect (rdma_cm)");
			bad++;
		}
	}
	if (bad > 0)
		return;
	for (i = 0; i < RTE_DIM(known); i++) {
		if (dr_module(d, known[i]))
			pos += (size_t)snprintf(list + pos, sizeof(list) - pos, "%s%s",
						pos > 0 ? ", " : "", known[i]);
	}
	f = dr_found(d, DR_OK, "", "%s", pos > 0 ? list : "no RDMA modules");
	dr_means(f, dr_rdma_present(d) ? "all that the devices here need" : "none is needed here");
}

static void
node_access(struct dr *d, const char *name)
{
	int ret = dr_access(d, "/dev/infiniband/%s", name);
	struct dr_finding *f;

	if (ret == 0) {
		f = dr_found(d, DR_OK, name, "this user may read and write it");
		dr_means(f, "devices can be opened");
		return;
	}
	f = dr_found(d, DR_ERROR, name, "/dev/infiniband/%s: %s", name,
		     ret == -ENOENT ? "is not there" : "no permission");
	dr_means(f, strcmp(name, "rdma_cm") == 0 ? "verbs endpoints can't listen or connect"
						 : "this user's programs can't open the device");
	if (!dr_plain(name))
		return;
	if (ret == -ENOENT)
		dr_mend(f, "udevadm trigger   # in a container: --device=/dev/infiniband/%s", name);
	else
		dr_mend(f,
			"chmod 0666 /dev/infiniband/%s   # to last: MODE=\"0666\" in a udev rule",
			name);
}

static void
access_(struct dr *d)
{
	struct dr_names verbs;
	struct dr_finding *f;
	unsigned int i, n = 0;

	if (!dr_rdma_present(d)) {
		f = dr_found(d, DR_OK, "", "no RDMA device");
		dr_means(f, "nothing to open");
		return;
	}
	(void)dr_list(d, &verbs, UVERBS);
	for (i = 0; i < verbs.nb; i++) {
		if (strncmp(verbs.name[i], "uverbs", 6) == 0) {
			node_access(d, verbs.name[i]);
			n++;
		}
	}
	if (n == 0) {
		f = dr_found(d, DR_ERROR, "", "the RDMA devices have no uverbs nodes");
		dr_means(f, "no program can open them");
		dr_mend(f, "modprobe ib_uverbs");
	}
	if (has_other_than_efa(d))
		node_access(d, "rdma_cm");
}

static void
userspace(struct dr *d)
{
	static const char dir[] = "/etc/libibverbs.d";
	char list[DR_TEXT] = "";
	struct dr_names names;
	struct dr_finding *f;
	size_t pos = 0;
	unsigned int i;

	(void)dr_list(d, &names, "%s", dir);
	for (i = 0; i < names.nb; i++) {
		char *dot = strstr(names.name[i], ".driver");

		if (dot == NULL || pos >= sizeof(list))
			continue;
		*dot = '\0';
		pos += (size_t)snprintf(list + pos, sizeof(list) - pos, "%s%s", pos > 0 ? ", " : "",
					names.name[i]);
	}
	if (pos > 0) {
		f = dr_found(d, DR_OK, "", "%s", list);
		dr_means(f, "libibverbs finds devices of these kinds");
		return;
	}
	f = dr_found(d, dr_rdma_present(d) ? DR_WARNING : DR_OK, "", "no providers in %s", dir);
	dr_means(f, dr_rdma_present(d) ? "libibverbs finds no device, though the kernel has some"
				       : "no device needs one");
	if (f->severity != DR_OK)
		dr_mend(f, "apt-get install ibverbs-providers");
}

const struct dr_check dr_rdma_checks[] = {
	{ "rdma.devices", "RDMA devices of the kernel", devices },
	{ "rdma.modules", "kernel modules", modules },
	{ "rdma.access", "/dev/infiniband, and who may use it", access_ },
	{ "rdma.userspace", "rdma-core's providers", userspace },
	{ "rdma.ports", "ports and the state of their links", dr_rdma_ports },
	{ "rdma.gids", "GIDs, which are the addresses of ports", dr_rdma_gids },
	{ "rdma.mtu", "MTU of ports and of their network interfaces", dr_rdma_mtu },
	{ NULL, NULL, NULL },
};
