/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Run tests, report in TAP. A failed check jumps out of its test. Then the ops in flight are
 * printed, and every endpoint is closed, so that nothing is left for the next test.
 */

#include <fnmatch.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include "ct.h"

/*
 * Time limit of a whole test, s. Every wait in a test gives up far sooner: a test that takes so
 * long is inside a call of leat that does not return.
 */
#define STUCK_S 120

static struct {
	sigjmp_buf jump;
	char text[1024];
	bool failed, skipped, stuck;
	const char *name; /* NULL: no test runs, so a failure has nowhere to jump to */
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
	if (run.name == NULL) {
		printf("Bail out! %s\n", run.text);
		exit(2);
	}
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
 * The thread is inside a call that does not return, most likely waiting for a lock that is never
 * released. Abandon all endpoints of this thread as they are; the tests go on with new ones.
 */
static void
stuck(int sig)
{
	/* A test that had failed already: its endpoints are being closed. */
	size_t n = run.failed ? strlen(run.text) : 0;

	(void)sig;
	snprintf(run.text + n, sizeof(run.text) - n, "%sstuck for %u s inside a call of leat",
		 n > 0 ? "; then " : "", STUCK_S * ct.slow);
	run.failed = true;
	run.stuck = true;
	siglongjmp(run.jump, 1);
}

/*
 * The driver or a library below it crashed: name the test. ThreadSanitizer and AddressSanitizer
 * have handlers that print more, so this one is not installed under them.
 */
static void
crashed(int sig)
{
	static const char text[] = "Bail out! crashed in test ";
	const char *name = run.name != NULL ? run.name : "(none)";
	const char *after = run.failed ? " after it failed: " : "",
		   *why = run.failed ? run.text : "";

	/* Nothing can be done about a failed write. */
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0 ||
	    write(STDOUT_FILENO, name, strlen(name)) < 0 ||
	    write(STDOUT_FILENO, after, strlen(after)) < 0 ||
	    write(STDOUT_FILENO, why, strlen(why)) < 0 || write(STDOUT_FILENO, "\n", 1) < 0)
		_exit(2);
	signal(sig, SIG_DFL);
	(void)raise(sig);
}

/* Does "GLOB=REASON" match the test? @return the reason, or NULL */
static const char *
known_fits(const char *known, const char *name)
{
	size_t len = strcspn(known, "=");
	char glob[64];

	snprintf(glob, sizeof(glob), "%.*s", (int)len, known);
	return fnmatch(glob, name, 0) == 0 ? known + len + 1 : NULL;
}

/* Tell whether the glob of an option matches a test; if not, print a message. */
static bool
fits_any(const struct ct_test *const *groups, const char *option, const char *glob)
{
	const struct ct_test *t;
	size_t g;

	for (g = 0; groups[g] != NULL; g++) {
		for (t = groups[g]; t->name != NULL; t++) {
			if (known_fits(glob, t->name) != NULL)
				return true;
		}
	}
	fprintf(stderr, "leat-conformance: no test fits %s '%s' (see --list)\n", option, glob);
	return false;
}

/*
 * Check that each --known and each --filter matches a test. One that matches none is a mistake: a
 * misspelt filter beside others would leave tests out.
 */
static bool
globs_fit(const struct ct_test *const *groups)
{
	bool fit = true;
	uint32_t i;

	for (i = 0; i < ct.nb_known; i++)
		fit = fits_any(groups, "--known", ct.known[i]) && fit;
	for (i = 0; i < ct.nb_filter; i++)
		fit = fits_any(groups, "--filter", ct.filter[i]) && fit;
	return fit;
}

static const char *
why_not(const struct ct_test *t, char *buf, size_t len)
{
	static const char *const caps[] = { "directed receives",    "sources of messages",
					    "immediates with SEND", "bound for unexpected messages",
					    "wait objects",	    "cable to pull (--cable)" };
	uint32_t have = (ct.info.directed_recv ? CT_CAP_DIRECTED : 0) |
			(ct.info.source ? CT_CAP_SOURCE : 0) |
			(ct.info.send_imm ? CT_CAP_SEND_IMM : 0) |
			(ct.info.unexpected_bounded ? CT_CAP_BOUNDED : 0) |
			(ct.info.wait ? CT_CAP_WAIT : 0) | (ct.cable != NULL ? CT_CAP_CABLE : 0);
	uint32_t i, ops = t->ops & ~ct.info.ops;
	uint32_t types = t->types != 0 ? t->types : CT_RELIABLE;

	if ((types & (1u << ct.type)) == 0)
		return ct.type == LEAT_EP_DATAGRAM ? "needs a reliable endpoint"
						   : "of datagram endpoints";
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
	/* Skip a test that --known names, a documented defect of the device, with its reason. */
	for (i = 0; i < ct.nb_known; i++) {
		const char *reason = known_fits(ct.known[i], t->name);

		if (reason == NULL)
			continue;
		snprintf(buf, len, "known defect: %s", reason);
		return buf;
	}
	return NULL;
}

enum outcome { PASSED, FAILED, SKIPPED, OUTCOMES };

static enum outcome
skip(const struct ct_test *t, unsigned int number, const char *why)
{
	printf("ok %u %s # SKIP %s\n", number, t->name, why);
	return SKIPPED;
}

/* Run one test with one seed. @return false: it failed */
static bool
attempt(const struct ct_test *t)
{
	const char *fault;

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
	run.name = NULL;
	if (fault != NULL && !run.failed) {
		snprintf(run.text, sizeof(run.text), "%s", fault);
		run.failed = true;
	}
	return !run.failed;
}

static enum outcome
one(const struct ct_test *t, unsigned int number)
{
	uint64_t start = leat_now(), first = ct.seed, failed_with;
	unsigned int ms;
	uint32_t n;

	for (n = 1; attempt(t) && n < ct.nb_seeds; n++)
		ct.seed++;
	failed_with = ct.seed;
	ct.seed = first;
	ms = (unsigned int)(leat_cycles_to_ns(leat_now() - start) / 1000000);
	if (run.failed) {
		printf("not ok %u %s\n# %s (%u ms, seed %" PRIu64 ")\n", number, t->name, run.text,
		       ms, failed_with);
		ct_note("again: --seed %" PRIu64 " --filter %s", failed_with, t->name);
		return FAILED;
	}
	if (run.skipped)
		return skip(t, number, run.text);
	printf("ok %u %s\n# %u ms\n", number, t->name, ms);
	return PASSED;
}

/* Does a test match one of the filters? */
static bool
wanted(const struct ct_test *t)
{
	uint32_t i;

	for (i = 0; i < ct.nb_filter; i++)
		if (fnmatch(ct.filter[i], t->name, 0) == 0)
			return true;
	return ct.nb_filter == 0;
}

int
ct_run(const struct ct_test *const *groups, bool list)
{
	unsigned int n = 0, count[OUTCOMES] = { 0 };
	const struct ct_test *t;
	char buf[256];
	size_t g;

	if (!globs_fit(groups))
		return -1;
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

			if (!wanted(t))
				continue;
			n++;
			if (list)
				printf("%s\n", t->name);
			else if (why != NULL)
				count[skip(t, n, why)]++;
			else
				count[one(t, n)]++;
		}
	if (list)
		return 0;
	printf("1..%u\n", n);
	ct_note("%u passed, %u failed, %u skipped", count[PASSED], count[FAILED], count[SKIPPED]);
	return (int)count[FAILED];
}
