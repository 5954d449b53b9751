/* SPDX-License-Identifier: BSD-3-Clause */

#include "msg_mock.h"

#include <string.h>

/* The context that was opened last. */
static struct leat_msg *context;

int
mm_start(void **state)
{
	static char prog[] = "test_msg", tel[] = "--no-telemetry", pci[] = "--no-pci";
	static char dev[] = "--vdev=fabric_mock0", log[] = "--log-level=leat.*:warning";
	char *argv[] = { prog, tel, pci, log, dev, NULL };

	(void)state;
	if (leat_init(RTE_DIM(argv) - 1, argv) < 0) {
		print_error("leat_init: %s\n", leat_err_msg());
		return -1;
	}
	return 0;
}

int
mm_stop(void **state)
{
	(void)state;
	return leat_cleanup();
}

void
mm_open_with(struct mm *mm, uint16_t credits, uint16_t conns)
{
	struct leat_ep_conf conf = { .ops = LEAT_OP_MASK_ALL & ~LEAT_OP_BIT(LEAT_OP_CMP_SWAP),
				     .max_peers = 4,
				     .tx_depth = 64,
				     .rx_depth = RTE_MAX(64u, conns * (2u * credits + 2)) };
	struct leat_msg_conf mconf = { .max_conns = conns, .credits = credits, .eager_max = 100 };

	memset(mm, 0, sizeof(*mm));
	mm->ep = leat_ep_create(leat_dev_get(0), &conf);
	assert_non_null(mm->ep);
	mm->ep->directed_recv = 1;
	mm->m = leat_msg_create(mm->ep, &mconf);
	context = mm->m;
	if (mm->m == NULL)
		fail_msg("leat_msg_create: %s", leat_err_msg());
}

void
mm_open(struct mm *mm)
{
	mm_open_with(mm, CREDITS, 0);
}

void
mm_drive(struct mm *mm)
{
	struct leat_op *ops[64];
	struct leat_event ev;
	uint16_t i, n;

	n = leat_ep_poll(mm->ep, ops, RTE_DIM(ops));
	n = leat_msg_process(mm->m, ops, n);
	for (i = 0; i < n; i++)
		mm->rest[mm->nb_rest++] = ops[i];
	while (leat_ep_events(mm->ep, &ev, 1) == 1)
		(void)leat_msg_handle_event(mm->m, &ev);
	n = leat_msg_poll(mm->m, &mm->back[mm->nb_back],
			  (uint16_t)(RTE_DIM(mm->back) - mm->nb_back));
	mm->nb_back += n;
	while (leat_msg_events(mm->m, &mm->ev, 1) == 1)
		mm->nb_ev[mm->ev.type]++;
}

void
mm_close(struct mm *mm, struct leat_msg_conn **conns, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		assert_int_equal(leat_msg_close(conns[i], 0), 0);
	for (i = 0; i < 4; i++)
		mm_drive(mm);
	assert_int_equal(mm->nb_ev[LEAT_MSG_CLOSED], n);
	assert_int_equal(mock.nb_ops, 0);
	assert_int_equal(leat_msg_destroy(mm->m), 0);
	assert_int_equal(leat_ep_close(mm->ep, 0, NULL, NULL), 0);
}

struct leat_msg_conn *
mm_connect(struct mm *mm, const struct leat_msg_conn_conf *conf, const void *priv, uint16_t len)
{
	struct leat_msg_conn *c = leat_msg_connect(mm->m, "there:1", conf);
	unsigned int up = mm->nb_ev[LEAT_MSG_UP];

	assert_non_null(c);
	leat_peer_up(mm->ep, &mm->ep->peers[leat_msg_conn_peer(c)], priv, len);
	mm_drive(mm);
	assert_int_equal(mm->nb_ev[LEAT_MSG_UP], up + 1);
	return c;
}

struct leat_msg_conn *
mm_refused(struct mm *mm, const struct leat_msg_conn_conf *conf, const void *priv, uint16_t len)
{
	struct leat_msg_conn *c = leat_msg_connect(mm->m, "there:1", conf);
	unsigned int up = mm->nb_ev[LEAT_MSG_UP], posted = mock.nb_posted;

	assert_non_null(c);
	leat_peer_up(mm->ep, &mm->ep->peers[leat_msg_conn_peer(c)], priv, len);
	mm_drive(mm);
	mm_drive(mm);
	assert_int_equal(mm->nb_ev[LEAT_MSG_UP], up);
	assert_int_equal(mock.nb_posted, posted);
	return c;
}

void
mm_peer_ends(struct mm *mm, uint16_t id, int status)
{
	struct leat_peer *peer = &mm->ep->peers[id];
	unsigned int i;

	leat_peer_closing(mm->ep, peer, status, "it ended");
	for (i = 0; i < mock.nb_ops;) {
		if (mock.ops[i]->peer == id)
			mm_finish(mm, mock.ops[i], -ECONNRESET, 0);
		else
			i++;
	}
	leat_peer_down(mm->ep, peer);
}

struct leat_op *
mm_posted(uint16_t peer, enum leat_op_type type, uint64_t tag)
{
	unsigned int i;

	for (i = 0; i < mock.nb_ops; i++) {
		if (mock.ops[i]->type == type && mock.ops[i]->peer == peer &&
		    mock.ops[i]->tag == tag)
			return mock.ops[i];
	}
	return NULL;
}

struct leat_op *
mm_meets(uint16_t peer, uint64_t tag)
{
	unsigned int i;

	for (i = 0; i < mock.nb_ops; i++) {
		const struct leat_op *op = mock.ops[i];

		if (op->type == LEAT_OP_TRECV && op->peer == peer &&
		    ((op->tag ^ tag) & ~op->ignore) == 0)
			return mock.ops[i];
	}
	return NULL;
}

unsigned int
mm_count(enum leat_op_type type)
{
	unsigned int i, n = 0;

	for (i = 0; i < mock.nb_ops; i++)
		n += mock.ops[i]->type == type;
	return n;
}

void
mm_finish(struct mm *mm, struct leat_op *op, int status, uint64_t len)
{
	unsigned int i;

	for (i = 0; i < mock.nb_ops; i++) {
		if (mock.ops[i] == op) {
			mock_finish(mm->ep, i, status, len);
			return;
		}
	}
	fail_msg("no such op");
}

void
mm_arrive(struct mm *mm, uint16_t peer, uint64_t tag, const void *data, uint64_t len)
{
	struct leat_op *op = mm_meets(peer, tag);

	if (op == NULL) {
		fail_msg("no receive for %#lx", (unsigned long)tag);
		return;
	}
	op->tag_in = tag;
	if (RTE_MIN(len, op->size) > 0)
		memcpy(op->buf, data, RTE_MIN(len, op->size));
	mm_finish(mm, op, len > op->size ? -EMSGSIZE : 0, len);
}

void
mm_arrive64(struct mm *mm, uint16_t peer, uint64_t tag, uint64_t value)
{
	uint64_t le = rte_cpu_to_le_64(value);

	mm_arrive(mm, peer, tag, &le, sizeof(le));
}

void
mm_sent(struct mm *mm, uint16_t peer, uint64_t tag, const void *data, uint64_t len)
{
	struct leat_op *op = mm_posted(peer, LEAT_OP_TSEND, tag);

	if (op == NULL) {
		fail_msg("no send with tag %#lx", (unsigned long)tag);
		return;
	}
	assert_int_equal(op->size, len);
	assert_memory_equal(op->buf, data, len);
	mm_finish(mm, op, 0, len);
}

void
mm_send(struct leat_msg_conn *c, struct leat_msg_req *req, const void *buf, uint64_t size)
{
	memset(req, 0, sizeof(*req));
	req->buf = (void *)(uintptr_t)buf;
	req->size = size;
	assert_int_equal(leat_msg_send(c, &req, 1), 1);
	leat_msg_flush(context);
}

void
mm_recv(struct leat_msg_conn *c, struct leat_msg_req *req, void *buf, uint64_t size)
{
	memset(req, 0, sizeof(*req));
	req->buf = buf;
	req->size = size;
	assert_int_equal(leat_msg_recv(c, &req, 1), 1);
}
