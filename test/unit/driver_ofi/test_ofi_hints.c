/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The hints that the driver gives to fi_getinfo(). This program defines a fi_getinfo() that records
 * the hints and then calls libfabric's. Without an EFA device fabric_efa0 does not start, but by
 * then its hints are recorded.
 */

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fabric.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "leat_cmocka.h"

#define ASKED_MAX 64

static struct asked {
	char provider[32];
	uint64_t caps;
} asked[ASKED_MAX];
static unsigned int nb_asked;

int
fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	   const struct fi_info *hints, struct fi_info **info)
{
	static int (*next)(uint32_t version, const char *node, const char *service, uint64_t flags,
			   const struct fi_info *hints, struct fi_info **info);
	struct asked *a = &asked[nb_asked];

	if (next == NULL)
		*(void **)&next = dlsym(RTLD_NEXT, "fi_getinfo");
	if (hints != NULL && hints->fabric_attr != NULL && hints->fabric_attr->prov_name != NULL &&
	    nb_asked < ASKED_MAX) {
		snprintf(a->provider, sizeof(a->provider), "%s", hints->fabric_attr->prov_name);
		a->caps = hints->caps;
		nb_asked++;
	}
	return next(version, node, service, flags, hints, info);
}

/*
 * Count how often the driver asked for a provider, and check that each time it asked for exactly
 * those of FI_LOCAL_COMM and FI_REMOTE_COMM that are in comm.
 */
static unsigned int
count(const char *provider, uint64_t comm)
{
	unsigned int i, n = 0;

	for (i = 0; i < nb_asked; i++) {
		if (strcmp(asked[i].provider, provider) != 0)
			continue;
		n++;
		assert_int_equal(asked[i].caps & (FI_LOCAL_COMM | FI_REMOTE_COMM), comm);
	}
	return n;
}

/*
 * fabric_efa asks for FI_REMOTE_COMM only: with FI_LOCAL_COMM, or with neither bit, libfabric 1.17
 * sends to processes of the same host through shm.
 */
static void
efa_remote_only(void **state)
{
	(void)state;
	assert_true(count("efa", FI_REMOTE_COMM) > 0);
}

static void
others_any(void **state)
{
	(void)state;
	assert_true(count("shm", 0) > 0);
}

int
main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(efa_remote_only),
		cmocka_unit_test(others_any),
	};
	static char shm[] = "--vdev=fabric_ofi0,provider=shm";
	static char efa[] = "--vdev=fabric_efa0";
	char *av[64];
	int ac, ret;

	for (ac = 0; ac < argc && ac < 40; ac++)
		av[ac] = argv[ac];
	av[ac++] = shm;
	av[ac++] = efa;
	av[ac] = NULL;
	/* This call makes the linker link libfabric. */
	printf("# libfabric %u.%u\n", FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
	ret = leat_init(ac, av);
	if (ret < 0)
		printf("# %s\n", leat_err_msg());
	else if (leat_cleanup() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
