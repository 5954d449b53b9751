/* SPDX-License-Identifier: BSD-3-Clause */

/* Endpoints: each has a lower endpoint, whose regions and wait object it uses. */

#include <stdlib.h>
#include <string.h>

#include "fault_pvt.h"

/*
 * Number of additional peers of the lower endpoint: when a peer ends, its id becomes free at the
 * upper endpoint a moment earlier than at the lower one. Requests beyond the upper endpoint's peers
 * are rejected.
 */
#define PEERS_MORE 8

/* FNV-1a (Fowler, Noll, Vo), 64 bits. */
static uint64_t
hash_name(const char *name)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; *name != '\0'; name++)
		h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	return h;
}

static void
dist_to_cycles(struct fault_dist *d)
{
	d->lo = leat_us_to_cycles(d->lo);
	d->hi = leat_us_to_cycles(d->hi);
}

/*
 * Seed the random streams of an endpoint, by its name if it has one. Then its faults depend neither
 * on the order in which lcores create their endpoints nor on the number of earlier endpoints.
 */
static void
streams_init(struct fault_ep *fe, struct fault_dev *fd, const char *name)
{
	unsigned int nr = __atomic_fetch_add(&fd->nb_eps, 1, __ATOMIC_RELAXED);
	uint64_t id = name != NULL ? hash_name(name) : nr;
	unsigned int kind;
	char number[16];

	snprintf(number, sizeof(number), "%u", nr);
	for (kind = 0; kind < FAULT_KINDS; kind++)
		fault_rand_init(&fe->rand[kind], fd->conf.seed, id, kind);
	fe->conf = fd->conf;
	dist_to_cycles(&fe->conf.delay);
	dist_to_cycles(&fe->conf.stall_time);
	LEAT_LOG(INFO, driver, "%s: endpoint %s: faults by seed %" PRIu64 " and its %s %s",
		 leat_dev_name(fe->ep->dev), leat_ep_name(fe->ep), fd->conf.seed,
		 name != NULL ? "name" : "number", name != NULL ? name : number);
}

static struct leat_ep *
open_lower(const struct leat_ep *ep, struct leat_dev *lower, const struct leat_ep_conf *conf)
{
	struct leat_ep_conf c = *conf;
	struct leat_dev_info info;
	char name[LEAT_ADDR_MAX];

	if (leat_dev_info_for(lower, conf->ops, &info) < 0)
		return NULL;
	snprintf(name, sizeof(name), "%s/%s", leat_ep_name(ep), leat_dev_name(lower));
	c.name = name;
	c.nb_mempools = 0; /* the library registers them at the upper endpoint: fault_mr_reg() */
	c.mempools = NULL;
	c.mempool_access = 0;
	c.max_peers = (uint16_t)RTE_MIN((uint32_t)conf->max_peers + PEERS_MORE, info.max_peers);
	return leat_ep_create(lower, &c);
}

static void
fe_free(struct fault_ep *fe)
{
	free(fe->mem);
	free(fe->delayed.op);
	free(fe->mixed.op);
	free(fe->shuffled.op);
	free(fe->peers);
	free(fe->by_low);
	free(fe);
}

static struct fault_ep *
fe_alloc(uint32_t nb_ops, uint16_t nb_peers, uint16_t nb_low)
{
	struct fault_ep *fe = calloc(1, sizeof(*fe));
	uint32_t i;

	if (fe == NULL)
		return NULL;
	fe->mem = calloc(1, nb_ops * sizeof(*fe->ops) + LEAT_CACHE_LINE);
	fe->delayed.op = calloc(nb_ops, sizeof(*fe->delayed.op));
	fe->mixed.op = calloc(nb_ops, sizeof(*fe->mixed.op));
	fe->shuffled.op = calloc(nb_ops, sizeof(*fe->shuffled.op));
	fe->peers = calloc(nb_peers, sizeof(*fe->peers));
	fe->by_low = calloc(nb_low, sizeof(*fe->by_low));
	if (fe->mem == NULL || fe->delayed.op == NULL || fe->mixed.op == NULL ||
	    fe->shuffled.op == NULL || fe->peers == NULL || fe->by_low == NULL) {
		fe_free(fe);
		return NULL;
	}
	fe->ops = RTE_PTR_ALIGN_CEIL(fe->mem, LEAT_CACHE_LINE);
	TAILQ_INIT(&fe->free);
	TAILQ_INIT(&fe->stalled);
	for (i = 0; i < nb_peers; i++) {
		TAILQ_INIT(&fe->peers[i].waiting);
		TAILQ_INIT(&fe->peers[i].kept);
	}
	return fe;
}

static void
close_lower(struct leat_ep *low)
{
	int ret = leat_ep_close(low, 0, NULL, NULL);

	/* -ETIMEDOUT: the endpoint was aborted; it is closed nevertheless. */
	if (ret < 0 && ret != -ETIMEDOUT)
		LEAT_LOG(ERR, driver, "fault: the endpoint below can't be closed: %s",
			 leat_err_msg());
}

int
fault_ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf)
{
	struct fault_dev *fd = leat_dev_drv(ep->dev);
	struct leat_ep *low = open_lower(ep, fd->lower, conf);
	struct fault_ep *fe;

	if (low == NULL)
		return -rte_errno;
	fe = fe_alloc(conf->tx_depth + conf->rx_depth, conf->max_peers, low->nb_peers);
	if (fe == NULL) {
		close_lower(low);
		return leat_err(ENOMEM, "create endpoint: out of memory for %u ops, %u peers",
				conf->tx_depth + conf->rx_depth, conf->max_peers);
	}
	fe->ep = ep;
	fe->low = low;
	fe->dev = fd;
	fe->datagram = conf->type == LEAT_EP_DATAGRAM;
	streams_init(fe, fd, conf->name);
	ep->drv = fe;
	ep->post = fault_post;
	ep->poll = fault_poll;
	ep->mr_local = low->mr_local;
	ep->directed_recv = low->directed_recv;
	fault_telemetry_add(fe);
	return 0;
}

void
fault_ep_quiesce(struct leat_ep *ep)
{
	struct fault_ep *fe = fault_of(ep);
	uint32_t i;

	for (i = 0; i < fe->nb_ops; i++) {
		struct fault_op *f = &fe->ops[i];

		/* An op that is done already, or can't be recalled, completes without a cancel. */
		if (f->where != FAULT_FREE && leat_op_is_recv(f->op))
			(void)fault_cancel(ep, f->op);
	}
}

void
fault_ep_abort(struct leat_ep *ep)
{
	struct fault_ep *fe = fault_of(ep);

	fe->aborting = true;
	fault_peers_abort(fe);
	fault_flush(fe, NULL);
	/* No time to drain: ops in flight below complete in one of the next polls. */
	(void)leat_ep_shutdown(fe->low, 0);
}

void
fault_ep_close(struct leat_ep *ep)
{
	struct fault_ep *fe = fault_of(ep);

	fault_telemetry_del(fe);
	close_lower(fe->low);
	fe_free(fe);
	ep->drv = NULL;
}

/* ---- regions ---- */

int
fault_mr_reg(struct leat_ep *ep, struct leat_mr_piece *piece, uint32_t access)
{
	struct leat_mr *mr = leat_mr_register(fault_of(ep)->low, piece->addr, piece->len, access);

	if (mr == NULL)
		return -rte_errno;
	piece->drv = mr;
	piece->desc = mr->piece[0].desc;
	piece->key = mr->piece[0].key;
	piece->base = mr->piece[0].base;
	return 0;
}

int
fault_mr_dereg(struct leat_ep *ep, struct leat_mr_piece *piece)
{
	RTE_SET_USED(ep);
	return leat_mr_deregister(piece->drv);
}

/* ---- wait objects ---- */

int
fault_ep_fd(const struct leat_ep *ep)
{
	return leat_ep_fd(fault_of(ep)->low);
}

int
fault_ep_arm(struct leat_ep *ep)
{
	struct fault_ep *fe = fault_of(ep);
	int ret = leat_ep_arm(fe->low);

	/* -ESHUTDOWN: the lower endpoint reports nothing more; poll the proxies held here. */
	if (ret == -EAGAIN || ret == -ESHUTDOWN || fe->mixed.nb > 0 || fe->shuffled.nb > 0)
		return -EAGAIN;
	/* The end of a delay or of a stall makes no descriptor readable, so don't sleep. */
	if (fe->delayed.nb > 0 || !TAILQ_EMPTY(&fe->stalled) || fe->refused)
		ret = -EBUSY;
	fe->refused = false;
	return ret;
}

void
fault_ep_disarm(struct leat_ep *ep)
{
	leat_ep_disarm(fault_of(ep)->low);
}
