/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Run tests of the emulated device, report in TAP.
 *
 *     efa_sim_test [--kills N] [NAME]...
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define STUCK_S 120

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

static const struct test *const groups[] = {
	tests_device, tests_srd,  tests_ud,    tests_status, tests_limits, tests_read,
	tests_ah,     tests_poll, tests_order, tests_fork,   tests_kill,
};
#define NB_GROUPS (sizeof(groups) / sizeof(groups[0]))

static _Noreturn void
run(const struct test *test, unsigned int limit_s)
{
	const char *config = test->config != NULL ? test->config : "";
	char text[512];

	snprintf(text, sizeof(text), "leaks=1%s%s", *config != '\0' ? "," : "", config);
	if (setenv("EFA_SIM", text, 1) != 0)
		_exit(2);
	alarm(limit_s);
	test->run();
	exit(0);
}

static bool
passes(const struct test *test)
{
	/* Each kill takes some milliseconds: more kills need more time. */
	unsigned int limit_s = STUCK_S + test_nb_kills / 20;
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		run(test, limit_s);
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		printf("Bail out! fork, waitpid\n");
		exit(2);
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == test->status)
		return true;
	if (WIFEXITED(status))
		printf("# exit status %d, not %d\n", WEXITSTATUS(status), test->status);
	else if (WTERMSIG(status) == SIGALRM)
		printf("# stuck for %u s\n", limit_s);
	else
		printf("# %s\n", strsignal(WTERMSIG(status)));
	return false;
}

static bool
report(const struct test *test, unsigned int number)
{
	bool skip = SANITIZED && test->forks_threads;
	bool good = skip || passes(test);

	printf("%s %u - %s%s\n", good ? "ok" : "not ok", number, test->name,
	       skip ? " # SKIP the sanitizer's allocator hangs after fork" : "");
	return good;
}

static bool
wanted(const char *name, char **names, int nb)
{
	bool found = nb == 0;

	for (int i = 0; i < nb; i++)
		found = found || strcmp(name, names[i]) == 0;
	return found;
}

/* Act as the named program, which a test has started with exec. */
static int
run_child(const char *name, int fd)
{
	static const struct {
		const char *name;
		void (*run)(int fd, void *arg);
	} programs[] = { { "echo", child_echo }, { "echo-once", child_echo_once } };

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		if (strcmp(name, programs[i].name) == 0) {
			programs[i].run(fd, NULL);
			return 0;
		}
	}
	return 2;
}

int
main(int argc, char **argv)
{
	unsigned int number = 0, failed = 0;
	int first = 1;

	if (argc == 4 && strcmp(argv[1], "--child") == 0)
		return run_child(argv[2], atoi(argv[3]));
	if (argc > 2 && strcmp(argv[1], "--kills") == 0) {
		test_nb_kills = (unsigned int)strtoul(argv[2], NULL, 10);
		first = 3;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t g = 0; g < NB_GROUPS; g++) {
		for (const struct test *test = groups[g]; test->name != NULL; test++) {
			if (!wanted(test->name, argv + first, argc - first))
				continue;
			number++;
			if (!report(test, number))
				failed++;
		}
	}
	printf("1..%u\n", number);
	return failed != 0 || number == 0;
}
