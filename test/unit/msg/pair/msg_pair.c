/* SPDX-License-Identifier: BSD-3-Clause */

#include "msg_pair.h"

#include <errno.h>
#include <string.h>

struct end a, b;
char addr[LEAT_ADDR_MAX];

static int
start(int nb_devs)
{
	static char prog[] = "test_msg", tel[] = "--no-telemetry", pci[] = "--no-pci";
	static char log[] = "--log-level=leat.*:warning", ring[] = "--vdev=" PAIR_RING;
	static char fault[] = "--vdev=" PAIR_FAULT ",lower=" PAIR_RING
			      ",reorder=8,refuse=0.1,refuse_recv=0.1";
	static char notune[] = "--no-tune";
	char *argv[] = { prog, tel, notune, pci, log, ring, fault, NULL };
	int argc = 5 + nb_devs;

	argv[argc] = NULL;
	if (leat_init(argc, argv) < 0) {
		print_error("leat_init: %s\n", leat_err_msg());
		return -1;
	}
	return 0;
}

int
pair_start(void **state)
{
	(void)state;
	return start(1);
}

int
pair_start_fault(void **state)
{
	(void)state;
	return start(2);
}

int
pair_stop(void **state)
{
	(void)state;
	return leat_cleanup();
}

void
end_open(struct end *e, const char *dev, uint16_t conns)
{
	struct leat_ep_conf conf = { .ops = LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV),
				     .max_peers = conns };

	memset(e, 0, sizeof(*e));
	e->ep = leat_ep_create(leat_dev_by_name(dev), &conf);
	if (e->ep == NULL)
		fail_msg("leat_ep_create: %s", leat_err_msg());
	e->m = leat_msg_create(e->ep, NULL);
	if (e->m == NULL)
		fail_msg("leat_msg_create: %s", leat_err_msg());
}

void
end_close(struct end *e)
{
	assert_int_equal(leat_msg_destroy(e->m), 0);
	assert_int_equal(leat_ep_close(e->ep, 1000000, NULL, NULL), 0);
}

static int
setup(const char *dev)
{
	end_open(&a, dev, MAX_CONNS);
	end_open(&b, dev, MAX_CONNS);
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
pair_teardown(void **state)
{
	(void)state;
	end_close(&a);
	end_close(&b);
	return 0;
}

void
end_poll(struct end *e, uint16_t max)
{
	struct leat_op *ops[32];
	uint16_t n;

	n = leat_ep_poll(e->ep, ops, max);
	assert_int_equal(leat_msg_process(e->m, ops, n), 0);
	n = leat_msg_poll(e->m, &e->back[e->nb_back], (uint16_t)(RTE_DIM(e->back) - e->nb_back));
	e->nb_back += n;
}

void
end_drive(struct end *e)
{
	struct leat_event ev;

	end_poll(e, 32);
	while (leat_ep_events(e->ep, &ev, 1) == 1) {
		if (ev.type == LEAT_EV_CONNECT_REQ && e->reject != NULL) {
			assert_int_equal(leat_msg_reject(e->m, &ev, e->reject), 0);
		} else if (ev.type == LEAT_EV_CONNECT_REQ) {
			e->accepted = leat_msg_accept(e->m, &ev, &e->conf);
			if (e->accepted == NULL)
				assert_int_equal(leat_ep_reject(e->ep, ev.peer), 0);
		} else {
			assert_true(leat_msg_handle_event(e->m, &ev) ==
				    (ev.type != LEAT_EV_SHUTDOWN));
		}
	}
	while (leat_msg_events(e->m, &e->ev, 1) == 1)
		e->nb_ev[e->ev.type]++;
}

void
send1(struct leat_msg_conn *c, struct leat_msg_req *req, const void *buf, uint64_t size)
{
	*req = (struct leat_msg_req){ .buf = (void *)(uintptr_t)buf, .size = size };
	assert_int_equal(leat_msg_send(c, &req, 1), 1);
	leat_msg_flush(a.m);
	leat_msg_flush(b.m);
}

void
recv1(struct leat_msg_conn *c, struct leat_msg_req *req, void *buf, uint64_t size)
{
	*req = (struct leat_msg_req){ .buf = buf, .size = size };
	assert_int_equal(leat_msg_recv(c, &req, 1), 1);
}

struct leat_msg_conn *
connected(const struct leat_msg_conn_conf *conf)
{
	struct leat_msg_conn *c = leat_msg_connect(a.m, addr, conf);
	unsigned int up_a = a.nb_ev[LEAT_MSG_UP], up_b = b.nb_ev[LEAT_MSG_UP];

	assert_non_null(c);
	if (conf != NULL)
		b.conf = *conf;
	drive_until(a.nb_ev[LEAT_MSG_UP] > up_a && b.nb_ev[LEAT_MSG_UP] > up_b);
	return c;
}

void
close_both(struct leat_msg_conn *c)
{
	unsigned int n = b.nb_ev[LEAT_MSG_CLOSED];

	assert_int_equal(leat_msg_close(c, 1000000), 0);
	assert_int_equal(leat_msg_close(c, 1000000), -EALREADY);
	assert_int_equal(leat_msg_close(b.accepted, 1000000), 0);
	drive_until(a.nb_ev[LEAT_MSG_CLOSED] > 0 && b.nb_ev[LEAT_MSG_CLOSED] > n);
	a.nb_ev[LEAT_MSG_CLOSED] = 0;
}
