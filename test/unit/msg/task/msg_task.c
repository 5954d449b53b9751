/* SPDX-License-Identifier: BSD-3-Clause */

#include "msg_task.h"

struct msg_task_run msg_run;

int
msg_task_start(void **state)
{
	static char prog[] = "test_msg_task", tel[] = "--no-telemetry", pci[] = "--no-pci";
	static char log[] = "--log-level=leat.*:error", ring[] = "--vdev=fabric_ring0";
	char *argv[] = { prog, tel, pci, log, ring, NULL };

	(void)state;
	if (leat_init(5, argv) < 0) {
		print_error("leat_init: %s\n", leat_err_msg());
		return -1;
	}
	return 0;
}

int
msg_task_stop(void **state)
{
	(void)state;
	return leat_cleanup();
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
	leat_reactor_stop(msg_run.r, msg_run.stop_us == 0 ? STOP_US : msg_run.stop_us);
	return 0;
}

void
msg_task_run(leat_task_fn fn, void *arg)
{
	const struct leat_reactor_conf conf = { .events_us = 50, .idle.policy = msg_run.idle };
	struct first f = { .fn = fn, .arg = arg, .ret = -1 };
	struct leat_tasks *ts;

	msg_run.r = leat_reactor_create(&conf);
	assert_non_null(msg_run.r);
	ts = leat_tasks_create(msg_run.r, NULL);
	assert_non_null(ts);
	assert_int_equal(leat_task_detach(leat_task_spawn(ts, "first", first, &f)), 0);
	assert_int_equal(leat_reactor_run(msg_run.r), msg_run.stopped);
	assert_int_equal(f.ret, 0);
	assert_int_equal(leat_tasks_destroy(ts), 0);
	assert_int_equal(leat_reactor_destroy(msg_run.r), 0);
	memset(&msg_run, 0, sizeof(msg_run));
}

void
pair_open(struct msg_task_pair *p, const struct leat_msg_net_conf *conf)
{
	memset(p, 0, sizeof(*p));
	p->client = leat_msg_net_open(conf);
	if (p->client == NULL)
		fail_msg("%s", leat_err_msg());
	p->server = leat_msg_net_open(conf);
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
