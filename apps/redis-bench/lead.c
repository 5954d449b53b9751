/* SPDX-License-Identifier: BSD-3-Clause */

/* The first lcore's task, which leads all lcores through the steps of a run. */

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <leat_error.h>
#include <leat_task_call.h>
#include <leat_time.h>

#include "bench.h"

/* File descriptors that the program needs besides those of its clients. */
#define OTHER_FILES 256

int
redb_fail(struct redb_bench *b, int err, const char *fmt, ...)
{
	char text[REDB_TEXT];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (b->why[0] == '\0')
		memcpy(b->why, text, sizeof(text));
	return err > 0 ? -err : -EIO;
}

/* ---- news ---- */

static void
news_arrive(void *arg)
{
	struct redb_bench *b = arg;

	/*
	 * acquire: pairs with the exchange in redb_news(). News that come after this exchange queue
	 * another call.
	 */
	(void)__atomic_exchange_n(&b->nb_news, 0, __ATOMIC_ACQUIRE);
	leat_task_event_set(&b->news);
}

void
redb_news(struct redb_bench *b)
{
	struct leat_reactor *r = leat_app_reactor(0);

	/* release: the leading task sees what the caller has changed */
	if (__atomic_exchange_n(&b->nb_news, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	/*
	 * The call is refused when the leading task's reactor has stopped, or the reactor's queue
	 * is full. The leading task looks every second anyway.
	 */
	if (r == NULL || leat_reactor_call(r, news_arrive, b) < 0)
		__atomic_store_n(&b->nb_news, 0, __ATOMIC_RELEASE);
}

/* Wait for news, at most a second. @return 0, -ETIMEDOUT, -ECANCELED */
static int
news_wait(struct redb_bench *b)
{
	uint64_t old = leat_task_deadline_set(leat_time_add(leat_now(), leat_hz()));
	int ret = leat_task_event_wait(&b->news);

	(void)leat_task_deadline_set(old);
	leat_task_event_reset(&b->news);
	return ret;
}

/* ---- prepare what all lcores share ---- */

static int
allow_files(struct redb_bench *b)
{
	const rlim_t want = (rlim_t)b->o.plan.clients + OTHER_FILES;
	struct rlimit l;

	if (b->addr.transport != &redb_socket || getrlimit(RLIMIT_NOFILE, &l) < 0 ||
	    l.rlim_cur >= want)
		return 0;
	if (l.rlim_max >= want) {
		l.rlim_cur = want;
		if (setrlimit(RLIMIT_NOFILE, &l) == 0)
			return 0;
	}
	return redb_fail(b, EMFILE, "--clients %u: the limit is %" PRIu64 " open files (ulimit -n)",
			 b->o.plan.clients, (uint64_t)l.rlim_max);
}

static int
greeting(struct redb_bench *b, int argc, const char *const *argv)
{
	struct redb_command *c = &b->greetings[b->nb_greetings];
	int ret = redb_command_create(c, argc, argv, 0, 0);

	if (ret < 0)
		return redb_fail(b, -ret, "%s: %s", argv[0], strerror(-ret));
	c->expect = REDB_EXPECT_OK;
	b->nb_greetings++;
	return 0;
}

static int
greetings(struct redb_bench *b)
{
	char secret[REDB_SECRET_MAX], db[16];
	const char *select[] = { "SELECT", db };
	int ret = 0;

	if (b->o.auth_file != NULL) {
		const char *by_user[] = { "AUTH", b->o.user, secret };
		const char *alone[] = { "AUTH", secret };

		ret = redb_secret_read(b->o.auth_file, secret, sizeof(secret));
		if (ret < 0)
			return redb_fail(b, -ret, "no password");
		ret = b->o.user != NULL ? greeting(b, 3, by_user) : greeting(b, 2, alone);
		explicit_bzero(secret, sizeof(secret));
	}
	if (ret == 0 && b->o.db_given) {
		snprintf(db, sizeof(db), "%u", b->o.db);
		ret = greeting(b, 2, select);
	}
	return ret;
}

int
redb_lead_prepare(struct redb_bench *b)
{
	int ret = allow_files(b);

	if (ret == 0)
		ret = greetings(b);
	if (ret < 0)
		return ret;
	if (redb_values_create(&b->values, b->o.plan.data, b->o.plan.seed) < 0)
		return redb_fail(b, ENOMEM, "--data %" PRIu64 ": out of memory", b->o.plan.data);
	b->connect = leat_histogram_create();
	return b->connect != NULL ? 0 : redb_fail(b, ENOMEM, "out of memory");
}

/* ---- workers ---- */

static int
open_call(void *arg)
{
	struct redb_worker *w = arg;
	int ret = redb_worker_open(w);

	/* leat_err_msg() belongs to this thread: the caller, on another thread, needs a copy. */
	if (ret < 0)
		snprintf(w->why, sizeof(w->why), "%s", leat_err_msg());
	return ret;
}

static int
open_all(struct redb_bench *b)
{
	const uint32_t clients = b->o.plan.clients;
	uint32_t lcores = leat_app_count();
	uint16_t i;
	int ret;

	if (redb_service_wanted(&b->o) && lcores > 1)
		lcores--;
	b->nb_workers = (uint16_t)RTE_MIN(lcores, clients);
	b->workers = calloc(b->nb_workers, sizeof(*b->workers));
	if (b->workers == NULL) {
		b->nb_workers = 0;
		return redb_fail(b, ENOMEM, "out of memory");
	}
	for (i = 0; i < b->nb_workers; i++) {
		struct redb_worker *w = &b->workers[i];

		w->bench = b;
		w->index = i;
		w->nb = b->nb_workers;
		w->reactor = leat_app_reactor(i);
		w->nb_clients = clients / b->nb_workers + (i < clients % b->nb_workers);
		if (leat_task_call(w->reactor, open_call, w, &ret) < 0)
			return redb_fail(b, EIO, "lcore %u has stopped", i);
		if (ret < 0)
			return redb_fail(b, -ret, "%s", w->why);
	}
	return 0;
}

static int
begin_call(void *arg)
{
	struct redb_worker *w = arg;

	redb_worker_begin(w, &w->bench->step);
	return 0;
}

static int
stop_call(void *arg)
{
	redb_worker_stop(arg);
	return 0;
}

static int
close_call(void *arg)
{
	redb_worker_close(arg);
	return 0;
}

/* Call fn on each worker's reactor. @return 0, or the first error; -ECANCELED: interrupted */
static int
call_all(struct redb_bench *b, int (*fn)(void *arg))
{
	int ret, first = 0;
	uint16_t i;

	for (i = 0; i < b->nb_workers; i++) {
		struct redb_worker *w = &b->workers[i];

		ret = leat_task_call(w->reactor, fn, w, NULL);
		first = first == 0 ? ret : first;
	}
	return first;
}

/* ---- a step ---- */

/* End the step on all lcores when a client is lost. @return true: the step was told to end */
static bool
stop_if_lost(struct redb_bench *b, bool stopped)
{
	if (stopped || __atomic_load_n(&b->nb_lost, __ATOMIC_RELAXED) == 0)
		return stopped;
	(void)call_all(b, stop_call);
	return true;
}

/* Run b->step. @return 0; -ECANCELED: interrupted; -ECONNRESET: clients were lost, with b->why */
static int
step(struct redb_bench *b, const char *name)
{
	bool stopped = false;
	int ret;

	__atomic_store_n(&b->nb_ended, 0, __ATOMIC_RELAXED);
	redb_progress_begin(b);
	ret = call_all(b, begin_call);
	if (ret < 0 && ret != -ECANCELED)
		return redb_fail(b, -ret, "%s: an lcore does not answer", name);
	/* acquire: the tallies are complete; pairs with the release in check_end() */
	while (__atomic_load_n(&b->nb_ended, __ATOMIC_ACQUIRE) < b->nb_workers) {
		if (news_wait(b) == -ECANCELED) {
			b->interrupted = true;
			return -ECANCELED;
		}
		stopped = stop_if_lost(b, stopped);
		redb_progress(b);
	}
	redb_progress_end(b);
	if (b->nb_lost == 0)
		return 0;
	return redb_fail(b, ECONNRESET, "%s: %u of %u clients were lost", name, b->nb_lost,
			 b->o.plan.clients);
}

static int
connect_step(struct redb_bench *b)
{
	uint16_t i;
	int ret;

	b->step = (struct redb_step){ 0 };
	ret = step(b, "connect");
	for (i = 0; i < b->nb_workers && ret != -ECANCELED; i++) {
		const struct redb_worker *w = &b->workers[i];

		leat_histogram_merge(b->connect, w->connect);
		b->connect_ns = RTE_MAX(b->connect_ns, w->tally.elapsed_ns);
	}
	b->nb_connected = (uint32_t)leat_histogram_count(b->connect);
	return ret;
}

/* Run b->step without measuring it; an error or a wrong reply is a failure. */
static int
quiet_step(struct redb_bench *b, const char *name)
{
	struct redb_tally sum = { 0 };
	uint16_t i;
	int ret = step(b, name);

	if (ret < 0)
		return ret;
	for (i = 0; i < b->nb_workers; i++)
		redb_tally_add(&sum, &b->workers[i].tally);
	if (sum.errors + sum.wrong == 0)
		return 0;
	return redb_fail(b, EIO, "%s: %" PRIu64 " times: %s", name, sum.errors + sum.wrong,
			 sum.errors > 0 ? sum.first_error : sum.first_wrong);
}

/* Store the data that a test reads. */
static int
fill(struct redb_bench *b, enum redb_kind kind)
{
	const char *name = kind == REDB_LRANGE ? "filling the list" : "setting the keys";
	uint64_t requests;
	int ret = 0;

	if (kind == REDB_LRANGE) {
		ret = redb_command_clear(&b->command);
		b->step = (struct redb_step){ .command = &b->command,
					      .requests = 1,
					      .one_client = true };
		if (ret == 0)
			ret = quiet_step(b, name);
		/* Interrupted: clients use the command until the reactors have ended. */
		if (ret == -ECANCELED)
			return ret;
		redb_command_free(&b->command);
	}
	if (ret < 0)
		return ret == -ENOMEM ? redb_fail(b, ENOMEM, "out of memory") : ret;
	ret = redb_command_fill(&b->command, kind, &b->o.plan, &requests);
	if (ret < 0)
		return ret == -ENOENT ? 0 : redb_fail(b, -ret, "%s: %s", name, strerror(-ret));
	b->step = (struct redb_step){ .command = &b->command,
				      .requests = requests,
				      .one_client = kind == REDB_LRANGE };
	ret = quiet_step(b, name);
	if (ret != -ECANCELED)
		redb_command_free(&b->command);
	return ret;
}

/* Add up what the lcores have counted in a test, also in one that was interrupted. */
static void
gather(struct redb_bench *b)
{
	struct redb_result *r = b->now;
	uint16_t i;

	if (r == NULL)
		return;
	for (i = 0; i < b->nb_workers; i++) {
		redb_tally_add(&r->tally, &b->workers[i].tally);
		leat_histogram_merge(r->hist, b->workers[i].hist);
	}
	b->nb_results++;
	b->now = NULL;
}

static int
test(struct redb_bench *b, enum redb_kind kind)
{
	const struct redb_plan *p = &b->o.plan;
	struct redb_result *r = &b->results[b->nb_results];
	int ret = p->fill ? fill(b, kind) : 0;

	if (ret < 0)
		return ret;
	ret = redb_command_of(&b->command, kind, p);
	if (ret < 0)
		return redb_fail(b, -ret, "%s: %s", redb_kind_name(kind),
				 ret == -E2BIG ? "a request is longer than 2 GiB; reduce --data"
					       : strerror(-ret));
	r->hist = leat_histogram_create();
	if (r->hist == NULL)
		return redb_fail(b, ENOMEM, "%s: out of memory", redb_kind_name(kind));
	r->kind = kind;
	r->request_bytes = b->command.bytes;
	b->step = (struct redb_step){ .command = &b->command,
				      .requests = p->requests != 0 ? p->requests : UINT64_MAX,
				      .duration_us = p->duration_us,
				      .rate_mhz = p->rate_mhz };
	b->now = r;
	ret = step(b, redb_kind_name(kind));
	/* Interrupted: redb_lead_gather_late() gathers after the reactors have ended. */
	if (ret == -ECANCELED)
		return ret;
	gather(b);
	redb_command_free(&b->command);
	return ret;
}

/* ---- the run ---- */

static int
run(struct redb_bench *b)
{
	uint32_t i;
	int ret = redb_service_wanted(&b->o) ? redb_service_open(b) : 0;

	if (ret == 0)
		ret = open_all(b);
	if (ret == 0)
		ret = connect_step(b);
	for (i = 0; i < b->o.plan.nb_tests && ret == 0; i++)
		ret = test(b, b->o.plan.tests[i]);
	return ret;
}

int
redb_lead_run(struct redb_bench *b)
{
	int ret;

	redb_report_head(b);
	ret = run(b);
	/* Interrupted: each reactor closes its worker when it stops. */
	if (ret != -ECANCELED)
		(void)call_all(b, close_call);
	return ret;
}

void
redb_lead_gather_late(struct redb_bench *b)
{
	gather(b);
}

void
redb_lead_free(struct redb_bench *b)
{
	uint32_t i;

	for (i = 0; i < b->nb_workers; i++)
		redb_worker_free(&b->workers[i]);
	redb_service_close(b);
	free(b->workers);
	b->workers = NULL;
	b->nb_workers = 0;
	redb_command_free(&b->command);
	for (i = 0; i < b->nb_greetings; i++)
		redb_command_free(&b->greetings[i]);
	for (i = 0; i < b->nb_results; i++)
		leat_histogram_free(b->results[i].hist);
	leat_histogram_free(b->connect);
	redb_values_free(&b->values);
}
