/* SPDX-License-Identifier: BSD-3-Clause */

#include "rpc_pair.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "rpc_pvt.h"

struct end a, b;
char addr[LEAT_ADDR_MAX];
struct leat_rpc_conf pair_conf;
struct leat_ep_conf pair_ep_conf;
volatile uint64_t *pair_clock;

int
pair_start(void **state)
{
	static char prog[] = "test_rpc", tel[] = "--no-telemetry", pci[] = "--no-pci";
	static char log[] = "--log-level=leat.*:error", ring[] = "--vdev=" PAIR_RING;
	static char fault[] = "--vdev=" PAIR_FAULT ",lower=" PAIR_RING
			      ",reorder=8,refuse=0.1,refuse_recv=0.1";
	static char dgram[] = "--vdev=" PAIR_DGRAM ",type=datagram";
	static char lossy[] = "--vdev=" PAIR_LOSSY ",lower=" PAIR_DGRAM
			      ",loss=0.3,dup=0.1,overtake=16,reorder=8,refuse=0.1";
	static char notune[] = "--no-tune";
	char *argv[] = { prog, tel, notune, pci, log, ring, fault, dgram, lossy, NULL };

	(void)state;
	if (leat_init(9, argv) < 0) {
		print_error("leat_init: %s\n", leat_err_msg());
		return -1;
	}
	return 0;
}

int
pair_stop(void **state)
{
	(void)state;
	return leat_cleanup();
}

bool
patience_left(struct patience *p)
{
	struct timespec now;

	if (++p->turns % 1024 != 0)
		return true;
	if (clock_gettime(CLOCK_MONOTONIC, &now) < 0)
		return false;
	if (p->until == 0)
		p->until = (uint64_t)now.tv_sec + 60;
	return (uint64_t)now.tv_sec < p->until;
}

/* ---- handlers ---- */

static int
echo(struct leat_rpc_incoming *call, void *arg)
{
	struct end *e = arg;

	e->nb_handled++;
	if (call->room < call->len)
		return call->oneway ? 0 : -EMSGSIZE;
	if (call->len > 0)
		memcpy(call->resp, call->req, call->len);
	call->resp_len = call->len;
	return 0;
}

static int
fails(struct leat_rpc_incoming *call, void *arg)
{
	(void)echo(call, arg);
	return -EIO;
}

static int
later(struct leat_rpc_incoming *call, void *arg)
{
	struct end *e = arg;
	struct leat_rpc_incoming *ticket = leat_rpc_defer(call);

	e->nb_handled++;
	if (ticket == NULL || e->nb_later == LATER_MAX) {
		e->defer_fails = true;
		return -EBUSY;
	}
	assert_ptr_equal(leat_rpc_defer(call), ticket);
	e->later[e->nb_later++] = ticket;
	return LEAT_RPC_DEFERRED;
}

static int
count(struct leat_rpc_incoming *call, void *arg)
{
	struct end *e = arg;

	(void)call;
	e->nb_handled++;
	return 0;
}

/* ---- both ends ---- */

void
end_open(struct end *e, const char *dev, const struct leat_rpc_conf *conf)
{
	struct leat_ep_conf ep_conf = pair_ep_conf;
	struct leat_dev_info info;

	assert_int_equal(leat_dev_info_get(leat_dev_by_name(dev), &info), 0);
	if ((info.ep_types & 1u << LEAT_EP_RELIABLE) == 0)
		ep_conf.type = LEAT_EP_DATAGRAM;
	if (ep_conf.max_peers == 0)
		ep_conf.max_peers = 8;
	memset(e, 0, sizeof(*e));
	e->ep = leat_ep_create(leat_dev_by_name(dev), &ep_conf);
	if (e->ep == NULL)
		fail_msg("leat_ep_create: %s", leat_err_msg());
	e->rpc = leat_rpc_create(e->ep, conf);
	if (e->rpc == NULL)
		fail_msg("leat_rpc_create: %s", leat_err_msg());
	assert_int_equal(leat_rpc_handler_set(e->rpc, ECHO, echo, e, 0), 0);
	assert_int_equal(leat_rpc_handler_set(e->rpc, FAIL, fails, e, 64), 0);
	assert_int_equal(leat_rpc_handler_set(e->rpc, LATER, later, e, 64), 0);
	assert_int_equal(leat_rpc_handler_set(e->rpc, COUNT, count, e, 8), 0);
	assert_int_equal(leat_rpc_handler_set(e->rpc, ECHO_LARGE, echo, e,
					      conf != NULL && conf->max_msg != 0 ? conf->max_msg
										 : 8u << 20),
			 0);
}

void
end_close(struct end *e)
{
	struct patience wait = { 0 };
	unsigned int i;
	int ret = -EBUSY;

	for (i = 0; i < e->nb_later; i++)
		leat_rpc_answer(e->later[i], 0);
	while (ret == -EBUSY && patience_left(&wait)) {
		ret = leat_rpc_destroy(e->rpc);
		if (ret == -EBUSY)
			end_drive(e);
	}
	if (ret < 0)
		fail_msg("leat_rpc_destroy: %s", leat_err_msg());
	assert_int_equal(leat_ep_close(e->ep, 1000000, NULL, NULL), 0);
}

static int
setup(const char *dev)
{
	end_open(&a, dev, &pair_conf);
	end_open(&b, dev, &pair_conf);
	assert_int_equal(leat_ep_listen(b.ep, "b:0"), 0);
	assert_int_equal(leat_ep_listen_addr(b.ep, addr, sizeof(addr)), 0);
	return 0;
}

int
pair_setup(void **state)
{
	(void)state;
	return setup(PAIR_RING);
}

int
pair_setup_fault(void **state)
{
	(void)state;
	return setup(PAIR_FAULT);
}

int
pair_setup_dgram(void **state)
{
	(void)state;
	return setup(PAIR_DGRAM);
}

int
pair_setup_lossy(void **state)
{
	(void)state;
	return setup(PAIR_LOSSY);
}

int
pair_setup_slow(void **state)
{
	(void)state;
	(void)setup(PAIR_RING);
	a.rpc->slow = b.rpc->slow = true;
	return 0;
}

int
pair_teardown(void **state)
{
	(void)state;
	end_close(&a);
	end_close(&b);
	memset(&pair_conf, 0, sizeof(pair_conf));
	memset(&pair_ep_conf, 0, sizeof(pair_ep_conf));
	return 0;
}

void
end_drive(struct end *e)
{
	struct leat_rpc_req *done[32];
	struct leat_op *ops[32];
	struct leat_event ev;
	uint16_t n, i, turn;

	if (pair_clock != NULL)
		*pair_clock += LEAT_CLOCK_MOCK_HZ / 1000000;
	n = leat_ep_poll(e->ep, ops, 32);
	assert_int_equal(leat_rpc_process(e->rpc, ops, n), 0);
	/* Poll 8 times, since the context reads the clock only in some polls. */
	for (turn = 0; turn < 8; turn++) {
		n = leat_rpc_poll(e->rpc, done, 32);
		e->nb_back += n;
		for (i = 0; i < n && e->back != NULL; i++)
			e->back(done[i]);
	}
	while (leat_ep_events(e->ep, &ev, 1) == 1) {
		if (ev.type == LEAT_EV_CONNECT_REQ) {
			e->accepted = leat_rpc_accept(e->rpc, &ev, &e->conf);
			e->nb_refused += e->accepted == NULL;
		} else {
			assert_true(leat_rpc_handle_event(e->rpc, &ev) ==
				    (ev.type != LEAT_EV_SHUTDOWN));
		}
	}
	while (!e->deaf && leat_rpc_events(e->rpc, &e->ev, 1) == 1) {
		e->nb_ev[e->ev.type]++;
		if (e->closes && e->ev.type == LEAT_RPC_ENDED)
			assert_int_equal(leat_rpc_close(e->ev.session, 0), 0);
	}
}

void
drive(unsigned int turns)
{
	while (turns-- > 0) {
		end_drive(&a);
		end_drive(&b);
	}
}

struct leat_rpc_session *
connected(void)
{
	unsigned int up_a = a.nb_ev[LEAT_RPC_UP], up_b = b.nb_ev[LEAT_RPC_UP];
	struct leat_rpc_session *s = leat_rpc_connect(a.rpc, addr, &a.conf);

	assert_non_null(s);
	drive_until(a.nb_ev[LEAT_RPC_UP] > up_a && b.nb_ev[LEAT_RPC_UP] > up_b);
	return s;
}

void
post1(struct leat_rpc_req *req)
{
	assert_int_equal(leat_rpc_post(&req, 1), 1);
}

int
call(struct leat_rpc_session *s, uint8_t type, const void *buf, uint32_t len, void *resp,
     uint32_t room)
{
	struct leat_rpc_req req = {
		.session = s,
		.type = type,
		.buf = buf,
		.len = len,
		.resp = resp,
		.room = room,
	};

	post1(&req);
	drive_until(req.state == 0);
	return req.status < 0 ? req.status : (int)req.resp_len;
}

struct leat_rpc_stats
stats_of(const struct end *e)
{
	struct leat_rpc_stats st;

	leat_rpc_stats_get(e->rpc, &st);
	return st;
}
