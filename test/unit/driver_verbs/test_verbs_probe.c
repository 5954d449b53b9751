/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What the driver says when it finds no device for an address, and when it can't destroy the
 * objects that it created to learn a device's limits.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <leat_cmocka.h>

#include <leat_error.h>
#include <leat_fabric.h>

#include "stub_ibv.h"

/* rdma_bind_addr() succeeds for 127.0.0.1, but finds no device, and sets no errno. */
static void
test_no_device(void **state)
{
	static char prog[] = "test_verbs", tel[] = "--no-telemetry", pci[] = "--no-pci";
	static char log[] = "--log-level=leat.*:error";
	static char d0[] = "--vdev=fabric_verbs0,addr=127.0.0.1";
	char *argv[] = { prog, tel, pci, log, d0, NULL };
	/* EAL starts only once in a process. */
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (child == 0) {
		sim.no_device = true;
		if (leat_init(RTE_DIM(argv) - 1, argv) != -ENODEV)
			_exit(1);
		fprintf(stderr, "%s\n", leat_err_msg());
		if (strstr(leat_err_msg(), "no RDMA device has that address") == NULL ||
		    strstr(leat_err_msg(), "(No such device)") == NULL)
			_exit(1);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* ibv_destroy_*() and ibv_dealloc_pd() return the error; errno has none. */
static void
test_destroy_fails(void **state)
{
	static char prog[] = "test_verbs", tel[] = "--no-telemetry", pci[] = "--no-pci";
	static char log[] = "--log-level=leat.*:warning", d0[] = "--vdev=fabric_verbs0,dev=sim1";
	char *argv[] = { prog, tel, pci, log, d0, NULL };
	/* EAL's start directs the log to stderr, whatever stream it had before. */
	int ret, saved = dup(STDERR_FILENO);
	FILE *file = tmpfile();
	char logged[8192];
	size_t len;

	(void)state;
	assert_non_null(file);
	assert_true(saved >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
	sim.destroy_err = EBUSY;
	ret = leat_init(RTE_DIM(argv) - 1, argv);
	sim.destroy_err = 0;
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	rewind(file);
	len = fread(logged, 1, sizeof(logged) - 1, file);
	logged[len] = '\0';
	if (ret < 0)
		fail_msg("leat_init: %s", leat_err_msg());
	assert_non_null(strstr(logged, "destroy queue pair: Device or resource busy"));
	assert_non_null(strstr(logged, "destroy CQ: Device or resource busy"));
	assert_non_null(strstr(logged, "free PD: Device or resource busy"));
	assert_null(strstr(logged, "Success"));
	assert_int_equal(close(saved), 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(leat_cleanup(), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_device),
		cmocka_unit_test(test_destroy_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
