/* SPDX-License-Identifier: BSD-3-Clause */

/* The scenarios: see steps.h. */

#include <errno.h>

#include <rte_common.h>

#include <leat_error.h>

#include "leat_cmocka.h"
#include "steps_message.h"
#include "steps_share.h"

/* bytes of a large message that travel at a time, see doc/drivers/shm.md */
#define CHUNK 16384
#define SHARED (64u << 10) /* bytes of ops from or to shared memory */
/* Bytes after an op's target that must stay unchanged. */
#define BEHIND 4096

/* Name, call, op type, size class and number of ops; then flags. */
const struct steps_scenario steps_scenarios[] = {
	{ "post a small send", STEPS_VICTIM_POSTS, LEAT_OP_SEND, STEPS_SMALL, 1 },
	{ "post a small send without a queue", STEPS_VICTIM_POSTS, LEAT_OP_SEND, STEPS_SMALL, 1,
	  .free = true },
	{ "post to a sleeper", STEPS_VICTIM_POSTS, LEAT_OP_SEND, STEPS_SMALL, 1, .asleep = true },
	{ "post a send of two lines", STEPS_VICTIM_POSTS, LEAT_OP_SEND, STEPS_LINES, 1 },
	{ "post a burst of sends", STEPS_VICTIM_POSTS, LEAT_OP_SEND, STEPS_MIXED, STEPS_BURST },
	{ "post a buffered send", STEPS_VICTIM_POSTS, LEAT_OP_SEND, STEPS_BUFFER, 1 },
	{ "send in chunks", STEPS_VICTIM_POSTS, LEAT_OP_SEND, STEPS_LARGE, 1 },
	{ "receive a small message", STEPS_SURVIVOR_POSTS, LEAT_OP_SEND, STEPS_SMALL, 1 },
	{ "receive a small message without a queue", STEPS_SURVIVOR_POSTS, LEAT_OP_SEND,
	  STEPS_SMALL, 1, .free = true },
	{ "receive a burst", STEPS_SURVIVOR_POSTS, LEAT_OP_SEND, STEPS_MIXED, STEPS_BURST },
	{ "receive a buffered message", STEPS_SURVIVOR_POSTS, LEAT_OP_SEND, STEPS_BUFFER, 1 },
	{ "receive in chunks", STEPS_SURVIVOR_POSTS, LEAT_OP_SEND, STEPS_LARGE, 1 },
	{ "post a tagged send", STEPS_VICTIM_POSTS, LEAT_OP_TSEND, STEPS_LINES, 1 },
	{ "receive a tagged message", STEPS_SURVIVOR_POSTS, LEAT_OP_TSEND, STEPS_LINES, 1 },
	{ "write", STEPS_VICTIM_POSTS, LEAT_OP_WRITE, STEPS_LINES, 1 },
	{ "write in chunks", STEPS_VICTIM_POSTS, LEAT_OP_WRITE, STEPS_LARGE, 1 },
	{ "write with an immediate", STEPS_VICTIM_POSTS, LEAT_OP_WRITE_IMM, STEPS_BUFFER, 1 },
	{ "read", STEPS_VICTIM_POSTS, LEAT_OP_READ, STEPS_LINES, 1 },
	{ "read in chunks", STEPS_VICTIM_POSTS, LEAT_OP_READ, STEPS_LARGE, 1 },
	{ "fetch-add", STEPS_VICTIM_POSTS, LEAT_OP_FETCH_ADD, STEPS_WORD, 1 },
	{ "compare and swap", STEPS_VICTIM_POSTS, LEAT_OP_CMP_SWAP, STEPS_WORD, 1 },
	{ "target of a write", STEPS_SURVIVOR_POSTS, LEAT_OP_WRITE, STEPS_LINES, 1 },
	{ "target of a write in chunks", STEPS_SURVIVOR_POSTS, LEAT_OP_WRITE, STEPS_LARGE, 1 },
	{ "target of a read", STEPS_SURVIVOR_POSTS, LEAT_OP_READ, STEPS_LINES, 1 },
	{ "target of a read in chunks", STEPS_SURVIVOR_POSTS, LEAT_OP_READ, STEPS_LARGE, 1 },
	{ "target of a fetch-add", STEPS_SURVIVOR_POSTS, LEAT_OP_FETCH_ADD, STEPS_WORD, 1 },
	{ "target of a compare and swap", STEPS_SURVIVOR_POSTS, LEAT_OP_CMP_SWAP, STEPS_WORD, 1 },
	{ .name = "listen", .call = STEPS_LISTEN },
	{ .name = "connect", .call = STEPS_CONNECT },
	{ .name = "accept", .call = STEPS_ACCEPT },
	{ .name = "disconnect", .call = STEPS_DISCONNECT },
	{ .name = "is disconnected", .call = STEPS_DISCONNECTED },
	{ .name = "close the endpoint", .call = STEPS_CLOSE },
	{ "write to a shared region", STEPS_VICTIM_POSTS, LEAT_OP_WRITE, STEPS_LINES, 1,
	  .share = true },
	{ "write 64 KiB to a shared region", STEPS_VICTIM_POSTS, LEAT_OP_WRITE, STEPS_SHARED, 1,
	  .share = true },
	{ "read a shared region", STEPS_VICTIM_POSTS, LEAT_OP_READ, STEPS_SHARED, 1,
	  .share = true },
	{ "fetch-add in a shared region", STEPS_VICTIM_POSTS, LEAT_OP_FETCH_ADD, STEPS_WORD, 1,
	  .share = true },
	{ "compare and swap in a shared region", STEPS_VICTIM_POSTS, LEAT_OP_CMP_SWAP, STEPS_WORD,
	  1, .share = true },
	{ "send from shared memory", STEPS_VICTIM_POSTS, LEAT_OP_SEND, STEPS_SHARED, 1,
	  .share = true },
	{ "write with an immediate from shared memory", STEPS_VICTIM_POSTS, LEAT_OP_WRITE_IMM,
	  STEPS_SHARED, 1, .share = true },
	{ "receive from shared memory", STEPS_SURVIVOR_POSTS, LEAT_OP_SEND, STEPS_SHARED, 1,
	  .share = true },
	{ "target of a write from shared memory", STEPS_SURVIVOR_POSTS, LEAT_OP_WRITE, STEPS_SHARED,
	  1, .share = true },
	{ .name = "connect and share", .call = STEPS_CONNECT, .share = true },
	{ .name = "accept and share", .call = STEPS_ACCEPT, .share = true },
};
const unsigned int steps_nb_scenarios = RTE_DIM(steps_scenarios);

const struct steps_scenario *
steps_scenario_find(const char *name)
{
	unsigned int i;

	for (i = 0; i < steps_nb_scenarios; i++) {
		if (strcmp(steps_scenarios[i].name, name) == 0)
			return &steps_scenarios[i];
	}
	return NULL;
}

static uint64_t buffered; /* bytes of the largest message that travels through the buffer */

void
steps_set_segment(uint64_t segment)
{
	buffered = segment / 8;
	CHECK(STEPS_DATA + steps_bytes(STEPS_LARGE, 0) + BEHIND <= STEPS_MEMORY,
	      "a segment of %" PRIu64 " B is too large for this test", segment);
}

uint64_t
steps_bytes(enum steps_size size, unsigned int i)
{
	static const uint64_t mixed[STEPS_BURST] = { 24, 40, 96, 97, 600, 2000, 32, 64 };

	switch (size) {
	case STEPS_SMALL:
		return 40;
	case STEPS_LINES:
		return 96;
	case STEPS_BUFFER:
		return buffered;
	case STEPS_LARGE:
		return buffered + 2 * CHUNK + 1000;
	case STEPS_MIXED:
		return mixed[i % STEPS_BURST];
	case STEPS_SHARED:
		return SHARED;
	case STEPS_WORD:
		break;
	}
	return sizeof(uint64_t);
}

bool
steps_is_send(enum leat_op_type type)
{
	return type == LEAT_OP_SEND || type == LEAT_OP_TSEND;
}

void
steps_op_fill(struct leat_op *op, enum steps_role role, unsigned int nr,
	      const struct leat_rkey *theirs)
{
	if (steps_is_send((enum leat_op_type)op->type)) {
		steps_message_fill(op->buf, op->size, role, nr);
		return;
	}
	op->raddr = theirs->addr + STEPS_DATA;
	op->rkey = theirs->key;
	switch ((enum leat_op_type)op->type) {
	case LEAT_OP_WRITE_IMM:
		op->imm = STEPS_IMM;
		/* fallthrough */
	case LEAT_OP_WRITE:
		steps_fill(op->buf, op->size, STEPS_NEW);
		break;
	case LEAT_OP_FETCH_ADD:
	case LEAT_OP_CMP_SWAP:
		op->raddr = theirs->addr;
		op->compare = STEPS_COUNTER;
		op->operand = STEPS_ADDEND;
		if (op->type == LEAT_OP_CMP_SWAP)
			op->operand += STEPS_COUNTER;
		/* fallthrough */
	default:
		memset(op->buf, 0, op->size);
		break;
	}
}

/* ---- while the victim runs ---- */

static void
survivor_posts(const struct steps_scenario *sc, struct steps_living *l)
{
	unsigned int i;

	for (i = 0; i < sc->nb; i++) {
		l->v.op[i] = (struct leat_op){
			.type = (uint8_t)sc->type,
			.peer = l->v.id,
			.buf = l->v.buf + (size_t)i * STEPS_SLOT,
			.size = steps_bytes(sc->size, i),
			.queue = sc->free ? LEAT_QUEUE_NONE : NULL,
		};
		steps_op_fill(&l->v.op[i], STEPS_SURVIVOR, i, &l->v.key);
		steps_post(l, i);
	}
}

void
steps_meanwhile(const struct steps_scenario *sc, struct steps_living *l)
{
	const struct steps_hello h = { .role = STEPS_SURVIVOR, .key = l->key };
	const struct leat_conn_params params = { .priv = &h, .priv_len = sizeof(h) };
	int peer;

	if (sc->call == STEPS_SURVIVOR_POSTS) {
		survivor_posts(sc, l);
	} else if (sc->call == STEPS_ACCEPT) {
		peer = leat_ep_connect(l->s.ep, STEPS_ADDR, &params);
		CHECK(peer >= 0, "connect: %s", leat_err_msg());
		l->v.id = (uint16_t)peer;
		l->v.state = STEPS_ASKED;
	} else if (sc->call == STEPS_DISCONNECTED) {
		CHECK(leat_ep_disconnect(l->s.ep, l->v.id) == 0, "disconnect: %s", leat_err_msg());
	} else if (sc->asleep) {
		steps_sleep(l);
	}
}

static bool
ops_back(const struct steps_living *l)
{
	unsigned int i;

	for (i = 0; i < STEPS_BURST; i++) {
		if (l->v.out[i])
			return false;
	}
	return true;
}

void
steps_beside(const struct steps_scenario *sc, struct steps_living *l, struct steps_notes *n)
{
	if (l->asleep)
		return;
	steps_turn(l, false);
	(void)steps_share_turn(l);
	if (sc->call == STEPS_SURVIVOR_POSTS && ops_back(l))
		atomic_store(&n->enough, 1);
}

/* ---- checks afterwards ---- */

/*
 * Check memory that was written from its beginning on: new bytes up to some point, old bytes after
 * it. @return the number of new bytes
 */
static uint64_t
written(const uint8_t *mem, uint64_t size)
{
	const uint64_t n = steps_same(mem + STEPS_DATA, size, STEPS_NEW);
	uint64_t i;

	for (i = n; i < size + BEHIND; i++)
		CHECK(mem[STEPS_DATA + i] == steps_byte(i, STEPS_OLD),
		      "torn: %" PRIu64 " of %" PRIu64 " B are written, and byte %" PRIu64, n, size,
		      i);
	return n;
}

/*
 * Check memory that the victim wrote itself: each word is new or old, in any order. @return the
 * number of new bytes
 */
static uint64_t
written_words(const uint8_t *mem, uint64_t size)
{
	const uint64_t word = sizeof(uint64_t);
	uint8_t old[STEPS_MEMORY], new[STEPS_MEMORY];
	uint64_t i, n = 0;

	steps_fill(old, size + BEHIND, STEPS_OLD);
	steps_fill(new, size, STEPS_NEW);
	for (i = 0; i < size; i += word) {
		if (memcmp(&mem[STEPS_DATA + i], &new[i], word) == 0)
			n += word;
		else
			CHECK(memcmp(&mem[STEPS_DATA + i], &old[i], word) == 0,
			      "torn: the word at %" PRIu64 " of %" PRIu64 " B", i, size);
	}
	CHECK(memcmp(&mem[STEPS_DATA + size], &old[size], BEHIND) == 0,
	      "torn: written behind %" PRIu64 " B", size);
	return n;
}

static bool
counted(const uint8_t *mem)
{
	uint64_t counter;

	memcpy(&counter, mem, sizeof(counter));
	CHECK(counter == STEPS_COUNTER || counter == STEPS_COUNTER + STEPS_ADDEND,
	      "doubled: counter %" PRIu64, counter);
	return counter != STEPS_COUNTER;
}

static bool
is_atomic(const struct steps_scenario *sc)
{
	return sc->type == LEAT_OP_FETCH_ADD || sc->type == LEAT_OP_CMP_SWAP;
}

static void
check_answer(const struct steps_scenario *sc, const uint8_t *buf)
{
	const uint64_t size = steps_bytes(sc->size, 0);
	uint64_t old;

	if (sc->type == LEAT_OP_READ) {
		CHECK(steps_same(buf, size, STEPS_OLD) == size, "torn: a read of %" PRIu64 " B",
		      size);
	} else if (is_atomic(sc)) {
		memcpy(&old, buf, sizeof(old));
		CHECK(old == STEPS_COUNTER, "torn: old value %" PRIu64, old);
	}
}

/* Check the survivor as target of the victim's ops. */
static bool
check_victim_posts(const struct steps_scenario *sc, const struct steps_living *l,
		   const struct steps_notes *n)
{
	const uint64_t size = steps_bytes(sc->size, 0);
	const bool direct = steps_share_direct(sc);
	const unsigned int done = atomic_load(&n->done), posted = atomic_load(&n->posted);
	uint64_t bytes;
	bool all;

	CHECK(done <= sc->nb && posted <= sc->nb, "doubled: %u of %u ops", done, sc->nb);
	switch (sc->type) {
	case LEAT_OP_SEND:
	case LEAT_OP_TSEND:
		/*
		 * A small message is copied, and published when post returns; a large one has
		 * arrived only when its send has completed.
		 */
		CHECK(atomic_load(&n->taken) != 0 ||
			      l->v.received >= (sc->size == STEPS_LARGE ? done : posted),
		      "lost: %" PRIu64 " messages of %u that were sent", l->v.received, posted);
		CHECK(l->v.received <= sc->nb, "doubled: %" PRIu64 " messages", l->v.received);
		return l->v.received == sc->nb;
	case LEAT_OP_WRITE:
	case LEAT_OP_WRITE_IMM:
		bytes = direct ? written_words(l->memory, size) : written(l->memory, size);
		all = bytes == size;
		CHECK(all || direct || sc->size == STEPS_LARGE || bytes == 0,
		      "torn: a write of %" PRIu64 " B", size);
		CHECK(all || (done == 0 && l->v.imms == 0), "lost: a write that is done");
		CHECK(l->v.imms <= 1, "doubled: %" PRIu64 " immediates", l->v.imms);
		CHECK(done == 0 || sc->type == LEAT_OP_WRITE || l->v.imms == 1,
		      "lost: an immediate");
		return sc->type == LEAT_OP_WRITE ? all : l->v.imms == 1;
	case LEAT_OP_FETCH_ADD:
	case LEAT_OP_CMP_SWAP:
		all = counted(l->memory);
		CHECK(all || done == 0, "lost: an atomic that is done");
		if (done > 0)
			check_answer(sc, n->memory);
		return all;
	default:
		CHECK(written(l->memory, 0) == 0, "written by a read");
		if (done > 0)
			check_answer(sc, n->memory);
		return done > 0;
	}
}

/* Check the messages that the victim received: each must be whole. */
static bool
check_received(const struct steps_scenario *sc, const struct steps_living *l,
	       const struct steps_notes *n)
{
	const unsigned int received = atomic_load(&n->received);
	unsigned int i;
	uint64_t nr;

	CHECK(received <= sc->nb, "doubled: %u messages", received);
	for (i = 0; i < received; i++) {
		nr = steps_message_check(n->memory + (size_t)i * STEPS_SLOT, n->len[i],
					 STEPS_SURVIVOR);
		CHECK(nr == i, "lost or doubled: the victim's message %u is %" PRIu64, i, nr);
		CHECK(l->v.result[i] == 0 || atomic_load(&n->taken) != 0,
		      "a send that was received: %s", strerror(-l->v.result[i]));
	}
	return received == sc->nb;
}

/*
 * Check the ops of the survivor whose target was the victim; a copy to the victim's memory may have
 * stopped at any byte.
 */
static bool
check_survivor_posts(const struct steps_scenario *sc, const struct steps_living *l,
		     const struct steps_notes *n)
{
	const uint64_t size = steps_bytes(sc->size, 0);
	const bool done = l->v.result[0] == 0;
	bool effect;

	if (steps_is_send(sc->type))
		return check_received(sc, l, n);
	if (is_atomic(sc)) {
		effect = counted(n->memory);
		CHECK(effect || !done, "lost: an atomic that is done");
	} else if (sc->type == LEAT_OP_WRITE) {
		CHECK(!done || written(n->memory, size) == size, "lost: a write that is done");
	} else {
		CHECK(written(n->memory, 0) == 0, "written by a read");
	}
	if (done)
		check_answer(sc, l->v.buf);
	return done;
}

bool
steps_check(const struct steps_scenario *sc, const struct steps_living *l,
	    const struct steps_notes *n)
{
	const bool through = atomic_load(&n->through) != 0;
	bool effect = false;

	CHECK(l->v.ups <= 1 && l->v.ends + l->v.failed <= 1 && l->v.ends >= l->v.ups,
	      "%u connections, %u ends, %u failed", l->v.ups, l->v.ends, l->v.failed);
	switch (sc->call) {
	case STEPS_VICTIM_POSTS:
		effect = check_victim_posts(sc, l, n);
		break;
	case STEPS_SURVIVOR_POSTS:
		effect = check_survivor_posts(sc, l, n);
		break;
	case STEPS_LISTEN:
		effect = atomic_load(&n->listens) != 0;
		break;
	case STEPS_CONNECT:
	case STEPS_ACCEPT:
		effect = l->v.ups > 0;
		break;
	case STEPS_DISCONNECT:
	case STEPS_CLOSE:
		effect = l->v.status == 0;
		break;
	case STEPS_DISCONNECTED:
		effect = atomic_load(&n->ended) != 0;
		break;
	}
	CHECK(effect || !through || atomic_load(&n->taken) != 0,
	      "lost: the victim is through, without effect");
	return effect;
}
