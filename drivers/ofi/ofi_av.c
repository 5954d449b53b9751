/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The address vector: one entry per remote endpoint, however many connections lead to it, and the
 * map from an fi_addr to the peer.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "ofi_read.h"

/*
 * Indices of an FI_AV_TABLE are small. If a provider gives an address an index from this limit on,
 * messages from that address have no source.
 */
#define ADDR_INDEX_MAX (1u << 20)
/* us. How long an address stays in the AV after its last peer left. */
#define QUARANTINE_US 1000000

static int
map_grow(struct ofi_ep *e, fi_addr_t fi)
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
map_set(struct ofi_ep *e, fi_addr_t fi, uint16_t peer)
{
	if (fi < e->nb_addr)
		e->addr_peer[fi] = peer;
}

static int
insert(struct ofi_ep *e, struct ofi_addr *a)
{
	int ret = fi_av_insert(e->av, a->raw, 1, &a->fi, 0, NULL);

	if (ret == 1 && a->fi != FI_ADDR_NOTAVAIL && map_grow(e, a->fi) == 0)
		return 0;
	if (ret == 1 && a->fi != FI_ADDR_NOTAVAIL)
		(void)fi_av_remove(e->av, &a->fi, 1, 0);
	return leat_err(ENOSPC, "%s: endpoint %s: fi_av_insert: %s", e->dev->name,
			leat_ep_name(e->ep), ret < 0 ? fi_strerror(-ret) : "address not taken");
}

/*
 * Check an address from the other side. The provider would accept an address of another family, but
 * never reach it.
 */
static int
check_addr(const struct ofi_ep *e, const uint8_t *raw, uint16_t len)
{
	bool ip = e->info->addr_format == FI_SOCKADDR_IN || e->info->addr_format == FI_SOCKADDR_IN6;
	bool text = e->info->addr_format == FI_ADDR_STR;

	if (text && (len == 0 || len > OFI_ADDR_MAX || memchr(raw, '\0', len) != raw + len - 1))
		return leat_err(EPROTO,
				"%s: endpoint %s: the other side's provider address is no string",
				e->dev->name, leat_ep_name(e->ep));
	if (!text && len != e->raw_len)
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
ofi_av_get(struct ofi_ep *e, const void *raw, uint16_t len, struct ofi_addr **addr)
{
	struct ofi_addr *a;
	int ret;

	ret = check_addr(e, raw, len);
	if (ret < 0)
		return ret;
	for (a = e->addrs; a != NULL; a = a->next) {
		if (!a->cut && a->len == len && memcmp(a->raw, raw, len) == 0) {
			/* The peer has reconnected, and its address was still in the AV. */
			if (a->refs++ == 0)
				e->nb_unused--;
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
	a->first = LEAT_PEER_ANY;
	ret = insert(e, a);
	if (ret < 0) {
		free(a);
		return ret;
	}
	map_set(e, a->fi, LEAT_PEER_ANY);
	a->next = e->addrs;
	e->addrs = a;
	*addr = a;
	return 0;
}

static void
remove_addr(struct ofi_ep *e, struct ofi_addr *a)
{
	int ret;

	ret = a->cut ? 0 : fi_av_remove(e->av, &a->fi, 1, 0);
	if (ret != 0)
		LEAT_LOG(DEBUG, driver, "%s: fi_av_remove: %s", e->dev->name, fi_strerror(-ret));
}

/* Find another peer with this address, to attribute its messages to. */
static uint16_t
other_peer(const struct ofi_ep *e, const struct ofi_addr *a, uint16_t peer)
{
	uint16_t i;

	for (i = 0; i < e->ep->nb_peers; i++) {
		if (i != peer && e->peers[i].addr == a && e->peers[i].proven)
			return i;
	}
	return LEAT_PEER_ANY;
}

/* Does a newer address have the same queue pair? Newer addresses come first in the list. */
static bool
has_successor(const struct ofi_ep *e, const struct ofi_addr *a)
{
	const struct ofi_addr *b;

	for (b = e->addrs; b != a; b = b->next) {
		if (!b->cut && ofi_efa_same_qp(b->raw, a->raw))
			return true;
	}
	return false;
}

/*
 * May the address be removed? Messages of its last peer may be waiting for a receive, or be under
 * way: they must not be taken for messages of the peer that gets the index next.
 */
static bool
removable(const struct ofi_ep *e, const struct ofi_addr *a, uint64_t now)
{
	if (a->refs > 0 || a->orphans > a->failed || (e->quirks & OFI_Q_AV_FILLS) != 0)
		return false;
	if ((e->quirks & OFI_Q_AV_STAYS) != 0 && (e->readable || has_successor(e, a)))
		return false;
	return now - a->unused_since > leat_us_to_cycles(QUARANTINE_US);
}

void
ofi_av_cut(struct ofi_ep *e, struct ofi_addr *a, uint16_t peer)
{
	if (a->cut || a->refs > 1)
		return;
	ofi_drain_end(e, a);
	/* Keep the address while messages are left: the next call drains further. */
	if (ofi_drain(e, a) >= OFI_DRAIN_MAX)
		return;
	/*
	 * Look for READs only now: draining drives the provider, so their answers may have begun to
	 * arrive. Nothing drives the provider between here and the removal.
	 */
	if ((peer != LEAT_PEER_ANY && ofi_read_under_way(e, peer)) || ofi_proof_under_way(e, a))
		return;
	map_set(e, a->fi, LEAT_PEER_ANY);
	if (fi_av_remove(e->av, &a->fi, 1, 0) == 0)
		a->cut = true;
	ofi_cq_drive(e, OFI_CQ_BURST);
}

static void
free_addr(struct ofi_ep *e, struct ofi_addr **pp)
{
	struct ofi_addr *a = *pp;

	*pp = a->next;
	e->nb_unused--;
	remove_addr(e, a);
	/* The provider completes no op of an address that is out of the AV. */
	ofi_slots_forget_failed(e, a);
	free(a);
}

static void
attribute(struct ofi_ep *e, struct ofi_addr *a, uint16_t peer)
{
	a->first = peer;
	if (!a->cut)
		map_set(e, a->fi, peer);
}

void
ofi_av_proven(struct ofi_ep *e, struct ofi_addr *a, uint16_t peer)
{
	if (a->live++ == 0)
		attribute(e, a, peer);
}

/* Until ofi_av_put(), messages that still arrive are attributed to the last connection. */
void
ofi_av_unproven(struct ofi_ep *e, struct ofi_addr *a, uint16_t peer)
{
	if (--a->live > 0 && a->first == peer)
		attribute(e, a, other_peer(e, a, peer));
}

void
ofi_av_put(struct ofi_ep *e, struct ofi_addr *a, uint16_t peer)
{
	if (a->first == peer)
		attribute(e, a, other_peer(e, a, peer));
	if (--a->refs > 0)
		return;
	ofi_drain_end(e, a);
	e->nb_unused++;
	a->unused_since = leat_now();
}

void
ofi_av_sweep(struct ofi_ep *e)
{
	struct ofi_addr **pp = &e->addrs;
	uint64_t now = leat_now();

	if (e->nb_failed > 0)
		ofi_slots_forget_failed(e, NULL);
	while (*pp != NULL) {
		struct ofi_addr *a = *pp;

		/*
		 * A READ of a statement (ofi_proof.c) that is never answered ends when the
		 * connection below is closed.
		 */
		if (a->refs == 0 && a->proofs > 0 && (e->quirks & OFI_Q_AV_CUTS) != 0 &&
		    now - a->unused_since > leat_us_to_cycles(QUARANTINE_US))
			ofi_av_cut(e, a, LEAT_PEER_ANY);
		if (!removable(e, a, now)) {
			pp = &a->next;
			continue;
		}
		(void)ofi_drain(e, a);
		free_addr(e, pp);
	}
}

void
ofi_av_fini(struct ofi_ep *e)
{
	struct ofi_addr *a;

	while ((a = e->addrs) != NULL) {
		e->addrs = a->next;
		remove_addr(e, a);
		free(a);
	}
	e->nb_unused = 0;
}
