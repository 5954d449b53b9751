/* SPDX-License-Identifier: BSD-3-Clause */

#include "stream_raw.h"

#include <stdlib.h>
#include <string.h>

#include <leat_error.h>

#include "stream_pair.h"

static void
on_event(struct raw *raw, const struct leat_event *ev)
{
	if (ev->type == LEAT_EV_CONNECTED)
		raw->up = true;
	if (ev->type == LEAT_EV_DISCONNECTED || ev->type == LEAT_EV_CONNECT_FAILED) {
		raw->down = true;
		raw->status = ev->status;
	}
}

static void
on_recv(struct raw *raw, struct leat_op *op)
{
	if (op->status == 0 && (op->oflags & LEAT_OP_F_WRITTEN) != 0) {
		raw->notices++;
		raw->announced += op->imm;
	} else if (op->status == 0) {
		assert_int_equal(op->len, STREAM_CTRL_LEN);
		assert_true(raw->nb_got < RAW_MESSAGES);
		stream_wire_decode(&raw->got[raw->nb_got++], op->buf, true);
	}
	if (op->status == 0 && raw->repost)
		assert_int_equal(leat_ep_post(raw->ep, &op, 1), 1);
}

void
raw_turn(struct raw *raw)
{
	struct leat_event ev[4];
	struct leat_op *ops[16];
	uint16_t i, n;

	n = leat_ep_poll(raw->ep, ops, 16);
	for (i = 0; i < n; i++) {
		if (ops[i]->type == LEAT_OP_RECV)
			on_recv(raw, ops[i]);
		else
			*(bool *)ops[i]->user = true;
	}
	n = leat_ep_events(raw->ep, ev, 4);
	for (i = 0; i < n; i++)
		on_event(raw, &ev[i]);
}

void
raw_open(struct raw *raw)
{
	const struct leat_ep_conf conf = {
		.ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV) |
		       LEAT_OP_BIT(LEAT_OP_WRITE) | LEAT_OP_BIT(LEAT_OP_WRITE_IMM),
	};
	unsigned int i;

	memset(raw, 0, sizeof(*raw));
	raw->repost = true;
	raw->ep = leat_ep_create(leat_dev_by_name(PAIR_RING), &conf);
	assert_non_null(raw->ep);
	raw->window = calloc(1, RAW_WINDOW);
	assert_non_null(raw->window);
	raw->mr = leat_mr_register(raw->ep, raw->window, RAW_WINDOW,
				   LEAT_MR_LOCAL | LEAT_MR_REMOTE_WRITE);
	assert_non_null(raw->mr);
	assert_int_equal(leat_mr_rkey(raw->mr, raw->window, RAW_WINDOW, &raw->key), 0);
	for (i = 0; i < RAW_MESSAGES; i++) {
		struct leat_op *op = &raw->recvs[i];

		op->type = LEAT_OP_RECV;
		op->peer = LEAT_PEER_ANY;
		op->buf = raw->bufs[i];
		op->size = sizeof(raw->bufs[i]);
		assert_int_equal(leat_ep_post(raw->ep, &op, 1), 1);
	}
	raw->peer = leat_ep_connect(raw->ep, pair.addr, NULL);
	assert_true(raw->peer >= 0);
	raw_until(raw, raw->up);
}

void
raw_close(struct raw *raw)
{
	raw->repost = false;
	if (!raw->down && leat_ep_disconnect(raw->ep, (uint16_t)raw->peer) == 0)
		raw_until(raw, raw->down);
	(void)leat_ep_close(raw->ep, 1000000, NULL, NULL);
	free(raw->window);
}

/* Post an op, and wait until it is back. */
static int
run(struct raw *raw, struct leat_op *op)
{
	op->peer = (uint16_t)raw->peer;
	op->user = &raw->back;
	raw->back = false;
	assert_int_equal(leat_ep_post(raw->ep, &op, 1), 1);
	raw_until(raw, raw->back);
	return op->status;
}

void
raw_bytes(struct raw *raw, const void *bytes, size_t len)
{
	struct leat_op op = { .type = LEAT_OP_SEND, .buf = (void *)(uintptr_t)bytes, .size = len };

	/* The op may fail, since the other side may have ended the connection already. */
	(void)run(raw, &op);
}

void
raw_ctrl(struct raw *raw, const struct stream_ctrl *m)
{
	uint8_t bytes[STREAM_CTRL_LEN];

	stream_wire_encode(bytes, m, true);
	raw_bytes(raw, bytes, sizeof(bytes));
}

void
raw_register(struct raw *raw, uint64_t offset, uint32_t len)
{
	const struct stream_ctrl m = {
		.opcode = STREAM_OP_MEMORY,
		.addr = raw->key.addr + offset,
		.length = len,
		.key = raw->key.key,
	};

	raw_ctrl(raw, &m);
}

const struct stream_ctrl *
raw_memory(const struct raw *raw, unsigned int nth)
{
	unsigned int i;

	for (i = 0; i < raw->nb_got; i++) {
		if (raw->got[i].opcode == STREAM_OP_MEMORY && nth-- == 0)
			return &raw->got[i];
	}
	return NULL;
}

int
raw_write(struct raw *raw, unsigned int nth, uint64_t offset, const void *buf, size_t len,
	  uint64_t imm)
{
	const struct stream_ctrl *m;
	struct leat_op op = {
		.type = LEAT_OP_WRITE_IMM,
		.buf = (void *)(uintptr_t)buf,
		.size = len,
		.imm = imm,
	};

	raw_until(raw, (m = raw_memory(raw, nth)) != NULL);
	op.raddr = m->addr + offset;
	op.rkey = m->key;
	return run(raw, &op);
}
