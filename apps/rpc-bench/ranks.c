/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * --launched, --ranks-dir, --ranks-list: n processes, started together. Each two processes have a
 * link, for which the process with the larger rank connects. The rendezvous exchanges the addresses
 * of the links; all other messages go over the links:
 *
 *     main thread   rendezvous -- link listens -- put, fence, get
 *     task          connect to lower ranks -- HELLO -- wait for the HELLO of higher ranks --
 *                   open nodes -- NODES
 */

#include <string.h>

#include <leat_error.h>

#include "lead.h"

/* ---- main thread ---- */

static int
rendezvous_open(struct rb_bench *b)
{
	struct leat_rendezvous_conf conf = b->o.ranks;
	uint32_t size;

	conf.cancel = &rb_signal;
	b->rendezvous = leat_rendezvous_open(&conf);
	if (b->rendezvous == NULL)
		return rb_fail(b, rte_errno, "%s", leat_err_msg());
	size = leat_rendezvous_size(b->rendezvous);
	if (size > RB_RANKS_MAX)
		return rb_fail(b, EINVAL, "%u ranks, at most %u", size, RB_RANKS_MAX);
	if (rb_world_init(&b->world, (uint16_t)leat_rendezvous_rank(b->rendezvous), (uint16_t)size,
			  false) < 0)
		return rb_fail(b, ENOMEM, "out of memory");
	return 0;
}

/* @return length, or negative with b->why */
static int
addr_get(struct rb_bench *b, uint16_t rank, char *addr, size_t len)
{
	int ret = leat_rendezvous_get(b->rendezvous, rank, LEAT_RENDEZVOUS_ADDR, addr, len - 1);

	if (ret < 0)
		return rb_fail(b, -ret, "no address of rank %u: %s", rank, strerror(-ret));
	addr[ret] = '\0';
	return ret;
}

/* Choose the address at which this process's link listens; --ranks-list names it. */
static int
listen_where(struct rb_bench *b, char *addr, size_t len)
{
	if (leat_rendezvous_how(b->rendezvous) == LEAT_RENDEZVOUS_LIST) {
		if (addr_get(b, b->world.rank, addr, len) < 0)
			return -EIO;
		rb_host_of(addr, b->host, sizeof(b->host));
		return 0;
	}
	if (rb_host_choose(b, b->host, sizeof(b->host)) < 0)
		return rb_fail(b, EADDRNOTAVAIL, "no address to listen at");
	snprintf(addr, len, "%.*s:0", LEAT_ADDR_MAX - 1, b->host);
	return 0;
}

/* Publish the link's address: the host at which others reach this process, and its actual port. */
static int
addr_put(struct rb_bench *b)
{
	char addr[LEAT_ADDR_MAX + 8];
	int ret;

	if (leat_rendezvous_how(b->rendezvous) == LEAT_RENDEZVOUS_LIST)
		return 0;
	snprintf(addr, sizeof(addr), "%s%s", b->host, strrchr(b->link.addr, ':'));
	ret = leat_rendezvous_put(b->rendezvous, LEAT_RENDEZVOUS_ADDR, addr, strlen(addr));
	if (ret == 0)
		ret = leat_rendezvous_fence(b->rendezvous, 0);
	return ret < 0 ? rb_fail(b, -ret, "%s", leat_err_msg()) : 0;
}

static int
addrs_get(struct rb_bench *b)
{
	uint16_t r;

	for (r = 0; r < b->world.nb_ranks; r++) {
		struct rb_rank *rank = &b->world.ranks[r];

		if (addr_get(b, r, rank->link, sizeof(rank->link)) < 0)
			return -EIO;
		if (!rb_is_addr(rank->link))
			return rb_fail(b, EINVAL,
				       "'%.64s' of rank %u is not an address (host:port)",
				       rank->link, r);
		rb_host_of(rank->link, rank->host, sizeof(rank->host));
	}
	return 0;
}

int
rb_ranks_meet(struct rb_bench *b)
{
	char addr[LEAT_ADDR_MAX + 8];
	int ret = rendezvous_open(b);

	if (ret < 0 || b->world.nb_ranks == 1)
		return ret;
	ret = listen_where(b, addr, sizeof(addr));
	if (ret == 0)
		ret = rb_link_open(&b->link, b, addr, b->world.nb_ranks - 1u);
	if (ret == 0)
		ret = addr_put(b);
	return ret < 0 ? ret : addrs_get(b);
}

void
rb_ranks_part(struct rb_bench *b)
{
	leat_rendezvous_close(b->rendezvous);
	b->rendezvous = NULL;
}

/* ---- links ---- */

/* Check the HELLO of a process. @return NULL; or why it is refused */
static const char *
check_hello(struct rb_bench *b, const struct rb_hello *h)
{
	uint8_t mine[RB_HELLO_MAX], its[RB_HELLO_MAX];
	int n = rb_plan_put(&b->plan, mine, sizeof(mine));

	if (h->nb_ranks != b->world.nb_ranks)
		return "it is of a run with another number of ranks";
	if (h->rank <= b->world.rank || b->world.ranks[h->rank].card.nb_lcores != 0)
		return "there is such a rank already";
	if (rb_plan_put(&h->plan, its, sizeof(its)) != n || memcmp(mine, its, (size_t)n) != 0) {
		/* The run has failed: to wait for another process with this rank would not help. */
		(void)rb_fail(b, EINVAL, "rank %u was started with other options", h->rank);
		return "it was started with other options";
	}
	return NULL;
}

/* Answer the processes that have sent HELLO; free entries of those that ended without a rank. */
static void
welcome_all(struct rb_bench *b)
{
	const char *why;
	uint32_t i;

	for (i = 0; i < b->link.nb_peers; i++) {
		struct rb_link_peer *p = &b->link.peers[i];

		if (p->link == NULL || p->rank != RB_NO_RANK || (!p->greeted && !p->ended))
			continue;
		why = p->ended ? p->why : check_hello(b, &p->hello);
		if (why == NULL) {
			p->rank = p->hello.rank;
			b->world.ranks[p->rank].card = p->hello.card;
			rb_link_welcome(p);
			continue;
		}
		if (p->greeted && !p->ended) {
			rb_msg("rank %u (%s, pid %u) is refused: %s", p->hello.rank,
			       p->hello.card.name, p->hello.card.pid, why);
			rb_link_refuse(p, -EINVAL, why);
			/* The process keeps its entry until its session ends. */
			p->greeted = false;
			continue;
		}
		rb_link_forget(p);
		b->link.taking++;
	}
}

static bool
all_greeted(struct rb_bench *b, const void *arg)
{
	uint16_t r;

	(void)arg;
	welcome_all(b);
	for (r = 0; r < b->world.nb_ranks; r++) {
		if (b->world.ranks[r].card.nb_lcores == 0)
			return false;
	}
	return true;
}

static bool
is_up(struct rb_bench *b, const void *peer)
{
	const struct rb_link_peer *p = peer;

	(void)b;
	return p->up || p->ended;
}

/* Return how long to wait for the other ranks; with a list these may be started at any time. */
static uint64_t
patience(const struct rb_bench *b)
{
	return b->o.ranks.timeout_us != 0 ? b->o.ranks.timeout_us : LEAT_RENDEZVOUS_TIMEOUT_US;
}

/* Connect to the lower ranks, and send them HELLO. */
static int
greet(struct rb_bench *b, uint64_t end)
{
	struct rb_link_peer *p;
	uint16_t r;
	int ret;

	for (r = 0; r < b->world.rank; r++) {
		if (rb_link_connect(&b->link, r, b->world.ranks[r].link, patience(b)) == NULL)
			return -EIO;
	}
	for (r = 0; r < b->world.rank; r++) {
		p = rb_link_find(&b->link, r);
		ret = rb_wait(b, is_up, p, end);
		if (ret == -ETIMEDOUT)
			return rb_fail(b, ETIMEDOUT, "rank %u at %s did not answer", r,
				       b->world.ranks[r].link);
		if (ret == 0)
			ret = rb_link_hello(p);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int
missing(struct rb_bench *b)
{
	uint16_t r;

	for (r = 0; r + 1 < b->world.nb_ranks && b->world.ranks[r].card.nb_lcores != 0; r++)
		;
	return rb_fail(b, ETIMEDOUT, "rank %u has not come within %.3g s (--ranks-timeout)", r,
		       (double)patience(b) / (double)RB_US);
}

static int
link_all(struct rb_bench *b)
{
	uint64_t end = rb_in(patience(b));
	int ret = rb_link_start(&b->link);

	b->link.taking = b->world.nb_ranks - 1u - b->world.rank;
	if (ret == 0)
		ret = greet(b, end);
	if (ret == 0)
		ret = rb_wait(b, all_greeted, NULL, end);
	return ret == -ETIMEDOUT && b->why[0] == '\0' ? missing(b) : ret;
}

static int
nodes_find(struct rb_bench *b)
{
	uint16_t r;
	int ret = 0;

	rb_link_nodes_answer(&b->link);
	for (r = 0; r < b->world.rank && ret == 0; r++)
		ret = rb_link_nodes(rb_link_find(&b->link, r));
	return ret;
}

static bool
others_have_left(struct rb_bench *b, const void *arg)
{
	uint32_t i;

	(void)arg;
	for (i = 0; i < b->link.nb_peers; i++) {
		if (b->link.peers[i].link != NULL && !b->link.peers[i].ended)
			return false;
	}
	return true;
}

int
rb_ranks(struct rb_bench *b)
{
	int ret;

	b->plan = b->o.plan;
	b->bind = b->host;
	ret = rb_card_fill(b, &rb_world_self(&b->world)->card);
	if (ret == 0 && b->world.nb_ranks == 1)
		return rb_self_run(b);
	if (ret == 0)
		ret = link_all(b);
	if (ret == 0)
		ret = rb_lead_open(b);
	if (ret == 0)
		ret = nodes_find(b);
	if (ret == 0)
		ret = rb_lead_run(b);
	if (ret == 0)
		ret = rb_lead_close(b);
	/*
	 * The leader has just answered the last call of the other ranks. Let them close their links
	 * first: an answer that a rank has not received when its link ends is lost.
	 */
	if (ret == 0 && rb_world_leader(&b->world) == b->world.rank)
		(void)rb_wait(b, others_have_left, NULL, rb_in(RB_LEAVE_US));
	return ret;
}
