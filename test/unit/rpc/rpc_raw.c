/* SPDX-License-Identifier: BSD-3-Clause */

#include "rpc_raw.h"

#include <string.h>

struct raw raw;

static uint32_t
head_len(void)
{
	return RPC_HEAD_LEN + (raw.datagram ? RPC_NUMBERS_LEN : 0);
}

/* Accept b, which connects: see raw_listen(). */
static void
raw_accept(const struct leat_event *ev)
{
	const struct rpc_hello h = raw_hello();
	uint8_t buf[RPC_HELLO_LEN];
	const struct leat_conn_params params = { .priv = buf, .priv_len = sizeof(buf) };

	rpc_hello_put(buf, &h);
	assert_null(rpc_hello_get(ev->priv, ev->priv_len, &raw.hello));
	assert_int_equal(leat_ep_accept(raw.ep, ev->peer, &params), 0);
	raw.peer = ev->peer;
	raw.accepted = true;
	raw.up = raw.down = false;
}

void
raw_drive(void)
{
	struct leat_op *ops[16], *op;
	struct leat_event ev;
	uint16_t i, n;

	n = leat_ep_poll(raw.ep, ops, 16);
	for (i = 0; i < n; i++) {
		op = ops[i];
		if (op->type != LEAT_OP_RECV || op->status != 0)
			continue;
		memcpy(raw.last, op->buf, op->len);
		raw.last_len = op->len;
		raw.packets++;
		assert_int_equal(leat_ep_post(raw.ep, &op, 1), 1);
	}
	while (leat_ep_events(raw.ep, &ev, 1) == 1) {
		if (ev.type == LEAT_EV_CONNECT_REQ) {
			raw_accept(&ev);
		} else if (ev.type == LEAT_EV_CONNECTED) {
			raw.up = true;
			if (!raw.accepted)
				assert_null(rpc_hello_get(ev.priv, ev.priv_len, &raw.hello));
		} else {
			raw.down = true;
		}
	}
}

void
raw_connect(const uint8_t *hello, uint16_t len)
{
	const struct leat_conn_params params = { .priv = hello, .priv_len = len };
	int ret = leat_ep_connect(raw.ep, addr, &params);

	assert_true(ret >= 0);
	raw.peer = (uint16_t)ret;
	raw.accepted = raw.up = raw.down = false;
}

void
raw_listen(char *at, size_t len)
{
	assert_int_equal(leat_ep_listen(raw.ep, "raw:0"), 0);
	assert_int_equal(leat_ep_listen_addr(raw.ep, at, len), 0);
}

struct rpc_hello
raw_hello(void)
{
	return (struct rpc_hello){ .version = RPC_VERSION,
				   .slots = RAW_SLOTS,
				   .features = RPC_FEATURES,
				   .token = RAW_TOKEN,
				   .credits = RAW_RECVS,
				   .packet = RAW_PACKET,
				   .max_msg = 1 << 20,
				   .epoch = RAW_EPOCH,
				   .first = RAW_FIRST };
}

void
raw_open(const char *dev)
{
	const struct rpc_hello h = raw_hello();
	struct leat_ep_conf conf = { .name = "raw" };
	const unsigned int before = b.nb_ev[LEAT_RPC_UP];
	uint8_t buf[RPC_HELLO_LEN];
	struct leat_dev_info info;
	struct leat_op *op;
	unsigned int i;

	memset(&raw, 0, sizeof(raw));
	assert_int_equal(leat_dev_info_get(leat_dev_by_name(dev), &info), 0);
	raw.datagram = (info.ep_types & 1u << LEAT_EP_RELIABLE) == 0;
	conf.type = raw.datagram ? LEAT_EP_DATAGRAM : LEAT_EP_RELIABLE;
	raw.ep = leat_ep_create(leat_dev_by_name(dev), &conf);
	assert_non_null(raw.ep);
	for (i = 0; i < RAW_RECVS; i++) {
		raw.recv[i] = (struct leat_op){ .type = LEAT_OP_RECV,
						.peer = LEAT_PEER_ANY,
						.buf = raw.in[i],
						.size = RAW_PACKET };
		op = &raw.recv[i];
		assert_int_equal(leat_ep_post(raw.ep, &op, 1), 1);
	}
	rpc_hello_put(buf, &h);
	raw_connect(buf, sizeof(buf));
	raw_until(raw.up && b.nb_ev[LEAT_RPC_UP] > before);
	raw.at_b = b.accepted;
}

void
raw_close(void)
{
	assert_int_equal(leat_ep_close(raw.ep, 100000, NULL, NULL), 0);
}

/* ---- packets ---- */

void
raw_begin(void)
{
	raw.head = (struct rpc_head){ .token = raw.hello.token,
				      .credit = raw.hello.first + RAW_RECVS,
				      .epoch = raw.hello.epoch,
				      .version = RPC_VERSION };
	if (raw.datagram) {
		raw.head.flags = RPC_H_NUMBERED;
		raw.numbers.ack = raw.hello.first;
		raw.numbers.sack = 0;
		raw.numbers.echo = raw.hello.first - 1;
	}
	raw.len = head_len();
	memset(raw.out, 0, sizeof(raw.out));
}

void
raw_item(struct rpc_item m)
{
	if (m.size == 0)
		m.size = m.len;
	rpc_item_put(raw.out + raw.len, &m);
	raw.len += rpc_item_full_len(&m);
}

void
raw_send(void)
{
	struct leat_op *op = &raw.send;

	rpc_head_put(raw.out, &raw.head);
	if (raw.datagram && raw.len >= head_len())
		rpc_numbers_put(raw.out, &raw.numbers);
	raw_until(raw.send.state == 0);
	raw.send = (struct leat_op){
		.type = LEAT_OP_SEND, .peer = raw.peer, .buf = raw.out, .size = raw.len
	};
	assert_int_equal(leat_ep_post(raw.ep, &op, 1), 1);
}

struct rpc_item
raw_last_item(void)
{
	struct rpc_item m;

	assert_int_equal(rpc_item_get(raw.last + head_len(), raw.last_len - head_len(), &m), 0);
	return m;
}
