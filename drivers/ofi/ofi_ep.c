/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Endpoints: open and close the libfabric objects of an endpoint.
 *
 *     fi_fabric -> fi_domain -> fi_cq_open, fi_av_open -> fi_endpoint, bind, fi_enable
 *
 * Each endpoint has a fabric and a domain of its own. Only one thread uses the domain, so the
 * provider need not lock.
 */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <rte_common.h>

#include <leat_signals.h>

#include "ofi_read.h"

/* Slots beyond the depths, so that a few orphans don't reduce how many ops can be posted. */
#define SPARE_SLOTS 128

static int
fi_failed(const struct ofi_ep *e, const char *what, int ret)
{
	return leat_err(-ofi_errno(-ret), "%s: create endpoint: %s (provider %s, domain %s): %s",
			e->dev->name, what, e->info->fabric_attr->prov_name,
			e->info->domain_attr->name, fi_strerror(-ret));
}

static int
open_info(struct ofi_ep *e, const struct leat_ep_conf *conf)
{
	uint64_t caps = e->dev->caps;
	int err;

	/* Tags cost some providers time, even if no op uses one. */
	if ((conf->ops & OFI_OPS_TAG) == 0)
		caps &= ~FI_TAGGED;
	e->info = ofi_dev_getinfo(e->dev, caps, conf, &err);
	if (e->info == NULL)
		return leat_err(EIO,
				"%s: create endpoint: the provider is not offered any more: %s; %s",
				e->dev->name, fi_strerror(err), e->dev->prov->check);
	e->info->domain_attr->av_type = FI_AV_TABLE;
	return 0;
}

static int
open_fids(struct ofi_ep *e, const struct leat_ep_conf *conf)
{
	struct fi_cq_attr cq = {
		/* Two entries for each op in flight: for a cancelled op and for its successor. */
		.size = 2 * (size_t)(conf->tx_depth + conf->rx_depth) + 64,
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = conf->wait ? FI_WAIT_FD : FI_WAIT_NONE,
	};
	struct fi_av_attr av = { .type = FI_AV_TABLE, .count = conf->max_peers };
	int ret;

	ret = fi_fabric(e->info->fabric_attr, &e->fabric, NULL);
	if (ret != 0)
		return fi_failed(e, "fi_fabric", ret);
	ret = fi_domain(e->fabric, e->info, &e->domain, NULL);
	if (ret != 0)
		return fi_failed(e, "fi_domain", ret);
	ret = fi_cq_open(e->domain, &cq, &e->cq, NULL);
	if (ret != 0)
		return fi_failed(e, "fi_cq_open", ret);
	ret = fi_av_open(e->domain, &av, &e->av, NULL);
	if (ret != 0)
		return fi_failed(e, "fi_av_open", ret);
	return 0;
}

static int
open_ep(struct ofi_ep *e)
{
	size_t len = OFI_ADDR_MAX;
	int ret;

	ret = fi_endpoint(e->domain, e->info, &e->fid, NULL);
	if (ret != 0)
		return fi_failed(e, "fi_endpoint", ret);
	ret = fi_ep_bind(e->fid, &e->av->fid, 0);
	if (ret == 0 && (e->quirks & OFI_Q_EVENTS) != 0)
		ret = ofi_event_open(e);
	if (ret == 0)
		ret = fi_ep_bind(e->fid, &e->cq->fid, FI_TRANSMIT | FI_RECV);
	if (ret != 0)
		return fi_failed(e, "fi_ep_bind", ret);
	ofi_provider_ep_options(e->dev->prov, e->fid);
	ret = fi_enable(e->fid);
	if (ret != 0)
		return fi_failed(e, "fi_enable", ret);
	ret = fi_getname(&e->fid->fid, e->raw, &len);
	if (ret != 0 || len > OFI_ADDR_MAX)
		return fi_failed(e, "fi_getname", ret != 0 ? ret : -FI_ETOOSMALL);
	e->raw_len = (uint16_t)len;
	return 0;
}

/*
 * Open the endpoint, and keep the application's signal handlers. With its first endpoint the shm
 * provider installs handlers for four signals, to clean up when the process is killed. The driver
 * restores the application's handlers: memory is cleaned up when endpoints are closed.
 */
static int
open_ep_signals_kept(struct ofi_ep *e)
{
	struct leat_signals signals;
	int ret;

	if ((e->quirks & OFI_Q_SHM) == 0)
		return open_ep(e);
	leat_signals_save(&signals);
	ret = open_ep(e);
	leat_signals_restore(&signals);
	return ret;
}

/*
 * Check one kind of atomic. ret, n: what the named call of libfabric returned, and how many values
 * it allows in one op. @return 0; negative errno with leat_err()
 */
static int
check_atomic(const struct ofi_ep *e, const char *op, const char *call, int ret, size_t n)
{
	if (ret == 0 && n > 0)
		return 0;
	return leat_err(EOPNOTSUPP, "%s: create endpoint: provider %s can't do %s: %s: %s",
			e->dev->name, e->info->fabric_attr->prov_name, op, call,
			ret != 0 ? fi_strerror(-ret) : "no values are allowed");
}

/* Check that the provider has the atomics asked for: fi_info may announce them in error. */
static int
check_atomics(struct ofi_ep *e, const struct leat_ep_conf *conf)
{
	size_t n = 0;
	int ret;

	if ((conf->ops & LEAT_OP_BIT(LEAT_OP_FETCH_ADD)) != 0) {
		ret = fi_fetch_atomicvalid(e->fid, FI_UINT64, FI_SUM, &n);
		ret = check_atomic(e, "fetch_add", "fi_fetch_atomicvalid(FI_UINT64, FI_SUM)", ret,
				   n);
		if (ret < 0)
			return ret;
	}
	if ((conf->ops & LEAT_OP_BIT(LEAT_OP_CMP_SWAP)) != 0) {
		n = 0;
		ret = fi_compare_atomicvalid(e->fid, FI_UINT64, FI_CSWAP, &n);
		return check_atomic(e, "cmp_swap", "fi_compare_atomicvalid(FI_UINT64, FI_CSWAP)",
				    ret, n);
	}
	return 0;
}

static int
alloc_slots(struct ofi_ep *e, const struct leat_ep_conf *conf)
{
	uint32_t i;

	e->nb_slots = conf->tx_depth + conf->rx_depth + SPARE_SLOTS;
	/* Room for all ops that failed with one peer, while ops to other peers go on. */
	if ((e->quirks & OFI_Q_FAILS_AGAIN) != 0)
		e->nb_slots += conf->tx_depth;
	e->slots = aligned_alloc(LEAT_CACHE_LINE, e->nb_slots * sizeof(*e->slots));
	e->peers = calloc(conf->max_peers, sizeof(*e->peers));
	if (e->slots == NULL || e->peers == NULL)
		return leat_err(ENOMEM, "%s: create endpoint: out of memory", e->dev->name);
	memset(e->slots, 0, e->nb_slots * sizeof(*e->slots));
	for (i = e->nb_slots; i > 0; i--)
		ofi_slot_put(e, &e->slots[i - 1]);
	return 0;
}

static void
fid_close(const struct ofi_ep *e, struct fid *fid, const char *what)
{
	int ret;

	if (fid == NULL)
		return;
	ret = fi_close(fid);
	if (ret != 0)
		LEAT_LOG(DEBUG, driver, "%s: the provider keeps its %s: %s", e->dev->name, what,
			 fi_strerror(-ret));
}

#define FID(x) ((x) == NULL ? NULL : &(x)->fid)

void
ofi_ep_free(struct ofi_ep *e)
{
	ofi_wait_close(e);
	fid_close(e, FID(e->slots_mr), "memory region");
	fid_close(e, FID(e->proof_mr), "memory region of proofs");
	if (!e->closing)
		fid_close(e, FID(e->fid), "endpoint");
	ofi_av_fini(e);
	fid_close(e, FID(e->cq), "completion queue");
	fid_close(e, FID(e->eq), "event queue");
	fid_close(e, FID(e->av), "address vector");
	fid_close(e, FID(e->domain), "domain");
	fid_close(e, FID(e->fabric), "fabric");
	ofi_proof_close(e);
	ofi_notice_fini(e);
	ofi_sink_free(e);
	fi_freeinfo(e->info);
	free(e->slots);
	free(e->peers);
	free(e->addr_peer);
	free(e);
}

/* Determine the largest send that is injected, in bytes. @return false: no send is injected */
static bool
inject_max(const struct ofi_ep *e, uint32_t *max)
{
	const uint32_t pays = e->dev->prov->inject_pays;

	*max = (uint32_t)RTE_MIN(e->info->tx_attr->inject_size, (size_t)pays);
	return pays > 0;
}

/*
 * Change the inline limit. The option can only lower it: beyond inject_pays, inject is slower or
 * not available.
 */
int
ofi_ep_option(struct leat_ep *ep, enum leat_ep_option option, uint32_t *value)
{
	struct ofi_ep *e = ofi_of(ep);
	uint32_t max;

	if (option != LEAT_EP_OPTION_INLINE_MAX || !inject_max(e, &max))
		return leat_err(EOPNOTSUPP, "%s: provider %s lacks this option", leat_ep_name(ep),
				e->info->fabric_attr->prov_name);
	*value = RTE_MIN(*value, max);
	e->inject_end = *value + 1;
	return 0;
}

static void
set_limits(struct leat_ep *ep, struct ofi_ep *e, const struct leat_ep_conf *conf)
{
	uint32_t inject;

	/* If inject is used at all, empty messages are injected too. */
	e->inject_run = (e->quirks & OFI_Q_INJECT_QUEUES) != 0 ? RTE_MIN(conf->tx_depth, 256u) : 0;
	e->inject_end = inject_max(e, &inject) ? inject + 1 : 0;
	e->mr_desc = (e->info->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
	e->rx_cq_data = (e->info->mode & FI_RX_CQ_DATA) != 0;
	e->imm_mask = ofi_dev_imm_size(e->dev) == 8 ? UINT64_MAX : UINT32_MAX;
	/* Look at dev->caps: a provider can grant FI_SOURCE unasked, and report wrong sources. */
	e->source = (e->dev->caps & FI_SOURCE) != 0;
	/* Keys that the provider chooses can't be sealed (ofi_mr.c). */
	e->sealed = (e->quirks & OFI_Q_KEY_SEALED) != 0 &&
		    (e->info->domain_attr->mr_mode & (FI_MR_PROV_KEY | FI_MR_VIRT_ADDR)) == 0 &&
		    e->info->domain_attr->mr_key_size >= 8;
	e->rma_special = e->sealed || (e->quirks & OFI_Q_NO_READ0) != 0 ? LEAT_OP_WRITE
									: LEAT_OP_TYPES;
	ep->mr_local = e->mr_desc;
	ep->directed_recv = (e->dev->caps & FI_DIRECTED_RECV) != 0;
	ep->max_msg = e->info->ep_attr->max_msg_size;
}

/*
 * OFI_Q_CLOSE_LAST: closed endpoints stay open for the provider until no endpoint with this quirk
 * in the process is in use any more.
 */
static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int last_in_use;
static struct ofi_ep *last_closed;

static void
last_opened(void)
{
	pthread_mutex_lock(&last_lock);
	last_in_use++;
	pthread_mutex_unlock(&last_lock);
}

static void
close_last(struct ofi_ep *e)
{
	e->closing = false; /* the fid is still open, and ofi_ep_free() is to close it */
	ofi_av_fini(e);
	pthread_mutex_lock(&last_lock);
	e->next_closed = last_closed;
	last_closed = e;
	e = NULL;
	if (--last_in_use == 0) {
		e = last_closed;
		last_closed = NULL;
	}
	pthread_mutex_unlock(&last_lock);
	while (e != NULL) {
		struct ofi_ep *next = e->next_closed;

		ofi_ep_free(e);
		e = next;
	}
}

int
ofi_ep_open(struct leat_ep *ep, const struct leat_ep_conf *conf)
{
	struct ofi_ep *e = aligned_alloc(LEAT_CACHE_LINE, RTE_CACHE_LINE_ROUNDUP(sizeof(*e)));
	int err;

	if (e == NULL)
		return leat_err(ENOMEM, "%s: create endpoint: out of memory",
				leat_dev_name(ep->dev));
	memset(e, 0, sizeof(*e));
	e->wait_fd = -1;
	e->ep = ep;
	e->dev = leat_dev_drv(ep->dev);
	e->quirks = e->dev->quirks;
	if (open_info(e, conf) < 0 || alloc_slots(e, conf) < 0 || ofi_sink_alloc(e) < 0 ||
	    open_fids(e, conf) < 0 || open_ep_signals_kept(e) < 0 || check_atomics(e, conf) < 0)
		goto bad;
	set_limits(ep, e, conf);
	if ((conf->ops & OFI_OPS_ATOMIC) != 0 && e->mr_desc && ofi_mr_reg_slots(e) < 0)
		goto bad;
	if (ofi_proof_open(e, conf->max_peers) < 0)
		goto bad;
	ep->drv = e;
	if (ofi_conn_init(e, conf) < 0)
		goto bad;
	if (conf->wait && ofi_wait_open(e) < 0) {
		err = rte_errno;
		ofi_conn_fini(e);
		rte_errno = err;
		goto bad;
	}
	if ((e->quirks & OFI_Q_CLOSE_LAST) != 0)
		last_opened();
	ep->post = ofi_post;
	ep->poll = ofi_poll;
	return 0;
bad:
	err = rte_errno;
	ofi_ep_free(e);
	ep->drv = NULL;
	rte_errno = err;
	return -err;
}

static void
cancel_recv(struct ofi_ep *e, struct ofi_slot *s, void *arg)
{
	RTE_SET_USED(arg);
	if (s->state == OFI_SLOT_RX)
		ofi_slot_cancel(e, s);
}

void
ofi_ep_quiesce(struct leat_ep *ep)
{
	struct ofi_ep *e = ofi_of(ep);

	ofi_slots_foreach(e, cancel_recv, NULL);
}

static void
finish_shutdown(struct ofi_ep *e, struct ofi_slot *s, void *arg)
{
	RTE_SET_USED(arg);
	ofi_slot_orphan(e, s, -ESHUTDOWN);
}

/*
 * Leave an endpoint open that the provider can't close now. This is safe, because an endpoint that
 * is not driven writes to no memory.
 */
static void
leave_open(struct ofi_ep *e)
{
	struct ofi_addr *a;

	for (a = e->addrs; a != NULL; a = a->next)
		a->cut = true;
	LEAT_LOG(WARNING, driver,
		 "%s: endpoint %s: a peer stopped in the middle of answering a READ, and "
		 "provider %s can't close the endpoint: its memory and sockets stay until the "
		 "process ends",
		 e->dev->name, leat_ep_name(e->ep), e->info->fabric_attr->prov_name);
}

static void
close_ep(struct ofi_ep *e)
{
	if (ofi_read_closable(e))
		fid_close(e, FID(e->fid), "endpoint");
	else
		leave_open(e);
}

static void
abort_now(struct ofi_ep *e)
{
	close_ep(e);
	e->closing = true;
	leat_ep_poll_set(e->ep, ofi_poll_closed);
	ofi_slots_foreach(e, finish_shutdown, NULL);
}

/*
 * Poll while the answer to a READ is arriving, but not beyond the time abort_by. Afterwards abort
 * the endpoint.
 */
static void
poll_abort(struct leat_ep *ep)
{
	struct ofi_ep *e = ofi_of(ep);

	ofi_poll(ep);
	if (ofi_read_settled(e) || leat_now() >= e->abort_by)
		abort_now(e);
}

void
ofi_ep_abort(struct leat_ep *ep)
{
	struct ofi_ep *e = ofi_of(ep);

	if (e->closing || ep->drv_poll == poll_abort)
		return;
	if ((e->quirks & OFI_Q_CLOSE_LAST) != 0) {
		/*
		 * The endpoint stays open for the provider. The provider completes cancelled
		 * receives at once.
		 */
		ofi_slots_foreach(e, cancel_recv, NULL);
		ofi_cq_drive(e, OFI_CQ_BURST);
		e->closing = true;
		leat_ep_poll_set(ep, ofi_poll_closed);
		ofi_slots_foreach(e, finish_shutdown, NULL);
	} else if (ofi_read_settled(e)) {
		abort_now(e);
	} else {
		e->abort_by = leat_now() + leat_us_to_cycles(OFI_GRACE_US);
		leat_ep_poll_set(ep, poll_abort);
	}
}

/*
 * Close the endpoint before its regions are deregistered. Sends that were ended by force still use
 * regions, and efa of 1.17 crashes on a peer's request for a region that is deregistered: see
 * doc/drivers/ofi.md.
 */
void
ofi_ep_halt(struct leat_ep *ep)
{
	struct ofi_ep *e = ofi_of(ep);

	if ((e->quirks & OFI_Q_ENDED_READS) != 0 && !e->closing)
		abort_now(e);
}

void
ofi_ep_close(struct leat_ep *ep)
{
	struct ofi_ep *e = ofi_of(ep);
	bool last = (e->quirks & OFI_Q_CLOSE_LAST) != 0;

	if (!last && !e->closing) {
		close_ep(e);
		e->closing = true;
	}
	ofi_conn_fini(e);
	ep->drv = NULL;
	e->ep = NULL;
	if (last)
		close_last(e);
	else
		ofi_ep_free(e);
}

int
ofi_ep_cancel(struct leat_ep *ep, struct leat_op *op)
{
	struct ofi_ep *e = ofi_of(ep);
	struct ofi_slot *s = op->drv_ctx;

	if (!leat_op_is_recv(op))
		return -EOPNOTSUPP; /* no provider can cancel a send */
	ofi_slot_cancel(e, s);
	return 0;
}
