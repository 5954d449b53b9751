/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Runs tests, reports in TAP. A failed check jumps out of its test; then what is in flight is dumped,
 * and every endpoint is closed, so that the next test begins from nothing.
 */

#include <fnmatch.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include "ct.h"

/* A test that does not come back from a call of leat for so long, seconds. */
#define STUCK_S 120

static struct {
	sigjmp_buf jump;
	char text[1024];
	bool failed, skipped, stuck;
	const char *name;
} run;

void
ct_fail(const char *file, int line, const char *fmt, ...)
{
	const char *base = strrchr(file, '/');
	va_list ap;
	int n;

	n = snprintf(run.text, sizeof(run.text), "%s:%d: ", base != NULL ? base + 1 : file, line);
	va_start(ap, fmt);
	vsnprintf(run.text + n, sizeof(run.text) - (size_t)n, fmt, ap);
	va_end(ap);
	run.failed = true;
	siglongjmp(run.jump, 1);
}

void
ct_skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(run.text, sizeof(run.text), fmt, ap);
	va_end(ap);
	run.skipped = true;
	siglongjmp(run.jump, 1);
}

void
ct_note(const char *fmt, ...)
{
	va_list ap;

	printf("# ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

/*
 * The thread is inside a call that does not return, most likely for a lock that nobody will ever open.
 * All endpoints of this thread are given up, as they are, and the tests go on with new ones.
 */
static void
stuck(int sig)
{
	(void)sig;
	snprintf(run.text, sizeof(run.text), "stuck for %u s inside a call of leat",
		 STUCK_S * ct.slow);
	run.failed = true;
	run.stuck = true;
	siglongjmp(run.jump, 1);
}

/* In the driver or below. ThreadSanitizer and AddressSanitizer tell more than this. */
static void
crashed(int sig)
{
	static const char text[] = "Bail out! crashed in test ";

	/* Nothing more can be done if that can't be written. */
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0 ||
	    write(STDOUT_FILENO, run.name, strlen(run.name)) < 0 ||
	    write(STDOUT_FILENO, "\n", 1) < 0)
		_exit(2);
	signal(sig, SIG_DFL);
	(void)raise(sig);
}

/* What is wrong with the device itself, and documented: not hidden, but no news either. */
static const char *
known(const char *name)
{
	char glob[64];
	uint32_t i;

	for (i = 0; i < ct.nb_known; i++) {
		size_t len = strcspn(ct.known[i], "=");

		snprintf(glob, sizeof(glob), "%.*s", (int)len, ct.known[i]);
		if (fnmatch(glob, name, 0) == 0)
			return ct.known[i] + len + 1;
	}
	return NULL;
}

static const char *
why_not(const struct ct_test *t, char *buf, size_t len)
{
	static const char *const caps[] = { "directed receives", "sources of messages",
					    "immediates with SEND",
					    "bound for unexpected messages" };
	uint32_t have = (ct.info.directed_recv ? CT_CAP_DIRECTED : 0) |
			(ct.info.source ? CT_CAP_SOURCE : 0) |
			(ct.info.send_imm ? CT_CAP_SEND_IMM : 0) |
			(ct.info.unexpected_bounded ? CT_CAP_BOUNDED : 0);
	uint32_t ops = t->ops & ~ct.info.ops;

	if (t->modes != 0 && (t->modes & ct.mode) == 0)
		return "not in this arrangement";
	if (ops != 0) {
		snprintf(buf, len, "the device can't %s",
			 leat_op_type_name((unsigned int)__builtin_ctz(ops)));
		return buf;
	}
	if ((t->caps & ~have) != 0) {
		snprintf(buf, len, "the device has no %s", caps[__builtin_ctz(t->caps & ~have)]);
		return buf;
	}
	return known(t->name);
}

static bool
one(const struct ct_test *t, unsigned int number)
{
	const char *fault;
	volatile uint64_t start = leat_now();
	unsigned int ms;

	run.failed = run.skipped = run.stuck = false;
	run.name = t->name;
	alarm(STUCK_S * ct.slow);
	if (sigsetjmp(run.jump, 1) == 0)
		t->fn();
	else if (run.stuck)
		ct_hosts_abandon();
	else if (run.failed)
		ct_hosts_dump();
	fault = ct_hosts_reset(run.failed);
	alarm(0);
	if (fault != NULL && !run.failed) {
		snprintf(run.text, sizeof(run.text), "%s", fault);
		run.failed = true;
	}
	ms = (unsigned int)(leat_cycles_to_ns(leat_now() - start) / 1000000);
	if (run.failed) {
		printf("not ok %u %s\n# %s (%u ms, seed %" PRIu64 ")\n", number, t->name, run.text,
		       ms, ct.seed);
		return false;
	}
	if (run.skipped)
		printf("ok %u %s # SKIP %s\n", number, t->name, run.text);
	else
		printf("ok %u %s\n# %u ms\n", number, t->name, ms);
	return true;
}

int
ct_run(const struct ct_test *const *groups, const char *filter, bool list)
{
	unsigned int n = 0, failed = 0;
	const struct ct_test *t;
	char buf[96];
	size_t g;

	signal(SIGALRM, stuck);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	signal(SIGSEGV, crashed);
	signal(SIGBUS, crashed);
#else
	RTE_SET_USED(crashed);
#endif
	for (g = 0; groups[g] != NULL; g++)
		for (t = groups[g]; t->name != NULL; t++) {
			const char *why = list ? NULL : why_not(t, buf, sizeof(buf));

			if (filter != NULL && fnmatch(filter, t->name, 0) != 0)
				continue;
			n++;
			if (list)
				printf("%s\n", t->name);
			else if (why != NULL)
				printf("ok %u %s # SKIP %s\n", n, t->name, why);
			else
				failed += one(t, n) ? 0 : 1;
		}
	if (!list)
		printf("1..%u\n", n);
	if (!list && failed > 0)
		ct_note("%u of %u failed", failed, n);
	return n == 0 ? -1 : (int)failed;
}
