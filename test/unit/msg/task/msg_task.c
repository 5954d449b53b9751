/* SPDX-License-Identifier: BSD-3-Clause */

#include "msg_task.h"

struct msg_task_run task_run;

#define RING "fabric_ring0"
#define FAULT "fabric_fault0"

static const char *device = RING;

static int
start(void **state)
{
	static char prog[] = "test_msg_task", tel[] = "--no-telemetry", pci[] = "--no-pci";
	static char log[] = "--log-level=leat.*:error", ring[] = "--vdev=" RING;
	static char fault[] = "--vdev=" FAULT ",lower=" RING
			      ",reorder=8,refuse=0.1,refuse_recv=0.1,delay=exp:20";
	char *argv[] = { prog, tel, pci, log, ring, fault, NULL };

	(void)state;
	if (leat_init(6, argv) < 0) {
		print_error("leat_init: %s\n", leat_err_msg());
		return -1;
	}
	return 0;
}

static int
fault(void **state)
{
	(void)state;
	device = FAULT;
	return 0;
}

static int
cleanup(void **state)
{
	(void)state;
	return leat_cleanup();
}

int
msg_task_groups(const char *name, const struct CMUnitTest *tests, size_t n)
{
	char over[64];
	int failed;

	snprintf(over, sizeof(over), "%s, " RING, name);
	failed = _cmocka_run_group_tests(over, tests, n, start, NULL);
	snprintf(over, sizeof(over), "%s, " FAULT, name);
	return failed + _cmocka_run_group_tests(over, tests, n, fault, cleanup);
}

struct first {
	leat_task_fn fn;
	void *arg;
	int ret;
};

static int
first(void *arg)
{
	struct first *f = arg;

	f->ret = f->fn(f->arg);
	leat_reactor_stop(task_run.r, task_run.stop_us == 0 ? STOP_US : task_run.stop_us);
	return 0;
}

void
msg_task_run(leat_task_fn fn, void *arg)
{
	const struct leat_reactor_conf conf = { .events_us = 50, .idle.policy = task_run.idle };
	const struct leat_tasks_conf tasks = { .max_tasks = task_run.max_tasks };
	struct first f = { .fn = fn, .arg = arg, .ret = -1 };
	struct leat_tasks *ts;

	task_run.r = leat_reactor_create(&conf);
	assert_non_null(task_run.r);
	ts = leat_tasks_create(task_run.r, &tasks);
	assert_non_null(ts);
	assert_int_equal(leat_task_detach(leat_task_spawn(ts, "first", first, &f)), 0);
	assert_int_equal(leat_reactor_run(task_run.r), task_run.stopped);
	assert_int_equal(f.ret, 0);
	assert_int_equal(leat_tasks_destroy(ts), 0);
	assert_int_equal(leat_reactor_destroy(task_run.r), 0);
	memset(&task_run, 0, sizeof(task_run));
}

void
pair_open(struct msg_task_pair *p, const struct leat_msg_net_conf *conf)
{
	struct leat_msg_net_conf c = { 0 };

	memset(p, 0, sizeof(*p));
	if (conf != NULL)
		c = *conf;
	c.dev = device;
	p->client = leat_msg_net_open(&c);
	if (p->client == NULL)
		fail_msg("%s", leat_err_msg());
	p->server = leat_msg_net_open(&c);
	if (p->server == NULL)
		fail_msg("%s", leat_err_msg());
	assert_int_equal(leat_msg_task_listen(p->server, "127.0.0.1:0"), 0);
	assert_int_equal(leat_msg_task_listen_addr(p->server, p->addr, sizeof(p->addr)), 0);
}

void
pair_connect(struct msg_task_pair *p)
{
	int ret = leat_msg_task_dial(p->client, p->addr, TIMEOUT_US, &p->c);

	if (ret < 0)
		fail_msg("%s", leat_err_msg());
	assert_int_equal(leat_msg_task_accept(p->server, &p->s), 0);
}

void
pair_close(struct msg_task_pair *p)
{
	if (p->c != NULL)
		assert_int_equal(leat_msg_task_close(p->c, TIMEOUT_US), 0);
	if (p->s != NULL)
		assert_int_equal(leat_msg_task_close(p->s, TIMEOUT_US), 0);
	p->c = p->s = NULL;
	assert_int_equal(leat_msg_net_close(p->client, TIMEOUT_US), 0);
	assert_int_equal(leat_msg_net_close(p->server, TIMEOUT_US), 0);
}
