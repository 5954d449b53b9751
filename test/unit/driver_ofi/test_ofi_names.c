/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The two drivers of the plugin: which arguments each has, and what the errors of each say. EAL
 * starts only once in a process, so each case runs in a child.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "leat_cmocka.h"

#define ARGS_MAX 64

static char *args[ARGS_MAX];
static int nb_args;

/*
 * Fork a child that starts leat with a device.
 * @return leat_init()'s value in the child; 1 in the parent
 */
static int
begin(const char *vdev)
{
	char *av[ARGS_MAX + 2];
	char arg[128];
	int status;
	pid_t pid;

	(void)fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid > 0) {
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
		return 1;
	}
	snprintf(arg, sizeof(arg), "--vdev=%s", vdev);
	memcpy(av, args, sizeof(av[0]) * (size_t)nb_args);
	av[nb_args] = arg;
	av[nb_args + 1] = NULL;
	return leat_init(nb_args + 1, av) < 0 ? -rte_errno : 0;
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Check that opening a device fails with err, and that the message contains each of the words. */
static void
refused(const char *vdev, int err, const char *const *words)
{
	int ret = begin(vdev);

	if (ret == 1)
		return;
	if (ret != -err)
		printf("# %s: %d\n", vdev, ret);
	for (; *words != NULL && strstr(leat_err_msg(), *words) != NULL; words++)
		;
	if (*words != NULL)
		printf("# '%s' is not in '%s'\n", *words, leat_err_msg());
	(void)fflush(NULL);
	_exit(ret == -err && *words == NULL ? 0 : 1);
}

static void
ofi_without_provider(void **state)
{
	(void)state;
	refused("fabric_ofi0", EINVAL,
		WORDS("fabric_ofi0: provider=NAME is missing", "RDM providers here: ", "shm"));
}

static void
ofi_with_an_unknown_provider(void **state)
{
	(void)state;
	refused("fabric_ofi0,provider=nope", ENODEV, WORDS("provider 'nope'", "providers here: "));
}

static void
ofi_with_a_provider(void **state)
{
	int ret;

	(void)state;
	ret = begin("fabric_ofi0,provider=shm");
	if (ret == 1)
		return;
	if (ret < 0) {
		printf("# %s\n", leat_err_msg());
		(void)fflush(NULL);
	}
	_exit(ret == 0 && leat_cleanup() == 0 ? 0 : 1);
}

static void
efa_with_a_provider(void **state)
{
	(void)state;
	refused("fabric_efa0,provider=tcp", EINVAL,
		WORDS("fabric_efa0: provider=tcp: it is always efa here",
		      "use --vdev=fabric_ofi0,provider=tcp"));
}

/* fabric_efa refuses arguments that only fabric_ofi has, and its error names that driver. */
static void
efa_with_an_address(void **state)
{
	(void)state;
	refused("fabric_efa0,iface=lo", EINVAL,
		WORDS("unknown argument 'iface'", "fabric_ofi has",
		      "fabric_efa knows: provider, domain, tx, rx, tags, per_source"));
	refused("fabric_efa0,src=127.0.0.1", EINVAL, WORDS("unknown argument 'src'"));
}

static bool
efa_here(void)
{
	struct fi_info *hints = fi_allocinfo(), *list = NULL;
	int ret;

	assert_non_null(hints);
	hints->mode = ~0ULL;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = ~3;
	hints->fabric_attr->prov_name = strdup("efa");
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &list);
	fi_freeinfo(hints);
	fi_freeinfo(list);
	return ret == 0;
}

static void
efa_without_a_device(void **state)
{
	(void)state;
	if (efa_here())
		skip();
	refused("fabric_efa0", ENODEV,
		WORDS("fabric_efa0: provider 'efa': no such device", "EFA kernel module",
		      "RDM providers here: "));
}

static const struct leat_driver_arg *
args_of(const char *driver)
{
	const struct leat_driver_info *d;

	for (d = NULL; (d = leat_driver_next(d)) != NULL;) {
		if (strcmp(d->name, driver) == 0)
			return d->args;
	}
	fail_msg("no driver %s", driver);
	return NULL;
}

static bool
has(const struct leat_driver_arg *a, const char *name)
{
	for (; a->name != NULL; a++) {
		if (strcmp(a->name, name) == 0)
			return true;
	}
	return false;
}

static void
both_are_listed(void **state)
{
	static const char *const of_both[] = { "provider", "domain", "tx",
					       "rx",	   "tags",   "per_source" };
	static const char *const of_ofi[] = { "iface", "src" };
	const struct leat_driver_arg *ofi, *efa;
	size_t i;

	(void)state;
	assert_true(leat_driver_load(nb_args, args) > 0);
	ofi = args_of("fabric_ofi");
	efa = args_of("fabric_efa");
	for (i = 0; i < sizeof(of_both) / sizeof(of_both[0]); i++)
		assert_true(has(ofi, of_both[i]) && has(efa, of_both[i]));
	for (i = 0; i < sizeof(of_ofi) / sizeof(of_ofi[0]); i++)
		assert_true(has(ofi, of_ofi[i]) && !has(efa, of_ofi[i]));
}

int
main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(ofi_without_provider),
		cmocka_unit_test(ofi_with_an_unknown_provider),
		cmocka_unit_test(ofi_with_a_provider),
		cmocka_unit_test(efa_with_a_provider),
		cmocka_unit_test(efa_with_an_address),
		cmocka_unit_test(efa_without_a_device),
		cmocka_unit_test(both_are_listed),
	};

	for (nb_args = 0; nb_args < argc && nb_args < ARGS_MAX; nb_args++)
		args[nb_args] = argv[nb_args];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
