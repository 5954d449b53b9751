/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The checks of libraries: libfabric, DPDK, leat's drivers. They look at the libraries of this
 * process, and not below the root.
 */

#include <string.h>

#ifdef DOCTOR_LIBFABRIC
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#endif

#include <rte_version.h>

#include <leat_dev.h>
#include <leat_error.h>

#include "doctor.h"

#ifdef DOCTOR_LIBFABRIC

#define API FI_VERSION(1, 17)

/* Names of providers, without duplicates. */
struct providers {
	unsigned int nb;
	char name[64][DR_NAME_LEN];
};

static bool
has(const struct providers *p, const char *name)
{
	unsigned int i;

	for (i = 0; i < p->nb; i++) {
		if (strcmp(p->name[i], name) == 0)
			return true;
	}
	return false;
}

static int
collect(struct providers *p, uint64_t flags, const struct fi_info *hints)
{
	struct fi_info *all = NULL, *i;
	int ret = fi_getinfo(API, NULL, NULL, flags, hints, &all);

	if (ret != 0)
		return ret;
	for (i = all; i != NULL && p->nb < RTE_DIM(p->name); i = i->next) {
		const char *name = i->fabric_attr == NULL ? NULL : i->fabric_attr->prov_name;

		if (name != NULL && !has(p, name))
			snprintf(p->name[p->nb++], DR_NAME_LEN, "%s", name);
	}
	fi_freeinfo(all);
	return 0;
}

/* Get the providers with RDM endpoints; asks libfabric once only. @return 0; a negative fi_errno */
static int
rdm(const struct providers **out)
{
	static struct providers p;
	static bool asked;
	static int ret;
	struct fi_info *hints;

	*out = &p;
	if (asked)
		return ret;
	asked = true;
	hints = fi_allocinfo();
	if (hints == NULL)
		return ret = -FI_ENOMEM;
	hints->ep_attr->type = FI_EP_RDM;
	hints->mode = ~UINT64_C(0);
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	ret = collect(&p, 0, hints);
	fi_freeinfo(hints);
	return ret;
}

enum dr_provider
dr_provider(const char *name)
{
	struct providers all = { 0 };
	const struct providers *p;

	if (rdm(&p) == 0 && has(p, name))
		return DR_USABLE;
	if (collect(&all, FI_PROV_ATTR_ONLY, NULL) == 0 && has(&all, name))
		return DR_NOT_USABLE;
	return DR_NOT_BUILT_IN;
}

static void
libfabric_version(struct dr *d)
{
	uint32_t v = fi_version();
	struct dr_finding *f;

	if (v >= API) {
		f = dr_found(d, DR_OK, "", "%u.%u", FI_MAJOR(v), FI_MINOR(v));
		dr_means(f, "the ofi driver needs 1.17 or newer");
		return;
	}
	f = dr_found(d, DR_ERROR, "", "%u.%u", FI_MAJOR(v), FI_MINOR(v));
	dr_means(f, "the ofi driver needs 1.17 or newer");
	dr_mend(f, "apt-get install libfabric1");
}

static void
libfabric_providers(struct dr *d)
{
	const struct providers *p;
	char list[DR_TEXT] = "";
	struct dr_finding *f;
	size_t pos = 0;
	unsigned int i;
	int ret = rdm(&p);

	for (i = 0; i < p->nb && pos < sizeof(list); i++)
		pos += (size_t)snprintf(list + pos, sizeof(list) - pos, "%s%s", i > 0 ? ", " : "",
					p->name[i]);
	if (p->nb > 0) {
		f = dr_found(d, DR_OK, "", "%s", list);
		dr_means(f, "--vdev=fabric_ofi0,provider=NAME opens one of these");
		return;
	}
	f = dr_found(d, DR_WARNING, "", "none has RDM endpoints (%s)",
		     ret == 0 ? "none listed" : fi_strerror(-ret));
	dr_means(f, "no device of the ofi driver opens");
	dr_mend(f,
		"fi_info -t FI_EP_RDM   # with FI_LOG_LEVEL=warn in its environment it says why");
}

#else

enum dr_provider
dr_provider(const char *name)
{
	(void)name;
	return DR_NO_LIBFABRIC;
}

static void
libfabric_version(struct dr *d)
{
	struct dr_finding *f = dr_found(d, DR_INFO, "", DR_NAME " was built without libfabric");

	dr_means(f, "most likely leat's ofi driver was not built either");
	dr_mend(f, "apt-get install libfabric-dev && meson setup --reconfigure BUILDDIR");
}

static void
libfabric_providers(struct dr *d)
{
	struct dr_finding *f = dr_found(d, DR_OK, "", DR_NAME " was built without libfabric");

	dr_means(f, "nothing to check");
}

#endif

const struct dr_check dr_fabric_checks[] = {
	{ "fabric.version", "libfabric's version", libfabric_version },
	{ "fabric.providers", "libfabric's providers that have RDM endpoints",
	  libfabric_providers },
	{ NULL, NULL, NULL },
};

static void
dpdk(struct dr *d)
{
	struct dr_finding *f = dr_found(d, DR_OK, "", "%s", rte_version());

	dr_means(f, "leat needs 22.11 or newer");
}

static bool
loaded(const char *name)
{
	const struct leat_driver_info *i;

	for (i = NULL; (i = leat_driver_next(i)) != NULL;) {
		if (i->error == NULL && strcmp(i->name, name) == 0)
			return true;
	}
	return false;
}

static void
driver_missing(struct dr *d, enum dr_severity severity, const char *name, const char *device,
	       const char *package)
{
	struct dr_finding *f = dr_found(d, severity, name, "no such driver, but %s", device);

	dr_means(f, "leat can't use that device");
	dr_mend(f,
		"apt-get install %s && meson setup --reconfigure BUILDDIR   # its summary tells "
		"what is not built, and why",
		package);
}

static void
drivers_failed(struct dr *d)
{
	const struct leat_driver_info *i;
	struct dr_finding *f;

	for (i = NULL; (i = leat_driver_next(i)) != NULL;) {
		if (i->error == NULL)
			continue;
		f = dr_found(d, DR_WARNING, i->name, "not loaded: %s", i->error);
		dr_means(f, "devices of this driver can't be opened");
		dr_mend(f,
			"ls -l $(pkg-config --variable=plugindir leat)   # remove it, or install "
			"that of this leat");
	}
}

static void
drivers(struct dr *d)
{
	const struct leat_driver_info *i;
	char list[DR_TEXT] = "";
	struct dr_finding *f;
	size_t pos = 0;
	int n = leat_driver_load(d->nb_plugins, d->plugins);

	if (n <= 0) {
		f = dr_found(d, DR_ERROR, "", "%s%s", n < 0 ? "can't be listed: " : "none found",
			     n < 0 ? leat_err_msg() : "");
		dr_means(f,
			 n < 0 ? "with this -d leat does not start" : "leat has no device at all");
		dr_mend(f,
			"ls $(pkg-config --variable=plugindir leat)   # or name a plugin with -d");
		drivers_failed(d);
		return;
	}
	for (i = NULL; (i = leat_driver_next(i)) != NULL && pos < sizeof(list);) {
		if (i->error == NULL)
			pos += (size_t)snprintf(list + pos, sizeof(list) - pos, "%s%s",
						pos > 0 ? ", " : "", i->name);
	}
	f = dr_found(d, DR_OK, "", "%s", list);
	dr_means(f, "devices of these drivers can be opened");
	drivers_failed(d);
	if (dr_efa_present(d) && !loaded("fabric_efa"))
		driver_missing(d, DR_ERROR, "fabric_efa", "an EFA device is there",
			       "libfabric-dev");
	if (dr_exists(d, "/sys/class/misc/rdma_cm") && dr_rdma_present(d) &&
	    !loaded("fabric_verbs"))
		driver_missing(d, DR_WARNING, "fabric_verbs", "RDMA devices are there",
			       "libibverbs-dev librdmacm-dev");
}

const struct dr_check dr_leat_checks[] = {
	{ "leat.dpdk", "DPDK's version", dpdk },
	{ "leat.drivers", "leat's drivers, and whether one for a device is missing", drivers },
	{ NULL, NULL, NULL },
};
