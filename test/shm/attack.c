/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The intruder's writes. Most are well-formed except for one value: the victim would reject random
 * bytes at its first check.
 */

#include "leat_cmocka.h"
#include "intruder.h"

static uint64_t
rnd(struct intruder *in)
{
	return test_random(&in->random);
}

/* @return true in one of `of` calls, at random */
static bool
seldom(struct intruder *in, uint32_t of)
{
	return rnd(in) % of == 0;
}

/*
 * Shall the next value be an invalid one? The rate differs between connections, so that some of
 * them last long.
 */
static bool
wild(struct intruder *in)
{
	return seldom(in, in->wild_period);
}

/* ---- at random ---- */

static void
scribble(struct intruder *in)
{
	const struct shm_memory *m[] = { &in->lane,	   &in->their_lane, &in->their_lane,
					 &in->their_board, &in->board,	    &in->word };
	const struct shm_memory *at = m[rnd(in) % RTE_DIM(m)];
	uint64_t r = rnd(in), from = rnd(in) % at->len, i, n = 1 + r % 8;
	uint8_t *mem = at->mem;

	/* Write mostly to the beginning of the memory, which the victim reads more often. */
	if ((r & 0x300) != 0)
		from %= RTE_MIN(at->len, (size_t)8192);
	if ((r & 0xfc00) == 0)
		n = 4096;
	for (i = 0; i < n && from + i < at->len; i++)
		mem[from + i] = (uint8_t)rnd(in);
}

static void
scribble_board(struct intruder *in)
{
	struct ring_board *b = in->their_board.mem;
	const uint64_t r = rnd(in);
	const uint32_t word = (uint32_t)(r >> 8) % (r & 1 ? 8 : 1024);

	if (seldom(in, 4)) {
		memset(b, 0, RING_BOARD_SIZE);
		return;
	}
	__atomic_store_n(&b->words[word], rnd(in), __ATOMIC_RELAXED);
	__atomic_store_n(&b->lines[r >> 32 & 1], rnd(in), __ATOMIC_RELAXED);
}

/* ---- messages ---- */

static uint32_t
some_len(struct intruder *in)
{
	static const uint32_t lens[] = {
		0,	    1,	   8,	  8,	 88,	96,    97,    104,	1000,
		4096,	    16384, 16385, 32768, 65536, 80000, 80001, 1u << 30, (1u << 30) + 1,
		UINT32_MAX,
	};

	return lens[rnd(in) % (wild(in) ? RTE_DIM(lens) : 13)];
}

static uint32_t
some_kind(struct intruder *in)
{
	/* RING_F_* << 8 | type of the op; frequent kinds are there twice */
	static const uint32_t kinds[] = {
		RING_F_INLINE << 8 | LEAT_OP_SEND,
		RING_F_INLINE << 8 | LEAT_OP_SEND,
		RING_F_INLINE << 8 | LEAT_OP_TSEND,
		(RING_F_INLINE | RING_F_IMM) << 8 | LEAT_OP_SEND,
		RING_F_BUF << 8 | LEAT_OP_SEND,
		RING_F_BUF << 8 | LEAT_OP_TSEND,
		(RING_F_BUF | RING_F_IMM) << 8 | LEAT_OP_SEND,
		RING_F_ACK << 8 | LEAT_OP_SEND,
		RING_F_ACK << 8 | LEAT_OP_TSEND,
		(RING_F_ACK | RING_F_INLINE) << 8 | LEAT_OP_WRITE,
		(RING_F_ACK | RING_F_BUF) << 8 | LEAT_OP_WRITE,
		RING_F_ACK << 8 | LEAT_OP_WRITE,
		(RING_F_ACK | RING_F_INLINE) << 8 | LEAT_OP_WRITE_IMM,
		(RING_F_ACK | RING_F_BUF) << 8 | LEAT_OP_WRITE_IMM,
		RING_F_ACK << 8 | LEAT_OP_WRITE_IMM,
		RING_F_ACK << 8 | LEAT_OP_READ,
		RING_F_ACK << 8 | LEAT_OP_READ,
		RING_F_ACK << 8 | LEAT_OP_FETCH_ADD,
		RING_F_ACK << 8 | LEAT_OP_CMP_SWAP,
	};

	static const uint32_t shared_kinds[] = {
		(RING_F_ACK | RING_F_SHARED) << 8 | LEAT_OP_SEND,
		(RING_F_ACK | RING_F_SHARED) << 8 | LEAT_OP_TSEND,
		(RING_F_ACK | RING_F_SHARED) << 8 | LEAT_OP_WRITE,
		(RING_F_ACK | RING_F_SHARED) << 8 | LEAT_OP_WRITE_IMM,
	};

	if (wild(in))
		return (uint32_t)rnd(in) & 0x1fff;
	if (in->shares && seldom(in, 4))
		return shared_kinds[rnd(in) % RTE_DIM(shared_kinds)];
	/* Datagram endpoints know fewer kinds of messages. */
	if (in->datagram && !wild(in))
		return LEAT_OP_SEND | (rnd(in) & 1 ? RING_F_INLINE << 8 : 0) |
		       (seldom(in, 3) ? RING_F_IMM << 8 : 0);
	return kinds[rnd(in) % RTE_DIM(kinds)];
}

/* An offset in the intruder's buffer, an address, a key, or any value. */
static uint64_t
some_word(struct intruder *in)
{
	const uint64_t r = rnd(in), bytes = in->shape.nb_bytes;

	switch (wild(in) ? r % 5 : r % 16 + 5) {
	case 0:
		return rnd(in);
	case 1:
		return UINT64_MAX - (r >> 8) % 200;
	case 2:
		return bytes - (r >> 8) % 200;
	case 3:
	case 5:
		return in->exposed.addr + (r >> 8) % in->shape.nb_bytes;
	case 4:
	case 6:
		return in->exposed.key;
	default:
		return (r >> 8) % (bytes / 8);
	}
}

/*
 * Put addresses of the intruder's shared memory into all words of the slot that can hold one. Some
 * of them lie beyond the end of that memory.
 */
static void
shared_words(struct intruder *in, struct ring_slot *slot)
{
	unsigned int i;

	for (i = 0; i < 3; i++)
		slot->w[i] = INTRUDER_AT + (wild(in) ? rnd(in) : rnd(in) % (INTRUDER_SHARED / 2));
}

static void
fill_words(struct intruder *in, struct ring_slot *slot, uint32_t kind)
{
	const uint32_t type = kind & 0xff;
	unsigned int i;

	for (i = 0; i < RING_WORDS; i++)
		slot->w[i] = some_word(in);
	if ((kind >> 8 & RING_F_SHARED) != 0)
		shared_words(in, slot);
	slot->addr = rnd(in);
	if (type < LEAT_OP_WRITE || seldom(in, 50))
		return;
	slot->w[0] = in->exposed.key;
	slot->addr = in->exposed.addr + (seldom(in, 8) ? rnd(in) : rnd(in) % 20000 * 8);
}

/* Publish a message, mostly in the slot where the victim expects the next one. */
static void
publish(struct intruder *in)
{
	struct ring_slot *slot = &in->tx.slots[in->place];
	uint32_t next = (in->place + 1) & in->tx.mask, kind = some_kind(in), len = some_len(in);
	uint64_t head;

	if (seldom(in, 40))
		next = (uint32_t)rnd(in) & 0xffff;
	if ((kind & 0xff) >= LEAT_OP_FETCH_ADD && !seldom(in, 10))
		len = 8;
	if ((kind >> 8 & RING_F_INLINE) != 0 && !wild(in))
		len %= RING_INLINE_MAX + 1;
	fill_words(in, slot, kind);
	slot->next = (uint16_t)next;
	slot->credit = seldom(in, 30) ? (uint32_t)rnd(in) : (uint32_t)RING_FIRST;
	slot->state = seldom(in, 30) ? (uint16_t)(rnd(in) % 4) : RING_POSTED;
	head = ring_head(in->nr, kind & 0xff, kind >> 8 & 0x1f, len);
	if (seldom(in, 10))
		head |= ring_head_more((uint32_t)rnd(in) & 0x07);
	__atomic_store_n(&slot->head, head, __ATOMIC_RELEASE);
	in->place = next & in->tx.mask;
	in->nr++;
	if (wild(in) && seldom(in, 20))
		in->nr += 65536 -
			  in->shape.nb; /* the number of the message one round of the ring ago */
}

void
intruder_send(struct intruder *in, uint32_t kind, uint32_t len, uint64_t word)
{
	struct ring_slot *slot = &in->tx.slots[in->place];
	unsigned int i;

	for (i = 0; i < RING_WORDS; i++)
		slot->w[i] = word;
	in->place = (in->place + 1) & in->tx.mask;
	slot->next = (uint16_t)in->place;
	slot->credit = (uint32_t)RING_FIRST;
	slot->state = RING_POSTED;
	__atomic_store_n(&slot->head, ring_head(in->nr++, kind & 0xff, kind >> 8 & 0x1f, len),
			 __ATOMIC_RELEASE);
}

/* Change a message that was published. */
static void
change(struct intruder *in)
{
	struct ring_slot *slot = &in->tx.slots[rnd(in) & in->tx.mask];
	uint64_t head = slot->head;

	switch (rnd(in) % 4) {
	case 0:
		head = (head & 0xffffffff) | (uint64_t)some_len(in) << 32;
		break;
	case 1:
		head = (head & ~UINT64_C(0x1fff0000)) | (uint64_t)some_kind(in) << 16;
		break;
	case 2:
		slot->state = (uint16_t)(rnd(in) % 4);
		break;
	default:
		slot->w[rnd(in) % RING_WORDS] = some_word(in);
		break;
	}
	__atomic_store_n(&slot->head, head, __ATOMIC_RELEASE);
}

/* ---- acks ---- */

/*
 * @return the index of a slot of the victim that waits for an ack (*there: true); if none waits,
 * the index of any slot (*there: false)
 */
static uint32_t
some_unacked(struct intruder *in, bool *there)
{
	uint32_t i, place = (uint32_t)rnd(in) & in->rx.mask, at = place;

	*there = false;
	for (i = 0; i <= in->rx.mask && !*there; i++) {
		at = (place + i) & in->rx.mask;
		*there = (RING_HEAD_FLAGS(in->rx.slots[at].head) & RING_F_ACK) != 0 &&
			 in->acked[at % INTRUDER_ACKED] != in->rx.slots[at].head;
	}
	return at;
}

/* Number of the message in a slot, as it appears in acks and chunks. */
static uint16_t
number(const struct intruder *in, uint32_t place)
{
	return (uint16_t)(((uint16_t)in->rx.slots[place].head - 1u) & in->rx.mask);
}

static void
put_ack(struct intruder *in, uint16_t slot, int status)
{
	struct ring_ack *a = &in->rx.acks[in->ack & (in->rx.mask * RING_ACKS + RING_ACKS - 1)];

	a->value = rnd(in);
	in->ack++;
	__atomic_store_n(&a->head,
			 (uint64_t)(uint32_t)status << 32 | (uint64_t)slot << 16 |
				 (uint16_t)in->ack,
			 __ATOMIC_RELEASE);
}

static void
ack(struct intruder *in)
{
	static const int some[] = { 0, 0, 0, RING_GO, RING_GO, RING_GO, -EACCES, -4095 };
	int status = some[rnd(in) % RTE_DIM(some)];
	bool there;
	uint32_t place = some_unacked(in, &there);
	uint64_t head = in->rx.slots[place].head;
	uint16_t slot = number(in, place);

	if (wild(in)) {
		put_ack(in, (uint16_t)rnd(in), (int)rnd(in));
		return;
	}
	if (!there && !wild(in))
		return;
	if (RING_HEAD_TYPE(head) == LEAT_OP_READ && !wild(in))
		status = -EACCES;
	else if ((RING_HEAD_TYPE(head) >= LEAT_OP_FETCH_ADD || RING_HEAD_LEN(head) <= 96 ||
		  in->going == head) &&
		 status > 0)
		status = 0;
	if (status > 0)
		in->going = head;
	else
		in->acked[place % INTRUDER_ACKED] = head;
	/* Half of the time, never ack this slot again. */
	if (status > 0 && (rnd(in) & 1) != 0)
		in->acked[place % INTRUDER_ACKED] = head;
	put_ack(in, slot, status);
}

/* ---- chunks ---- */

static void
chunk(struct intruder *in)
{
	struct ring_chunk *c = (struct ring_chunk *)in->tx.chunks + (in->put & in->tx.chunk_mask);
	const uint64_t room = in->put - in->tx.dir->chunks_taken;
	bool there;

	if (room > in->tx.chunk_mask && !wild(in))
		return;
	c->len = seldom(in, 3) && !wild(in) ? RING_CHUNK : some_len(in);
	if (c->len > RING_CHUNK && !wild(in))
		c->len %= RING_CHUNK;
	c->id = (uint16_t)(rnd(in) & 1 ? number(in, some_unacked(in, &there)) : rnd(in));
	c->kind = (uint16_t)(wild(in) ? rnd(in) : 1 + (rnd(in) & 1));
	in->put += wild(in) ? rnd(in) % 40 : 1;
	__atomic_store_n(&in->tx.dir->chunks_put, in->put, __ATOMIC_RELEASE);
}

/* Begin the answer to a READ, and then ack the READ as failed. */
static void
answer_and_fail(struct intruder *in)
{
	struct ring_chunk *c = (struct ring_chunk *)in->tx.chunks + (in->put & in->tx.chunk_mask);
	bool there;
	uint32_t place = some_unacked(in, &there);
	const uint64_t head = in->rx.slots[place].head;

	if (!there || RING_HEAD_TYPE(head) != LEAT_OP_READ || RING_HEAD_LEN(head) == 0)
		return;
	c->len = (uint32_t)RTE_MIN(RING_HEAD_LEN(head), (uint64_t)RING_CHUNK);
	c->id = number(in, place);
	c->kind = RING_CHUNK_ANSWER;
	__atomic_store_n(&in->tx.dir->chunks_put, ++in->put, __ATOMIC_RELEASE);
	in->acked[place % INTRUDER_ACKED] = head;
	put_ack(in, c->id, -EACCES);
}

/* ---- counters and words ---- */

static void
counters(struct intruder *in)
{
	struct ring_dir *d = in->rx.dir;
	const uint64_t r = rnd(in);

	/* Mostly write the position that the victim itself holds, or a slightly larger one. */
	switch (r % 8) {
	case 0:
		if (wild(in))
			__atomic_store_n(&d->consumed, rnd(in), __ATOMIC_RELEASE);
		break;
	case 1:
		__atomic_store_n(&d->consumed, d->consumed - (r >> 8) % 100, __ATOMIC_RELEASE);
		break;
	case 2:
		__atomic_store_n(&d->chunks_taken, rnd(in), __ATOMIC_RELEASE);
		break;
	case 3:
	case 4:
		__atomic_store_n(&d->chunks_taken, d->chunks_put, __ATOMIC_RELEASE);
		break;
	default:
		__atomic_store_n(&d->consumed, d->consumed + (r >> 8) % 20, __ATOMIC_RELEASE);
		break;
	}
}

/* Change the table of the intruder's regions, in which the victim looks up the keys of its ops. */
static void
scribble_table(struct intruder *in)
{
	struct shm_table *t = in->table.mem;
	struct ring_entry *e;

	if (!in->shares)
		return;
	e = &t->entries[INTRUDER_KEY & RING_KEY_INDEX];
	e->key = seldom(in, 4) ? rnd(in) : INTRUDER_KEY;
	e->addr = seldom(in, 4) ? rnd(in) : INTRUDER_AT;
	e->len = seldom(in, 4) ? rnd(in) : INTRUDER_SHARED;
	e->access = seldom(in, 4) ? rnd(in) : LEAT_MR_REMOTE_ALL;
	if (seldom(in, 4))
		t->pieces[rnd(in) % SHM_SHARE_FDS].len = rnd(in);
}

static void
words(struct intruder *in)
{
	struct ring_dir *d = in->tx.dir;
	const uint32_t r = (uint32_t)rnd(in);

	switch (r % 8) {
	case 0:
		d->closed = r >> 8 & 3;
		break;
	case 5:
		__atomic_store_n(&d->touching, r >> 8 & 7, __ATOMIC_RELAXED);
		break;
	case 6:
		scribble_table(in);
		break;
	case 1:
	case 2:
		__atomic_store_n(&d->want, r >> 8 & 7, __ATOMIC_RELAXED);
		break;
	case 3:
		__atomic_store_n(&d->marks, r >> 8 & 7, __ATOMIC_RELAXED);
		break;
	case 4:
		__atomic_store_n(&d->recalls, r, __ATOMIC_RELAXED);
		break;
	default:
		__atomic_store_n((uint32_t *)in->word.mem, r & 0x700, __ATOMIC_RELAXED);
		break;
	}
	(void)leat_exchange_note(in->x, in->conn);
}

/* Change a slot in the victim's lane: its state, and sometimes its head. */
static void
their_slots(struct intruder *in)
{
	struct ring_slot *slot = &in->rx.slots[rnd(in) & in->rx.mask];

	if (wild(in))
		slot->head = rnd(in);
	__atomic_store_n(&slot->state, (uint16_t)(rnd(in) % 4), __ATOMIC_RELAXED);
}

void
intruder_attack(struct intruder *in)
{
	const uint32_t r = (uint32_t)rnd(in) % 100;

	if (!in->up)
		return;
	if (r < 45 || (in->datagram && r >= 50 && r < 75))
		publish(in);
	else if (r < 50)
		change(in);
	else if (r < 62)
		ack(in);
	else if (r < 73)
		chunk(in);
	else if (r < 75)
		answer_and_fail(in);
	else if (r < 86)
		counters(in);
	else if (r < 91)
		words(in);
	else if (r < 94)
		their_slots(in);
	else if (r < 99 || !wild(in))
		scribble_board(in);
	else
		scribble(in);
}
