/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat-msg-property EAL-ARGUMENTS -- [--mode leat|plain|any-id] [--seed N] [--seeds N]
 *     [--messages N] [--conns N] [--credits N] [--first-id N] [--ends] [--deadlines]
 *
 * Messages of random sizes go both ways over many connections to one endpoint, driven by one
 * thread. In leat mode all connections come from a second endpoint; in plain mode each from an
 * endpoint of its own, since many devices know only the endpoint that a message comes from. The
 * seed determines the whole run; it is part of the endpoints' names, from which a fault device
 * derives its faults. Now and then the newest receive is cancelled. Checked: every byte, order and
 * count of messages and of requests, that nothing is held beyond the credits, and that all memory
 * was allocated at the start. --seeds: number of runs, each with the next seed.
 *
 * Some receives are a byte too small for their message, which is dropped. Some sends are in pieces;
 * in leat mode some complete only when they have been delivered, and each side half-closes after
 * its last message.
 *
 * --deadlines: every receive has a deadline, often too short. The receive then completes without a
 * message, which the next receive gets, or the message is dropped. (On devices that can't cancel a
 * receive, a deadline may end the connection: use --ends.)
 *
 * --ends: the device breaks connections (ops fail, peers die). The messages that arrived must then
 * be the first ones of their stream, and every request must come back.
 *
 * Message k of a stream is a piece of one block of random bytes; where it begins and how long it is
 * are hashes of (seed, stream, k).
 */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_time.h>

#include "property.h"

static struct side sides[1 + MAX_CONNS]; /* [0] listens */
static unsigned int nb_sides = 2;
static struct stream *streams;
static unsigned int nb_conns = 64, nb_up, nb_closed;
static uint64_t seed = 1, messages = 20000, nb_done, nb_back, nb_bytes, nb_cancelled;
static uint64_t nb_dropped, nb_late, nb_pieces, nb_delivered;
static bool deadlines;
static bool may_end;
static struct leat_msg_conn_conf conn_conf;

static __attribute__((noreturn, format(printf, 1, 2))) void
bad(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "seed %" PRIu64 ": ", seed);
	vfprintf(stderr, fmt, ap);
	fprintf(stderr,
		"\nagain: --seed %" PRIu64 " --seeds 1, and the other options as they were\n",
		seed);
	va_end(ap);
	exit(1);
}

#define check(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond))                                                                       \
			bad(__VA_ARGS__);                                                          \
	} while (0)

static uint64_t
key(const struct stream *s, uint64_t k)
{
	return hash(hash(seed ^ (s->id << 40)) ^ k);
}

static uint64_t
size_of(const struct stream *s, uint64_t k)
{
	uint64_t h = key(s, k), r = hash(h), what = h % 1000;

	if (what < 500)
		return r % 65;
	if (what < 850)
		return r % 4097;
	if (what < 970)
		return r % 65537;
	if (what < 999)
		return r % (MIB / 4 + 1);
	return r % (MAX_SIZE + 1);
}

/* Is the receive of message k one byte too small? Then the message is dropped. */
static bool
too_long(const struct stream *s, uint64_t k)
{
	return key(s, k) % 61 == 7 && size_of(s, k) > 0 && !deadlines;
}

static uint8_t *
bytes_of(const struct stream *s, uint64_t k)
{
	return memory_bytes((key(s, k) >> 20) % OFFSETS);
}

/* ---- posting requests ---- */

static void
post_recv(struct stream *s)
{
	struct request *r = &s->rx[s->recvs % WINDOW];
	struct leat_msg_req *req = &r->req;
	uint64_t size = size_of(s, s->recvs);

	r->stream = s;
	r->k = s->recvs++;
	/*
	 * The buffer has exactly the message's size, or is larger; or there is none, and lib/msg
	 * calls memory_alloc() when the message comes.
	 */
	if (size <= SMALL && key(s, r->k) % 3 != 0 && !deadlines) {
		req->buf = r->small;
		req->mr = s->to_mr;
		req->size = key(s, r->k) % 2 == 0 ? size : SMALL;
	} else {
		req->buf = NULL;
		req->size = MAX_SIZE;
	}
	if (too_long(s, r->k))
		req->size = size - 1;
	if (deadlines) {
		req->flags = LEAT_MSG_F_DEADLINE;
		req->deadline =
			leat_now() + leat_us_to_cycles(50 + hash(key(s, r->k)) % DEADLINE_MAX_US);
	}
	check(leat_msg_recv(s->to, &req, 1) == 1, "stream %" PRIu64 ": recv refused", s->id);
	check(req->state != 0, "a request came back inside of the call");
}

/* Split some sends into pieces, and let some complete only when they have been delivered. */
static void
vary_send(const struct stream *s, struct request *r)
{
	const bool plain = conn_conf.mode == LEAT_MSG_PLAIN;
	uint64_t h = hash(key(s, r->k) + 1), size = r->req.size, off = 0;
	uint32_t i;

	r->req.flags = 0;
	if (h % 7 == 3 && !plain && !deadlines) {
		r->req.flags |= LEAT_MSG_F_DELIVERED;
		nb_delivered++;
	}
	if (h % 5 != 1 || size > (plain ? PIECES_MAX_PLAIN : PIECES_MAX))
		return;
	for (i = 0; i < PIECES; i++) {
		const uint64_t len = i < PIECES - 1 ? hash(h + i) % (size - off + 1) : size - off;

		r->iov[i].iov_base = (uint8_t *)r->req.buf + off;
		r->iov[i].iov_len = len;
		off += len;
	}
	r->req.flags |= LEAT_MSG_F_IOV;
	r->req.iov = r->iov;
	r->req.nb_iov = PIECES;
	nb_pieces++;
}

/* Post at most n sends in one call. */
static void
post_sends(struct stream *s, unsigned int n)
{
	struct leat_msg_req *reqs[WINDOW];
	uint16_t i, k = 0;

	while (k < n && s->sends < s->total && s->sends - s->sent < WINDOW) {
		struct request *r = &s->tx[s->sends % WINDOW];

		r->stream = s;
		r->k = s->sends++;
		r->req.buf = bytes_of(s, r->k);
		r->req.mr = s->from_mr;
		r->req.size = size_of(s, r->k);
		vary_send(s, r);
		reqs[k++] = &r->req;
	}
	check(leat_msg_send(s->from, reqs, k) == k, "stream %" PRIu64 ": send refused", s->id);
	for (i = 0; i < k; i++)
		check(reqs[i]->state != 0, "a request came back inside of the call");
}

/* Half-close after the last message. half_closed() checks that it arrives after all messages. */
static void
half_close(struct stream *s)
{
	int ret;

	if (s->shut || s->sends < s->total || conn_conf.mode == LEAT_MSG_PLAIN)
		return;
	ret = leat_msg_shutdown(s->from);
	check(ret == 0 || may_end, "stream %" PRIu64 ": shutdown: %s", s->id, leat_err_msg());
	s->shut = true;
}

static void
half_closed(const struct leat_msg_conn *c)
{
	unsigned int i;

	for (i = 0; i < 2 * nb_conns; i++) {
		struct stream *s = &streams[i];

		if (s->to != c)
			continue;
		check(s->shut && !s->ended, "stream %" PRIu64 ": an end that is none", s->id);
		check(s->received == s->total,
		      "stream %" PRIu64 ": the end came behind %" PRIu64 " of %" PRIu64 " messages",
		      s->id, s->received, s->total);
		s->ended = true;
	}
}

/* Count a receive whose deadline has passed. @return whether it passed before a message came */
static bool
late(const struct stream *s, const struct leat_msg_req *req)
{
	if (!deadlines || req->status != -ETIMEDOUT)
		return false;
	nb_late++;
	return req->len == 0 || size_of(s, s->received) == 0;
}

static void
received(struct stream *s, struct request *r)
{
	struct leat_msg_req *req = &r->req;
	uint8_t *buf = req->buf;
	uint64_t size;

	check(r->k == s->rback,
	      "stream %" PRIu64 ": receive %" PRIu64 " came back as number %" PRIu64, s->id, r->k,
	      s->rback);
	s->rback++;
	if (late(s, req))
		return;
	/* With deadlines the number of the message differs from that of the receive. */
	r->k = s->received++;
	size = size_of(s, r->k);
	if (req->status == (deadlines ? -ETIMEDOUT : -EMSGSIZE) &&
	    (deadlines || too_long(s, r->k))) {
		check(req->len == size && !s->rx_failed,
		      "stream %" PRIu64 ": message %" PRIu64 " of %" PRIu64
		      " B was too long with %" PRIu64 " B",
		      s->id, r->k, size, req->len);
		nb_done++;
		nb_dropped++;
	} else if (req->status != 0) {
		s->rx_failed = true;
	} else {
		check(!too_long(s, r->k), "stream %" PRIu64 ": message %" PRIu64 " does not fit",
		      s->id, r->k);
		check(!s->rx_failed, "stream %" PRIu64 ": message %" PRIu64 " after the end", s->id,
		      r->k);
		check(req->len == size,
		      "stream %" PRIu64 ": message %" PRIu64 " has %" PRIu64
		      " B instead of %" PRIu64,
		      s->id, r->k, req->len, size);
		check(size == 0 || memcmp(buf, bytes_of(s, r->k), size) == 0,
		      "stream %" PRIu64 ": message %" PRIu64 " of %" PRIu64 " B has wrong bytes",
		      s->id, r->k, size);
		nb_done++;
		nb_bytes += size;
	}
	if (buf == r->small || buf == NULL)
		return;
	memory_put(buf);
}

/*
 * Cancel the newest receive. If an older one were cancelled, the receives after it would be too
 * small for the messages that they get.
 */
static void
cancel_recv(struct stream *s)
{
	struct request *r = &s->rx[(s->recvs - 1) % WINDOW];
	int ret = leat_msg_cancel(&r->req);

	check(ret == 0 || ret == -ENOENT || ret == -EOPNOTSUPP, "cancel: %d", ret);
	s->cancelling = ret == 0;
}

/* @return whether r is a cancelled receive, and has no message */
static bool
cancelled(struct stream *s, const struct request *r)
{
	if (r->req.recv == 0 || !s->cancelling || r->k != s->recvs - 1)
		return false;
	s->cancelling = false;
	if (r->req.status != -ECANCELED) {
		check(conn_conf.mode == LEAT_MSG_PLAIN,
		      "stream %" PRIu64 ": a cancelled receive has %d", s->id, r->req.status);
		return false;
	}
	s->recvs--;
	nb_cancelled++;
	return true;
}

static void
back(struct leat_msg_req *req)
{
	struct request *r = (struct request *)req;
	struct stream *s = r->stream;
	bool failed = req->status != 0 && (req->status != -EMSGSIZE || !too_long(s, r->k)) &&
		      (req->status != -ETIMEDOUT || !deadlines);

	if (cancelled(s, r))
		return;
	check(!failed || may_end, "stream %" PRIu64 ": %s of message %" PRIu64 ": %s", s->id,
	      req->recv != 0 ? "receive" : "send", r->k, strerror(-req->status));
	s->dead |= failed;
	nb_back++;
	if (req->recv != 0) {
		received(s, r);
		return;
	}
	check(r->k == s->sent, "stream %" PRIu64 ": send %" PRIu64 " came back as number %" PRIu64,
	      s->id, r->k, s->sent);
	s->sent++;
}

/* @return whether all requests have completed, and each live stream was received to its end */
static bool
all_back(void)
{
	unsigned int i;

	for (i = 0; i < 2 * nb_conns; i++) {
		const struct stream *s = &streams[i];

		if (s->sent != s->sends || s->rback != s->recvs ||
		    (!s->dead && (s->received != s->total || (s->shut && !s->ended))))
			return false;
	}
	return true;
}

static void
ended(const struct leat_msg_conn *c)
{
	unsigned int i;

	for (i = 0; i < 2 * nb_conns; i++)
		streams[i].dead |= streams[i].from == c || streams[i].to == c;
}

/* ---- driving both sides ---- */

static void
drive(struct side *side, bool events)
{
	struct leat_op *ops[32];
	struct leat_msg_req *reqs[32];
	struct leat_msg_event mev;
	struct leat_event ev;
	uint16_t i, n;

	n = leat_ep_poll(side->ep, ops, RTE_DIM(ops));
	check(leat_msg_process(side->m, ops, n) == 0, "an op of nobody");
	n = leat_msg_poll(side->m, reqs, RTE_DIM(reqs));
	for (i = 0; i < n; i++)
		back(reqs[i]);
	if (!events)
		return;
	while (leat_ep_events(side->ep, &ev, 1) == 1) {
		if (ev.type == LEAT_EV_CONNECT_REQ) {
			struct leat_msg_conn_conf accept_conf = conn_conf;
			struct leat_msg_conn *c;
			uint16_t len;
			uint32_t nr;

			memcpy(&nr, leat_msg_priv(&ev, &len), sizeof(nr));
			check(len == sizeof(nr) && nr < nb_conns, "wrong private data");
			accept_conf.alloc_arg = side;
			c = leat_msg_accept(side->m, &ev, &accept_conf);
			check(c != NULL, "accept: %s", leat_err_msg());
			streams[2 * nr].to = c;
			streams[2 * nr + 1].from = c;
			streams[2 * nr].to_mr = streams[2 * nr + 1].from_mr = side->mr;
		} else {
			check(leat_msg_handle_event(side->m, &ev), "an event of nobody: %s",
			      ev.text);
		}
	}
	while (leat_msg_events(side->m, &mev, 1) == 1) {
		if (mev.type == LEAT_MSG_UP)
			nb_up++;
		else if (mev.type == LEAT_MSG_CLOSED)
			nb_closed++;
		else if (mev.type == LEAT_MSG_SHUTDOWN)
			half_closed(mev.conn);
		else
			ended(mev.conn);
		/* At the end both sides close, and the later one may see the other side's close. */
		check(may_end || mev.type != LEAT_MSG_ENDED ||
			      (nb_done == messages && mev.status == 0),
		      "a connection ended: %s", mev.text);
		check(may_end || mev.type != LEAT_MSG_CLOSED || mev.status == 0, "close: %s",
		      mev.text);
	}
}

static void
drive_all(void)
{
	static unsigned int turn;
	bool events = ++turn % 64 == 0;

	unsigned int i;

	for (i = 0; i < nb_sides; i++)
		drive(&sides[i], events);
}

static void
post_some(struct stream *s, uint64_t *random)
{
	*random = hash(*random);
	if (s->dead)
		return;
	if (s->to != NULL && !s->cancelling) {
		if (s->received + (s->recvs - s->rback) < s->total &&
		    s->recvs - s->rback < s->window && (*random & 3) != 0)
			post_recv(s);
		if (s->recvs > s->rback && (*random >> 16) % 16 == 0 && !deadlines)
			cancel_recv(s);
	}
	if (s->from != NULL && (*random & 12) != 0) {
		post_sends(s, 1 + (unsigned int)(*random >> 8) % 4);
		if (leat_msg_conn_mode(s->from) == LEAT_MSG_LEAT)
			half_close(s);
	}
}

static void
run(void)
{
	uint64_t random = seed, last = 0, until = 0;
	unsigned int i;

	while (!all_back()) {
		for (i = 0; i < 2 * nb_conns; i++)
			post_some(&streams[i], &random);
		drive_all();
		if (nb_back != last || until == 0) {
			last = nb_back;
			until = leat_now() + leat_us_to_cycles(STALL_US);
		}
		if (leat_now() > until) {
			for (i = 0; i < 2 * nb_conns; i++)
				fprintf(stderr,
					"stream %u: of %" PRIu64 " messages %" PRIu64
					" posted, %" PRIu64 " sent, %" PRIu64
					" receives posted, %" PRIu64 " received\n",
					i, streams[i].total, streams[i].sends, streams[i].sent,
					streams[i].recvs, streams[i].received);
			bad("nothing moves any more");
		}
	}
}

/* ---- start and end ---- */

static void
side_open(struct side *side, uint16_t credits)
{
	struct leat_ep_conf conf = {
		.ops = LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV),
	};
	/* A device that wraps another one is later in the list. */
	struct leat_dev *dev = leat_dev_get(leat_dev_count() - 1);
	struct leat_msg_conf mconf = { .credits = credits };
	struct leat_msg_stats stats;
	struct leat_dev_info info;
	char name[48];

	check(dev != NULL && leat_dev_info_get(dev, &info) == 0, "no device: --vdev=...");
	snprintf(name, sizeof(name), "seed%" PRIu64 "-side%td", seed, side - sides);
	conf.name = name;
	conf.rx_depth = info.rx_depth_max;
	conf.max_peers = (uint16_t)(side == &sides[0] || nb_sides == 2 ? nb_conns : 1);
	side->ep = leat_ep_create(dev, &conf);
	check(side->ep != NULL, "endpoint: %s", leat_err_msg());
	if (info.mr_local) {
		side->mr = memory_register(side->ep);
		check(side->mr != NULL, "register: %s", leat_err_msg());
	}
	side->m = leat_msg_create(side->ep, &mconf);
	check(side->m != NULL, "messages: %s", leat_err_msg());
	leat_msg_stats_get(side->m, &stats);
	side->memory = stats.memory;
	side->credits = stats.credits;
}

static void
start(void)
{
	char addr[LEAT_ADDR_MAX];
	uint64_t i;
	uint32_t nr;

	check(leat_ep_listen(sides[0].ep, "127.0.0.1:0") == 0, "listen: %s", leat_err_msg());
	check(leat_ep_listen_addr(sides[0].ep, addr, sizeof(addr)) == 0, "listen");
	for (nr = 0; nr < nb_conns; nr++) {
		struct leat_msg_conn_conf conf = conn_conf;

		struct side *side = &sides[nb_sides == 2 ? 1 : 1 + nr];

		conf.alloc_arg = side;
		conf.priv = &nr;
		conf.priv_len = sizeof(nr);
		conf.timeout_us = 30000000;
		streams[2 * nr].from = leat_msg_connect(side->m, addr, &conf);
		streams[2 * nr].from_mr = streams[2 * nr + 1].to_mr = side->mr;
		check(streams[2 * nr].from != NULL, "connect: %s", leat_err_msg());
		streams[2 * nr + 1].to = streams[2 * nr].from;
	}
	for (i = 0; i < 2 * nb_conns; i++) {
		struct stream *s = &streams[i];
		unsigned int k;

		s->id = i;
		s->window = 1 + (uint32_t)(hash(seed + i) % WINDOW);
		s->total = messages / (2 * nb_conns) + (i < messages % (2 * nb_conns));
		for (k = 0; k < WINDOW; k++) {
			s->rx[k].small = memory_small((size_t)i * WINDOW + k);
			check(s->rx[k].small != NULL, "no memory");
		}
	}
}

static void
finish(void)
{
	struct leat_msg_stats stats, total = { 0 };
	unsigned int i, k;

	for (i = 0; i < 2 * nb_conns; i++) {
		/* The last sends of a stream may not have completed yet. */
		check(leat_msg_close(streams[i].from, 10000000) == 0, "close");
	}
	while (nb_closed < 2 * nb_conns)
		drive_all();
	for (i = 0; i < 2 * nb_conns; i++) {
		check(may_end || (streams[i].sent == streams[i].total &&
				  streams[i].received == streams[i].total),
		      "stream %u: %" PRIu64 " sent and %" PRIu64 " received of %" PRIu64, i,
		      streams[i].sent, streams[i].received, streams[i].total);
		for (k = 0; k < WINDOW; k++)
			memory_small_put(streams[i].rx[k].small);
	}
	for (i = 0; i < nb_sides; i++) {
		leat_msg_stats_get(sides[i].m, &stats);
		check(stats.memory == sides[i].memory, "memory was allocated after the start");
		check(stats.held == 0 && stats.conns == 0, "something is left");
		check(stats.held_max <= sides[i].credits, "%u messages held with %u credits",
		      stats.held_max, sides[i].credits);
		total.sent += stats.sent;
		total.eager += stats.eager;
		total.control += stats.control;
		total.stalled += stats.stalled;
		total.refused += stats.refused;
		total.memory += stats.memory;
		total.held_max = RTE_MAX(total.held_max, stats.held_max);
		check(leat_msg_destroy(sides[i].m) == 0, "destroy: %s", leat_err_msg());
	}
	for (i = 0; i < nb_sides; i++) {
		check(sides[i].mr == NULL || leat_mr_deregister(sides[i].mr) == 0, "deregister: %s",
		      leat_err_msg());
		check(leat_ep_close(sides[i].ep, 5000000, NULL, NULL) == 0, "ep close: %s",
		      leat_err_msg());
	}
	check(may_end || nb_up == 2 * nb_conns, "%u sides came up", nb_up);
	check(memory_nb_big() == BIG_BUFFERS, "a buffer is missing");
	printf("sent %" PRIu64 ", eager %" PRIu64 ", control %" PRIu64 ", stalled %" PRIu64
	       ", refused %" PRIu64 ", held at most %u, %" PRIu64 " KiB\n",
	       total.sent, total.eager, total.control, total.stalled, total.refused, total.held_max,
	       total.memory >> 10);
}

static uint64_t
number(const char *arg, uint64_t min, uint64_t max)
{
	char *end;
	uint64_t v = strtoull(arg, &end, 0);

	check(*arg != '\0' && *end == '\0' && v >= min && v <= max,
	      "%s: not a number from %" PRIu64 " to %" PRIu64, arg, min, max);
	return v;
}

static void
run_seed(uint16_t credits)
{
	unsigned int i;

	memset(sides, 0, sizeof(sides));
	memset(streams, 0, 2 * nb_conns * sizeof(*streams));
	nb_up = nb_closed = 0;
	nb_done = nb_back = nb_bytes = nb_cancelled = nb_dropped = 0;
	nb_late = nb_pieces = nb_delivered = 0;
	for (i = 0; i < nb_sides; i++)
		side_open(&sides[i], credits);
	start();
	run();
	finish();
	printf("seed %" PRIu64 ": %" PRIu64 " messages, %" PRIu64 " MiB, %" PRIu64
	       " receives cancelled, %" PRIu64 " late, %" PRIu64 " messages dropped, %" PRIu64
	       " in pieces, %" PRIu64 " answered\n",
	       seed, nb_done, nb_bytes >> 20, nb_cancelled, nb_late, nb_dropped, nb_pieces,
	       nb_delivered);
	(void)fflush(stdout);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "mode", required_argument, NULL, 'm' },
		{ "seed", required_argument, NULL, 's' },
		{ "seeds", required_argument, NULL, 'S' },
		{ "messages", required_argument, NULL, 'n' },
		{ "conns", required_argument, NULL, 'c' },
		{ "credits", required_argument, NULL, 'C' },
		{ "first-id", required_argument, NULL, 'f' },
		{ "ends", no_argument, NULL, 'e' },
		{ "deadlines", no_argument, NULL, 'd' },
		{ NULL, 0, NULL, 0 },
	};
	uint16_t credits = 0;
	uint64_t i, seeds = 1;
	int opt, ret = leat_init(argc, argv);

	check(ret >= 0, "leat_init: %s", leat_err_msg());
	argc -= ret;
	argv += ret;
	conn_conf.mode = LEAT_MSG_LEAT;
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'm':
			conn_conf.mode = strcmp(optarg, "leat") == 0 ? LEAT_MSG_LEAT
								     : LEAT_MSG_PLAIN;
			conn_conf.any_id = strcmp(optarg, "any-id") == 0;
			break;
		case 's':
			seed = number(optarg, 0, UINT64_MAX);
			break;
		case 'S':
			seeds = number(optarg, 1, UINT32_MAX);
			break;
		case 'n':
			messages = number(optarg, 1, UINT32_MAX);
			break;
		case 'c':
			nb_conns = (unsigned int)number(optarg, 1, MAX_CONNS);
			break;
		case 'C':
			credits = (uint16_t)number(optarg, 2, LEAT_MSG_CREDITS_MAX);
			break;
		case 'f':
			conn_conf.first_id = (uint32_t)number(optarg, 0, UINT32_MAX);
			break;
		case 'e':
			may_end = true;
			break;
		case 'd':
			deadlines = true;
			break;
		default:
			return 2;
		}
	}
	conn_conf.max_size = MAX_SIZE;
	conn_conf.alloc = memory_alloc;
	streams = calloc(2 * nb_conns, sizeof(*streams));
	check(streams != NULL, "no memory");
	memory_make((size_t)2 * nb_conns * WINDOW);
	if (conn_conf.mode == LEAT_MSG_PLAIN)
		nb_sides = 1 + nb_conns;
	for (i = 0; i < seeds; i++, seed++)
		run_seed(credits);
	memory_free();
	free(streams);
	check(leat_cleanup() == 0, "cleanup: %s", leat_err_msg());
	return 0;
}
