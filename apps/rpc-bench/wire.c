/* SPDX-License-Identifier: BSD-3-Clause */

#include "../common/cursor.h"
#include "wire.h"

#define MAGIC_HELLO UINT32_C(0x6862726c)
#define MAGIC_WELCOME UINT32_C(0x7762726c)

#define F_CHECK 0x1u
#define F_BOTH 0x2u
#define F_SWIFT 0x4u
#define F_ALL 0x7u

static int
put_len(const struct cursor *c, const void *buf)
{
	return c->over ? -ENOSPC : (int)(c->p - (const uint8_t *)buf);
}

/* ---- card ---- */

static void
put_card(struct cursor *c, const struct rb_card *card)
{
	uint16_t i;

	put(c, card->host, 8);
	put(c, card->pid, 4);
	put(c, card->nb_lcores, 2);
	put(c, 0, 2);
	put_str(c, card->name, sizeof(card->name));
	put_str(c, card->dev, sizeof(card->dev));
	put_str(c, card->driver, sizeof(card->driver));
	put_str(c, card->provider, sizeof(card->provider));
	put_str(c, card->interface, sizeof(card->interface));
	for (i = 0; i < card->nb_lcores; i++) {
		put(c, card->lcore[i].cpu, 2);
		put(c, card->lcore[i].nb_cpus, 2);
	}
}

static bool
get_card(struct cursor *c, struct rb_card *card)
{
	uint16_t i;

	card->host = get(c, 8);
	card->pid = (uint32_t)get(c, 4);
	card->nb_lcores = (uint16_t)get(c, 2);
	(void)get(c, 2);
	get_str(c, card->name, sizeof(card->name));
	get_str(c, card->dev, sizeof(card->dev));
	get_str(c, card->driver, sizeof(card->driver));
	get_str(c, card->provider, sizeof(card->provider));
	get_str(c, card->interface, sizeof(card->interface));
	if (card->nb_lcores == 0 || card->nb_lcores > RB_LCORES_MAX)
		return false;
	for (i = 0; i < card->nb_lcores; i++) {
		card->lcore[i].cpu = (uint16_t)get(c, 2);
		card->lcore[i].nb_cpus = (uint16_t)get(c, 2);
		if (card->lcore[i].nb_cpus == 0)
			return false;
	}
	return true;
}

/* ---- plan ---- */

static void
put_sizes(struct cursor *c, const struct rb_sizes *s)
{
	uint32_t i;

	put(c, s->n, 4);
	for (i = 0; i < s->n; i++) {
		put(c, s->item[i].lo, 4);
		put(c, s->item[i].hi, 4);
	}
}

static bool
get_sizes(struct cursor *c, struct rb_sizes *s)
{
	uint32_t i;

	s->n = (uint32_t)get(c, 4);
	if (s->n == 0 || s->n > RB_SIZES_MAX)
		return false;
	for (i = 0; i < s->n; i++) {
		s->item[i].lo = (uint32_t)get(c, 4);
		s->item[i].hi = (uint32_t)get(c, 4);
		if (s->item[i].lo > s->item[i].hi || s->item[i].hi > RB_SIZE_MAX)
			return false;
		s->max = RTE_MAX(s->max, s->item[i].hi);
	}
	return true;
}

static void
put_plan(struct cursor *c, const struct rb_plan *p)
{
	int k;

	put(c, (p->check ? F_CHECK : 0) | (p->both ? F_BOTH : 0) | (p->swift ? F_SWIFT : 0), 4);
	put(c, p->type, 4);
	put(c, p->tasks, 4);
	put(c, p->batch, 4);
	put(c, p->calls, 8);
	put(c, p->duration_us, 8);
	put(c, p->warmup, 8);
	put(c, p->rate_mhz, 8);
	put(c, p->deadline_us, 8);
	put(c, p->seed, 8);
	put(c, p->corrupt, 8);
	put(c, p->packet, 4);
	put(c, p->credits, 4);
	put(c, p->slots, 4);
	put(c, RB_KINDS, 4);
	for (k = 0; k < RB_KINDS; k++) {
		put(c, p->percent[k], 4);
		put_sizes(c, &p->req[k]);
		put_sizes(c, &p->resp[k]);
	}
}

static bool
get_plan(struct cursor *c, struct rb_plan *p)
{
	uint64_t flags = get(c, 4), type = get(c, 4), percent = 0;
	int k;

	p->check = (flags & F_CHECK) != 0;
	p->both = (flags & F_BOTH) != 0;
	p->swift = (flags & F_SWIFT) != 0;
	p->type = (enum leat_ep_type)type;
	p->tasks = (uint32_t)get(c, 4);
	p->batch = (uint32_t)get(c, 4);
	p->calls = get(c, 8);
	p->duration_us = get(c, 8);
	p->warmup = get(c, 8);
	p->rate_mhz = get(c, 8);
	p->deadline_us = get(c, 8);
	p->seed = get(c, 8);
	p->corrupt = get(c, 8);
	p->packet = (uint32_t)get(c, 4);
	p->credits = (uint32_t)get(c, 4);
	p->slots = (uint32_t)get(c, 4);
	if (get(c, 4) != RB_KINDS || (flags & ~(uint64_t)F_ALL) != 0 || type > LEAT_EP_DATAGRAM ||
	    p->tasks == 0 || p->tasks > RB_TASKS_MAX || p->batch == 0 || p->batch > RB_BATCH_MAX ||
	    (p->calls == 0) == (p->duration_us == 0) || p->calls > RB_COUNT_MAX ||
	    p->warmup > RB_COUNT_MAX)
		return false;
	for (k = 0; k < RB_KINDS; k++) {
		p->percent[k] = (uint32_t)get(c, 4);
		percent += p->percent[k];
		if (!get_sizes(c, &p->req[k]) || !get_sizes(c, &p->resp[k]))
			return false;
	}
	return percent == 100;
}

int
rb_plan_put(const struct rb_plan *p, void *buf, size_t len)
{
	struct cursor c = cursor_of(buf, len);

	put_plan(&c, p);
	return put_len(&c, buf);
}

/* ---- hello ---- */

int
rb_hello_put(const struct rb_hello *h, void *buf, size_t len)
{
	struct cursor c = cursor_of(buf, len);

	put(&c, MAGIC_HELLO, 4);
	put(&c, RB_WIRE_VERSION, 2);
	put(&c, h->rank, 2);
	put(&c, h->nb_ranks, 2);
	put_card(&c, &h->card);
	put_plan(&c, &h->plan);
	return put_len(&c, buf);
}

int
rb_hello_get(const void *buf, size_t len, struct rb_hello *h)
{
	struct cursor c = cursor_of(buf, len);

	memset(h, 0, sizeof(*h));
	if (get(&c, 4) != MAGIC_HELLO)
		return -EPROTO;
	if (get(&c, 2) != RB_WIRE_VERSION)
		return -EPROTONOSUPPORT;
	h->rank = (uint16_t)get(&c, 2);
	h->nb_ranks = (uint16_t)get(&c, 2);
	if (h->nb_ranks < 2 || h->nb_ranks > RB_RANKS_MAX || h->rank >= h->nb_ranks ||
	    !get_card(&c, &h->card) || !get_plan(&c, &h->plan) || c.over || c.left > 0)
		return -EPROTO;
	return 0;
}

int
rb_welcome_put(const struct rb_card *card, void *buf, size_t len)
{
	struct cursor c = cursor_of(buf, len);

	put(&c, MAGIC_WELCOME, 4);
	put(&c, RB_WIRE_VERSION, 2);
	put(&c, 0, 2);
	put_card(&c, card);
	return put_len(&c, buf);
}

int
rb_welcome_get(const void *buf, size_t len, struct rb_card *card)
{
	struct cursor c = cursor_of(buf, len);

	memset(card, 0, sizeof(*card));
	if (get(&c, 4) != MAGIC_WELCOME || get(&c, 2) != RB_WIRE_VERSION)
		return -EPROTO;
	(void)get(&c, 2);
	return !get_card(&c, card) || c.over || c.left > 0 ? -EPROTO : 0;
}

int
rb_nodes_put(const struct rb_nodes *n, void *buf, size_t len)
{
	struct cursor c = cursor_of(buf, len);
	uint16_t i;

	put(&c, n->token, 4);
	put(&c, n->nb_lcores, 2);
	for (i = 0; i < n->nb_lcores; i++)
		put(&c, n->port[i], 2);
	return put_len(&c, buf);
}

int
rb_nodes_get(const void *buf, size_t len, struct rb_nodes *n)
{
	struct cursor c = cursor_of(buf, len);
	uint16_t i;

	memset(n, 0, sizeof(*n));
	n->token = (uint32_t)get(&c, 4);
	n->nb_lcores = (uint16_t)get(&c, 2);
	if (n->nb_lcores > RB_LCORES_MAX)
		return -EPROTO;
	for (i = 0; i < n->nb_lcores; i++) {
		n->port[i] = (uint16_t)get(&c, 2);
		if (n->port[i] == 0)
			return -EPROTO;
	}
	return c.over || c.left > 0 ? -EPROTO : 0;
}

/* ---- result ---- */

static void
put_errors(struct cursor *c, const uint64_t *errors)
{
	uint16_t i, n = 0;

	for (i = 0; i < RB_ERRNOS; i++)
		n = (uint16_t)(n + (errors[i] != 0));
	put(c, n, 2);
	for (i = 0; i < RB_ERRNOS; i++) {
		if (errors[i] == 0)
			continue;
		put(c, i, 2);
		put(c, errors[i], 8);
	}
}

static bool
get_errors(struct cursor *c, uint64_t *errors)
{
	uint64_t n = get(c, 2), index;

	if (n > RB_ERRNOS)
		return false;
	while (n-- > 0) {
		index = get(c, 2);
		if (index >= RB_ERRNOS)
			return false;
		errors[index] = get(c, 8);
	}
	return true;
}

static void
put_wrong(struct cursor *c, const struct rb_wrong *w)
{
	put(c, w->what, 4);
	put(c, w->from, 4);
	put(c, w->to, 4);
	put(c, w->response, 1);
	put(c, w->kind, 1);
	put(c, 0, 2);
	put(c, w->id, 8);
	put(c, w->offset, 8);
	put(c, w->expected, 8);
	put(c, w->got, 8);
}

static bool
get_wrong(struct cursor *c, struct rb_wrong *w)
{
	w->what = (uint32_t)get(c, 4);
	w->from = (uint32_t)get(c, 4);
	w->to = (uint32_t)get(c, 4);
	w->response = get(c, 1) != 0;
	w->kind = (uint8_t)get(c, 1);
	(void)get(c, 2);
	w->id = get(c, 8);
	w->offset = get(c, 8);
	w->expected = get(c, 8);
	w->got = get(c, 8);
	return w->what < RB_WRONGS && w->kind < RB_KINDS;
}

/* The counters of a tally that are single numbers, in the order of the wire format. */
/* clang-format off */
#define COUNTERS(t)                                                                                \
	{                                                                                          \
		&(t)->bytes_out, &(t)->bytes_in, &(t)->elapsed_ns, &(t)->packets_sent,             \
		&(t)->packets_received, &(t)->items_sent, &(t)->credit_packets,                    \
		&(t)->retransmissions, &(t)->probes, &(t)->duplicates, &(t)->pulled,               \
		&(t)->pushed, &(t)->by_message, &(t)->unsent,                                      \
		&(t)->delayed, &(t)->delayed_max_ns, &(t)->made, &(t)->failed, &(t)->cut,          \
		&(t)->expired, &(t)->busy, &(t)->lost, &(t)->wrong, &(t)->served, &(t)->late,      \
		&(t)->refused, &(t)->preempted                                                     \
	}
/* clang-format on */

static void
put_tally(struct cursor *c, const struct rb_tally *t)
{
	const uint64_t *const counters[] = COUNTERS(t);
	size_t i;

	for (i = 0; i < RB_KINDS; i++)
		put(c, t->calls[i], 8);
	for (i = 0; i < RB_KINDS; i++)
		put(c, t->batches[i], 8);
	for (i = 0; i < RTE_DIM(counters); i++)
		put(c, *counters[i], 8);
	put_errors(c, t->errors);
	put(c, (uint32_t)t->others, 4);
	put_wrong(c, &t->first);
}

static bool
get_tally(struct cursor *c, struct rb_tally *t)
{
	uint64_t *const counters[] = COUNTERS(t);
	size_t i;

	for (i = 0; i < RB_KINDS; i++)
		t->calls[i] = get(c, 8);
	for (i = 0; i < RB_KINDS; i++)
		t->batches[i] = get(c, 8);
	for (i = 0; i < RTE_DIM(counters); i++)
		*counters[i] = get(c, 8);
	if (!get_errors(c, t->errors))
		return false;
	t->others = (int32_t)get(c, 4);
	return get_wrong(c, &t->first) && t->others >= -1 && t->others <= 1000;
}

int
rb_result_put(const struct rb_result *r, void *buf, size_t len)
{
	struct cursor c = cursor_of(buf, len);
	int k, n;

	put(&c, r->nb_lcores, 2);
	put(&c, RB_KINDS, 2);
	for (k = 0; k < r->nb_lcores; k++)
		put_tally(&c, &r->lcore[k]);
	for (k = 0; k < RB_KINDS && !c.over; k++) {
		n = leat_histogram_pack(r->hist[k], c.p, c.left);
		if (n < 0)
			return n;
		c.p += n;
		c.left -= (size_t)n;
	}
	return put_len(&c, buf);
}

static bool
get_result(struct cursor *c, struct rb_result *r)
{
	int k, n;

	for (k = 0; k < r->nb_lcores; k++) {
		if (!get_tally(c, &r->lcore[k]))
			return false;
	}
	for (k = 0; k < RB_KINDS && !c->over; k++) {
		n = leat_histogram_unpack(r->hist[k], c->p, c->left);
		if (n < 0)
			return false;
		c->p += n;
		c->left -= (size_t)n;
	}
	return !c->over && c->left == 0;
}

struct rb_result *
rb_result_get(const void *buf, size_t len)
{
	struct cursor c = cursor_of(buf, len);
	uint64_t lcores = get(&c, 2), kinds = get(&c, 2);
	struct rb_result *r;

	if (lcores == 0 || lcores > RB_LCORES_MAX || kinds != RB_KINDS)
		return NULL;
	r = rb_result_create((uint16_t)lcores);
	if (r != NULL && !get_result(&c, r)) {
		rb_result_free(r);
		r = NULL;
	}
	return r;
}
