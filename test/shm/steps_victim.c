/* SPDX-License-Identifier: BSD-3-Clause */

/* The victim's endpoint, and its actions before and between its marks: see steps.h. */

#include <errno.h>
#include <sched.h>

#include <rte_common.h>
#include <rte_malloc.h>

#include <leat_error.h>

#include "leat_cmocka.h"
#include "steps_message.h"

void
steps_victim_open(struct steps_victim *v, struct leat_dev *dev, struct steps_notes *notes)
{
	const struct leat_ep_conf conf = { .ops = LEAT_OP_MASK_ALL, .max_peers = STEPS_PEERS };

	memset(v, 0, sizeof(*v));
	v->notes = notes;
	v->peer = LEAT_PEER_ANY;
	v->buf = notes->memory;
	v->ep = leat_ep_create(dev, &conf);
	CHECK(v->ep != NULL, "victim: endpoint: %s", leat_err_msg());
	v->mr = leat_mr_register(v->ep, notes->memory, STEPS_MEMORY, LEAT_MR_REMOTE_ALL);
	CHECK(v->mr != NULL && leat_mr_rkey(v->mr, notes->memory, STEPS_MEMORY, &v->key) == 0,
	      "victim: region: %s", leat_err_msg());
}

void
steps_victim_event(struct steps_victim *v)
{
	const struct steps_hello mine = { .role = STEPS_VICTIM, .key = v->key };
	const struct leat_conn_params params = { .priv = &mine, .priv_len = sizeof(mine) };
	struct steps_hello h;
	struct leat_event ev;

	if (leat_ep_events(v->ep, &ev, 1) == 0)
		return;
	switch (ev.type) {
	case LEAT_EV_CONNECT_REQ:
		atomic_store(&v->notes->asked, 1);
		CHECK(leat_ep_accept(v->ep, ev.peer, &params) == 0, "victim: accept: %s",
		      leat_err_msg());
		break;
	case LEAT_EV_CONNECTED:
		if (ev.priv_len == sizeof(h)) {
			memcpy(&h, ev.priv, sizeof(h));
			v->theirs = h.key;
		}
		v->peer = ev.peer;
		atomic_store(&v->notes->up, 1);
		break;
	case LEAT_EV_CONNECT_FAILED:
		CHECK(false, "victim: connect: %s", ev.text);
		break;
	case LEAT_EV_DISCONNECTED:
		atomic_store(&v->notes->ended, 1);
		break;
	default:
		break;
	}
}

static void
begin_connect(struct steps_victim *v, const char *addr)
{
	const struct steps_hello h = { .role = STEPS_VICTIM, .key = v->key };
	const struct leat_conn_params params = { .priv = &h, .priv_len = sizeof(h) };

	CHECK(leat_ep_connect(v->ep, addr, &params) >= 0, "victim: connect: %s", leat_err_msg());
}

void
steps_victim_connect(struct steps_victim *v, const char *addr)
{
	begin_connect(v, addr);
	while (atomic_load(&v->notes->up) == 0) {
		steps_victim_event(v);
		(void)sched_yield();
	}
}

/* ---- before the first mark ---- */

static void
prepare_recvs(const struct steps_scenario *sc, struct steps_victim *v)
{
	struct leat_op *op;
	unsigned int i;

	for (i = 0; i < sc->nb; i++) {
		op = &v->op[i];
		*op = (struct leat_op){ .type = LEAT_OP_RECV,
					.peer = LEAT_PEER_ANY,
					.buf = v->notes->memory + (size_t)i * STEPS_SLOT,
					.size = sc->nb > 1 ? STEPS_SLOT : STEPS_MEMORY,
					.queue = sc->free ? LEAT_QUEUE_NONE : NULL };
		if (sc->type == LEAT_OP_TSEND) {
			op->type = LEAT_OP_TRECV;
			op->ignore = UINT64_MAX;
		}
		CHECK(leat_ep_post(v->ep, &op, 1) == 1, "victim: receive: %s", leat_err_msg());
	}
}

static void
prepare_ops(const struct steps_scenario *sc, struct steps_victim *v)
{
	unsigned int i;

	/* Use EAL memory: with share=1 the target copies the messages directly from it. */
	if (sc->share && (steps_is_send(sc->type) || sc->type == LEAT_OP_WRITE_IMM)) {
		v->buf = rte_zmalloc(NULL, STEPS_MEMORY, LEAT_CACHE_LINE);
		CHECK(v->buf != NULL, "victim: out of EAL's memory");
	}
	for (i = 0; i < sc->nb; i++) {
		v->op[i] = (struct leat_op){
			.type = (uint8_t)sc->type,
			.peer = v->peer,
			.buf = v->buf + (size_t)i * STEPS_SLOT,
			.size = steps_bytes(sc->size, i),
			.queue = sc->free ? LEAT_QUEUE_NONE : NULL,
		};
		steps_op_fill(&v->op[i], STEPS_VICTIM, i, &v->theirs);
	}
}

void
steps_prepare(const struct steps_scenario *sc, struct steps_victim *v, const char *addr)
{
	if (sc->call == STEPS_ACCEPT)
		CHECK(leat_ep_listen(v->ep, STEPS_ADDR) == 0, "victim: listen: %s", leat_err_msg());
	if (sc->call == STEPS_CONNECT || sc->call == STEPS_ACCEPT || sc->call == STEPS_LISTEN)
		return;
	steps_victim_connect(v, addr);
	if (sc->call == STEPS_VICTIM_POSTS)
		prepare_ops(sc, v);
	else if (sc->call == STEPS_SURVIVOR_POSTS && steps_is_send(sc->type))
		prepare_recvs(sc, v);
	else if (sc->call == STEPS_CLOSE)
		CHECK(leat_mr_deregister(v->mr) == 0, "victim: deregister: %s", leat_err_msg());
}

/* ---- between the marks ---- */

static void
poll_ops(struct steps_victim *v)
{
	struct leat_op *done[STEPS_BURST];
	struct steps_notes *n = v->notes;
	uint16_t i, nb = leat_ep_poll(v->ep, done, STEPS_BURST);
	unsigned int at;

	for (i = 0; i < nb; i++) {
		if (done[i]->status != 0) {
			CHECK(atomic_load(&n->taken) != 0, "victim: %s: %s",
			      leat_op_type_name(done[i]->type), strerror(-done[i]->status));
			atomic_fetch_add(&n->failed, 1);
			continue;
		}
		if ((LEAT_OP_BIT(done[i]->type) & LEAT_OP_MASK_RECV) == 0) {
			atomic_fetch_add(&n->done, 1);
			continue;
		}
		at = atomic_load(&n->received);
		CHECK(done[i] == &v->op[at], "victim: receives come back out of order");
		n->len[at] = done[i]->len;
		atomic_store(&n->received, at + 1);
	}
	if (nb != 0)
		return;
	if (atomic_load(&n->taken) != 0)
		steps_victim_event(v);
	(void)sched_yield();
}

/* Is the connection up, with ops or receives that have not completed? */
static bool
waits(const struct steps_scenario *sc, struct steps_notes *n)
{
	if (atomic_load(&n->ended) != 0)
		return false;
	return atomic_load(&n->done) + atomic_load(&n->received) + atomic_load(&n->failed) < sc->nb;
}

static void
post_ops(const struct steps_scenario *sc, struct steps_victim *v)
{
	struct leat_op *ops[STEPS_BURST];
	unsigned int i;

	for (i = 0; i < sc->nb; i++)
		ops[i] = &v->op[i];
	i = leat_ep_post(v->ep, ops, (uint16_t)sc->nb);
	atomic_store(&v->notes->posted, i);
	CHECK(i == sc->nb || atomic_load(&v->notes->taken) != 0, "victim: post: %s",
	      leat_err_msg());
	while (i == sc->nb && waits(sc, v->notes))
		poll_ops(v);
}

static void
until(struct steps_victim *v, const atomic_uint *note)
{
	while (atomic_load(note) == 0) {
		(void)leat_ep_poll(v->ep, NULL, 0);
		steps_victim_event(v);
	}
}

void
steps_act(const struct steps_scenario *sc, struct steps_victim *v, const char *addr)
{
	struct steps_notes *n = v->notes;

	switch (sc->call) {
	case STEPS_VICTIM_POSTS:
		post_ops(sc, v);
		break;
	case STEPS_SURVIVOR_POSTS:
		while (steps_is_send(sc->type) ? waits(sc, n) : atomic_load(&n->enough) == 0)
			poll_ops(v);
		break;
	case STEPS_LISTEN:
		CHECK(leat_ep_listen(v->ep, STEPS_ADDR) == 0, "victim: listen: %s", leat_err_msg());
		atomic_store(&n->listens, 1);
		break;
	case STEPS_CONNECT:
		begin_connect(v, addr);
		until(v, &n->up);
		break;
	case STEPS_ACCEPT:
		until(v, &n->up);
		break;
	case STEPS_DISCONNECT:
		CHECK(leat_ep_disconnect(v->ep, v->peer) == 0, "victim: disconnect: %s",
		      leat_err_msg());
		until(v, &n->ended);
		break;
	case STEPS_DISCONNECTED:
		until(v, &n->ended);
		break;
	case STEPS_CLOSE:
		CHECK(leat_ep_close(v->ep, 10000000, NULL, NULL) == 0, "victim: close: %s",
		      leat_err_msg());
		atomic_store(&n->ended, 1);
		break;
	}
	atomic_store(&n->through, 1);
}
