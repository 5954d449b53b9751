/* SPDX-License-Identifier: BSD-3-Clause */

/* Counters and their sums. */

#include <stdlib.h>

#include <leat_histogram.h>

#include "content.h"
#include "world.h"

uint64_t
rb_tally_calls(const struct rb_tally *t)
{
	uint64_t n = 0;
	int k;

	for (k = 0; k < RB_KINDS; k++)
		n += t->calls[k];
	return n;
}

double
rb_tally_rate(const struct rb_tally *t)
{
	return t->elapsed_ns == 0 ? 0 : (double)rb_tally_calls(t) * 1e3 / (double)t->elapsed_ns;
}

double
rb_tally_coalesced(const struct rb_tally *t)
{
	uint64_t packets = t->packets_sent - t->credit_packets;

	return packets == 0 ? 0 : (double)t->items_sent / (double)packets;
}

void
rb_tally_add(struct rb_tally *sum, const struct rb_tally *t)
{
	int i;

	for (i = 0; i < RB_KINDS; i++) {
		sum->calls[i] += t->calls[i];
		sum->batches[i] += t->batches[i];
	}
	sum->bytes_out += t->bytes_out;
	sum->bytes_in += t->bytes_in;
	sum->elapsed_ns = RTE_MAX(sum->elapsed_ns, t->elapsed_ns);
	sum->packets_sent += t->packets_sent;
	sum->packets_received += t->packets_received;
	sum->items_sent += t->items_sent;
	sum->credit_packets += t->credit_packets;
	sum->retransmissions += t->retransmissions;
	sum->probes += t->probes;
	sum->duplicates += t->duplicates;
	sum->pulled += t->pulled;
	sum->pushed += t->pushed;
	sum->by_message += t->by_message;
	sum->unsent += t->unsent;
	sum->delayed += t->delayed;
	sum->delayed_max_ns = RTE_MAX(sum->delayed_max_ns, t->delayed_max_ns);
	sum->made += t->made;
	sum->failed += t->failed;
	sum->cut += t->cut;
	sum->expired += t->expired;
	sum->busy += t->busy;
	sum->lost += t->lost;
	sum->wrong += t->wrong;
	sum->served += t->served;
	sum->late += t->late;
	sum->refused += t->refused;
	for (i = 0; i < RB_ERRNOS; i++)
		sum->errors[i] += t->errors[i];
	sum->preempted += t->preempted;
	sum->others = RTE_MAX(sum->others, t->others);
	if (sum->first.what == RB_WRONG_NONE)
		sum->first = t->first;
}

void
rb_tally_status(struct rb_tally *t, int status)
{
	t->errors[RTE_MIN(-status, RB_ERRNOS - 1)]++;
}

bool
rb_tally_good(const struct rb_tally *t)
{
	return t->failed == 0 && t->lost == 0 && t->wrong == 0;
}

void
rb_wrong_print(const struct rb_wrong *w, char *text, size_t len)
{
	static const char *const what[RB_WRONGS] = { "?", "length", "byte", "caller" };
	char at[32] = "";

	if (w->what == RB_WRONG_BYTE)
		snprintf(at, sizeof(at), " at offset %" PRIu64, w->offset);
	snprintf(text, len,
		 "%s of kind %s, number %" PRIu64
		 ", from lcore %u.%u to %u.%u: %s%s expected 0x%" PRIx64 ", got 0x%" PRIx64,
		 w->response ? "response" : "request", rb_kind_name((enum rb_kind)w->kind),
		 rb_id_seq(w->id), rb_node_rank(w->from), rb_node_lcore(w->from),
		 rb_node_rank(w->to), rb_node_lcore(w->to), what[w->what < RB_WRONGS ? w->what : 0],
		 at, w->expected, w->got);
}

/* Store each counter negated: rb_tally_end() adds its later value, which gives the difference. */
void
rb_tally_begin(struct rb_tally *t, const struct leat_rpc_stats *st)
{
	t->packets_sent = -st->packets_sent;
	t->packets_received = -st->packets_received;
	t->items_sent = -st->items_sent;
	t->credit_packets = -st->credit_packets;
	t->retransmissions = -st->retransmissions;
	t->probes = -st->probes;
	t->duplicates = -st->duplicates;
	t->pulled = -st->pulled;
	t->pushed = -st->pushed;
	t->by_message = -st->by_message;
}

void
rb_tally_end(struct rb_tally *t, const struct leat_rpc_stats *st)
{
	t->packets_sent += st->packets_sent;
	t->packets_received += st->packets_received;
	t->items_sent += st->items_sent;
	t->credit_packets += st->credit_packets;
	t->retransmissions += st->retransmissions;
	t->probes += st->probes;
	t->duplicates += st->duplicates;
	t->pulled += st->pulled;
	t->pushed += st->pushed;
	t->by_message += st->by_message;
}

struct rb_result *
rb_result_create(uint16_t nb_lcores)
{
	struct rb_result *r = calloc(1, sizeof(*r));
	int k;

	if (r == NULL)
		return NULL;
	r->nb_lcores = nb_lcores;
	r->lcore = calloc(nb_lcores, sizeof(*r->lcore));
	for (k = 0; k < RB_KINDS; k++)
		r->hist[k] = leat_histogram_create();
	for (k = 0; k < RB_KINDS; k++) {
		if (r->lcore == NULL || r->hist[k] == NULL) {
			rb_result_free(r);
			return NULL;
		}
	}
	return r;
}

void
rb_result_free(struct rb_result *r)
{
	int k;

	if (r == NULL)
		return;
	for (k = 0; k < RB_KINDS; k++)
		leat_histogram_free(r->hist[k]);
	free(r->lcore);
	free(r);
}
