/* SPDX-License-Identifier: BSD-3-Clause */

/* Arguments, devices, and which side runs where. */

#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_launch.h>
#include <rte_lcore.h>

#include <leat_error.h>
#include <leat_version.h>

#include "../common/list.h"
#include "side.h"

volatile sig_atomic_t perf_signal;

void
perf_msg(const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	/* One write: both sides of --self may have something to say. */
	fprintf(stderr, "%s" PERF_NAME ": %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", line);
}

/* The first one asks for an orderly end; a second one ends the process. */
static void
on_signal(int sig)
{
	perf_signal = sig;
}

static int
catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	(void)sigemptyset(&sa.sa_mask);
	if (sigaction(SIGINT, &sa, NULL) != 0 || sigaction(SIGTERM, &sa, NULL) != 0)
		return -errno;
	return 0;
}

static struct leat_dev *
choose_device(const struct perf_options *o)
{
	struct leat_dev *dev;

	if (leat_dev_count() == 0) {
		perf_msg("no device: name one with --vdev, such as --vdev=fabric_ring0 "
			 "(--list-devices, --list-drivers)");
		return NULL;
	}
	if (o->dev == NULL)
		return leat_dev_get(0);
	dev = leat_dev_by_name(o->dev);
	if (dev == NULL)
		perf_msg("--dev %s: no such device (--list-devices)", o->dev);
	return dev;
}

/* ---- sides on lcores ---- */

struct job {
	const struct perf_options *o;
	struct leat_dev *dev;
	const struct perf_cpu_load *start;
	struct perf_self *self; /* &pair with --self, else NULL */
	struct perf_self pair;
	sem_t done;
	int code;
};

static int
server_job(void *arg)
{
	struct job *j = arg;

	j->code = perf_server(j->o, j->dev, j->self);
	if (j->self != NULL)
		__atomic_store_n(&j->self->state, 2, __ATOMIC_RELEASE);
	(void)sem_post(&j->done);
	return 0;
}

static void *
server_thread(void *arg)
{
	(void)server_job(arg);
	return NULL;
}

static int
client_job(void *arg)
{
	struct job *j = arg;

	j->code = perf_client(j->o, j->dev, j->o->addr, j->start);
	(void)sem_post(&j->done);
	return 0;
}

/* Sleeps until a job is done: rte_eal_wait_lcore() would burn this CPU, which may be the other side's. */
static void
await_job(struct job *j)
{
	while (sem_wait(&j->done) != 0 && errno == EINTR)
		;
}

static unsigned int
last_lcore(void)
{
	unsigned int lcore, last = rte_get_main_lcore();

	RTE_LCORE_FOREACH_WORKER(lcore)
		last = lcore;
	return last;
}

static int
self_client(struct job *j)
{
	struct perf_self *self = j->self;
	int state;

	while ((state = __atomic_load_n(&self->state, __ATOMIC_ACQUIRE)) == 0)
		perf_nap();
	if (state == 2)
		return PERF_EXIT_FAILED; /* it said why */
	return perf_client(j->o, j->dev, self->addr, j->start);
}

static int
run_self(struct job *j)
{
	unsigned int lcore = last_lcore();
	bool thread = lcore == rte_get_main_lcore();
	pthread_t tid;
	int code, err;

	j->self = &j->pair;
	/* With one lcore the server is a second thread on it: it inherits this one's affinity. */
	err = thread ? pthread_create(&tid, NULL, server_thread, j)
		     : -rte_eal_remote_launch(server_job, j, lcore);
	if (err != 0) {
		perf_msg("the listening side did not start: %s", strerror(err));
		return PERF_EXIT_FAILED;
	}
	code = self_client(j);
	j->pair.quit = 1;
	await_job(j);
	if (thread)
		(void)pthread_join(tid, NULL);
	else
		(void)rte_eal_wait_lcore(lcore);
	return code != PERF_EXIT_OK ? code : j->code;
}

static int
run_connect(struct job *j)
{
	unsigned int lcore = last_lcore();
	int err;

	if (lcore == rte_get_main_lcore())
		return perf_client(j->o, j->dev, j->o->addr, j->start);
	err = -rte_eal_remote_launch(client_job, j, lcore);
	if (err != 0) {
		perf_msg("lcore %u did not start: %s", lcore, strerror(err));
		return PERF_EXIT_FAILED;
	}
	await_job(j);
	(void)rte_eal_wait_lcore(lcore);
	return j->code;
}

static bool
in_one_process_only(struct leat_dev *dev)
{
	struct leat_dev_info info;

	return leat_dev_info_get(dev, &info) == 0 && info.one_process;
}

static int
run(const struct perf_options *o, const struct perf_cpu_load *start)
{
	struct job j = { .o = o, .start = start };
	int code;

	j.dev = choose_device(o);
	if (j.dev == NULL)
		return PERF_EXIT_FAILED;
	if (o->role != PERF_SELF && in_one_process_only(j.dev)) {
		perf_msg("%s connects endpoints of one process only: use --self, or another "
			 "device",
			 leat_dev_name(j.dev));
		return PERF_EXIT_FAILED;
	}
	if (sem_init(&j.done, 0, 0) != 0) {
		perf_msg("semaphore: %s", strerror(errno));
		return PERF_EXIT_FAILED;
	}
	switch (o->role) {
	case PERF_LISTEN:
		if (o->client_only != NULL)
			perf_msg("--%s is for the connecting side to say: ignored here",
				 o->client_only);
		code = perf_server(o, j.dev, NULL);
		break;
	case PERF_CONNECT:
		code = run_connect(&j);
		break;
	default:
		code = run_self(&j);
		break;
	}
	(void)sem_destroy(&j.done);
	return code;
}

/* ---- arguments ---- */

/*
 * Before "--" are EAL's arguments, but for those that need no EAL. @return the index of "--" (argc if
 * there is none), or negative after a message.
 */
static int
scan_args(int argc, char **argv, struct perf_options *early)
{
	int i;

	memset(early, 0, sizeof(*early));
	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			early->help = true;
		else if (strcmp(argv[i], "--version") == 0)
			early->version = true;
		else if (strcmp(argv[i], "--list-drivers") == 0)
			early->list_drivers = true;
		else if (strcmp(argv[i], "--list-devices") == 0)
			early->list_devices = true;
		else if (strcmp(argv[i], "--json") == 0)
			early->json = true;
		else if (strncmp(argv[i], "--", 2) == 0 && perf_option_known(argv[i])) {
			perf_msg("'%s' goes behind '--': leat-perf EAL... -- %s ...", argv[i],
				 argv[i]);
			return -EINVAL;
		}
	}
	if (early->json && !early->list_drivers && !early->list_devices) {
		perf_msg("'--json' goes behind '--', or with --list-drivers");
		return -EINVAL;
	}
	return i;
}

/* What leat_init() would take for EAL's is taken out. @return new argc */
static int
drop_early(int argc, char **argv)
{
	int i, n = 1;

	for (i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--list-devices") != 0 && strcmp(argv[i], "--json") != 0)
			argv[n++] = argv[i];
	}
	return n;
}

/* The exit code of a list. */
static int
listed(int ret)
{
	if (ret == 0)
		return PERF_EXIT_OK;
	perf_msg("%s", leat_err_msg());
	return PERF_EXIT_FAILED;
}

static int
with_devices(const struct perf_options *o, int argc, char **argv)
{
	struct perf_cpu_load start;
	int code;

	perf_cpu_load_get(&start);
	if (catch_signals() < 0) {
		perf_msg("signals: %s", strerror(errno));
		return PERF_EXIT_FAILED;
	}
	if (leat_init(argc, argv) < 0) {
		perf_msg("%s", leat_err_msg());
		return PERF_EXIT_FAILED;
	}
	if (perf_signal != 0) {
		perf_msg("interrupted");
		code = 128 + perf_signal;
	} else {
		code = o->list_devices ? listed(list_devices(o->json)) : run(o, &start);
	}
	if (leat_cleanup() < 0) {
		perf_msg("%s", leat_err_msg());
		if (code == PERF_EXIT_OK)
			code = PERF_EXIT_FAILED;
	}
	return code;
}

int
main(int argc, char **argv)
{
	struct perf_options o, early;
	int end, code, ret;

	end = scan_args(argc, argv, &early);
	if (end < 0)
		return PERF_EXIT_USAGE;
	if (early.help || early.version || early.list_drivers || early.list_devices) {
		o = early;
	} else {
		char *none[] = { argv[0], NULL };
		int n = end < argc ? argc - end : 1;

		if (perf_options_parse(&o, n, end < argc ? argv + end : none) < 0) {
			perf_options_free(&o);
			return PERF_EXIT_USAGE;
		}
	}
	if (o.help) {
		perf_help(stdout);
		code = PERF_EXIT_OK;
	} else if (o.version) {
		printf(PERF_NAME " %s\n", leat_version());
		code = PERF_EXIT_OK;
	} else if (o.list_drivers) {
		ret = leat_driver_load(end, argv);
		code = listed(ret < 0 ? ret : list_drivers(o.json));
	} else {
		/* EAL's part alone: what is behind "--" was taken */
		code = with_devices(&o, drop_early(end, argv), argv);
	}
	perf_options_free(&o);
	return code;
}
