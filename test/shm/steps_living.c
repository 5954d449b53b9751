/* SPDX-License-Identifier: BSD-3-Clause */

/* The survivor and the bystander: see steps.h. */

#include <errno.h>
#include <poll.h>

#include <rte_common.h>
#include <rte_errno.h>
#include <rte_malloc.h>

#include <leat_error.h>

#include "leat_cmocka.h"
#include "steps_message.h"
#include "steps_share.h"

/* Maximum number of messages that an endpoint has sent and the other has not yet received. */
#define AHEAD 32
/* Turns between two reads of the events. */
#define TURNS 4

/* Allocate EAL memory, which peers access directly with share=1. */
static void *
memory(size_t size)
{
	void *mem = rte_zmalloc(NULL, size, LEAT_CACHE_LINE);

	CHECK(mem != NULL, "out of EAL's memory");
	return mem;
}

/* ---- ops ---- */

static void
post_recv(struct steps_node *n, struct leat_op *op)
{
	*op = (struct leat_op){ .type = LEAT_OP_RECV,
				.peer = LEAT_PEER_ANY,
				.buf = n->recv_buf + (size_t)(op - n->recv) * STEPS_MEMORY,
				.size = STEPS_MEMORY,
				.queue = LEAT_QUEUE_NONE };
	/* One receive is for tagged messages. */
	if (op == n->recv) {
		op->type = LEAT_OP_TRECV;
		op->ignore = UINT64_MAX;
	}
	CHECK(leat_ep_post(n->ep, &op, 1) == 1, "receive: %s", leat_err_msg());
}

/* Post an op. @return whether it was accepted */
static bool
post(struct steps_node *n, struct leat_op *op)
{
	if (leat_ep_post(n->ep, &op, 1) == 1)
		return true;
	CHECK(rte_errno == EAGAIN, "post: %s", leat_err_msg());
	memset(op, 0, sizeof(*op));
	return false;
}

/*
 * Choose a size: mostly a small one, sometimes one that travels through the lane's buffer, rarely
 * one in chunks.
 */
static uint64_t
random_size(struct steps_node *n)
{
	const uint64_t r = test_random(&n->random);

	if ((r & 0x3f00) == 0)
		return steps_bytes(STEPS_LARGE, 0);
	if ((r & 0x0f00) == 0)
		return steps_bytes(STEPS_BUFFER, 0);
	return sizeof(struct steps_message) + r % 600;
}

static void
post_send(struct steps_node *n, struct leat_op *op)
{
	uint8_t *buf = n->send_buf + (size_t)(op - n->send) * STEPS_MEMORY;
	const uint64_t size = random_size(n);

	steps_message_fill(buf, size, n->role, n->sent);
	*op = (struct leat_op){ .type = LEAT_OP_SEND,
				.peer = n->peer,
				.buf = buf,
				.size = size,
				.queue = LEAT_QUEUE_NONE };
	n->sent += post(n, op);
}

/* Post in turn: a WRITE, a READ of the same bytes, a FETCH_ADD. */
static void
post_onesided(struct steps_node *n)
{
	struct leat_op *op = &n->onesided;

	*op = (struct leat_op){ .peer = n->peer,
				.buf = n->onesided_buf,
				.size = n->written,
				.raddr = n->theirs.addr + STEPS_DATA,
				.rkey = n->theirs.key,
				.queue = LEAT_QUEUE_NONE };
	switch (n->step % 3) {
	case 0:
		op->type = LEAT_OP_WRITE;
		op->size = n->written = random_size(n);
		n->pattern = test_random(&n->random);
		steps_fill(n->onesided_buf, op->size, n->pattern);
		break;
	case 1:
		op->type = LEAT_OP_READ;
		memset(n->onesided_buf, 0, op->size);
		break;
	default:
		op->type = LEAT_OP_FETCH_ADD;
		op->size = sizeof(uint64_t);
		op->raddr = n->theirs.addr;
		op->operand = STEPS_ADDEND;
		break;
	}
	(void)post(n, op);
}

static void
on_onesided(struct steps_node *n, const struct leat_op *op)
{
	uint64_t old;

	CHECK(op->status == 0, "the bystander's %s: %s", leat_op_type_name(op->type),
	      strerror(-op->status));
	if (op->type == LEAT_OP_READ) {
		CHECK(steps_same(op->buf, op->size, n->pattern) == op->size,
		      "torn: the bystander's read of %" PRIu64 " B", op->size);
	} else if (op->type == LEAT_OP_FETCH_ADD) {
		memcpy(&old, op->buf, sizeof(old));
		CHECK(old == n->counter, "lost or doubled: counter %" PRIu64 ", not %" PRIu64, old,
		      n->counter);
		n->counter += STEPS_ADDEND;
	}
	n->step++;
	n->done++;
}

static void
on_living_message(struct steps_node *n, const struct leat_op *op)
{
	const enum steps_role from = n->role == STEPS_SURVIVOR ? STEPS_BYSTANDER : STEPS_SURVIVOR;
	uint64_t nr = steps_message_check(op->buf, op->len, from);

	CHECK(nr - n->next < 2 * AHEAD, "lost: message %" PRIu64 " comes, %" PRIu64 " was to", nr,
	      n->next);
	CHECK((n->seen >> (nr - n->next) & 1) == 0, "doubled: message %" PRIu64, nr);
	n->seen |= UINT64_C(1) << (nr - n->next);
	while ((n->seen & 1) != 0) {
		n->seen >>= 1;
		n->next++;
	}
}

/*
 * May a message of the victim come now? The victim is a peer, or was one when the events were read
 * last.
 */
static bool
heard(const struct steps_living *l)
{
	return l->v.state != STEPS_NONE || (l->v.ends > 0 && l->turns <= l->v.ended + 1);
}

/* The victim's messages must come in the order in which it sent them. */
static void
on_victim_message(struct steps_peer *v, const struct leat_op *op)
{
	uint64_t nr;

	CHECK(op->src == v->id, "a message of peer %u", op->src);
	if ((op->oflags & LEAT_OP_F_WRITTEN) != 0) {
		CHECK(op->imm == STEPS_IMM, "torn: immediate %#" PRIx64, op->imm);
		v->imms++;
		return;
	}
	nr = steps_message_check(op->buf, op->len, STEPS_VICTIM);
	CHECK(nr == v->received, "%s: message %" PRIu64 " of the victim, after %" PRIu64,
	      nr < v->received ? "doubled" : "lost", nr, v->received);
	v->received++;
	v->bytes = op->len;
}

static void
on_recv(struct steps_living *l, struct steps_node *n, struct leat_op *op)
{
	if (l->closing)
		return;
	if (op->status == 0 && n->up && op->src == n->peer) {
		on_living_message(n, op);
	} else if (op->status != 0) {
		CHECK(n == &l->s && heard(l), "receive: %s", strerror(-op->status));
		l->v.broken++;
	} else {
		CHECK(n == &l->s && heard(l), "a message of peer %u, which is gone", op->src);
		on_victim_message(&l->v, op);
	}
	post_recv(n, op);
}

static void
on_victim_op(struct steps_peer *v, const struct leat_op *op)
{
	const size_t i = (size_t)(op - v->op);

	CHECK(v->out[i], "doubled: %s to the victim came back twice", leat_op_type_name(op->type));
	CHECK(op->status == 0 || op->status == -ECONNRESET || op->status == -ECONNABORTED,
	      "%s to the victim: %s", leat_op_type_name(op->type), strerror(-op->status));
	v->out[i] = false;
	v->result[i] = op->status;
}

static void
on_done(struct steps_living *l, struct steps_node *n, struct leat_op *op)
{
	if (op >= n->recv && op < n->recv + RTE_DIM(n->recv))
		on_recv(l, n, op);
	else if (op >= l->v.op && op < l->v.op + STEPS_BURST)
		on_victim_op(&l->v, op);
	else if (op == &n->onesided)
		on_onesided(n, op);
	else
		CHECK(op->status == 0, "send: %s", strerror(-op->status));
}

void
steps_post(struct steps_living *l, unsigned int i)
{
	l->v.out[i] = true;
	CHECK(post(&l->s, &l->v.op[i]), "no room for an op to the victim");
}

/* ---- events ---- */

static void
up(struct steps_living *l, struct steps_node *n, const struct leat_event *ev)
{
	struct steps_hello h = { 0 };

	if (ev->priv_len == sizeof(h))
		memcpy(&h, ev->priv, sizeof(h));
	if (n == &l->s && l->v.state != STEPS_NONE && ev->peer == l->v.id) {
		if (h.role == STEPS_VICTIM)
			l->v.key = h.key;
		l->v.state = STEPS_UP;
		l->v.ups++;
		return;
	}
	if (ev->priv_len == sizeof(h))
		n->theirs = h.key;
	n->peer = ev->peer;
	n->up = true;
}

static void
request(struct steps_living *l, const struct leat_event *ev)
{
	struct steps_hello mine = { .role = STEPS_SURVIVOR }, h;
	const struct leat_conn_params params = { .priv = &mine, .priv_len = sizeof(mine) };

	CHECK(ev->priv_len == sizeof(h), "a request with %u bytes", ev->priv_len);
	memcpy(&h, ev->priv, sizeof(h));
	if (h.role == STEPS_VICTIM) {
		CHECK(l->v.state == STEPS_NONE, "two victims");
		l->v.state = STEPS_ASKED;
		l->v.id = ev->peer;
		l->v.key = h.key;
		mine.key = l->key;
	} else {
		CHECK(!l->s.up, "two bystanders");
		l->s.theirs = h.key;
		mine.key = l->s.mine;
	}
	if (leat_ep_accept(l->s.ep, ev->peer, &params) < 0)
		CHECK(h.role == STEPS_VICTIM && rte_errno == ENOTCONN, "accept: %s",
		      leat_err_msg());
}

static void
on_event(struct steps_living *l, struct steps_node *n, const struct leat_event *ev)
{
	switch (ev->type) {
	case LEAT_EV_CONNECT_REQ:
		CHECK(n == &l->s, "a request to the bystander");
		request(l, ev);
		break;
	case LEAT_EV_CONNECTED:
		up(l, n, ev);
		break;
	case LEAT_EV_DISCONNECTED:
	case LEAT_EV_CONNECT_FAILED:
		if (l->closing)
			break;
		CHECK(n == &l->s && l->v.state != STEPS_NONE && ev->peer == l->v.id,
		      "the bystander's connection ended: %s", ev->text);
		CHECK(ev->type == LEAT_EV_CONNECT_FAILED || ev->status == 0 ||
			      ev->status == -ECONNRESET || ev->status == -ECONNABORTED,
		      "the victim's connection ended: %s (%s)", strerror(-ev->status), ev->text);
		l->v.state = STEPS_NONE;
		l->v.status = ev->status;
		l->v.ended = l->turns;
		if (ev->type == LEAT_EV_CONNECT_FAILED)
			l->v.failed++;
		else
			l->v.ends++;
		break;
	default:
		l->shut = true;
		break;
	}
}

/* ---- the loop ---- */

static void
talk(struct steps_node *n, const struct steps_node *other)
{
	unsigned int i;

	if (!n->up || !other->up)
		return;
	for (i = 0; i < RTE_DIM(n->send); i++) {
		if (n->send[i].state == LEAT_OP_IDLE && n->sent - other->next < AHEAD)
			post_send(n, &n->send[i]);
	}
	if (n->onesided.state == LEAT_OP_IDLE)
		post_onesided(n);
}

static void
turn(struct steps_living *l, struct steps_node *n, bool events)
{
	struct leat_op *done[16];
	struct leat_event ev;
	uint16_t i, nb = leat_ep_poll(n->ep, done, RTE_DIM(done));

	for (i = 0; i < nb; i++)
		on_done(l, n, done[i]);
	while (events && leat_ep_events(n->ep, &ev, 1) == 1)
		on_event(l, n, &ev);
}

void
steps_turn(struct steps_living *l, bool events)
{
	events = events || l->turns++ % TURNS == 0;
	turn(l, &l->s, events);
	turn(l, &l->b, events);
	if (l->closing)
		return;
	talk(&l->s, &l->b);
	talk(&l->b, &l->s);
}

void
steps_bystander_moves(struct steps_living *l, uint64_t messages)
{
	const uint64_t s = l->s.next + messages, b = l->b.next + messages, done = l->b.done;

	STEPS_UNTIL(steps_turn(l, false), l->s.next >= s && l->b.next >= b && l->b.done > done,
		    "the bystander's connection stands still");
}

static bool
quiet(const struct steps_node *n)
{
	unsigned int i;

	for (i = 0; i < RTE_DIM(n->send); i++) {
		if (n->send[i].state != LEAT_OP_IDLE)
			return false;
	}
	return n->onesided.state == LEAT_OP_IDLE;
}

/* @return whether the endpoint is armed, with nothing to do */
static bool
armed(struct steps_living *l)
{
	int ret;

	turn(l, &l->s, true);
	turn(l, &l->b, true);
	if (!quiet(&l->s) || !quiet(&l->b) || l->s.next < l->b.sent || l->b.next < l->s.sent)
		return false;
	ret = leat_ep_arm(l->s.ep);
	CHECK(ret == 0 || ret == -EAGAIN, "arm: %s", strerror(-ret));
	if (ret == 0 && !steps_woken(l, 0))
		return true;
	leat_ep_disarm(l->s.ep);
	return false;
}

void
steps_sleep(struct steps_living *l)
{
	bool asleep = false;

	STEPS_UNTIL(asleep = armed(l), asleep, "the survivor does not come to sleep");
	l->asleep = true;
}

bool
steps_woken(const struct steps_living *l, int ms)
{
	struct pollfd p = { .fd = leat_ep_fd(l->s.ep), .events = POLLIN };
	int ret = poll(&p, 1, ms);

	CHECK(ret >= 0, "poll: %s", strerror(errno));
	return ret > 0;
}

void
steps_wake(struct steps_living *l)
{
	leat_ep_disarm(l->s.ep);
	l->asleep = false;
}

void
steps_peer_reset(struct steps_living *l)
{
	const uint64_t counter = STEPS_COUNTER;
	uint8_t *buf = l->v.buf;

	CHECK(steps_peer_gone(l), "a victim is still there");
	memset(&l->v, 0, sizeof(l->v));
	l->v.buf = buf;
	steps_fill(l->memory + STEPS_DATA, STEPS_MEMORY - STEPS_DATA, STEPS_OLD);
	memcpy(l->memory, &counter, sizeof(counter));
	steps_share_reset(l);
}

bool
steps_peer_gone(const struct steps_living *l)
{
	unsigned int i;

	for (i = 0; i < STEPS_BURST; i++) {
		if (l->v.out[i])
			return false;
	}
	return l->v.state == STEPS_NONE;
}

/* ---- open and close ---- */

struct leat_mr *
steps_region(struct leat_ep *ep, uint8_t *mem, struct leat_rkey *key)
{
	struct leat_mr *mr = leat_mr_register(ep, mem, STEPS_MEMORY, LEAT_MR_REMOTE_ALL);

	CHECK(mr != NULL && leat_mr_rkey(mr, mem, STEPS_MEMORY, key) == 0, "region: %s",
	      leat_err_msg());
	return mr;
}

bool
steps_can_wait(struct leat_dev *dev)
{
	struct leat_dev_info info;

	CHECK(leat_dev_info_get(dev, &info) == 0, "%s", leat_err_msg());
	return info.wait;
}

static void
open_node(struct steps_node *n, enum steps_role role, struct leat_dev *dev, uint64_t seed)
{
	const struct leat_ep_conf conf = {
		.ops = LEAT_OP_MASK_ALL,
		.max_peers = STEPS_PEERS,
		.wait = role == STEPS_SURVIVOR && steps_can_wait(dev),
	};
	unsigned int i;

	n->role = role;
	n->random = seed | 1;
	n->memory = memory(STEPS_MEMORY);
	n->recv_buf = memory(RTE_DIM(n->recv) * (size_t)STEPS_MEMORY);
	n->send_buf = memory(RTE_DIM(n->send) * (size_t)STEPS_MEMORY);
	n->onesided_buf = memory(STEPS_MEMORY);
	n->ep = leat_ep_create(dev, &conf);
	CHECK(n->ep != NULL, "endpoint: %s", leat_err_msg());
	n->mr = steps_region(n->ep, n->memory, &n->mine);
	for (i = 0; i < RTE_DIM(n->recv); i++)
		post_recv(n, &n->recv[i]);
}

void
steps_living_open(struct steps_living *l, struct leat_dev *dev, uint64_t seed)
{
	struct steps_hello h = { .role = STEPS_BYSTANDER };
	const struct leat_conn_params params = { .priv = &h, .priv_len = sizeof(h) };

	memset(l, 0, sizeof(*l));
	open_node(&l->s, STEPS_SURVIVOR, dev, seed);
	open_node(&l->b, STEPS_BYSTANDER, dev, seed * 3);
	l->memory = memory(STEPS_MEMORY);
	l->mr = steps_region(l->s.ep, l->memory, &l->key);
	l->v.buf = memory(STEPS_MEMORY);
	CHECK(leat_ep_listen(l->s.ep, "127.0.0.1:0") == 0 &&
		      leat_ep_listen_addr(l->s.ep, l->addr, sizeof(l->addr)) == 0,
	      "listen: %s", leat_err_msg());
	h.key = l->b.mine;
	CHECK(leat_ep_connect(l->b.ep, l->addr, &params) >= 0, "connect: %s", leat_err_msg());
	STEPS_UNTIL(steps_turn(l, true), l->s.up && l->b.up, "no bystander");
}

static void
close_node(struct steps_node *n)
{
	struct leat_op *done[16];

	CHECK(leat_mr_deregister(n->mr) == 0, "deregister: %s", leat_err_msg());
	STEPS_UNTIL((void)leat_ep_poll(n->ep, done, RTE_DIM(done)), leat_ep_destroy(n->ep) == 0,
		    "destroy: %s", leat_err_msg());
	rte_free(n->memory);
	rte_free(n->recv_buf);
	rte_free(n->send_buf);
	rte_free(n->onesided_buf);
}

void
steps_living_close(struct steps_living *l)
{
	struct steps_node *both[] = { &l->s, &l->b };
	unsigned int i;

	l->closing = true;
	for (i = 0; i < RTE_DIM(both); i++) {
		l->shut = false;
		CHECK(leat_ep_shutdown(both[i]->ep, 1000000) == 0, "shutdown: %s", leat_err_msg());
		STEPS_UNTIL(steps_turn(l, true), l->shut, "no shutdown");
	}
	if (l->mr != NULL)
		CHECK(leat_mr_deregister(l->mr) == 0, "deregister: %s", leat_err_msg());
	close_node(&l->s);
	close_node(&l->b);
	rte_free(l->memory);
	rte_free(l->v.buf);
}
