/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Connect and disconnect. Each side creates the lane that it produces into before it sends its
 * hello, and maps the peer's lane when it gets the peer's hello:
 *
 *     connector                                         acceptor
 *     connect: create lane     HELLO, descriptors -->   REQUEST: map, CONNECT_REQ
 *                         <--  ACCEPT, descriptors      accept: create lane
 *     CONNECTED: map, up       READY -->                CONNECTED: up
 */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ring_mark.h"
#include "shm_pvt.h"

#define EVENTS 4

/* Prefix of addresses that are names. */
#define SCHEME "shm:"

/* Suffix of the kind of an inner endpoint: one that belongs to the library's tag layer. */
#define LAYER "+ltag"

/* ---- kinds of endpoints ---- */

/* Write an endpoint's kind, which must be equal at both sides: its type, and "+ltag" if inner. */
static void
kind_of(const struct shm_ep *se, char *buf, size_t len)
{
	snprintf(buf, len, "shm/%s%s", se->ring.datagram ? "datagram" : "reliable",
		 leat_ep_is_inner(se->ring.ep) ? LAYER : "");
}

/* Return what to do if only one of two kinds has the tag layer, as text for an error. */
static const char *
advice(const char *a, const char *b)
{
	return (strstr(a, LAYER) == NULL) != (strstr(b, LAYER) == NULL)
		       ? ": give both devices the same tags="
		       : "";
}

/* ---- a side's part of a connection ---- */

static struct ring_conn *
conn_new(struct shm_ep *se)
{
	struct ring_conn *conn = calloc(1, sizeof(*conn));

	if (conn == NULL)
		leat_err(ENOMEM, "shm: connection: out of memory");
	else
		conn->se = se;
	return conn;
}

static void
conn_free(struct ring_conn *conn)
{
	shm_memory_unmap(&conn->tx);
	shm_memory_unmap(&conn->rx);
	shm_memory_unmap(&conn->tx_own);
	shm_memory_unmap(&conn->rx_own);
	shm_memory_unmap(&conn->asleep);
	shm_memory_unmap(&conn->board);
	shm_reach_free(conn->reach);
	free(conn);
}

static void
drop_lane(struct ring_conn *conn)
{
	shm_memory_unmap(&conn->tx);
	shm_memory_unmap(&conn->tx_own);
}

/*
 * Create the lane that this side produces into.
 * @return its descriptor, which the caller closes, or -errno with leat_err()
 */
static int
create_lane(struct ring_conn *conn)
{
	const struct shm_ep *se = conn->se;
	const struct ring_shape shape = {
		.nb = se->ring.tx_depth,
		.datagram = se->ring.datagram,
		.nb_bytes = se->nb_bytes,
		.nb_chunks = se->nb_chunks,
	};
	const struct ring_lane_size size = ring_lane_size(&shape);
	int fd, ret = shm_memory_own(&conn->tx_own, size.own);

	if (ret < 0)
		return ret;
	fd = shm_memory_make(&conn->tx, "connection", size.shared, false);
	if (fd >= 0)
		ring_lane_place(&conn->tx_lane, &shape, conn->tx.mem, conn->tx_own.mem, true);
	else
		drop_lane(conn);
	return fd;
}

/*
 * Map the memory that came with the peer's hello: the peer's lane, word asleep and board, and the
 * memory that the peer shares.
 * @return 0, or -errno with leat_err()
 */
static int
map_theirs(struct ring_conn *conn, const struct leat_exchange_event *ev)
{
	const struct shm_ep *se = conn->se;
	struct shm_hello *h = &conn->theirs;
	const char *wrong = shm_hello_get(ev->blob, ev->blob_len, se->ring.datagram, h);
	struct ring_lane_size size;
	int ret;

	if (wrong != NULL)
		return leat_err(EPROTO, "%s", wrong);
	if (h->share ? ev->nb_fds <= SHM_FDS : ev->nb_fds != SHM_FDS)
		return leat_err(EPROTO, "it sent %u descriptors", ev->nb_fds);
	if (se->wait && !h->fences)
		return leat_err(EOPNOTSUPP,
				"this side may sleep, and the other has no membarrier(2) "
				"to be sure that it wakes it");
	size = ring_lane_size(&h->shape);
	ret = shm_memory_map(&conn->rx, "lane", ev->fds[SHM_FD_LANE], size.shared, true);
	if (ret == 0)
		ret = shm_memory_map(&conn->asleep, "word", ev->fds[SHM_FD_ASLEEP],
				     sizeof(uint32_t), false);
	if (ret == 0)
		ret = shm_memory_map(&conn->board, "board", ev->fds[SHM_FD_BOARD], RING_BOARD_SIZE,
				     true);
	if (ret == 0)
		ret = shm_memory_own(&conn->rx_own, size.own);
	if (ret == 0 && se->share != NULL && h->share) {
		conn->reach = shm_reach_new(&ev->fds[SHM_FDS], ev->nb_fds - SHM_FDS);
		if (conn->reach == NULL)
			ret = -rte_errno;
	}
	if (ret == 0)
		ring_lane_place(&conn->rx_lane, &h->shape, conn->rx.mem, conn->rx_own.mem, false);
	return ret;
}

static void
close_fds(const struct leat_exchange_event *ev)
{
	unsigned int i;

	for (i = 0; i < ev->nb_fds; i++)
		(void)close(ev->fds[i]);
}

/*
 * Create this side's lane and send its hello.
 * @param addr to connect to; NULL: accept the request of conn->id
 * @return as leat_exchange_connect(), or as leat_exchange_accept()
 */
static int
send_hello(struct ring_conn *conn, const struct leat_peer *peer,
	   const struct leat_conn_params *params, const char *addr)
{
	struct shm_ep *se = conn->se;
	const struct shm_hello h = {
		.shape = { .nb = se->ring.tx_depth,
			   .nb_bytes = se->nb_bytes,
			   .nb_chunks = se->nb_chunks },
		.mtu = se->ring.mtu,
		.peer = peer->id,
		.wait = se->wait,
		.fences = ring_fence_offered(),
		/* An acceptor knows already whether the connector shares memory. */
		.share = se->share != NULL && (addr != NULL || conn->reach != NULL),
	};
	uint8_t blob[SHM_HELLO_LEN];
	int fds[LEAT_EXCHANGE_FDS_MAX] = { -1, se->fds[SHM_FD_ASLEEP], se->fds[SHM_FD_BOARD] };
	const struct leat_exchange_data data = {
		.blob = blob,
		.blob_len = sizeof(blob),
		.priv = params->priv,
		.priv_len = params->priv_len,
		.fds = fds,
		.nb_fds = (uint8_t)(SHM_FDS + (h.share ? se->share->nb_fds : 0)),
	};
	int ret = create_lane(conn);

	if (ret < 0)
		return ret;
	if (h.share)
		memcpy(&fds[SHM_FDS], se->share->fds, se->share->nb_fds * sizeof(fds[0]));
	fds[SHM_FD_LANE] = ret;
	conn->tx_lane.dir->want = se->ring.want;
	conn->tx_lane.dir->peer = h.peer;
	shm_hello_put(blob, &h);
	ret = addr != NULL ? leat_exchange_connect(se->exchange, addr, params->timeout_us, &data,
						   (void *)(uintptr_t)peer)
			   : leat_exchange_accept(se->exchange, conn->id, &data,
						  (void *)(uintptr_t)peer);
	(void)close(fds[SHM_FD_LANE]);
	if (ret < 0)
		drop_lane(conn);
	return ret;
}

/* ---- the endpoint's part ---- */

/* Create the endpoint's word asleep and its board. @return 0, or -errno with leat_err() */
static int
create_own(struct shm_ep *se)
{
	int i, fd = shm_memory_make(&se->asleep, "endpoint", sizeof(uint32_t), true);

	for (i = 0; i < SHM_FDS; i++)
		se->fds[i] = -1;
	if (fd < 0)
		return fd;
	se->fds[SHM_FD_ASLEEP] = fd;
	fd = shm_memory_make(&se->board, "endpoint", RING_BOARD_SIZE, false);
	if (fd < 0)
		return fd;
	se->fds[SHM_FD_BOARD] = fd;
	return 0;
}

int
shm_conn_init(struct shm_ep *se, const struct leat_ep_conf *conf)
{
	const struct shm_dev *sdev = shm_dev_of(se->ring.ep);
	char kind[LEAT_EXCHANGE_KIND_MAX];
	const struct leat_exchange_conf xc = {
		.name = leat_ep_name(se->ring.ep),
		.kind = kind,
		.max_conns = (uint16_t)RTE_MIN((uint32_t)conf->max_peers + 16, 32768u),
		.source_half = (uint16_t)RTE_MAX(conf->max_peers / 2, 4),
		.dir = sdev->dir,
		.any_user = sdev->any_user != 0,
		/* even without share=1: connectors with share=1 send all their descriptors */
		.max_fds = sdev->any_user != 0 ? SHM_FDS : LEAT_EXCHANGE_FDS_MAX,
	};
	int ret = create_own(se);

	if (ret < 0)
		return ret;
	se->ring.board = se->board.mem;
	kind_of(se, kind, sizeof(kind));
	se->exchange = leat_exchange_create(&xc);
	return se->exchange != NULL ? 0 : -rte_errno;
}

void
shm_conn_fini(struct shm_ep *se)
{
	struct ring_link *link, *next;
	int i;

	for (link = TAILQ_FIRST(&se->ring.pending); link != NULL; link = next) {
		next = TAILQ_NEXT(link, pending);
		TAILQ_REMOVE(&se->ring.pending, link, pending);
		ring_link_free(link);
	}
	ring_links_free(&se->ring, se->ring.dead ? RING_DEAD : RING_BYE);
	leat_exchange_destroy(se->exchange);
	shm_memory_unmap(&se->asleep);
	shm_memory_unmap(&se->board);
	for (i = 0; i < SHM_FDS; i++) {
		if (se->fds[i] >= 0)
			(void)close(se->fds[i]);
	}
}

/* Return the exchange's name for an address; NULL, with leat_err(): the address is not valid. */
static const char *
name_of(const char *addr, const char *what)
{
	if (strncmp(addr, SCHEME, strlen(SCHEME)) == 0)
		return addr + strlen(SCHEME);
	if (strchr(addr, ':') != NULL)
		return addr;
	leat_err(EINVAL, "shm: %s: \"%s\": shm:NAME or HOST:PORT expected", what, addr);
	return NULL;
}

int
shm_listen(struct leat_ep *ep, const char *addr)
{
	const char *name = name_of(addr, "listen");

	return name == NULL ? -EINVAL : leat_exchange_listen(shm_of(ep)->exchange, name);
}

int
shm_listen_addr(struct leat_ep *ep, char *addr, size_t len)
{
	char name[LEAT_EXCHANGE_ADDR_MAX];
	int ret = leat_exchange_listen_addr(shm_of(ep)->exchange, name, sizeof(name));

	if (ret < 0)
		return ret;
	ret = snprintf(addr, len, "%s%s", strchr(name, ':') == NULL ? SCHEME : "", name);
	return ret < 0 || (size_t)ret >= len ? -ENOSPC : 0;
}

/* ---- links ---- */

void
ring_link_bell(struct ring_link *link)
{
	/* A connection that has ended meanwhile needs no bell. */
	if (link->conn->id != 0)
		(void)leat_exchange_note(link->conn->se->exchange, link->conn->id);
}

/* End the exchange's connection with a BYE, which closes its socket. */
static void
close_exchange(struct ring_conn *conn, const char *why)
{
	if (conn->id != 0)
		(void)leat_exchange_close(conn->se->exchange, conn->id, why);
	conn->id = 0;
}

/*
 * Make all processors execute a fence. Then a peer sees this side's earlier stores, or this side
 * sees that the peer touches a region.
 */
static void
fence(void)
{
	while (!ring_fence_all())
		sched_yield();
}

void
ring_link_report_closed(struct ring_link *link, enum ring_closed closed)
{
	/* Edge CLOSED (ring_shared.h): after all slots of this side; pairs with their_closed(). */
	__atomic_store_n(&link->mine->closed, (uint32_t)closed, __ATOMIC_RELEASE);
	if (link->reach != NULL)
		fence();
	/* Keep the socket while the peer touches a region: its end shows that the peer died. */
	if (ring_share_touched(link) != 0)
		ring_link_bell(link);
	else
		close_exchange(link->conn, NULL);
}

bool
ring_link_alive(const struct ring_link *link)
{
	return link->conn->id != 0;
}

void
ring_link_free(struct ring_link *link)
{
	close_exchange(link->conn, NULL);
	conn_free(link->conn);
	link->asleep = NULL;
	link->reach = NULL;
	link->state = RING_LINK_FREE;
}

void
ring_link_abandon(struct ring_ep *rep, struct ring_link *link, const char *why)
{
	close_exchange(link->conn, why);
	TAILQ_REMOVE(&rep->pending, link, pending);
	ring_link_free(link);
}

int
shm_connect(struct leat_ep *ep, struct leat_peer *peer, const char *addr,
	    const struct leat_conn_params *params)
{
	struct shm_ep *se = shm_of(ep);
	const char *name = name_of(addr, "connect");
	struct ring_conn *conn;
	int ret;

	if (name == NULL)
		return -EINVAL;
	conn = conn_new(se);
	if (conn == NULL)
		return -ENOMEM;
	ret = send_hello(conn, peer, params, name);
	if (ret < 0) {
		conn_free(conn);
		return ret;
	}
	conn->id = ret;
	(void)ring_link_new(&se->ring, peer, conn, 0, RING_LINK_CONNECTING);
	return 0;
}

int
shm_accept(struct leat_ep *ep, struct leat_peer *peer, const struct leat_conn_params *params)
{
	struct shm_ep *se = shm_of(ep);
	struct ring_link *link = &se->ring.table[peer->id];
	int ret = send_hello(link->conn, peer, params, NULL);

	/* If the connector withdrew the request meanwhile, an event of the exchange reports it. */
	if (ret == 0)
		link->state = RING_LINK_ACCEPTED;
	return ret;
}

void
shm_reject(struct leat_ep *ep, struct leat_peer *peer)
{
	struct shm_ep *se = shm_of(ep);
	struct ring_link *link = &se->ring.table[peer->id];

	(void)leat_exchange_reject(se->exchange, link->conn->id, "rejected");
	link->conn->id = 0;
	ring_link_abandon(&se->ring, link, NULL);
}

/* ---- events of the exchange ---- */

/* Create the connection of a request; map the connector's memory. @return NULL: why says why */
static struct ring_conn *
request_map(struct shm_ep *se, const struct leat_exchange_event *ev, char *why, size_t len)
{
	char kind[LEAT_EXCHANGE_KIND_MAX];
	struct ring_conn *conn;

	kind_of(se, kind, sizeof(kind));
	if (strcmp(kind, ev->kind) != 0) {
		snprintf(why, len, "this side is %s, the other %s%s", kind, ev->kind,
			 advice(kind, ev->kind));
		return NULL;
	}
	conn = conn_new(se);
	if (conn != NULL && map_theirs(conn, ev) == 0)
		return conn;
	snprintf(why, len, "%s", leat_err_msg());
	if (conn != NULL)
		conn_free(conn);
	return NULL;
}

static void
on_request(struct shm_ep *se, const struct leat_exchange_event *ev)
{
	char why[LEAT_EXCHANGE_TEXT_MAX];
	struct ring_conn *conn = request_map(se, ev, why, sizeof(why));
	struct leat_peer *peer;

	if (conn == NULL) {
		(void)leat_exchange_reject(se->exchange, ev->conn, why);
		return;
	}
	peer = leat_peer_request(se->ring.ep, ev->addr, ev->priv, ev->priv_len);
	if (peer == NULL) {
		(void)leat_exchange_busy(se->exchange, ev->conn, "no room for another peer");
		conn_free(conn);
		return;
	}
	conn->id = ev->conn;
	(void)ring_link_new(&se->ring, peer, conn, 1, RING_LINK_REQUESTED);
}

/* Find the link that an event of the exchange is about, or NULL. */
static struct ring_link *
link_of(struct shm_ep *se, const struct leat_exchange_event *ev)
{
	const struct leat_peer *peer = ev->user;
	struct ring_link *link;

	if (peer == NULL) {
		TAILQ_FOREACH(link, &se->ring.pending, pending) {
			if (link->conn->id == ev->conn)
				return link;
		}
		return NULL;
	}
	link = &se->ring.table[peer->id];
	return link->state != RING_LINK_FREE && link->conn->id == ev->conn ? link : NULL;
}

static void
failed(struct shm_ep *se, struct ring_link *link, int status, const char *text)
{
	struct leat_peer *peer = link->peer;

	ring_link_abandon(&se->ring, link, NULL);
	leat_peer_failed(se->ring.ep, peer, status, text);
}

static void
on_connected(struct shm_ep *se, struct ring_link *link, const struct leat_exchange_event *ev)
{
	struct ring_conn *conn = link->conn;
	struct leat_ep *ep = se->ring.ep;
	char text[LEAT_EVENT_TEXT];
	int ret = 0;

	if (link->state == RING_LINK_CONNECTING)
		ret = map_theirs(conn, ev);
	if (ret < 0) {
		snprintf(text, sizeof(text), "connect %s: %s", ev->addr, leat_err_msg());
		close_exchange(conn, text);
		failed(se, link, ret, text);
		return;
	}
	link->mark = conn->theirs.peer;
	link->their_board = conn->board.mem;
	link->reach = conn->reach != NULL ? &conn->reach->ring : NULL;
	link->rx_long = conn->theirs.mtu > se->ring.mtu;
	if (conn->theirs.wait)
		link->asleep = conn->asleep.mem;
	TAILQ_REMOVE(&se->ring.pending, link, pending);
	ring_link_up(ep, link, &conn->tx_lane, &conn->rx_lane);
	leat_peer_up(ep, link->peer, ev->priv, ev->priv_len);
}

/* Read the peer's CLOSED: RING_BYE or RING_DEAD; any other value: the peer has not closed. */
static uint32_t
their_closed(const struct ring_link *link)
{
	/* Edge CLOSED (ring_shared.h): pairs with the peer's ring_link_report_closed(). */
	return __atomic_load_n(&link->theirs->closed, __ATOMIC_ACQUIRE);
}

static void
ended(struct shm_ep *se, struct ring_link *link, int status, const char *text)
{
	const bool dead = their_closed(link) == RING_DEAD;

	ring_link_ended(se->ring.ep, link, dead ? -ECONNRESET : status,
			dead ? "the peer's endpoint was aborted" : text);
}

static void
on_down(struct shm_ep *se, struct ring_link *link, const struct leat_exchange_event *ev)
{
	struct leat_ep *ep = se->ring.ep;
	struct leat_peer *peer = link->peer;

	link->conn->id = 0;
	switch ((enum ring_link_state)link->state) {
	case RING_LINK_UP:
		/* The end of a datagram peer is not reported; datagrams sent to it are lost. */
		if (se->ring.datagram) {
			se->ring.rescan = true;
			break;
		}
		ended(se, link, ev->status, ev->text);
		break;
	case RING_LINK_CONNECTING:
		failed(se, link, ev->status, ev->text);
		break;
	case RING_LINK_REQUESTED:
	case RING_LINK_ACCEPTED:
		ring_link_abandon(&se->ring, link, NULL);
		leat_peer_closing(ep, peer, ev->status, ev->text);
		leat_peer_down(ep, peer);
		break;
	case RING_LINK_FREE:
	case RING_LINK_CLOSING:
		break;
	}
}

static void
on_event(struct shm_ep *se, const struct leat_exchange_event *ev)
{
	struct ring_link *link;

	if (ev->type == LEAT_EXCHANGE_REQUEST) {
		on_request(se, ev);
	} else if ((link = link_of(se, ev)) != NULL) {
		if (ev->type == LEAT_EXCHANGE_CONNECTED)
			on_connected(se, link, ev);
		else if (ev->type == LEAT_EXCHANGE_NOTE)
			se->ring.rescan = true;
		else
			on_down(se, link, ev);
	}
	close_fds(ev);
}

/* Look at all links that are up. Downwards: removing a link moves the last link to its index. */
static void
links_progress(struct shm_ep *se)
{
	char text[LEAT_EVENT_TEXT];
	uint32_t i;

	for (i = se->ring.nb_links; i-- > 0;) {
		struct ring_link *link = se->ring.links[i];

		if (link->state != RING_LINK_UP)
			continue;
		if (!ring_violated(link)) {
			/* The peer has closed, but keeps its socket until this side's op ends. */
			if (!se->ring.datagram && ring_link_alive(link) &&
			    (their_closed(link) == RING_BYE || their_closed(link) == RING_DEAD))
				ended(se, link, 0, "it has disconnected");
			else
				ring_link_progress(&se->ring, link, !ring_link_alive(link));
			continue;
		}
		snprintf(text, sizeof(text), "the peer broke the rules: %s", link->moves.violation);
		leat_peer_closing(se->ring.ep, link->peer, -EPROTO, text);
		/* A peer with shared memory may be in an op: its open socket shows if it dies. */
		if (link->reach == NULL)
			close_exchange(link->conn, text);
		ring_link_close(se->ring.ep, link, RING_BYE, -ECONNRESET);
	}
}

/* ---- halt, and progress ---- */

/* Handle events of the exchange while the endpoint halts: only the ends of peers matter. */
static void
hear_ends(struct shm_ep *se)
{
	struct leat_exchange_event ev[EVENTS];
	unsigned int i, n = leat_exchange_poll(se->exchange, leat_now(), ev, EVENTS);
	struct ring_link *link;

	for (i = 0; i < n; i++) {
		if (ev[i].type == LEAT_EXCHANGE_REQUEST)
			(void)leat_exchange_reject(se->exchange, ev[i].conn, "it is closing");
		else if (ev[i].type == LEAT_EXCHANGE_DOWN && (link = link_of(se, &ev[i])) != NULL)
			link->conn->id = 0;
		close_fds(&ev[i]);
	}
}

/* Find a link whose peer is touching a region of this side. @return NULL: there is none */
static const struct ring_link *
touched(const struct shm_ep *se)
{
	uint32_t i;

	for (i = 0; i < se->ring.nb_links; i++) {
		if (ring_share_touched(se->ring.links[i]) != 0)
			return se->ring.links[i];
	}
	return NULL;
}

/*
 * Wait until no peer is in the middle of an op on this side's memory. That takes no longer than a
 * copy. But if a peer's process is stopped, it must be continued or killed before this side can use
 * the memory for anything else.
 */
void
shm_halt(struct leat_ep *ep)
{
	struct shm_ep *se = shm_of(ep);
	uint64_t told = leat_now();
	const struct ring_link *link;

	if (se->share == NULL)
		return;
	shm_share_withdraw_all(se->share);
	fence();
	while ((link = touched(se)) != NULL) {
		hear_ends(se);
		sched_yield();
		if (leat_now() - told < leat_us_to_cycles(US_PER_S))
			continue;
		told = leat_now();
		LEAT_LOG(WARNING, driver,
			 "%s: close: waits for %s, which stands still in the middle of an op on "
			 "memory of this process: let it go on, or kill it",
			 leat_ep_name(ep), leat_peer_addr(ep, link->peer));
	}
}

void
shm_progress(struct leat_ep *ep, uint64_t now)
{
	struct leat_exchange_event ev[EVENTS];
	struct shm_ep *se = shm_of(ep);
	unsigned int i, n = leat_exchange_poll(se->exchange, now, ev, EVENTS);

	se->exchange_more = n == EVENTS;
	for (i = 0; i < n; i++)
		on_event(se, &ev[i]);
	if (se->ring.rescan) {
		se->ring.rescan = false;
		links_progress(se);
	}
	if (se->ring.nb_closing > 0)
		ring_closing_progress(ep, &se->ring);
}
