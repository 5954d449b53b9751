/* SPDX-License-Identifier: BSD-3-Clause */

#include <string.h>

#include "leat_cmocka.h"
#include "tags_peer.h"

struct leat_ep *tp_ep;
static uint16_t seq[TP_PEERS];
static uint64_t token[TP_PEERS]; /* tokens of arriving segments */

int
tp_group_setup(void **state)
{
	static char prog[] = "test_tags", nopci[] = "--no-pci", l[] = "-l", zero[] = "0";
	static char dev[] = "--vdev=fabric_mock0";
	char *argv[] = { prog, nopci, l, zero, dev, NULL };

	(void)state;
	mock_tags = false;
	if (leat_init(5, argv) < 0) {
		print_error("%s\n", leat_err_msg());
		return -1;
	}
	return 0;
}

int
tp_group_teardown(void **state)
{
	(void)state;
	return leat_cleanup();
}

void
tp_open(uint16_t peers, uint32_t depth)
{
	struct leat_ep_conf conf = {
		.name = "ep", .ops = TP_OPS, .max_peers = peers, .tx_depth = depth, .rx_depth = 64
	};

	tp_ep = leat_ep_create(leat_dev_get(0), &conf);
	assert_non_null(tp_ep);
}

int
tp_setup(void **state)
{
	(void)state;
	tp_open(4, 64);
	assert_int_equal(tp_connect(16, 8, 4), 0);
	assert_int_equal(tp_connect(16, 8, 4), 1);
	return 0;
}

int
tp_teardown(void **state)
{
	(void)state;
	assert_int_equal(leat_ep_close(tp_ep, 0, NULL, NULL) == 0 || mock.nb_abort > 0, 1);
	assert_int_equal(mock_nb_eps, 0);
	return 0;
}

uint16_t
tp_connect(uint8_t msg, uint8_t data, uint8_t reply)
{
	struct tags_hello hello = { .window = { msg, data, reply },
				    .segment = TP_SEGMENT,
				    .token = TP_TOKEN },
			  ours;
	int id = leat_ep_connect(tp_ep, "there:1", NULL);
	uint8_t buf[TAGS_HELLO_LEN];

	assert_in_range(id, 0, TP_PEERS - 1);
	assert_null(tags_hello_parse(mock.priv, mock.priv_len, &ours));
	token[id] = ours.token;
	tags_hello_build(buf, &hello);
	leat_peer_up(mock.ep, &mock.ep->peers[id], buf, sizeof(buf));
	tp_event(LEAT_EV_CONNECTED, (uint16_t)id);
	seq[id] = TAGS_START;
	return (uint16_t)id;
}

/* @return the index of the inner endpoint's oldest receive */
static unsigned int
recv_find(void)
{
	unsigned int i;

	for (i = 0; i < mock.nb_ops && mock.ops[i]->type != LEAT_OP_RECV; i++)
		;
	assert_true(i < mock.nb_ops);
	return i;
}

void
tp_arrive_raw(uint16_t peer, const void *bytes, uint32_t n)
{
	unsigned int i = recv_find();
	struct leat_op *op = mock.ops[i];

	op->src = peer;
	assert_true(n <= op->size);
	if (n > 0)
		memcpy(op->buf, bytes, n);
	mock_finish(mock.ep, i, 0, n);
}

void
tp_arrive(uint16_t peer, struct tags_hdr *h, const void *bytes, uint32_t n)
{
	tp_arrive_as(peer, token[peer], h, bytes, n);
}

void
tp_arrive_as(uint16_t peer, uint64_t as, struct tags_hdr *h, const void *bytes, uint32_t n)
{
	uint8_t buf[TAGS_HDR_MAX + TP_SEGMENT];
	uint32_t hdr_len = tags_hdr_len(h->flags);
	struct tags_hdr out = *h;
	unsigned int c;

	h->seq = seq[peer];
	if (as == token[peer])
		seq[peer]++;
	out.seq = h->seq;
	out.token = as;
	for (c = 0; c < TAGS_CLASSES; c++)
		out.done[c] = (uint16_t)(TAGS_START + h->done[c]);
	tags_hdr_build(buf, &out);
	if (n > 0)
		memcpy(buf + hdr_len, bytes, n);
	tp_arrive_raw(peer, buf, hdr_len + n);
}

void
tp_known(uint16_t peer, const uint8_t *hello)
{
	struct tags_hello h;

	assert_null(tags_hello_parse(hello, LEAT_EP_PRIV_MAX, &h));
	token[peer] = h.token;
	seq[peer] = TAGS_START;
}

uint64_t
tp_token(uint16_t peer)
{
	return token[peer];
}

void
tp_message(uint16_t peer, uint64_t tag, const char *text)
{
	struct tags_hdr h = {
		.kind = TAGS_EAGER, .flags = TAGS_F_TAGGED, .tag = tag, .total = strlen(text) + 1
	};

	tp_arrive(peer, &h, text, (uint32_t)h.total);
}

void
tp_notice(uint16_t peer, uint64_t imm)
{
	unsigned int i = recv_find();
	struct leat_op *op = mock.ops[i];

	op->src = peer;
	op->oflags = LEAT_OP_F_IMM | LEAT_OP_F_WRITTEN;
	op->imm = imm;
	mock_finish(mock.ep, i, 0, 5);
}

bool
tp_sent(uint16_t peer, struct tags_hdr *h, uint8_t *bytes, uint32_t *n)
{
	unsigned int i;

	for (i = 0; i < mock.nb_ops; i++) {
		struct leat_op *op = mock.ops[i];
		uint32_t hdr_len;
		unsigned int c;

		if (op->type != LEAT_OP_SEND || op->peer != peer)
			continue;
		assert_null(tags_hdr_parse(op->buf, op->size, h));
		assert_int_equal(h->token, TP_TOKEN);
		hdr_len = tags_hdr_len(h->flags);
		h->seq = (uint16_t)(h->seq - TAGS_START);
		for (c = 0; c < TAGS_CLASSES; c++)
			h->done[c] = (uint16_t)(h->done[c] - TAGS_START);
		if (n != NULL)
			*n = (uint32_t)(op->size - hdr_len);
		if (bytes != NULL)
			memcpy(bytes, (uint8_t *)op->buf + hdr_len, op->size - hdr_len);
		mock_finish(mock.ep, i, 0, op->size);
		return true;
	}
	return false;
}

unsigned int
tp_sends(void)
{
	unsigned int i, n = 0;

	for (i = 0; i < mock.nb_ops; i++)
		n += mock.ops[i]->type == LEAT_OP_SEND;
	return n;
}

void
tp_leave(uint16_t peer)
{
	struct tags_hdr h = { .kind = 0 };

	assert_int_equal(leat_ep_disconnect(tp_ep, peer), 0);
	while (h.kind != TAGS_BYE)
		assert_true(tp_sent(peer, &h, NULL, NULL));
	tp_bye(peer);
}

void
tp_bye(uint16_t peer)
{
	struct tags_hdr bye = { .kind = TAGS_BYE };

	tp_arrive(peer, &bye, NULL, 0);
}

void
tp_post(struct leat_op *op)
{
	assert_int_equal(leat_ep_post(tp_ep, &op, 1), 1);
}

struct leat_op *
tp_poll(void)
{
	struct leat_op *op = NULL;
	unsigned int k;

	/* Ops that were finished outside of a poll come with the next poll. */
	for (k = 0; k < 3; k++)
		if (leat_ep_poll(tp_ep, &op, 1) == 1)
			return op;
	return NULL;
}

struct leat_event
tp_event(enum leat_event_type type, uint16_t peer)
{
	struct leat_event ev[4];
	unsigned int k, n = 0;

	for (k = 0; k < 3 && n == 0; k++)
		n = leat_ep_events(tp_ep, ev, RTE_DIM(ev));
	assert_int_equal(n, 1);
	assert_int_equal(ev[0].type, type);
	assert_int_equal(ev[0].peer, peer);
	return ev[0];
}
