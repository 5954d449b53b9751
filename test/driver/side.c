/* SPDX-License-Identifier: BSD-3-Clause */

/* Functions that send a request to a side and return its answer. */

#include "ct.h"

static struct ct_req req;
static struct ct_rep rep;

static struct ct_req *
request(enum ct_cmd cmd, uint64_t a0, uint64_t a1, uint64_t a2)
{
	memset(&req, 0, sizeof(req));
	req.cmd = cmd;
	req.arg[0] = a0;
	req.arg[1] = a1;
	req.arg[2] = a2;
	return &req;
}

static int
call(struct ct_side *s, enum ct_cmd cmd, uint64_t a0, uint64_t a1, uint64_t a2)
{
	ct_call(s, request(cmd, a0, a1, a2), &rep);
	return rep.err;
}

static void
put_priv(const void *priv, uint16_t len)
{
	req.priv_len = len;
	if (priv != NULL)
		memcpy(req.priv, priv, RTE_MIN((size_t)len, sizeof(req.priv)));
}

int
ct_try_open(struct ct_side *s, const struct ct_conf *conf)
{
	request(CT_OPEN, ct.seed, 0, 0);
	if (conf != NULL)
		req.conf = *conf;
	req.conf.type = (uint16_t)ct.type;
	ct_call(s, &req, &rep);
	return rep.err;
}

void
ct_open(struct ct_side *s, const struct ct_conf *conf)
{
	int ret = ct_try_open(s, conf);

	CT_CHECK(ret == 0, "%s: can't open an endpoint: %s: %s", s->what, strerror(-ret), rep.text);
}

void
ct_listen(struct ct_side *s, char *addr)
{
	const char *at = ct.listen;

	if (ct.far_listen != NULL && strncmp(s->what, "far", 3) == 0)
		at = ct.far_listen;
	request(CT_LISTEN, 0, 0, 0);
	snprintf(req.addr, sizeof(req.addr), "%s", at);
	ct_call(s, &req, &rep);
	CT_CHECK(rep.err == 0, "%s: listen %s: %s: %s", s->what, at, strerror(-rep.err), rep.text);
	CT_CHECK(memchr(rep.addr, '\0', sizeof(rep.addr)) != NULL && rep.addr[0] != '\0',
		 "%s: the address it listens at is no string", s->what);
	snprintf(addr, LEAT_ADDR_MAX, "%s", rep.addr);
}

int
ct_try_connect(struct ct_side *s, const char *addr, const void *priv, uint16_t len,
	       uint64_t timeout_us, uint64_t user)
{
	request(CT_CONNECT, timeout_us, user, 0);
	snprintf(req.addr, sizeof(req.addr), "%s", addr);
	put_priv(priv, len);
	ct_call(s, &req, &rep);
	return rep.err;
}

void
ct_connect(struct ct_side *a, struct ct_side *b, const char *addr, uint16_t *pa, uint16_t *pb)
{
	struct leat_event ev;
	int peer = ct_try_connect(a, addr, NULL, 0, 0, 0);

	CT_CHECK(peer >= 0, "%s: connect %s: %s: %s", a->what, addr, strerror(-peer), rep.text);
	ct_event(a, LEAT_EV_CONNECTED, (uint16_t)peer, &ev);
	*pa = (uint16_t)peer;
	ct_event(b, LEAT_EV_CONNECTED, LEAT_PEER_ANY, &ev);
	*pb = ev.peer;
}

void
ct_policy(struct ct_side *s, enum ct_policy p, const void *priv, uint16_t len)
{
	request(CT_POLICY, p, 0, 0);
	put_priv(priv, len);
	ct_call(s, &req, &rep);
	CT_EQ(rep.err, 0, "policy");
}

int
ct_accept(struct ct_side *s, uint16_t peer, const void *priv, uint16_t len)
{
	request(CT_ACCEPT, peer, 0, 0);
	put_priv(priv, len);
	ct_call(s, &req, &rep);
	return rep.err;
}

int
ct_reject(struct ct_side *s, uint16_t peer)
{
	return call(s, CT_REJECT, peer, 0, 0);
}

bool
ct_try_event(struct ct_side *s, enum leat_event_type type, uint16_t peer, uint32_t timeout_ms,
	     struct leat_event *ev)
{
	int ret = call(s, CT_EVENT, type, peer, (uint64_t)timeout_ms * 1000);

	if (ret == 0 && ev != NULL)
		*ev = rep.ev;
	return ret == 0;
}

void
ct_event(struct ct_side *s, enum leat_event_type type, uint16_t peer, struct leat_event *ev)
{
	static const char *const names[] = { "CONNECT_REQ", "CONNECTED", "CONNECT_FAILED",
					     "DISCONNECTED", "SHUTDOWN" };
	struct leat_event other;

	if (ct_try_event(s, type, peer, 0, ev))
		return;
	if (ct_try_event(s, LEAT_EV_CONNECT_FAILED, peer, 1, &other) ||
	    ct_try_event(s, LEAT_EV_DISCONNECTED, peer, 1, &other))
		CT_FAIL("%s: instead of %s of peer %d came %s of peer %u: %s: %s", s->what,
			names[type], peer == LEAT_PEER_ANY ? -1 : peer, names[other.type],
			other.peer, strerror(-other.status), other.text);
	CT_FAIL("%s: %s of peer %d did not come", s->what, names[type],
		peer == LEAT_PEER_ANY ? -1 : peer);
}

void
ct_counts(struct ct_side *s, uint64_t *counts)
{
	CT_EQ(call(s, CT_COUNTS, 0, 0, 0), 0, "counts");
	memcpy(counts, rep.val, sizeof(uint64_t) * (LEAT_EV_SHUTDOWN + 1));
}

int
ct_peer_state(struct ct_side *s, uint16_t peer)
{
	return call(s, CT_PEER_STATE, peer, 0, 0);
}

int
ct_disconnect(struct ct_side *s, uint16_t peer)
{
	return call(s, CT_DISCONNECT, peer, 0, 0);
}

void
ct_wait_free(struct ct_side *s, uint16_t peer)
{
	CT_UNTIL(ct_peer_state(s, peer) == LEAT_PEER_FREE, "%s: peer %u: state %d at the end",
		 s->what, peer, ct_peer_state(s, peer));
}

int
ct_stream(struct ct_side *s, const struct ct_spec *spec)
{
	request(CT_STREAM, 0, 0, 0);
	req.spec = *spec;
	if (spec->bad != CT_BAD_LONG) {
		req.spec.size = RTE_MIN(spec->size, ct.info.max_msg);
		req.spec.size_max = RTE_MIN(spec->size_max, ct.info.max_msg);
	}
	ct_call(s, &req, &rep);
	CT_CHECK(rep.err >= 0, "%s: %s", s->what, rep.text);
	return rep.err;
}

bool
ct_try_wait(struct ct_side *s, int stream, uint32_t n, uint32_t timeout_ms, struct ct_result *res)
{
	int ret = call(s, CT_WAIT, (uint64_t)stream, n, (uint64_t)timeout_ms * 1000);

	if (res != NULL)
		*res = rep.res;
	return ret == 0;
}

void
ct_wait(struct ct_side *s, int stream, uint32_t n, struct ct_result *res)
{
	struct ct_result r;

	if (!ct_try_wait(s, stream, n, 0, &r))
		CT_FAIL("%s: stream %d: only %u of %u ops came back (%u posted)%s%s", s->what,
			stream, r.done, n, r.posted, r.wrong > 0 ? "; wrong: " : "", r.text);
	if (res != NULL)
		*res = r;
}

void
ct_wait_posted(struct ct_side *s, int stream, uint32_t n)
{
	struct ct_result res;

	CT_UNTIL((ct_result(s, stream, &res), res.posted >= n),
		 "%s: stream %d: only %u of %u ops were accepted", s->what, stream, res.posted, n);
}

void
ct_wait_ok(struct ct_side *s, int stream, uint32_t n)
{
	struct ct_result r;

	ct_wait(s, stream, n, &r);
	CT_CHECK(r.nb_stat == 0, "%s: stream %d: %u of %u failed with %d (%s)", s->what, stream,
		 r.stat[0].count, r.done, r.stat[0].status, strerror(-r.stat[0].status));
	CT_CHECK(r.wrong == 0, "%s: stream %d: %u of %u are wrong: %s", s->what, stream, r.wrong,
		 r.done, r.text);
	CT_EQ(r.ok, n, "ops that are right");
}

uint32_t
ct_trim(struct ct_side *s, int stream)
{
	int ret = call(s, CT_TRIM, (uint64_t)stream, 0, 0);

	CT_CHECK(ret >= 0, "trim");
	return (uint32_t)ret;
}

void
ct_result(struct ct_side *s, int stream, struct ct_result *res)
{
	CT_EQ(call(s, CT_RESULT, (uint64_t)stream, 0, 0), 0, "result");
	*res = rep.res;
}

int
ct_one(struct ct_side *s, const struct ct_spec *spec, struct ct_result *res)
{
	struct ct_spec one = *spec;
	struct ct_result r;

	one.count = 1;
	ct_wait(s, ct_stream(s, &one), 1, &r);
	CT_CHECK(r.wrong == 0, "%s: %s", s->what, r.text);
	if (res != NULL)
		*res = r;
	return r.last_status;
}

uint32_t
ct_cancel(struct ct_side *s, int stream, uint32_t from, uint32_t to, uint32_t *cant)
{
	(void)call(s, CT_CANCEL, (uint64_t)stream, from, to);
	if (cant != NULL)
		*cant = (uint32_t)rep.val[1];
	return (uint32_t)rep.val[0];
}

uint32_t
ct_recall(struct ct_side *s, int stream, struct ct_result *res)
{
	uint32_t n = ct_trim(s, stream);

	/* Cancel repeatedly: some ops may be prepared and not yet posted. */
	CT_UNTIL(((void)ct_cancel(s, stream, 0, n, NULL), ct_try_wait(s, stream, n, 100, res)),
		 "%s: stream %d: only %u of %u ops came back", s->what, stream, res->done, n);
	return n;
}

int
ct_try_mr(struct ct_side *s, uint64_t len, uint32_t access, uint64_t seed, struct leat_rkey *rkey)
{
	int ret = call(s, CT_MR, len, access, seed);

	if (rkey != NULL)
		*rkey = rep.rkey;
	return ret;
}

int
ct_mr(struct ct_side *s, uint64_t len, uint32_t access, uint64_t seed, struct leat_rkey *rkey)
{
	int ret = ct_try_mr(s, len, access, seed, rkey);

	CT_CHECK(ret >= 0, "%s: can't register %" PRIu64 " B: %s: %s", s->what, len, strerror(-ret),
		 rep.text);
	return ret;
}

int64_t
ct_mr_verify(struct ct_side *s, int mr, uint64_t off, uint64_t len, uint64_t seed, uint64_t at)
{
	request(CT_MR_CHECK, (uint64_t)mr, off, len);
	req.arg[3] = seed;
	req.arg[4] = at;
	ct_call(s, &req, &rep);
	CT_CHECK(rep.err == 0 || rep.err == -EBADMSG, "%s: memory beside region %d was written",
		 s->what, mr);
	return (int64_t)rep.val[0];
}

void
ct_mr_check(struct ct_side *s, int mr, uint64_t off, uint64_t len, uint64_t seed, uint64_t at)
{
	int64_t bad = ct_mr_verify(s, mr, off, len, seed, at);

	CT_CHECK(bad < 0,
		 "%s: region %d: byte %" PRId64 " of the %" PRIu64 " at %" PRIu64 " is wrong",
		 s->what, mr, bad, len, off);
}

void
ct_mr_fill(struct ct_side *s, int mr, uint64_t off, uint64_t len, uint64_t seed, uint64_t at)
{
	request(CT_MR_FILL, (uint64_t)mr, off, len);
	req.arg[3] = seed;
	req.arg[4] = at;
	ct_call(s, &req, &rep);
	CT_EQ(rep.err, 0, "fill");
}

uint64_t
ct_mr_peek(struct ct_side *s, int mr, uint64_t off)
{
	CT_EQ(call(s, CT_MR_PEEK, (uint64_t)mr, off, 0), 0, "peek");
	return rep.val[0];
}

void
ct_mr_poke(struct ct_side *s, int mr, uint64_t off, uint64_t value)
{
	CT_EQ(call(s, CT_MR_POKE, (uint64_t)mr, off, value), 0, "poke");
}

int
ct_mr_dereg(struct ct_side *s, int mr)
{
	return call(s, CT_MR_DEREG, (uint64_t)mr, 0, 0);
}

void
ct_freeze(struct ct_side *s, bool frozen)
{
	CT_EQ(call(s, CT_FREEZE, frozen, 0, 0), 0, "freeze");
}

int
ct_shutdown(struct ct_side *s, uint64_t timeout_us)
{
	return call(s, CT_SHUTDOWN, timeout_us, 0, 0);
}

int
ct_destroy(struct ct_side *s)
{
	return call(s, CT_DESTROY, 0, 0, 0);
}

void
ct_finish(struct ct_side *s)
{
	int ret = call(s, CT_FINISH, 1000 * 1000, 0, 0);

	CT_CHECK(ret == 0, "%s: can't be closed: %s: %s", s->what, strerror(-ret), rep.text);
}

int
ct_close(struct ct_side *s, uint64_t timeout_us)
{
	return call(s, CT_CLOSE, timeout_us, 0, 0);
}

struct ct_rep
ct_state(struct ct_side *s)
{
	CT_EQ(call(s, CT_STATE, 0, 0, 0), 0, "state");
	return rep;
}

uint32_t
ct_status_count(const struct ct_result *res, int status)
{
	uint32_t i;

	for (i = 0; i < res->nb_stat; i++)
		if (res->stat[i].status == status)
			return res->stat[i].count;
	return 0;
}

void
ct_only(const struct ct_result *res, const int *allowed, const char *what)
{
	uint32_t i, k;

	CT_CHECK(res->wrong == 0, "%s: %s", what, res->text);
	for (i = 0; i < res->nb_stat; i++) {
		for (k = 0; allowed[k] != 0 && allowed[k] != res->stat[i].status; k++)
			;
		CT_CHECK(allowed[k] != 0, "%s: %u of %u came back with %d (%s)", what,
			 res->stat[i].count, res->done, res->stat[i].status,
			 strerror(-res->stat[i].status));
	}
}
