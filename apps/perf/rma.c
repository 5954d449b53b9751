/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Patterns of --check: in messages, in the memory that one-sided ops reach, and in their results.
 *
 *     send, tagged, msg   message seq holds the pattern of seq, which differs by direction
 *     write, write_imm    slot seq % window holds the pattern of seq until it is written again;
 *                         after each window the client waits until the server verified it
 *     read                each slot holds the pattern of the slot; the local buffer is
 *                         overwritten before each read
 *     fetch_add,          each slot has a word, which becomes word(slot, 0), word(slot, 1), ...
 *     cmp_swap            A slot is used again only after its last op has completed, so each
 *                         result is known beforehand
 */

#include <string.h>

#include "side.h"

static uint32_t
slot_of(const struct perf_side *s, uint64_t seq)
{
	return (uint32_t)(seq % s->run.window);
}

static uint64_t
load64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

void
perf_rma_init(struct perf_side *s)
{
	const struct perf_run *r = &s->run;
	uint64_t word;
	uint32_t i;

	if (r->op == LEAT_OP_READ && r->check) {
		for (i = 0; i < r->window; i++)
			perf_fill(s->remote + i * s->remote_stride, r->size,
				  perf_key(r->seed, PERF_AT_SERVER, i, r->size));
	} else if (r->op >= LEAT_OP_FETCH_ADD) {
		for (i = 0; i < r->window; i++) {
			word = perf_word(r->seed, i, 0);
			memcpy(s->remote + i * s->remote_stride, &word, sizeof(word));
		}
	} else if (r->op == LEAT_OP_WRITE && r->size > 0) {
		s->remote[r->size - 1] = 0; /* the byte that a ping-pong watches */
	}
}

/* Return how many of `count` messages used a slot. */
static uint64_t
uses(const struct perf_side *s, uint32_t slot, uint64_t count)
{
	return count / s->run.window + (slot < count % s->run.window);
}

void
perf_rma_verify(struct perf_side *s, uint64_t count)
{
	const struct perf_run *r = &s->run;
	uint64_t seq, want, got;
	uint32_t i;

	if (count == 0 || !r->check || (r->test == PERF_LAT && !r->open && r->op < LEAT_OP_READ))
		return; /* nothing to verify, or each message was verified when it arrived */
	if (r->op >= LEAT_OP_FETCH_ADD) {
		for (i = 0; i < r->window; i++) {
			want = perf_word(r->seed, i, uses(s, i, count));
			got = load64(s->remote + i * s->remote_stride);
			if (want != got)
				perf_error_add(&s->errors, PERF_ERR_VALUE, count - 1,
					       i * s->remote_stride, want, got);
		}
	} else if (r->op == LEAT_OP_WRITE || r->op == LEAT_OP_WRITE_IMM) {
		seq = count > r->window ? count - r->window : 0;
		for (seq = RTE_MAX(seq, s->checked); seq < count; seq++)
			perf_check(&s->errors, s->remote + slot_of(s, seq) * s->remote_stride,
				   r->size, perf_key(r->seed, PERF_TO_SERVER, seq, r->size), seq);
		s->checked = count;
	}
}

void
perf_rx_verify(struct perf_side *s, const struct leat_op *op, uint64_t seq, bool imm)
{
	const struct perf_run *r = &s->run;

	if (imm && ((op->oflags & LEAT_OP_F_IMM) == 0 || perf_imm(s, op->imm) != perf_imm(s, seq)))
		perf_error_add(&s->errors, PERF_ERR_IMM, seq, 0, perf_imm(s, seq),
			       perf_imm(s, op->imm));
	perf_check(&s->errors, imm ? s->remote : op->buf, r->size,
		   perf_key(r->seed, perf_dir_in(s), seq, r->size), seq);
}

struct leat_op *
perf_tx_prepare(struct perf_side *s, uint64_t seq)
{
	struct leat_op *op = s->txp[seq % s->nb_tx];
	const struct perf_run *r = &s->run;
	bool spoil = seq + 1 == s->corrupt;
	uint64_t step;

	switch (r->op) {
	case LEAT_OP_READ:
		if (r->size > 0)
			memset(op->buf, 0xdb, r->size);
		break;
	case LEAT_OP_FETCH_ADD:
		op->operand = perf_word_step(r->seed) + spoil;
		break;
	case LEAT_OP_CMP_SWAP:
		step = perf_word_step(r->seed);
		op->compare = perf_word(r->seed, slot_of(s, seq), seq / r->window);
		op->operand = op->compare + step + spoil;
		break;
	default:
		perf_fill(op->buf, r->size, perf_key(r->seed, perf_dir_out(s), seq, r->size));
		if (spoil && r->size > 0)
			((uint8_t *)op->buf)[(r->size - 1) / 2] ^= 0x10;
		op->imm = seq;
		break;
	}
	return op;
}

void
perf_tx_verify(struct perf_side *s, uint64_t seq)
{
	const struct leat_op *op = s->txp[seq % s->nb_tx];
	const struct perf_run *r = &s->run;
	uint64_t want, got;

	if (op->len != r->size && r->op >= LEAT_OP_READ)
		perf_error_add(&s->errors, PERF_ERR_LENGTH, seq, 0, r->size, op->len);
	if (r->op == LEAT_OP_READ) {
		if (seq + 1 == s->corrupt && r->size > 0)
			((uint8_t *)op->buf)[(r->size - 1) / 2] ^= 0x10;
		perf_check(&s->errors, op->buf, r->size,
			   perf_key(r->seed, PERF_AT_SERVER, slot_of(s, seq), r->size), seq);
	} else if (r->op >= LEAT_OP_FETCH_ADD) {
		want = perf_word(r->seed, slot_of(s, seq), seq / r->window);
		got = load64(op->buf);
		if (want != got)
			perf_error_add(&s->errors, PERF_ERR_VALUE, seq,
				       slot_of(s, seq) * s->remote_stride, want, got);
	}
}
