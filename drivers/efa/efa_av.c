/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The address vector: one entry per remote endpoint, however many connections there are to it, and the way
 * back from an fi_addr to the peer.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "efa_read.h"

/* Indices of an FI_AV_TABLE are small; a provider that hands out others does not get its sources told. */
#define ADDR_INDEX_MAX (1u << 20)
/* How long an address without a peer stays. */
#define QUARANTINE_US 1000000
/* Messages taken out in one go. */
#define DRAIN_MAX 2048
/* What the dead sent is all there when nothing came for so long; and an end of it in any case. */
#define QUIET_US 2000
#define DRAIN_DEAD_US 500000

static int
map_grow(struct efa_ep *e, fi_addr_t fi)
{
	uint64_t i, n = e->nb_addr == 0 ? 64 : e->nb_addr;
	uint16_t *v;

	if (fi < e->nb_addr || fi >= ADDR_INDEX_MAX)
		return 0;
	while (n <= fi)
		n *= 2;
	v = realloc(e->addr_peer, n * sizeof(*v));
	if (v == NULL)
		return -ENOMEM;
	for (i = e->nb_addr; i < n; i++)
		v[i] = LEAT_PEER_ANY;
	e->addr_peer = v;
	e->nb_addr = n;
	return 0;
}

static void
map_set(struct efa_ep *e, fi_addr_t fi, uint16_t peer)
{
	if (fi < e->nb_addr)
		e->addr_peer[fi] = peer;
}

static int
insert(struct efa_ep *e, struct efa_addr *a)
{
	int ret;

	if ((e->quirks & EFA_Q_SHM) != 0) {
		ret = efa_shm_attach(e, a);
		if (ret < 0)
			return ret;
	}
	ret = fi_av_insert(e->av, a->raw, 1, &a->fi, 0, NULL);
	if (ret == 1 && a->fi != FI_ADDR_NOTAVAIL && map_grow(e, a->fi) == 0) {
		return 0;
	}
	if (ret == 1 && a->fi != FI_ADDR_NOTAVAIL)
		(void)fi_av_remove(e->av, &a->fi, 1, 0);
	if ((e->quirks & EFA_Q_SHM) != 0)
		efa_shm_detach(e, a);
	return leat_err(ENOSPC, "%s: endpoint %s: fi_av_insert: %s", e->dev->name,
			leat_ep_name(e->ep), ret < 0 ? fi_strerror(-ret) : "address not taken");
}

/* An address from outside. That of another family would be taken, and never reached. */
static int
check_addr(const struct efa_ep *e, const uint8_t *raw, uint16_t len)
{
	bool ip = e->info->addr_format == FI_SOCKADDR_IN || e->info->addr_format == FI_SOCKADDR_IN6;

	if (len == 0 || len > EFA_ADDR_MAX || ((e->quirks & EFA_Q_SHM) == 0 && len != e->raw_len))
		return leat_err(
			EPROTO,
			"%s: endpoint %s: the other side's provider address has %u B, one of "
			"this side has %u: the same provider and IP version at both sides?",
			e->dev->name, leat_ep_name(e->ep), len, e->raw_len);
	if (ip && memcmp(raw, e->raw, sizeof(sa_family_t)) != 0)
		return leat_err(EPROTO,
				"%s: endpoint %s: the other side's address is of another family",
				e->dev->name, leat_ep_name(e->ep));
	return 0;
}

int
efa_av_get(struct efa_ep *e, const void *raw, uint16_t len, uint16_t peer, struct efa_addr **addr)
{
	struct efa_addr *a;
	int ret;

	ret = check_addr(e, raw, len);
	if (ret < 0)
		return ret;
	for (a = e->addrs; a != NULL; a = a->next) {
		if (!a->cut && a->len == len && memcmp(a->raw, raw, len) == 0) {
			if (a->refs++ == 0) {
				/* Reconnected: it was still there. */
				e->nb_unused--;
				a->first = peer;
				map_set(e, a->fi, peer);
			}
			*addr = a;
			return 0;
		}
	}
	a = calloc(1, sizeof(*a));
	if (a == NULL)
		return leat_err(ENOMEM, "%s: endpoint %s: out of memory", e->dev->name,
				leat_ep_name(e->ep));
	memcpy(a->raw, raw, len);
	a->len = len;
	a->refs = 1;
	a->first = peer;
	a->pidfd = -1;
	ret = insert(e, a);
	if (ret < 0) {
		free(a);
		return ret;
	}
	map_set(e, a->fi, peer);
	a->next = e->addrs;
	e->addrs = a;
	*addr = a;
	return 0;
}

static void
remove_addr(struct efa_ep *e, struct efa_addr *a)
{
	int ret;

	ret = a->cut ? 0 : fi_av_remove(e->av, &a->fi, 1, 0);
	if (ret != 0)
		LEAT_LOG(DEBUG, driver, "%s: fi_av_remove: %s", e->dev->name, fi_strerror(-ret));
	if ((e->quirks & EFA_Q_SHM) != 0)
		efa_shm_detach(e, a);
}

/* Another peer that uses the address, to attribute messages to. */
static uint16_t
other_peer(const struct efa_ep *e, const struct efa_addr *a, uint16_t peer)
{
	uint16_t i;

	for (i = 0; i < e->ep->nb_peers; i++) {
		if (i != peer && e->peers[i].addr == a)
			return i;
	}
	return LEAT_PEER_ANY;
}

/* One receive for that sender only. @return true: there was nothing to receive (it was cancelled) */
static bool
drain_one(struct efa_ep *e, const struct efa_addr *a, bool tagged)
{
	struct iovec iov[2] = { { NULL, 0 }, { e->sink, e->sink_len } };
	bool empty = (e->quirks & EFA_Q_DRAIN_EMPTY) != 0;
	size_t nb = e->sink_len != 0 && !empty ? 2 : 1;
	void *desc[2] = { NULL, NULL };
	struct efa_slot *s = e->free;
	unsigned int i;
	ssize_t ret;

	if (s == NULL)
		return true;
	ret = tagged ? fi_trecvv(e->fid, iov, desc, nb, a->fi, 0, UINT64_MAX, &s->ctx)
		     : fi_recvv(e->fid, iov, desc, nb, a->fi, &s->ctx);
	if (ret != 0)
		return true;
	e->free = s->next;
	s->op = NULL;
	s->state = EFA_SLOT_ORPHAN;
	s->addr = NULL;
	e->nb_orphans++;
	e->drained = false;
	(void)fi_cancel(&e->fid->fid, &s->ctx);
	for (i = 0; i < 64 && s->state == EFA_SLOT_ORPHAN; i++)
		efa_cq_drive(e, EFA_CQ_BURST);
	/* Neither cancelled nor complete: it will be, some time, or never when nothing is fetched. */
	return e->drained || (s->state == EFA_SLOT_ORPHAN && !empty);
}

unsigned int
efa_av_drain(struct efa_ep *e, struct efa_addr *a)
{
	unsigned int i, n = 0;
	int tagged;

	if (a == NULL || a->cut || (e->dev->caps & FI_DIRECTED_RECV) == 0)
		return 0;
	/* What is still in the provider's queues first. */
	efa_cq_drive(e, EFA_CQ_BURST);
	for (tagged = 0; tagged < 2; tagged++) {
		if (tagged != 0 && (e->info->caps & FI_TAGGED) == 0)
			break;
		for (i = 0; i < DRAIN_MAX && !drain_one(e, a, tagged != 0); i++)
			n++;
	}
	return n;
}

void
efa_av_drain_dead(struct efa_ep *e, struct efa_addr *a)
{
	uint64_t start = leat_now(), last = start, now = start;

	while (now - last < leat_us_to_cycles(QUIET_US) &&
	       now - start < leat_us_to_cycles(DRAIN_DEAD_US)) {
		if (efa_av_drain(e, a) > 0)
			last = leat_now();
		now = leat_now();
	}
}

/*
 * Messages of a peer that is gone may be waiting to be received, or be under way. They must not be taken for those of
 * whoever gets the index next.
 */
static bool
removable(const struct efa_ep *e, const struct efa_addr *a, uint64_t now)
{
	if (a->refs > 0 || a->orphans > 0)
		return false;
	if ((e->quirks & EFA_Q_SHM) != 0)
		return efa_shm_gone(a) && efa_shm_settled(a->region);
	return now - a->unused_since > leat_us_to_cycles(QUARANTINE_US);
}

void
efa_av_cut(struct efa_ep *e, struct efa_addr *a, uint16_t peer)
{
	if (a->cut || a->refs > 1)
		return;
	(void)efa_av_drain(e, a);
	/* Asked when nothing comes in between: to drain is to drive. */
	if (efa_read_under_way(e, peer))
		return;
	map_set(e, a->fi, LEAT_PEER_ANY);
	if (fi_av_remove(e->av, &a->fi, 1, 0) == 0)
		a->cut = true;
	efa_cq_drive(e, EFA_CQ_BURST);
}

static void
free_addr(struct efa_ep *e, struct efa_addr **pp)
{
	struct efa_addr *a = *pp;

	*pp = a->next;
	e->nb_unused--;
	remove_addr(e, a);
	free(a);
}

void
efa_av_put(struct efa_ep *e, struct efa_addr *a, uint16_t peer)
{
	if (a->first == peer) {
		a->first = other_peer(e, a, peer);
		if (!a->cut)
			map_set(e, a->fi, a->first);
	}
	if (--a->refs > 0)
		return;
	e->nb_unused++;
	a->unused_since = leat_now();
}

void
efa_av_sweep(struct efa_ep *e)
{
	struct efa_addr **pp = &e->addrs;
	uint64_t now = leat_now();

	while (*pp != NULL) {
		struct efa_addr *a = *pp;

		if (a->orphans > 0 && (e->quirks & EFA_Q_SHM) != 0 && efa_shm_gone(a))
			efa_shm_answer(e, a);
		if (!removable(e, a, now) ||
		    (efa_av_drain(e, a) >= DRAIN_MAX && (e->quirks & EFA_Q_SHM) != 0))
			pp = &a->next;
		else
			free_addr(e, pp);
	}
}

void
efa_av_fini(struct efa_ep *e)
{
	struct efa_addr *a;

	while ((a = e->addrs) != NULL) {
		e->addrs = a->next;
		remove_addr(e, a);
		free(a);
	}
	e->nb_unused = 0;
}
