/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Peers that are killed in the middle of a transfer. This process has one endpoint. Its children,
 * each a new run of this program, connect to that endpoint and exchange messages, writes and reads
 * with it as fast as they can, and are killed at some moment. The first child is never killed: the
 * death of others must not disturb it.
 */

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

#define WINDOW 16
#define BUF_LEN (1u << 20)
#define ROUNDS 6
/* Time allowed beyond dead_peer_ms, for a loaded machine. */
#define SLACK_US UINT64_C(5000000)

static const uint64_t sizes[] = { 8, 4000, 65536, 1 << 20 };

/* ---- both sides: keep ops of all kinds in flight with one peer ---- */

struct stream {
	struct leat_ep *ep;
	uint16_t peer;
	uint64_t size;
	uint32_t ops; /* bits of the op types to post */
	struct leat_rkey remote;
	struct leat_op op[WINDOW];
	uint8_t *buf;
	struct leat_mr *mr;
	uint64_t ok, failed;
	int first_error;
};

struct hello {
	struct leat_rkey key;
	uint64_t size;
};

static void
stream_post(struct stream *s, unsigned int i)
{
	static const enum leat_op_type types[] = { LEAT_OP_SEND, LEAT_OP_SEND, LEAT_OP_WRITE,
						   LEAT_OP_READ, LEAT_OP_FETCH_ADD };
	struct leat_op *o = &s->op[i];
	enum leat_op_type t = types[i % RTE_DIM(types)];

	if ((s->ops & LEAT_OP_BIT(t)) == 0)
		t = LEAT_OP_SEND;
	*o = (struct leat_op){
		.type = t,
		.peer = s->peer,
		.buf = s->buf,
		.size = t == LEAT_OP_FETCH_ADD ? 8 : s->size,
		.mr = s->mr,
		.user = s,
	};
	if (t >= LEAT_OP_WRITE) {
		o->raddr = s->remote.addr;
		o->rkey = s->remote.key;
	}
	(void)leat_ep_post(s->ep, &o, 1);
}

static void
stream_turn(struct stream *s)
{
	unsigned int i;

	for (i = 0; i < WINDOW; i++) {
		if (op_done(&s->op[i]))
			stream_post(s, i);
	}
}

static void
stream_done(struct leat_op *o)
{
	struct stream *s = o->user;

	if (o->status == 0) {
		s->ok++;
	} else {
		s->failed++;
		if (s->first_error == 0)
			s->first_error = o->status;
	}
}

/* Receives from any peer; they stay posted whatever happens to peers. */
struct receiver {
	struct leat_op op[64];
	uint8_t *buf;
	struct leat_mr *mr;
	uint64_t ok;
	int error;
};

static void
receiver_post(struct leat_ep *ep, struct receiver *r, struct leat_op *o)
{
	*o = (struct leat_op){ .type = LEAT_OP_RECV,
			       .peer = LEAT_PEER_ANY,
			       .buf = r->buf,
			       .size = BUF_LEN,
			       .mr = r->mr,
			       .queue = LEAT_QUEUE_NONE };
	if (leat_ep_post(ep, &o, 1) != 1)
		r->error = -rte_errno;
}

static void
reap(struct leat_ep *ep, struct receiver *r)
{
	struct leat_op *ops[32];
	uint16_t i, n = leat_ep_poll(ep, ops, 32);

	for (i = 0; i < n; i++) {
		if (ops[i]->type != LEAT_OP_RECV) {
			stream_done(ops[i]);
			continue;
		}
		/* -ECONNRESET: the sender died while its message was being received. */
		if (ops[i]->status == 0)
			r->ok++;
		else if (ops[i]->status != -ECONNRESET)
			r->error = ops[i]->status;
		receiver_post(ep, r, ops[i]);
	}
	if (n == 0)
		sched_yield();
}

static void
receiver_start(struct leat_ep *ep, struct receiver *r)
{
	size_t i;

	memset(r, 0, sizeof(*r));
	r->buf = malloc(BUF_LEN);
	assert_non_null(r->buf);
	r->mr = reg(ep, r->buf, BUF_LEN, NULL);
	for (i = 0; i < RTE_DIM(r->op); i++)
		receiver_post(ep, r, &r->op[i]);
}

/* ---- the child ---- */

static int
child(const char *dev, const char *addr, uint64_t size)
{
	static struct stream s;
	static struct receiver r;
	struct leat_dev_info info;
	struct leat_rkey key;
	struct hello h;
	struct leat_event ev;
	struct leat_conn_params cp = { .priv = &h, .priv_len = sizeof(h) };
	struct leat_dev *d = leat_dev_by_name(dev);
	bool up = false;

	if (d == NULL || leat_dev_info_get(d, &info) != 0)
		return 1;
	s.ep = ep_open(d, info.ops);
	s.size = size;
	s.ops = info.ops;
	s.buf = malloc(BUF_LEN);
	if (s.buf == NULL)
		return 1;
	s.mr = reg(s.ep, s.buf, BUF_LEN, &key);
	h.key = key;
	h.size = size;
	receiver_start(s.ep, &r);
	if (leat_ep_connect(s.ep, addr, &cp) < 0)
		return 1;
	for (;;) {
		if (leat_ep_events(s.ep, &ev, 1) == 1) {
			if (ev.type == LEAT_EV_CONNECTED) {
				memcpy(&h, ev.priv, sizeof(h));
				s.remote = h.key;
				s.peer = ev.peer;
				up = true;
			} else {
				break; /* the parent has ended */
			}
		}
		if (up)
			stream_turn(&s);
		reap(s.ep, &r);
	}
	return 0;
}

/* ---- the parent ---- */

struct parent {
	struct leat_ep *ep;
	char addr[LEAT_ADDR_MAX];
	struct receiver r;
	struct stream s[2]; /* the steady child, and the one that is killed */
	struct hello h;
	uint8_t *buf;
	struct leat_mr *mr;
	pid_t pid[2];
	int up; /* index in s of the stream that connects next */
	bool connected[2];
	int down[2];
	uint32_t ops;
};

static char **child_argv;

static pid_t
spawn(const char *dev, const char *addr, uint64_t size)
{
	static char sz[24];
	pid_t pid;

	snprintf(sz, sizeof(sz), "%" PRIu64, size);
	if (setenv("OFI_CHILD_DEV", dev, 1) < 0 || setenv("OFI_CHILD_ADDR", addr, 1) < 0 ||
	    setenv("OFI_CHILD_SIZE", sz, 1) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		execv("/proc/self/exe", child_argv);
		_exit(127);
	}
	return pid;
}

static void
parent_turn(struct parent *p)
{
	struct leat_conn_params cp = { .priv = &p->h, .priv_len = sizeof(p->h) };
	struct leat_event ev;
	int i;

	while (leat_ep_events(p->ep, &ev, 1) == 1) {
		if (ev.type == LEAT_EV_CONNECT_REQ) {
			struct hello h;

			memcpy(&h, ev.priv, sizeof(h));
			p->s[p->up].remote = h.key;
			p->s[p->up].size = h.size;
			assert_int_equal(leat_ep_accept(p->ep, ev.peer, &cp), 0);
		} else if (ev.type == LEAT_EV_CONNECTED) {
			p->s[p->up].peer = ev.peer;
			p->connected[p->up] = true;
		} else if (ev.type == LEAT_EV_DISCONNECTED) {
			for (i = 0; i < 2; i++) {
				if (p->connected[i] && p->s[i].peer == ev.peer) {
					p->connected[i] = false;
					p->down[i] = ev.status;
				}
			}
		}
	}
	for (i = 0; i < 2; i++) {
		if (p->connected[i])
			stream_turn(&p->s[i]);
	}
	reap(p->ep, &p->r);
}

#define PARENT_UNTIL(p, us, cond) UNTIL(us, parent_turn(p), cond)

static void
start_stream(struct parent *p, int i, const char *dev, uint64_t size)
{
	struct stream *s = &p->s[i];

	memset(s, 0, sizeof(*s));
	s->ep = p->ep;
	s->ops = p->ops;
	s->buf = p->buf;
	s->mr = p->mr;
	p->up = i;
	p->down[i] = 1;
	p->pid[i] = spawn(dev, p->addr, size);
	assert_true(p->pid[i] > 0);
	PARENT_UNTIL(p, TIMEOUT_US, p->connected[i]);
}

static bool
all_back(const struct stream *s)
{
	unsigned int i;

	for (i = 0; i < WINDOW; i++) {
		if (!op_done(&s->op[i]))
			return false;
	}
	return true;
}

static void
stop(struct parent *p, int i)
{
	int st;

	assert_int_equal(kill(p->pid[i], SIGKILL), 0);
	assert_int_equal(waitpid(p->pid[i], &st, 0), p->pid[i]);
}

static void
killed(void **state)
{
	static struct parent p;
	struct leat_dev *d = leat_dev_by_name(*state);
	uint64_t rnd = leat_now() | 1;
	struct leat_dev_info info;
	struct leat_rkey key;
	int round;

	print_message("seed %" PRIu64 "\n", rnd);
	assert_non_null(d);
	memset(&p, 0, sizeof(p));
	assert_int_equal(leat_dev_info_get(d, &info), 0);
	p.ops = info.ops;
	p.ep = ep_open(d, info.ops);
	p.buf = malloc(BUF_LEN);
	assert_non_null(p.buf);
	p.mr = reg(p.ep, p.buf, BUF_LEN, &key);
	p.h.key = key;
	receiver_start(p.ep, &p.r);
	assert_int_equal(leat_ep_listen(p.ep, "127.0.0.1:0"), 0);
	assert_int_equal(leat_ep_listen_addr(p.ep, p.addr, sizeof(p.addr)), 0);
	start_stream(&p, 0, *state, 100000);
	for (round = 0; round < ROUNDS; round++) {
		uint64_t us = 1000 + test_random(&rnd) % 60000, t, before;

		start_stream(&p, 1, *state, sizes[round % RTE_DIM(sizes)]);
		t = leat_now() + leat_us_to_cycles(us);
		while (leat_now() < t)
			parent_turn(&p);
		assert_int_equal(p.s[1].failed, 0);
		t = leat_now();
		stop(&p, 1);
		PARENT_UNTIL(&p, info.dead_peer_ms * UINT64_C(1000) + SLACK_US,
			     !p.connected[1] && all_back(&p.s[1]));
		print_message("round %d, %" PRIu64 " B: %" PRIu64 " ops, %" PRIu64
			      " failed with %d, known after %.1f ms\n",
			      round, p.s[1].size, p.s[1].ok, p.s[1].failed, p.s[1].first_error,
			      (double)leat_cycles_to_ns(leat_now() - t) / 1e6);
		assert_int_equal(p.down[1], -ECONNRESET);
		/*
		 * -ENOTCONN: no op was in flight when the endpoint noticed the peer's end, and the
		 * next op was posted after that.
		 */
		assert_true(p.s[1].first_error == 0 || p.s[1].first_error == -ECONNRESET ||
			    p.s[1].first_error == -ENOTCONN);
		/* The first child goes on, and receives are still posted. */
		before = p.s[0].ok;
		PARENT_UNTIL(&p, TIMEOUT_US, p.s[0].ok > before + 200);
		assert_int_equal(p.s[0].failed, 0);
		assert_int_equal(p.r.error, 0);
		assert_true(p.connected[0]);
	}
	stop(&p, 0);
	PARENT_UNTIL(&p, info.dead_peer_ms * UINT64_C(1000) + SLACK_US,
		     !p.connected[0] && all_back(&p.s[0]));
	(void)leat_ep_close(p.ep, 100000, NULL, NULL);
	free(p.r.buf);
	free(p.buf);
}

int
main(int argc, char **argv)
{
	static char vdevs[][64] = { "--vdev=fabric_ofi0,provider=tcp,iface=lo,tags=1",
				    "--vdev=fabric_ofi1,provider=sockets,src=127.0.0.1,tags=1" };
	const struct CMUnitTest tests[] = {
		{ "tcp", killed, NULL, NULL, (void *)(uintptr_t) "fabric_ofi0" },
		{ "sockets", killed, NULL, NULL, (void *)(uintptr_t) "fabric_ofi1" },
	};
	static char eal_quiet[] = "--log-level=lib.eal:error";
	static char fabric_quiet[] = "--log-level=leat.fabric:warning";
	static char no_telemetry[] = "--no-telemetry";
	const char *dev = getenv("OFI_CHILD_DEV"), *only = getenv("OFI_ONLY");
	const char *size = getenv("OFI_CHILD_SIZE");
	char *av[64];
	size_t d;
	int i, ac = 0, ret;

	child_argv = argv;
	for (i = 0; i < argc && i < 40; i++)
		av[ac++] = argv[i];
	for (d = 0; d < RTE_DIM(vdevs); d++) {
		if (dev == NULL || strncmp(vdevs[d] + 7, dev, 11) == 0)
			av[ac++] = vdevs[d];
	}
	av[ac++] = eal_quiet;
	av[ac++] = fabric_quiet;
	av[ac++] = no_telemetry;
	av[ac] = NULL;
	if (leat_init(ac, av) < 0) {
		fprintf(stderr, "leat_init: %s\n", leat_err_msg());
		return 1;
	}
	if (dev != NULL)
		return child(dev, getenv("OFI_CHILD_ADDR"),
			     size == NULL ? 0 : strtoull(size, NULL, 0));
	if (only != NULL)
		cmocka_set_test_filter(only);
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	return leat_cleanup() < 0 ? 1 : ret;
}
