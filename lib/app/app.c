/* SPDX-License-Identifier: BSD-3-Clause */

/* leat_app_run(), and signals. */

#include <errno.h>
#include <signal.h>
#include <string.h>

#include <leat_dev.h>
#include <leat_error.h>
#include <leat_log.h>

#include "app_pvt.h"

static const int signals[] = { SIGINT, SIGTERM };
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

/* any thread, and signal handlers */
static int code; /* exit code */
static bool stopping;
static void (*on_own_signal)(int sig);

void
leat_app_stop(int why)
{
	int ok = LEAT_APP_OK;

	/* relaxed: read behind the end of all reactors */
	if (why != LEAT_APP_OK)
		(void)__atomic_compare_exchange_n(&code, &ok, why, false, __ATOMIC_RELAXED,
						  __ATOMIC_RELAXED);
	__atomic_store_n(&stopping, true, __ATOMIC_RELAXED);
	leat_reactor_stop_all(app_stop_us());
}

static void
on_signal(int sig)
{
	if (on_own_signal != NULL)
		on_own_signal(sig);
	leat_app_stop(LEAT_APP_OK);
}

/* A second signal finds its default: SA_RESETHAND. */
static int
signals_take(struct sigaction *old)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
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

/* EAL runs, and devices are open. */
static void
run(const struct leat_app *app)
{
	int ret = app->begin != NULL ? app->begin(app->arg) : 0;

	report(ret);
	if (ret != 0)
		return;
	ret = app_lcores_create(app);
	report(ret);
	/* A stop that came before there were reactors holds for them, too. */
	if (__atomic_load_n(&stopping, __ATOMIC_RELAXED))
		leat_reactor_stop_all(app_stop_us());
	if (ret == 0 && app_lcores_run() < 0)
		leat_app_stop(LEAT_APP_FAILED);
	if (app_lcores_destroy() < 0) {
		/* What did not come to rest uses what end() would close. */
		leat_app_stop(LEAT_APP_FAILED);
		return;
	}
	if (ret == 0 && app->end != NULL)
		app->end(app->arg);
}

static int
parse(const struct leat_app *app, const struct app_args *a)
{
	if (app->parse != NULL)
		return app->parse(a->nb_own, a->own, app->arg);
	if (a->nb_own == 1)
		return 0;
	LEAT_LOG(ERR, app, "%s: unexpected argument '%s': it has none of its own", a->name,
		 a->own[1]);
	return -EINVAL;
}

/* From the start of EAL to its end. */
static void
run_eal(const struct leat_app *app, const struct app_args *a)
{
	if (leat_init(a->nb_init, a->init) < 0) {
		LEAT_LOG(ERR, app, "%s: %s", a->name, leat_err_msg());
		leat_app_stop(LEAT_APP_FAILED);
		return;
	}
	run(app);
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
