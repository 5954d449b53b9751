/* SPDX-License-Identifier: BSD-3-Clause */

/* leat_app_run(), its usage, and signals. */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <leat_dev.h>
#include <leat_error.h>
#include <leat_log.h>

#include "app_pvt.h"

static const int signals[] = { SIGINT, SIGTERM };
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

/* Written by any thread, and by signal handlers. */
static int code; /* exit code */
static bool stopping;
static bool signalled;
static void (*on_own_signal)(int sig);

void
leat_app_stop(int why)
{
	int ok = LEAT_APP_OK;

	/* relaxed: `code` is read when all reactors have ended */
	if (why != LEAT_APP_OK)
		(void)__atomic_compare_exchange_n(&code, &ok, why, false, __ATOMIC_RELAXED,
						  __ATOMIC_RELAXED);
	__atomic_store_n(&stopping, true, __ATOMIC_RELAXED);
	leat_reactor_stop_all(app_stop_us());
}

/* Restore the default action of SIGINT and SIGTERM. */
static void
signals_default(void)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };
	size_t i;

	(void)sigemptyset(&sa.sa_mask);
	for (i = 0; i < SIGNALS; i++)
		(void)sigaction(signals[i], &sa, NULL);
}

/*
 * Stop the program. The first signal restores the default actions, so that a second one of either
 * kind kills the process. But loading a driver may have put this handler back. Then the handler
 * gets the second signal, too, and raises it again; this kills the process when the handler
 * returns.
 */
static void
on_signal(int sig)
{
	bool second = __atomic_exchange_n(&signalled, true, __ATOMIC_RELAXED);

	signals_default();
	if (second) {
		(void)raise(sig);
		return;
	}
	if (on_own_signal != NULL)
		on_own_signal(sig);
	leat_app_stop(LEAT_APP_OK);
}

static int
signals_take(struct sigaction *old)
{
	struct sigaction sa = { .sa_handler = on_signal };
	size_t i;

	(void)sigemptyset(&sa.sa_mask);
	for (i = 0; i < SIGNALS; i++) {
		if (sigaction(signals[i], NULL, &old[i]) != 0)
			return leat_err(errno, "signals: %s", strerror(errno));
	}
	for (i = 0; i < SIGNALS; i++) {
		if (sigaction(signals[i], &sa, NULL) != 0)
			return leat_err(errno, "signals: %s", strerror(errno));
	}
	return 0;
}

static void
signals_give_back(const struct sigaction *old)
{
	size_t i;

	for (i = 0; i < SIGNALS; i++)
		(void)sigaction(signals[i], &old[i], NULL);
}

static void
report(int ret)
{
	if (ret >= 0)
		return;
	LEAT_LOG(ERR, app, "%s", leat_err_msg());
	leat_app_stop(LEAT_APP_FAILED);
}

/* Run the program, once EAL runs and the devices are open. */
static void
run(const struct leat_app *app)
{
	int ret = app->begin != NULL ? app->begin(app->arg) : 0;

	report(ret);
	if (ret != 0)
		return;
	ret = app_lcores_create(app);
	report(ret);
	/* Apply a stop that came before there were reactors. */
	if (__atomic_load_n(&stopping, __ATOMIC_RELAXED))
		leat_reactor_stop_all(app_stop_us());
	if (ret == 0 && app_lcores_run() < 0)
		leat_app_stop(LEAT_APP_FAILED);
	if (app_lcores_destroy() < 0) {
		/* A task that has not ended may use objects that end() would close. */
		leat_app_stop(LEAT_APP_FAILED);
		return;
	}
	if (ret == 0 && app->end != NULL)
		app->end(app->arg);
}

/* Print the usage line to stderr: stdout is the application's. */
static void
print_usage(const struct leat_app *app, const struct app_args *a)
{
	fprintf(stderr, "usage: %s [EAL arguments]", a->name);
	if (app->usage != NULL)
		fprintf(stderr, " [-- %s]", app->usage);
	fprintf(stderr, "\n");
}

static void
print_help(const struct leat_app *app, const struct app_args *a)
{
	print_usage(app, a);
	fprintf(stderr,
		"  -l 0,1                 CPUs to run on; else all\n"
		"  --vdev=fabric_NAME...  a device: fabric_ring0; fabric_shm0; fabric_verbs0;\n"
		"                         fabric_ofi0,provider=tcp;\n"
		"                         else %s\n"
		"  --settings FILE        settings that replace the program's\n"
		"  --tune-dir DIR         where leat-top and leat-tune find this process\n"
		"  --no-tune              hide this process from them\n",
		a->vdev != NULL ? strchr(a->vdev, '=') + 1 : "none");
}

static bool
wants_help(const struct app_args *a)
{
	int i;

	for (i = 1; i < a->nb_own; i++) {
		if (strcmp(a->own[i], "--help") == 0 || strcmp(a->own[i], "-h") == 0)
			return true;
	}
	return false;
}

static int
parse(const struct leat_app *app, const struct app_args *a)
{
	int ret;

	if ((app->parse == NULL || app->usage != NULL) && wants_help(a)) {
		print_help(app, a);
		return LEAT_APP_DONE;
	}
	if (app->parse != NULL) {
		ret = app->parse(a->nb_own, a->own, app->arg);
		if (ret < 0 && app->usage != NULL)
			print_usage(app, a);
		return ret;
	}
	if (a->nb_own == 1)
		return 0;
	LEAT_LOG(ERR, app, "%s: unexpected argument '%s': only options are taken", a->name,
		 a->own[1]);
	return -EINVAL;
}

/* Start EAL, run the program, and clean up. */
static void
run_eal(const struct leat_app *app, const struct app_args *a)
{
	int ret = leat_init(a->nb_init, a->init);
	bool interrupted = __atomic_load_n(&signalled, __ATOMIC_RELAXED);

	if (interrupted && (ret >= 0 || ret == -EINTR)) {
		LEAT_LOG(NOTICE, app, "%s: interrupted", a->name);
	} else if (ret < 0) {
		LEAT_LOG(ERR, app, "%s: %s", a->name, leat_err_msg());
		leat_app_stop(ret == -EINVAL ? LEAT_APP_USAGE : LEAT_APP_FAILED);
	} else {
		run(app);
	}
	if (ret >= 0)
		report(leat_cleanup());
}

static int
run_args(const struct leat_app *app, const struct app_args *a)
{
	struct sigaction old[SIGNALS];
	int ret = parse(app, a);

	if (ret < 0)
		return LEAT_APP_USAGE;
	if (ret == 0) {
		ret = signals_take(old);
		report(ret);
		if (ret == 0) {
			run_eal(app, a);
			signals_give_back(old);
		}
	}
	return __atomic_load_n(&code, __ATOMIC_RELAXED);
}

int
leat_app_run(int argc, char **argv, const struct leat_app *app)
{
	struct app_args a;
	int ret;

	__atomic_store_n(&code, LEAT_APP_OK, __ATOMIC_RELAXED);
	__atomic_store_n(&stopping, false, __ATOMIC_RELAXED);
	if (argc < 1 || argv == NULL || app == NULL || app->start == NULL) {
		LEAT_LOG(ERR, app, "leat_app_run: no arguments, or no start function");
		return LEAT_APP_USAGE;
	}
	on_own_signal = app->on_signal;
	ret = app_args_split(&a, argc, argv, app);
	if (ret < 0) {
		LEAT_LOG(ERR, app, "%s", leat_err_msg());
		ret = LEAT_APP_FAILED;
	} else {
		ret = run_args(app, &a);
	}
	app_args_free(&a);
	return ret;
}
