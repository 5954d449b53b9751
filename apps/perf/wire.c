/* SPDX-License-Identifier: BSD-3-Clause */

#include <string.h>

#include "../common/cursor.h"
#include "wire.h"

#define MAGIC UINT32_C(0x3163706c) /* "lpc1" */

/* The bits that an op mask may have. */
#define OPS_ALL (LEAT_OP_BIT(LEAT_OP_TYPES) - 1)

static void
put_rkey(struct cursor *c, const struct leat_rkey *k)
{
	put(c, k->addr, 8);
	put(c, k->len, 8);
	put(c, k->key, 8);
}

static void
get_rkey(struct cursor *c, struct leat_rkey *k)
{
	k->addr = get(c, 8);
	k->len = get(c, 8);
	k->key = get(c, 8);
}

static void
put_card(struct cursor *c, const struct perf_card *card)
{
	put(c, card->at.host, 8);
	put(c, card->max_msg, 8);
	put(c, card->ops, 4);
	put(c, card->at.nb_cpus, 4);
	put(c, card->at.cpu, 4);
	put(c, 0, 4);
	put_str(c, card->dev, sizeof(card->dev));
	put_str(c, card->driver, sizeof(card->driver));
	put_str(c, card->provider, sizeof(card->provider));
	put_str(c, card->interface, sizeof(card->interface));
	put_str(c, card->at.cpus, sizeof(card->at.cpus));
}

static int
get_card(struct cursor *c, struct perf_card *card)
{
	card->at.host = get(c, 8);
	card->max_msg = get(c, 8);
	card->ops = (uint32_t)get(c, 4);
	card->at.nb_cpus = (uint32_t)get(c, 4);
	card->at.cpu = (uint32_t)get(c, 4);
	(void)get(c, 4);
	get_str(c, card->dev, sizeof(card->dev));
	get_str(c, card->driver, sizeof(card->driver));
	get_str(c, card->provider, sizeof(card->provider));
	get_str(c, card->interface, sizeof(card->interface));
	get_str(c, card->at.cpus, sizeof(card->at.cpus));
	if (card->at.nb_cpus == 0 || card->at.cpu > UINT16_MAX || (card->ops & ~OPS_ALL) != 0)
		return -EPROTO;
	return 0;
}

static void
put_run(struct cursor *c, const struct wire_msg *m)
{
	put(c, m->run.test, 1);
	put(c, m->run.op, 1);
	put(c, (m->run.check ? WIRE_F_CHECK : 0) | (m->run.open ? WIRE_F_OPEN : 0), 1);
	put(c, 0, 1);
	put(c, m->run.size, 8);
	put(c, m->run.window, 4);
	put(c, 0, 4);
	put(c, m->run.seed, 8);
	put_rkey(c, &m->rkey);
}

static int
get_run(struct cursor *c, struct wire_msg *m)
{
	struct perf_run *r = &m->run;
	uint64_t test = get(c, 1), op = get(c, 1), flags = get(c, 1);

	(void)get(c, 1);
	r->id = m->id;
	r->size = get(c, 8);
	r->window = (uint32_t)get(c, 4);
	(void)get(c, 4);
	r->seed = get(c, 8);
	get_rkey(c, &m->rkey);
	if (test >= PERF_TESTS || op >= LEAT_OP_TYPES || op == LEAT_OP_RECV ||
	    (flags & ~(uint64_t)(WIRE_F_CHECK | WIRE_F_OPEN)) != 0 || r->size > PERF_SIZE_MAX ||
	    r->window == 0 || r->window > PERF_WINDOW_MAX)
		return -EPROTO;
	r->test = (enum perf_test)test;
	r->op = (unsigned int)op;
	r->check = (flags & WIRE_F_CHECK) != 0;
	r->open = (flags & WIRE_F_OPEN) != 0;
	if (op >= LEAT_OP_FETCH_ADD && r->size != 8)
		return -EPROTO;
	return 0;
}

static void
put_result(struct cursor *c, const struct wire_msg *m)
{
	put(c, m->errors.kind, 4);
	put(c, m->count, 8);
	put(c, m->errors.count, 8);
	put(c, m->errors.seq, 8);
	put(c, m->errors.offset, 8);
	put(c, m->errors.expected, 8);
	put(c, m->errors.got, 8);
}

static int
get_result(struct cursor *c, struct wire_msg *m)
{
	m->errors.kind = (uint32_t)get(c, 4);
	m->count = get(c, 8);
	m->errors.count = get(c, 8);
	m->errors.seq = get(c, 8);
	m->errors.offset = get(c, 8);
	m->errors.expected = get(c, 8);
	m->errors.got = get(c, 8);
	return m->errors.kind < PERF_ERR_KINDS ? 0 : -EPROTO;
}

void
wire_encode(const struct wire_msg *m, void *buf, uint32_t len)
{
	struct cursor c = { .p = buf, .left = len };

	memset(buf, 0, len);
	put(&c, MAGIC, 4);
	put(&c, WIRE_VERSION, 2);
	put(&c, m->type, 2);
	put(&c, m->id, 4);
	switch (m->type) {
	case WIRE_HELLO:
		put_card(&c, &m->card);
		break;
	case WIRE_RUN:
		put_run(&c, m);
		break;
	case WIRE_READY:
		put(&c, 0, 4);
		put_rkey(&c, &m->rkey);
		break;
	case WIRE_REFUSED:
		put(&c, (uint32_t)m->err, 4);
		put_str(&c, m->text, WIRE_TEXT);
		break;
	case WIRE_SYNC:
		put(&c, 0, 4);
		put(&c, m->count, 8);
		break;
	case WIRE_RESULT:
		put_result(&c, m);
		break;
	case WIRE_BYE:
		break;
	}
}

int
wire_decode(const void *buf, uint64_t len, struct wire_msg *m)
{
	struct cursor c = cursor_of(buf, len);
	uint64_t magic, version, type;
	int ret = 0;

	memset(m, 0, sizeof(*m));
	if (len != WIRE_LEN && len != WIRE_LEN_ALT)
		return -EPROTO;
	magic = get(&c, 4);
	version = get(&c, 2);
	type = get(&c, 2);
	m->id = (uint32_t)get(&c, 4);
	if (magic != MAGIC)
		return -EPROTO;
	if (version != WIRE_VERSION)
		return -EPROTONOSUPPORT;
	if (type < WIRE_HELLO || type > WIRE_BYE)
		return -EPROTO;
	m->type = (enum wire_type)type;
	switch (m->type) {
	case WIRE_HELLO:
		ret = get_card(&c, &m->card);
		break;
	case WIRE_RUN:
		ret = get_run(&c, m);
		break;
	case WIRE_READY:
		(void)get(&c, 4);
		get_rkey(&c, &m->rkey);
		break;
	case WIRE_REFUSED:
		m->err = (int)(get(&c, 4) & 0xfff);
		get_str(&c, m->text, WIRE_TEXT);
		break;
	case WIRE_SYNC:
		(void)get(&c, 4);
		m->count = get(&c, 8);
		break;
	case WIRE_RESULT:
		ret = get_result(&c, m);
		break;
	case WIRE_BYE:
		break;
	}
	return ret < 0 || c.over ? -EPROTO : 0;
}
