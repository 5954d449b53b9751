/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <rte_common.h>
#include <rte_malloc.h>
#include <rte_errno.h>

#include <leat_error.h>

#include "leat_cmocka.h"
#include "honest.h"
#include "intruder.h"

#define MAGIC UINT64_C(0x6c656174686f6e65)
/* Bytes beside the memory that the intruder may write: they must stay unchanged. */
#define FENCE 4096
#define FENCE_BYTE 0xa5
/* What a buffer holds when its receive is posted. No message begins with it. */
#define UNFILLED UINT64_C(0x6c65617420756e66)

struct message {
	uint64_t magic, nr, size;
};

/* ---- bytes ---- */

static void
fill(uint8_t *buf, size_t size, uint64_t nr)
{
	size_t i;

	for (i = 0; i < size; i++)
		buf[i] = (uint8_t)(nr * 31 + i * 7 + (i >> 8));
}

static void
check_bytes(const uint8_t *buf, size_t from, size_t size, uint64_t nr, const char *what)
{
	size_t i;

	for (i = from; i < size; i++)
		CHECK(buf[i] == (uint8_t)(nr * 31 + i * 7 + (i >> 8)),
		      "%s %" PRIu64 " of %zu B: byte %zu is wrong", what, nr, size, i);
}

static void *
bytes(size_t size)
{
	/* Allocate exactly this size: a sanitizer then sees a write after its end. */
	void *mem = malloc(size > 0 ? size : 1);

	CHECK(mem != NULL, "out of memory");
	return mem;
}

static void
mark_unfilled(uint8_t *buf, size_t size)
{
	const uint64_t unfilled = UNFILLED;

	if (size >= sizeof(unfilled))
		memcpy(buf, &unfilled, sizeof(unfilled));
}

/* ---- receives ---- */

static void
post_recv(struct honest *h, unsigned int i)
{
	const bool tagged = i >= HONEST_RECVS;
	struct leat_op *op = &h->recv[i];

	mark_unfilled(h->recv_buf[i], HONEST_SLICE);
	*op = (struct leat_op){ .type = tagged ? LEAT_OP_TRECV : LEAT_OP_RECV,
				.peer = LEAT_PEER_ANY,
				.buf = h->recv_buf[i],
				.size = HONEST_SLICE,
				.ignore = tagged ? UINT64_MAX : 0,
				.queue = h->queued ? NULL : LEAT_QUEUE_NONE };
	CHECK(leat_ep_post(h->ep, &op, 1) == 1, "receive: %s", leat_err_msg());
}

/* Check that the intruder's message, whatever it holds, was written to the receive's buffer. */
static void
on_intruder(struct honest *h, const struct leat_op *op)
{
	uint64_t first;

	if (op->status != 0)
		return;
	h->intruder_messages++;
	if (op->len < sizeof(first) || (op->oflags & LEAT_OP_F_WRITTEN) != 0)
		return;
	memcpy(&first, op->buf, sizeof(first));
	CHECK(first != UNFILLED, "a message of %" PRIu64 " B is the buffer's old content", op->len);
}

static void
on_recv(struct honest *h, const struct leat_op *op)
{
	struct honest_conn *c;
	struct message m;

	if (op->status != 0) {
		CHECK(h->exposed != NULL, "receive: %s", strerror(-op->status));
		return;
	}
	CHECK(op->src < HONEST_PEERS, "a message from peer %u", op->src);
	c = &h->conn[op->src];
	if (!c->used) {
		on_intruder(h, op); /* or an earlier intruder */
		return;
	}
	CHECK(op->len >= sizeof(m) && op->oflags == 0, "a message of %" PRIu64 " B", op->len);
	memcpy(&m, op->buf, sizeof(m));
	CHECK(m.magic == MAGIC && m.size == op->len, "message of %" PRIu64 " B, says %" PRIu64,
	      op->len, m.size);
	CHECK(m.nr - c->next < 64, "message %" PRIu64 " comes, %" PRIu64 " was to be next", m.nr,
	      c->next);
	CHECK((c->seen >> (m.nr - c->next) & 1) == 0, "message %" PRIu64 " comes twice", m.nr);
	check_bytes(op->buf, sizeof(m), op->len, m.nr, "message");
	c->seen |= UINT64_C(1) << (m.nr - c->next);
	/* Datagrams can be lost: if an earlier one is missing, it will not come any more. */
	while ((c->seen & 1) != 0 || (h->datagram && c->seen != 0)) {
		c->seen >>= 1;
		c->next++;
	}
	c->done++;
}

/* ---- ops between victim and bystander ---- */

static bool
room(const struct honest *h, const struct honest_conn *c)
{
	return c->sent - h->other->conn[c->other.peer].next < HONEST_AHEAD;
}

static void
post(struct honest *h, struct leat_op *op)
{
	if (leat_ep_post(h->ep, &op, 1) == 1)
		return;
	CHECK(rte_errno == EAGAIN, "post: %s", leat_err_msg());
	memset(op, 0, sizeof(*op));
}

static void
post_message(struct honest *h, uint16_t peer, unsigned int i)
{
	static const uint32_t sizes[] = { 24, 25, 64, 96, 97, 4000, 20000, 40000, HONEST_SLICE };
	struct honest_conn *c = &h->conn[peer];
	struct message m = { .magic = MAGIC, .nr = c->sent };
	struct leat_op *op = &c->op[i];
	uint64_t r = test_random(&h->random);

	/* Most messages are small: a sanitizer copies slowly. */
	m.size = sizes[(r & 0xf000) != 0 ? r % 5 : r % RTE_DIM(sizes)];
	if (h->datagram)
		m.size = RTE_MIN(m.size, UINT64_C(4000));
	fill(c->buf[i], m.size, m.nr);
	memcpy(c->buf[i], &m, sizeof(m));
	*op = (struct leat_op){ .type = LEAT_OP_SEND,
				.peer = peer,
				.buf = c->buf[i],
				.size = m.size,
				.queue = (r & 0x100) != 0 ? NULL : LEAT_QUEUE_NONE };
	if ((r & 0x600) == 0 && !h->datagram) {
		op->type = LEAT_OP_TSEND;
		op->tag = r;
	}
	c->sent++;
	if (leat_ep_post(h->ep, &op, 1) == 1)
		return;
	CHECK(rte_errno == EAGAIN, "post: %s", leat_err_msg());
	memset(op, 0, sizeof(*op));
	c->sent--;
}

/* Post in turn: a WRITE, a READ of the same bytes, which are compared, and a FETCH_ADD. */
static void
post_onesided(struct honest *h, uint16_t peer)
{
	static const uint32_t sizes[] = { 8, 80, 96, 3000, 30000, HONEST_SLICE - 8 };
	struct honest_conn *c = &h->conn[peer];
	struct leat_op *op = &c->op[0];
	const uint64_t r = test_random(&h->random);

	*op = (struct leat_op){ .peer = peer,
				.buf = c->buf[0],
				.size = c->written,
				.raddr = c->other.key.addr + 8,
				.rkey = c->other.key.key };
	switch (c->step % 3) {
	case 0:
		op->type = LEAT_OP_WRITE;
		op->size = sizes[(r & 0x30) != 0 ? r % 3 : r % RTE_DIM(sizes)];
		c->written = op->size;
		c->pattern = r >> 32;
		fill(c->buf[0], op->size, c->pattern);
		break;
	case 1:
		op->type = LEAT_OP_READ;
		memset(c->buf[0], 0, op->size);
		break;
	default:
		op->type = LEAT_OP_FETCH_ADD;
		op->size = sizeof(uint64_t);
		op->raddr -= 8;
		op->operand = 3;
		break;
	}
	post(h, op);
}

static void
on_onesided(struct honest *h, struct honest_conn *c, const struct leat_op *op)
{
	uint64_t old;

	switch (op->type) {
	case LEAT_OP_WRITE:
		check_bytes(h->other->slices + (size_t)c->other.peer * HONEST_SLICE + 8, 0,
			    op->size, c->pattern, "write");
		break;
	case LEAT_OP_READ:
		check_bytes(op->buf, 0, op->size, c->pattern, "read");
		break;
	default:
		memcpy(&old, op->buf, sizeof(old));
		CHECK(old == c->counter, "counter %" PRIu64 ", not %" PRIu64, old, c->counter);
		c->counter += 3;
		break;
	}
	c->step++;
	c->done++;
}

static void
post_all(struct honest *h)
{
	struct honest_conn *c;
	unsigned int i, peer;

	for (peer = 0; peer < HONEST_PEERS; peer++) {
		c = &h->conn[peer];
		if (!c->used || !c->up)
			continue;
		for (i = 0; i < HONEST_WINDOW; i++) {
			if (c->op[i].state != LEAT_OP_IDLE)
				continue;
			if (i == 0 && !h->datagram)
				post_onesided(h, (uint16_t)peer);
			else if (room(h, c))
				post_message(h, (uint16_t)peer, i);
		}
	}
}

/* ---- ops of the victim with the intruder ---- */

/*
 * Half of the buffers are EAL memory, which peers can access directly; the others come from
 * malloc(), where a sanitizer sees writes beyond their ends.
 */
static void *
out_new(unsigned int i, size_t size)
{
	void *mem;

	if (i % 2 == 0)
		return bytes(size);
	mem = rte_malloc(NULL, RTE_MAX(size, (size_t)1), LEAT_CACHE_LINE);
	CHECK(mem != NULL, "out of EAL's memory");
	return mem;
}

static void
out_free(struct honest *h, unsigned int i)
{
	if (i % 2 == 0)
		free(h->out_buf[i]);
	else
		rte_free(h->out_buf[i]);
}

static void
post_out(struct honest *h, unsigned int i)
{
	static const enum leat_op_type types[] = {
		LEAT_OP_SEND,	   LEAT_OP_SEND, LEAT_OP_TSEND, LEAT_OP_WRITE,
		LEAT_OP_WRITE_IMM, LEAT_OP_READ, LEAT_OP_READ,	LEAT_OP_FETCH_ADD,
		LEAT_OP_CMP_SWAP,  LEAT_OP_RECV, LEAT_OP_TRECV,
	};
	static const uint32_t sizes[] = { 0, 8, 96, 97, 3000, 16384, 30000, HONEST_SLICE };
	const uint64_t r = test_random(&h->random);
	struct leat_op *op = &h->out[i];

	*op = (struct leat_op){ .type = types[r % RTE_DIM(types)],
				.peer = h->intruder,
				.size = sizes[(r >> 8) % RTE_DIM(sizes)],
				.tag = r >> 32,
				.ignore = (r & 0x10000) != 0 ? UINT64_MAX : 0xff,
				.queue = LEAT_QUEUE_NONE };
	if (op->type >= LEAT_OP_WRITE && op->type < LEAT_OP_TYPES) {
		op->raddr = INTRUDER_AT + (r >> 40) % INTRUDER_SHARED / 8 * 8;
		op->rkey = INTRUDER_KEY;
	}
	if (h->datagram) {
		op->type = (r & 0x20000) != 0 ? LEAT_OP_SEND : LEAT_OP_RECV;
		op->size = RTE_MIN(op->size, UINT64_C(3000));
	}
	if (op->type == LEAT_OP_FETCH_ADD || op->type == LEAT_OP_CMP_SWAP)
		op->size = sizeof(uint64_t);
	h->out_buf[i] = out_new(i, op->size);
	memset(h->out_buf[i], 0, op->size);
	if (leat_op_is_recv(op))
		mark_unfilled(h->out_buf[i], op->size);
	op->buf = h->out_buf[i];
	if (leat_ep_post(h->ep, &op, 1) == 1)
		return;
	out_free(h, i);
	memset(op, 0, sizeof(*op));
}

static void
out_turn(struct honest *h)
{
	const uint64_t r = test_random(&h->random);
	struct leat_op *op = &h->out[r % RTE_DIM(h->out)];

	if (h->intruder == LEAT_PEER_ANY || !h->intruder_up || h->silent)
		return;
	if (op->state == LEAT_OP_IDLE)
		post_out(h, r % RTE_DIM(h->out));
	else if (op->state == LEAT_OP_INFLIGHT && (r & 0x3f00) == 0)
		CHECK(leat_op_cancel(h->ep, op) == 0, "cancel: %s", leat_err_msg());
}

/* ---- completions and events ---- */

static void
on_done(struct honest *h, struct leat_op *op)
{
	struct honest_conn *c;

	if (op >= h->recv && op < h->recv + RTE_DIM(h->recv)) {
		if (h->closing)
			return;
		on_recv(h, op);
		post_recv(h, (unsigned int)(op - h->recv));
		return;
	}
	if (op >= h->out && op < h->out + RTE_DIM(h->out)) {
		if (leat_op_is_recv(op))
			on_intruder(h, op);
		out_free(h, (unsigned int)(op - h->out));
		return;
	}
	if (h->closing || h->other->closing)
		return;
	c = &h->conn[op->peer];
	CHECK(op->status == 0, "%s of %" PRIu64 " B: %s", leat_op_type_name(op->type), op->size,
	      strerror(-op->status));
	if (op->type >= LEAT_OP_WRITE)
		on_onesided(h, c, op);
}

static void
accept_peer(struct honest *h, const struct leat_event *ev)
{
	struct honest_id id = { .magic = MAGIC, .peer = ev->peer };
	struct honest_conn *c = &h->conn[ev->peer];
	struct leat_conn_params params = { .priv = &id, .priv_len = sizeof(id) };

	CHECK(ev->peer < HONEST_PEERS, "peer %u", ev->peer);
	memset(c, 0, sizeof(*c));
	if (ev->priv_len == sizeof(c->other))
		memcpy(&c->other, ev->priv, sizeof(c->other));
	c->used = c->other.magic == MAGIC;
	if (!c->used) {
		CHECK(h->intruder == LEAT_PEER_ANY, "a second intruder");
		h->intruder = ev->peer;
		id.key = h->exposed_key;
	} else if (!h->datagram) {
		CHECK(leat_mr_rkey(h->mr, h->slices + (size_t)ev->peer * HONEST_SLICE, HONEST_SLICE,
				   &id.key) == 0,
		      "%s", leat_err_msg());
	}
	if (leat_ep_accept(h->ep, ev->peer, &params) < 0)
		CHECK(!c->used, "accept: %s", leat_err_msg());
}

static void
new_conn(struct honest_conn *c)
{
	unsigned int i;

	for (i = 0; i < HONEST_WINDOW; i++)
		c->buf[i] = bytes(HONEST_SLICE);
	c->up = true;
}

static void
on_event(struct honest *h, const struct leat_event *ev)
{
	struct honest_conn *c = &h->conn[ev->peer % HONEST_PEERS];

	switch (ev->type) {
	case LEAT_EV_CONNECT_REQ:
		accept_peer(h, ev);
		break;
	case LEAT_EV_CONNECTED:
		if (ev->peer == h->intruder) {
			h->intruder_up = true;
			h->intruders++;
			break;
		}
		if (ev->priv_len == sizeof(c->other))
			memcpy(&c->other, ev->priv, sizeof(c->other));
		new_conn(c);
		break;
	case LEAT_EV_DISCONNECTED:
	case LEAT_EV_CONNECT_FAILED:
		CHECK(ev->peer == h->intruder || h->closing || h->other->closing,
		      "a connection that is not the intruder's ended: %s", ev->text);
		if (ev->peer != h->intruder)
			break;
		h->intruders_violated += h->intruder_up && ev->status == -EPROTO;
		h->intruder = LEAT_PEER_ANY;
		h->intruder_up = false;
		break;
	case LEAT_EV_SHUTDOWN:
		h->shut = true;
		break;
	default:
		break;
	}
}

static void
turn(struct honest *h)
{
	struct leat_op *done[16];
	struct leat_event ev;
	uint16_t i, n = leat_ep_poll(h->ep, done, RTE_DIM(done));

	for (i = 0; i < n; i++)
		on_done(h, done[i]);
	/* Read events only now and then: it takes system calls. */
	if (test_random(&h->random) % 8 == 0 || h->closing) {
		while (leat_ep_events(h->ep, &ev, 1) == 1)
			on_event(h, &ev);
	}
	if (h->closing || h->other->closing)
		return;
	post_all(h);
	if (h->exposed != NULL)
		out_turn(h);
}

void
honest_turn(struct honest *victim, struct honest *bystander)
{
	turn(victim);
	turn(bystander);
}

/* ---- open and close ---- */

static void
open_one(struct honest *h, struct honest *other, struct leat_dev *dev, bool datagram, uint64_t seed)
{
	struct leat_ep_conf conf = { .type = datagram ? LEAT_EP_DATAGRAM : LEAT_EP_RELIABLE,
				     .ops = LEAT_OP_MASK_ALL,
				     .max_peers = HONEST_PEERS };
	unsigned int i;

	memset(h, 0, sizeof(*h));
	h->other = other;
	h->datagram = datagram;
	h->random = seed | 1;
	h->intruder = LEAT_PEER_ANY;
	if (datagram)
		conf.ops = LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV);
	h->ep = leat_ep_create(dev, &conf);
	CHECK(h->ep != NULL, "endpoint: %s", leat_err_msg());
	h->slices = calloc(HONEST_PEERS, HONEST_SLICE);
	CHECK(h->slices != NULL, "out of memory");
	if (!datagram) {
		h->mr = leat_mr_register(h->ep, h->slices, (size_t)HONEST_PEERS * HONEST_SLICE,
					 LEAT_MR_REMOTE_READ | LEAT_MR_REMOTE_WRITE |
						 LEAT_MR_REMOTE_ATOMIC);
		CHECK(h->mr != NULL, "region: %s", leat_err_msg());
	}
	for (i = 0; i < RTE_DIM(h->recv_buf); i++) {
		h->recv_buf[i] = bytes(HONEST_SLICE);
		if (!datagram || i < HONEST_RECVS)
			post_recv(h, i);
	}
}

static void
open_prey(struct honest *h)
{
	h->exposed = bytes(2 * FENCE + HONEST_SLICE);
	memset(h->exposed, FENCE_BYTE, 2 * FENCE + HONEST_SLICE);
	if (h->datagram)
		return;
	h->exposed_mr = leat_mr_register(h->ep, h->exposed + FENCE, HONEST_SLICE,
					 LEAT_MR_REMOTE_READ | LEAT_MR_REMOTE_WRITE |
						 LEAT_MR_REMOTE_ATOMIC);
	CHECK(h->exposed_mr != NULL && leat_mr_rkey(h->exposed_mr, h->exposed + FENCE, HONEST_SLICE,
						    &h->exposed_key) == 0,
	      "region: %s", leat_err_msg());
}

static void
check_fences(const struct honest *h)
{
	size_t i;

	for (i = 0; i < FENCE; i++)
		CHECK(h->exposed[i] == FENCE_BYTE &&
			      h->exposed[FENCE + HONEST_SLICE + i] == FENCE_BYTE,
		      "memory beside the region was written");
}

static unsigned int
nb_up(const struct honest *h)
{
	unsigned int i, n = 0;

	for (i = 0; i < HONEST_PEERS; i++)
		n += h->conn[i].used && h->conn[i].up;
	return n;
}

void
honest_open(struct honest *victim, struct honest *bystander, struct leat_dev *dev, bool datagram,
	    unsigned int conns, uint64_t seed)
{
	struct honest_id id = { .magic = MAGIC };
	const struct leat_conn_params params = { .priv = &id, .priv_len = sizeof(id) };
	unsigned int i;
	int peer;

	open_one(victim, bystander, dev, datagram, seed);
	open_one(bystander, victim, dev, datagram, seed * 3);
	open_prey(victim);
	CHECK(leat_ep_listen(victim->ep, "127.0.0.1:0") == 0 &&
		      leat_ep_listen_addr(victim->ep, victim->addr, sizeof(victim->addr)) == 0,
	      "listen: %s", leat_err_msg());
	for (i = 0; i < conns; i++) {
		/* Peer ids are assigned in order: the first is 0. */
		id.peer = (uint16_t)i;
		if (!datagram)
			CHECK(leat_mr_rkey(bystander->mr, bystander->slices + i * HONEST_SLICE,
					   HONEST_SLICE, &id.key) == 0,
			      "%s", leat_err_msg());
		peer = leat_ep_connect(bystander->ep, victim->addr, &params);
		CHECK(peer == (int)i, "connect: %s", leat_err_msg());
		bystander->conn[i].used = true;
		UNTIL(TRAFFIC_PATIENCE_US, honest_turn(victim, bystander),
		      nb_up(victim) == i + 1 && nb_up(bystander) == i + 1, "no connection");
	}
}

static bool
out_back(const struct honest *h)
{
	unsigned int i;

	for (i = 0; i < RTE_DIM(h->out); i++) {
		if (h->out[i].state != LEAT_OP_IDLE)
			return false;
	}
	return true;
}

static bool
all_moved(const struct honest *h, const uint64_t *done)
{
	unsigned int i;

	for (i = 0; i < HONEST_PEERS; i++) {
		if (h->conn[i].used && h->conn[i].done == done[i])
			return false;
	}
	return true;
}

void
honest_check(struct honest *victim, struct honest *bystander)
{
	uint64_t v[HONEST_PEERS], b[HONEST_PEERS];
	unsigned int i;

	UNTIL(TRAFFIC_PATIENCE_US, honest_turn(victim, bystander),
	      victim->intruder == LEAT_PEER_ANY && out_back(victim),
	      "the intruder's connection does not end");
	for (i = 0; i < HONEST_PEERS; i++) {
		v[i] = victim->conn[i].done;
		b[i] = bystander->conn[i].done;
	}
	UNTIL(TRAFFIC_PATIENCE_US, honest_turn(victim, bystander),
	      all_moved(victim, v) && all_moved(bystander, b), "the bystander's ops stand still");
	check_fences(victim);
}

void
honest_connect(struct honest *victim, const char *addr)
{
	const struct honest_id id = { .magic = MAGIC, .key = victim->exposed_key };
	const struct leat_conn_params params = { .priv = &id, .priv_len = sizeof(id) };
	int peer = leat_ep_connect(victim->ep, addr, &params);

	CHECK(peer >= 0, "connect: %s", leat_err_msg());
	victim->intruder = (uint16_t)peer;
	victim->conn[peer].used = false;
}

void
honest_disconnect(struct honest *victim)
{
	if (victim->intruder != LEAT_PEER_ANY &&
	    leat_ep_peer_state(victim->ep, victim->intruder) < LEAT_PEER_CLOSING)
		CHECK(leat_ep_disconnect(victim->ep, victim->intruder) == 0, "disconnect: %s",
		      leat_err_msg());
}

static void
free_one(struct honest *h)
{
	unsigned int i, k;

	for (i = 0; i < RTE_DIM(h->recv_buf); i++)
		free(h->recv_buf[i]);
	for (i = 0; i < HONEST_PEERS; i++) {
		for (k = 0; k < HONEST_WINDOW; k++)
			free(h->conn[i].buf[k]);
	}
	free(h->slices);
	free(h->exposed);
}

void
honest_close(struct honest *victim, struct honest *bystander)
{
	struct honest *both[] = { victim, bystander };
	unsigned int i;

	for (i = 0; i < RTE_DIM(both); i++) {
		both[i]->closing = true;
		CHECK(leat_ep_shutdown(both[i]->ep, 1000000) == 0, "shutdown: %s", leat_err_msg());
	}
	for (i = 0; i < RTE_DIM(both); i++) {
		UNTIL(TRAFFIC_PATIENCE_US, honest_turn(victim, bystander), both[i]->shut,
		      "no end of the shutdown");
	}
	for (i = 0; i < RTE_DIM(both); i++) {
		if (both[i]->mr != NULL)
			CHECK(leat_mr_deregister(both[i]->mr) == 0, "%s", leat_err_msg());
		if (both[i]->exposed_mr != NULL)
			CHECK(leat_mr_deregister(both[i]->exposed_mr) == 0, "%s", leat_err_msg());
		UNTIL(TRAFFIC_PATIENCE_US, turn(both[i]), leat_ep_destroy(both[i]->ep) == 0,
		      "destroy: %s", leat_err_msg());
		free_one(both[i]);
	}
}
