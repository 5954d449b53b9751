/* SPDX-License-Identifier: BSD-3-Clause */

/* Code of doc/guide/cancel.md, and the C++ code of doc/guide/tasks.md, in a task of a program. */

/* clang-format off */

#ifdef __cplusplus
#include <stdexcept>
#endif

#include <sys/queue.h>

#include <leat_app.h>
#include <leat_fabric.h>
#include <leat_resource.h>
#include <leat_scope.h>
#include <leat_task_event.h>
#include <leat_task_op.h>
#include <leat_task_race.h>

#include "snippets.h"

struct request {
	struct leat_task_event answered;
	uint64_t limit_us;
	uint64_t takes_us;
	int ret;
	bool prepared;
};

static int
exchange(struct request *req)
{
	int ret = leat_task_sleep(req->takes_us);

	if (ret < 0)
		return ret;
	leat_task_event_set(&req->answered);
	return req->ret;
}

/* ---- the first answer, or all ---- */

struct replica {
	uint64_t us;
	bool used;
};

static int
ask_replica(void *arg)
{
	return leat_task_sleep(((struct replica *)arg)->us);
}

static void
use(struct replica *r)
{
	r->used = true;
}

static void
race(void)
{
	struct replica replica[2] = { { 10000000, false }, { 1, false } };
	int (*ask)(void *) = ask_replica;
	int ret;

struct leat_task_branch asks[] = {
	{ .fn = ask, .arg = &replica[0] },
	{ .fn = ask, .arg = &replica[1], .after_us = 2000 },
};

ret = leat_task_within(20000, leat_task_race(asks, 2));
if (ret >= 0)
	use(&replica[ret]);

	/* On a busy machine the second answer may come after the 20 ms. */
	CHECK(ret == 1 ? replica[1].used : ret == -ETIMEDOUT);
	CHECK(!replica[0].used);
}

/* ---- branches ---- */

static int
timer(void *arg)
{
	int ret = leat_task_sleep(((struct request *)arg)->limit_us);

	leat_scope_break(ret < 0 ? ret : -ETIMEDOUT);
}

static int
receive(void *arg)
{
	int ret = leat_task_event_wait(&((struct request *)arg)->answered);

	leat_scope_break(ret);				/* the others end, and this branch */
}

static int
ask(void *arg)
{
	int ret = exchange((struct request *)arg);

	if (ret < 0)
		leat_scope_break(ret);
	return 0;
}

static int
branches(struct request *req)
{
	int ret;

struct leat_scope s;
int got;

leat_scope_init(&s);
leat_scope_branch(&s, "timer", timer, req, NULL);
leat_scope_branch(&s, "receive", receive, req, &got);
leat_scope_branch(&s, "ask", ask, req, NULL);
ret = leat_scope_wait(&s);

	CHECK(ret == 0);
	return got;
}

static int
prepare(struct request *req)
{
	return req->prepared ? 0 : -1;
}

static int
block(struct request *req)
{
	int ret = 1, got = 1;

leat_scope_block(s, &ret) {
	leat_scope_branch(&s, "receive", receive, req, &got);
	if (prepare(req) < 0)
		return -EIO;				/* receive is cancelled, and has ended */
	leat_scope_branch(&s, "ask", ask, req, NULL);
}						/* leat_scope_wait(): its result is in ret */

	CHECK(ret == 0);
	return got;
}

/* ---- cancel from outside ---- */

struct session {
	struct leat_task *task;
	struct leat_task_ref ref;
};

static void
on_message(void *arg)
{
	leat_task_cancel(leat_task_ref_get((struct leat_task_ref *)arg));
}

static int
waits(void *arg)
{
	*(int *)arg = leat_task_sleep(60000000);
	return *(int *)arg;
}

static void
outside(void)
{
	struct session one, *session = &one;
	struct leat_reactor *reactor = leat_reactor_self();
	int ret[3] = { 1, 1, 1 };
	struct leat_task *task;
	struct leat_scope s;

	session->task = leat_task_spawn(leat_tasks_self(), NULL, waits, &ret[0]);
	leat_scope_init(&s);
	leat_scope_branch(&s, NULL, waits, &ret[1], NULL);
	CHECK(leat_task_yield() == 0);

leat_task_cancel(session->task);		/* in on_event(): its peer is gone */
leat_scope_cancel(&s);

	CHECK(leat_task_join(session->task, NULL) == 0 && ret[0] == -ECANCELED);
	CHECK(leat_scope_wait(&s) == -ECANCELED && ret[1] == -ECANCELED);

	task = leat_task_spawn(leat_tasks_self(), NULL, waits, &ret[2]);
	CHECK(leat_task_yield() == 0);

session->ref = leat_task_ref_make(task);
leat_reactor_call(reactor, on_message, &session->ref);	/* -EINVAL there if it is gone */

	CHECK(leat_task_join(task, NULL) == 0 && ret[2] == -ECANCELED);
}

/* ---- time limits ---- */

static int
say_goodbye(struct request *req)
{
	return exchange(req);
}

static void
limit(struct request *req)
{
	int ret;

ret = leat_task_within(5000, exchange(req));		/* us; -ETIMEDOUT */

	CHECK(ret == -ETIMEDOUT);

leat_task_masked(leat_task_within(5000, say_goodbye(req)));
}

static int
limit_of_block(struct request *req)
{
	struct leat_task_event ev;
	int ret;

	memset(&ev, 0, sizeof(ev));
	leat_task_event_set(&ev);

ret = leat_task_within(5000, ({
        if (leat_task_event_wait(&ev) < 0)
                return -EIO;
        exchange(req);
}));

	return ret;
}

/* ---- a resource of one's own ---- */

TAILQ_HEAD(lookups, lookup);
static struct lookups queue;

struct lookup {
	struct leat_resource_op op;
	TAILQ_ENTRY(lookup) entry;
	uint64_t key;
	bool sent;
};

static int
lookup_post(struct leat_resource_op *op)
{
	TAILQ_INSERT_TAIL(&queue, container_of(op, struct lookup, op), entry);
	return 0;
}

static enum leat_cancel
lookup_cancel(struct leat_resource_op *op)
{
	struct lookup *l = container_of(op, struct lookup, op);

	if (l->sent)
		return LEAT_CANCEL_LATE;	/* the answer ends it */
	TAILQ_REMOVE(&queue, l, entry);
	return LEAT_CANCEL_FREED;		/* it ends now, with -ECANCELED */
}

static const struct leat_resource lookup = {
	.name = "lookup", .post = lookup_post, .cancel = lookup_cancel,
};

static void
answer(struct leat_timer *t, void *arg, uint64_t now)
{
	struct lookup *l = TAILQ_FIRST(&queue);

	(void)t;
	(void)arg;
	(void)now;
	TAILQ_REMOVE(&queue, l, entry);

leat_resource_end(&l->op, 0);			/* where it is done: nothing runs in here */
}

static void
resource(void)
{
	struct leat_timer t;
	struct lookup l;
	int ret;

	TAILQ_INIT(&queue);
	memset(&l, 0, sizeof(l));
	leat_timer_init(&t, answer, NULL);
	leat_timer_start(leat_reactor_self(), &t, 100);

ret = leat_resource_run(&l.op, &lookup);	/* in a task */

	CHECK(ret == 0);
	CHECK(leat_task_within(100, leat_resource_run(&l.op, &lookup)) == -ETIMEDOUT);
	CHECK(TAILQ_EMPTY(&queue));
}

/* ---- C++ ---- */

#ifdef __cplusplus

static int
parse(int request)
{
	if (request < 0)
		throw std::runtime_error("bad request");
	return request;
}

static int
catches(struct leat_ep *ep, uint16_t peer, struct leat_mr *mr, int request)
{
	int refusal = 1;

int ret = 0;

try {
        ret = parse(request);
} catch (const std::exception &e) {
        ret = -EBADMSG;                         /* no leat_task_sleep(), leat_task_send() in here */
}
if (ret < 0)
        ret = (int)leat_task_send(ep, peer, &refusal, sizeof(refusal), mr, 1000000);

	return ret;
}

static void
cxx(void)
{
	struct leat_ep_conf conf;
	struct leat_poller *p;
	struct leat_ep *ep;

	memset(&conf, 0, sizeof(conf));
	conf.max_peers = 1;
	ep = leat_ep_create(leat_dev_get(0), &conf);
	CHECK(ep != NULL);
	p = leat_tasks_ep_add(leat_tasks_self(), ep, NULL, NULL);
	CHECK(p != NULL);
	CHECK(catches(ep, 0, NULL, 7) == 7);
	/* The endpoint has no peer to send to. */
	CHECK(catches(ep, 0, NULL, -1) == -ENOTCONN);
	CHECK(leat_poller_remove(p) == 0);
	CHECK(leat_ep_close(ep, 0, NULL, NULL) == 0);
}

#endif

static int
start(void *arg)
{
	struct request quick, slow, unprepared;

	(void)arg;
	memset(&quick, 0, sizeof(quick));
	quick.limit_us = 60000000;
	quick.takes_us = 1;
	quick.prepared = true;
	slow = quick;
	slow.takes_us = 60000000;
	slow.limit_us = 100;
	unprepared = quick;
	unprepared.prepared = false;

	race();
	CHECK(branches(&slow) == -ECANCELED);
	CHECK(branches(&quick) == 0);
	CHECK(block(&quick) == 0);
	CHECK(block(&unprepared) == -EIO);
	outside();
	limit(&slow);
	CHECK(limit_of_block(&slow) == -ETIMEDOUT);
	resource();
#ifdef __cplusplus
	cxx();
#endif
	printf("done\n");
	return 0;
}

int
main(int argc, char **argv)
{
	struct leat_app app;

	memset(&app, 0, sizeof(app));
	app.start = start;
	return leat_app_run(argc, argv, &app);
}
