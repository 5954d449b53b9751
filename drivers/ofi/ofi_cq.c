/* SPDX-License-Identifier: BSD-3-Clause */

/* Poll: turns completions into ops, and errors into statuses. */

#include <inttypes.h>

#include "ofi_read.h"

/* One poll reads at most this many error entries. */
#define ERRORS_PER_POLL 64

/*
 * us. How long a failed op's packets may go on failing: longer than the device takes to report all
 * of them.
 */
#define FAILED_US 10000000

#define REMOTE_FLAGS (FI_REMOTE_WRITE | FI_REMOTE_READ)

int
ofi_errno(int err)
{
	/* Providers disagree about the sign of errors. */
	switch (err < 0 ? -err : err) {
	case 0:
		return 0;
	case FI_EAGAIN:
		return -EAGAIN;
	case FI_ENOMEM:
	case FI_ENOSPC:
		return -ENOMEM;
	case FI_EINVAL:
	case FI_EBADFLAGS:
		return -EINVAL;
	case FI_EOPNOTSUPP:
	case FI_ENOSYS:
		return -EOPNOTSUPP;
	case FI_ETRUNC:
	case FI_ETOOSMALL:
	case FI_EMSGSIZE:
		return -EMSGSIZE;
	case FI_ECANCELED:
		return -ECANCELED;
	case FI_EACCES:
	case FI_EPERM:
	case FI_ENOKEY:
	case FI_EKEYREJECTED:
		return -EACCES;
	case ERANGE:
	case EFAULT:
		return -ERANGE;
	case FI_ECONNRESET:
	case FI_ECONNABORTED:
	case FI_ECONNREFUSED:
	case FI_ENOTCONN:
	case FI_ESHUTDOWN:
	case FI_EHOSTUNREACH:
	case FI_EHOSTDOWN:
	case FI_ENETUNREACH:
	case FI_ETIMEDOUT:
	case EPIPE:
	case ENOENT: /* no connection to that address */
		return -ECONNRESET;
	case FI_EREMOTEIO:
		return -EREMOTEIO;
	default:
		return -EIO;
	}
}

void
ofi_slots_foreach(struct ofi_ep *e, void (*fn)(struct ofi_ep *e, struct ofi_slot *s, void *arg),
		  void *arg)
{
	uint32_t i;

	for (i = 0; i < e->nb_slots; i++) {
		if (e->slots[i].op != NULL)
			fn(e, &e->slots[i], arg);
	}
}

/* Finish a slot's op. recv: it is a receive; if recv is a constant, the compiler drops branches. */
static inline __attribute__((always_inline)) void
finish(struct ofi_ep *e, struct ofi_slot *s, int status, uint64_t len, bool recv)
{
	struct leat_op *op = s->op;

	if (recv && unlikely(e->track) && op->type == LEAT_OP_RECV)
		ofi_recv_list_del(e, s);
	if (recv && unlikely((s->flags & OFI_SLOT_CARRIER) != 0))
		e->nb_carriers--;
	ofi_slot_put(e, s);
	leat_op_finish_as(e->ep, op, status, len, recv);
}

/* Mark an orphan as failed: the provider may return its context again, so keep the slot. */
static void
orphan_failed(struct ofi_ep *e, struct ofi_slot *s)
{
	s->flags &= (uint8_t)~OFI_SLOT_USES;
	s->flags |= OFI_SLOT_FAILED;
	s->result = leat_now();
	if (s->addr != NULL)
		s->addr->failed++;
	e->nb_failed++;
}

void
ofi_slots_forget_failed(struct ofi_ep *e, const struct ofi_addr *a)
{
	uint64_t now = leat_now(), stay = leat_us_to_cycles(FAILED_US);
	uint32_t i;

	for (i = 0; i < e->nb_slots && e->nb_failed > 0; i++) {
		struct ofi_slot *s = &e->slots[i];

		if (s->state != OFI_SLOT_ORPHAN || (s->flags & OFI_SLOT_FAILED) == 0 ||
		    (a != NULL ? s->addr != a : now - s->result < stay))
			continue;
		if (s->addr != NULL) {
			s->addr->failed--;
			s->addr->orphans--;
		}
		e->nb_failed--;
		e->nb_orphans--;
		ofi_slot_put(e, s);
	}
}

bool
ofi_slots_use(const struct ofi_ep *e, const void *addr, uint64_t len)
{
	uintptr_t first = (uintptr_t)addr;
	uint32_t i;

	if (e->nb_orphans == e->nb_failed)
		return false;
	for (i = 0; i < e->nb_slots; i++) {
		const struct ofi_slot *s = &e->slots[i];

		if (s->state == OFI_SLOT_ORPHAN && (s->flags & OFI_SLOT_USES) != 0 &&
		    s->arg[0] < first + len && s->arg[1] > first)
			return true;
	}
	return false;
}

void
ofi_slot_finish(struct ofi_ep *e, struct ofi_slot *s, int status, uint64_t len)
{
	if (s->state != OFI_SLOT_LIMBO || (e->quirks & OFI_Q_FAILS_AGAIN) == 0) {
		finish(e, s, status, len, leat_op_is_recv(s->op));
		return;
	}
	ofi_slot_orphan(e, s, status);
	orphan_failed(e, s);
}

void
ofi_slot_orphan(struct ofi_ep *e, struct ofi_slot *s, int status)
{
	struct leat_op *op = s->op;

	if (unlikely(e->track) && op->type == LEAT_OP_RECV)
		ofi_recv_list_del(e, s);
	if ((s->flags & OFI_SLOT_CARRIER) != 0)
		e->nb_carriers--;
	if (ofi_read_begun(e, s))
		s->flags |= OFI_SLOT_BEGUN;
	/*
	 * Do not set OFI_SLOT_USES for atomics: their memory is the slot's own, and arg[] holds
	 * operands that the provider may still read.
	 */
	if ((e->quirks & OFI_Q_ENDED_READS) != 0 && op->type < LEAT_OP_FETCH_ADD) {
		s->flags |= OFI_SLOT_USES;
		s->arg[0] = (uintptr_t)op->buf;
		s->arg[1] = (uintptr_t)op->buf + op->size;
	}
	s->op = NULL;
	s->state = OFI_SLOT_ORPHAN;
	s->addr = s->peer == LEAT_PEER_ANY ? NULL : e->peers[s->peer].addr;
	if (s->addr != NULL)
		s->addr->orphans++;
	e->nb_orphans++;
	leat_op_finish(e->ep, op, status, 0);
}

void
ofi_slot_cancel(struct ofi_ep *e, struct ofi_slot *s)
{
	ssize_t ret;

	if ((s->flags & OFI_SLOT_CANCEL) != 0 || e->closing)
		return;
	s->flags |= OFI_SLOT_CANCEL;
	/*
	 * An error means that there was nothing left to cancel: a message was matched with the
	 * receive, whose completion is under way.
	 */
	ret = fi_cancel(&e->fid->fid, &s->ctx);
	if (ret != 0 && ret != -FI_ENOENT)
		LEAT_LOG(DEBUG, driver, "%s: fi_cancel: %s", e->dev->name, fi_strerror((int)-ret));
}

static inline uint16_t
peer_of(const struct ofi_ep *e, fi_addr_t fi)
{
	return fi < e->nb_addr ? e->addr_peer[fi] : LEAT_PEER_ANY;
}

/* Handle a context that the provider gave back long after its op was finished. */
static void
orphan_done(struct ofi_ep *e, struct ofi_slot *s, bool complete)
{
	if ((s->flags & OFI_SLOT_STANDING) != 0)
		ofi_drain_recv_done(e, s, complete);
	else if ((s->flags & OFI_SLOT_PROOF) != 0)
		ofi_proof_read_done(e, s, complete);
	e->nb_orphans--;
	if (s->addr != NULL)
		s->addr->orphans--;
	ofi_slot_put(e, s);
}

/*
 * Handle a completion without a receive of this side: a peer's WRITE_IMM, or an event not asked
 * for.
 */
static void __attribute__((noinline))
remote_event(struct ofi_ep *e, const struct fi_cq_tagged_entry *c, fi_addr_t src)
{
	if ((c->flags & (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA)) ==
	    (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA))
		ofi_notice_add(e, c->data, c->len, peer_of(e, src));
}

/* Fail a receive that got a message with a tag that it does not match: a fault of the provider. */
static int __attribute__((noinline, cold))
wrong_tag(const struct ofi_ep *e, const struct leat_op *op, uint64_t tag)
{
	LEAT_LOG(ERR, driver,
		 "%s: endpoint %s: provider %s gave the message with tag %#" PRIx64
		 " to the receive for tag %#" PRIx64 ", ignore %#" PRIx64,
		 e->dev->name, leat_ep_name(e->ep), e->info->fabric_attr->prov_name, tag, op->tag,
		 op->ignore);
	return -EIO;
}

static inline __attribute__((always_inline)) void
recv_done(struct ofi_ep *e, struct ofi_slot *s, const struct fi_cq_tagged_entry *c, fi_addr_t src)
{
	struct leat_op *op = s->op;
	uint64_t len = c->len;
	int status = 0;

	if (e->source)
		op->src = peer_of(e, src);
	else
		op->src = op->peer;
	if (op->type == LEAT_OP_TRECV) {
		op->tag_in = c->tag;
		if (unlikely(((c->tag ^ op->tag) & ~op->ignore) != 0))
			status = wrong_tag(e, op, c->tag);
	}
	if (unlikely((c->flags & FI_REMOTE_CQ_DATA) != 0)) {
		op->oflags |= LEAT_OP_F_IMM;
		op->imm = c->data;
		if ((c->flags & FI_REMOTE_WRITE) != 0)
			op->oflags |= LEAT_OP_F_WRITTEN;
	}
	/* The part beyond op->size went into the sink. */
	if (unlikely(len > op->size && (op->oflags & LEAT_OP_F_WRITTEN) == 0)) {
		status = -EMSGSIZE;
		e->sink_dirty = true;
	}
	if (unlikely(e->nb_gaps != 0) && e->source && ofi_drain_gap(e, src)) {
		status = -ECONNRESET;
		len = 0;
	}
	finish(e, s, status, len, true);
}

static inline __attribute__((always_inline)) void
complete(struct ofi_ep *e, const struct fi_cq_tagged_entry *c, fi_addr_t src)
{
	struct ofi_slot *s;

	if (unlikely((c->flags & REMOTE_FLAGS) != 0 && !(e->rx_cq_data && c->op_context != NULL))) {
		remote_event(e, c, src);
		return;
	}
	if (unlikely(c->op_context == NULL))
		return;
	s = ofi_slot_of(c->op_context);
	if (likely(s->state == OFI_SLOT_RX)) {
		recv_done(e, s, c, src);
	} else if (likely(s->state == OFI_SLOT_TX)) {
		if (unlikely(s->op->type >= LEAT_OP_FETCH_ADD))
			*(uint64_t *)s->op->buf = s->result;
		else if (e->inject_run != 0 && s->op->type <= LEAT_OP_TSEND)
			e->peers[s->peer].injected = 0;
		finish(e, s, 0, s->op->size, false);
	} else if (s->state == OFI_SLOT_ORPHAN && (s->flags & OFI_SLOT_FAILED) == 0) {
		orphan_done(e, s, true);
	}
}

/*
 * Find the slot of an error entry. @return NULL: the entry holds no context, or no slot's context,
 * as happens with some providers
 */
static struct ofi_slot *
slot_checked(const struct ofi_ep *e, void *context)
{
	uintptr_t base = (uintptr_t)e->slots, p;

	if (context == NULL)
		return NULL;
	p = (uintptr_t)ofi_slot_of(context);
	if (p < base || p >= base + e->nb_slots * sizeof(*e->slots) ||
	    (p - base) % sizeof(*e->slots) != 0)
		return NULL;
	return (struct ofi_slot *)p;
}

/*
 * Return the status of an op that the provider failed; 1: it depends on whether the peer is alive,
 * which is not known yet.
 */
static int
error_status(struct ofi_ep *e, const struct ofi_slot *s, const struct fi_cq_err_entry *err)
{
	const struct leat_op *op = s->op;
	int status = ofi_provider_status(e->dev->prov, err);

	/* The op was cancelled because its peer is ending, or because the caller asked for it. */
	if (status == -ECANCELED && (s->flags & OFI_SLOT_CANCEL) != 0)
		return op->state == LEAT_OP_INFLIGHT && op->peer != LEAT_PEER_ANY &&
				       e->peers[op->peer].state == OFI_PEER_ENDING
			       ? e->peers[op->peer].status
			       : status;
	if (status == -EMSGSIZE || status == -EACCES || status == -ERANGE)
		return status;
	if (op->peer == LEAT_PEER_ANY)
		return status == -ECANCELED || status == -EIO ? -ECONNRESET : status;
	if (e->peers[op->peer].state == OFI_PEER_ENDING)
		return e->peers[op->peer].status;
	/* The receiver could not copy the whole message: it is longer than its receive. */
	if ((e->quirks & OFI_Q_SINK_FAULT) != 0 && status == -EIO && op->type <= LEAT_OP_TSEND)
		return -EMSGSIZE;
	return (e->quirks & OFI_Q_BREAKS) != 0 ? 1 : status;
}

/*
 * Return the status of a receive that ended with an I/O error. Either its message was longer than
 * the sink's first page, or its sender died while copying.
 */
static int
sink_status(struct ofi_ep *e)
{
	if (!ofi_sink_used(e))
		return -ECONNRESET;
	e->sink_dirty = true; /* receives whose completions are unread may have used the sink */
	return -EMSGSIZE;
}

static void
failed(struct ofi_ep *e, struct ofi_slot *s, const struct fi_cq_err_entry *err)
{
	char text[128];
	int status;

	if (s->state == OFI_SLOT_ORPHAN) {
		bool cancelled = ofi_errno(err->err) == -ECANCELED;

		if ((s->flags & OFI_SLOT_FAILED) != 0)
			return;
		if ((e->quirks & OFI_Q_FAILS_AGAIN) != 0 && !cancelled &&
		    (s->flags & OFI_SLOT_STANDING) == 0) {
			if ((s->flags & OFI_SLOT_PROOF) != 0)
				ofi_proof_read_done(e, s, false);
			s->flags &= (uint8_t)~OFI_SLOT_PROOF;
			orphan_failed(e, s);
			return;
		}
		if (cancelled && s == e->drain_recv)
			e->drained = true;
		orphan_done(e, s, !cancelled && (s->flags & OFI_SLOT_PROOF) == 0);
		return;
	}
	if (s->op == NULL || s->state == OFI_SLOT_LIMBO)
		return;
	if ((s->flags & OFI_SLOT_CARRIER) != 0 && ofi_errno(err->err) == -ECANCELED) {
		ofi_notice_carrier_done(e, s);
		return;
	}
	if ((e->quirks & OFI_Q_SINK_FAULT) != 0 && s->state == OFI_SLOT_RX &&
	    ofi_errno(err->err) == -EIO)
		status = sink_status(e);
	else
		status = error_status(e, s, err);
	if (status != -ECANCELED)
		LEAT_LOG(DEBUG, driver, "%s: endpoint %s: %s of %" PRIu64 " B, peer %u: %s (%s)",
			 e->dev->name, leat_ep_name(e->ep), leat_op_type_name(s->op->type),
			 s->op->size, s->op->peer, fi_strerror(err->err < 0 ? -err->err : err->err),
			 fi_cq_strerror(e->cq, err->prov_errno, err->err_data, text, sizeof(text)));
	if (status > 0) {
		s->state = OFI_SLOT_LIMBO;
		e->peers[s->op->peer].broken_errno = err->prov_errno;
		ofi_conn_broken(e, s->op->peer);
		return;
	}
	if ((e->quirks & OFI_Q_FAILS_AGAIN) != 0 && status != -ECANCELED)
		/* so that the slot becomes an orphan, see ofi_slot_finish() */
		s->state = OFI_SLOT_LIMBO;
	/* The length is reported as 0: providers differ in len and olen of a truncated message. */
	ofi_slot_finish(e, s, status, 0);
}

static bool
read_error(struct ofi_ep *e)
{
	struct fi_cq_err_entry err;
	struct ofi_slot *s;

	memset(&err, 0, sizeof(err));
	if (fi_cq_readerr(e->cq, &err, 0) < 1)
		return false;
	s = slot_checked(e, err.op_context);
	if (s != NULL)
		failed(e, s, &err);
	else
		LEAT_LOG(DEBUG, driver, "%s: endpoint %s: error without an op: %s (%d)",
			 e->dev->name, leat_ep_name(e->ep),
			 fi_strerror(err.err < 0 ? -err.err : err.err), err.prov_errno);
	return true;
}

/* Read the error entries, which are rare. Later completions can be read only afterwards. */
static void __attribute__((noinline, cold)) read_errors(struct ofi_ep *e)
{
	unsigned int i;

	for (i = 0; i < ERRORS_PER_POLL && read_error(e); i++) {
		struct fi_cq_tagged_entry c;
		fi_addr_t src = FI_ADDR_NOTAVAIL;

		if (fi_cq_readfrom(e->cq, &c, 1, &src) == 1)
			complete(e, &c, src);
	}
}

/*
 * Read up to max completions. Each call also drives the provider; a call with max 0 does only that.
 */
static inline __attribute__((always_inline)) unsigned int
read_some(struct ofi_ep *e, unsigned int max)
{
	struct fi_cq_tagged_entry c[OFI_CQ_BURST];
	fi_addr_t src[OFI_CQ_BURST];
	ssize_t n, i;

	if (max > OFI_CQ_BURST)
		max = OFI_CQ_BURST;
	if (likely(e->source)) {
		n = fi_cq_readfrom(e->cq, c, max, src);
		for (i = 0; i < n; i++)
			complete(e, &c[i], src[i]);
	} else {
		n = fi_cq_read(e->cq, c, max);
		for (i = 0; i < n; i++)
			complete(e, &c[i], FI_ADDR_NOTAVAIL);
	}
	if (likely(n >= 0))
		return (unsigned int)n;
	if (unlikely(n == -FI_EAVAIL))
		read_errors(e);
	else if (unlikely(e->sink_dirty))
		ofi_sink_mark(e); /* the CQ is empty, so no unread completion has used the sink */
	return 0;
}

/*
 * Read completions while notices wait. Most providers complete the cancel of a carrier
 * (ofi_notice.c) at once, so go on until no carrier is left to choose.
 */
static void __attribute__((noinline, cold)) read_with_notices(struct ofi_ep *e, unsigned int max)
{
	unsigned int n;

	if (!ofi_notice_room(e))
		max = 0;
	n = read_some(e, max);
	while (e->notice_count > 0 && n < max && ofi_notice_run(e))
		n += 1 + read_some(e, max - n);
}

static inline void
drive(struct ofi_ep *e, unsigned int max)
{
	if (likely(e->notice_count == 0)) {
		(void)read_some(e, max);
		if (likely(e->notice_count == 0))
			return;
		max = 1;
	}
	read_with_notices(e, max);
}

void
ofi_cq_drive(struct ofi_ep *e, unsigned int max)
{
	if (!e->closing)
		drive(e, max);
}

void
ofi_poll(struct leat_ep *ep)
{
	drive(ofi_of(ep), leat_ep_room(ep));
}

void
ofi_poll_draining(struct leat_ep *ep)
{
	struct ofi_ep *e = ofi_of(ep);

	drive(e, leat_ep_room(ep));
	if (unlikely(e->drain_hit))
		ofi_drain_run(e);
}

void
ofi_poll_closed(struct leat_ep *ep)
{
	RTE_SET_USED(ep);
}
