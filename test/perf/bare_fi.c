/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The reference side (see fi_side.h): bare libfabric, opened with the driver's hints (RDM,
 * FI_THREAD_DOMAIN, manual progress, one CQ for both directions, every capability that the driver
 * uses and the provider has). No leat code, no DPDK.
 *
 * Messages of up to the provider's inject_size (64 B for ofi_rxm over tcp, 4096 B for shm) are
 * injected: they need no request, and have no completion.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "fi_side_pvt.h"

#define ADDR_MAX 512
/* Entries per fi_cq_read. */
#define CQ_BURST 16

struct wire_addr {
	uint32_t len;
	uint8_t addr[ADDR_MAX];
};

struct side {
	struct fi_loop loop;
	struct fid_ep *ep;
	struct fid_cq *cq;
	fi_addr_t peer;
	size_t size;
	bool inject;		  /* send with fi_inject(), since size fits */
	uint8_t *tx_buf, *rx_buf; /* slots of stride bytes */
	void *tx_desc, *rx_desc;
	struct fi_context2 *tx_ctx, *rx_ctx; /* one per slot: the requests */
	size_t stride;
	/* Objects of libfabric. */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_mr *tx_mr, *rx_mr;
};

static void __attribute__((noreturn, cold)) fi_fail(const char *what, ssize_t ret)
{
	bench_die("bare libfabric: %s: %s", what, fi_strerror((int)-ret));
}

/* No events to handle: fi_cq_read() makes all progress. */
static void
side_events(struct side *s)
{
	(void)s;
}

static void
side_prepare(struct side *s, size_t size)
{
	s->size = size;
	s->inject = size <= s->info->tx_attr->inject_size;
}

static inline void
side_complete_all(struct side *s)
{
	s->inject = false;
}

static inline void
recv_post(struct side *s, struct fi_context2 *ctx)
{
	ssize_t ret = fi_recv(s->ep, s->rx_buf + (size_t)(ctx - s->rx_ctx) * s->stride, s->size,
			      s->rx_desc, FI_ADDR_UNSPEC, ctx);

	if (unlikely(ret != 0))
		fi_fail("fi_recv", ret);
}

static void
side_recv(struct side *s, uint32_t i)
{
	recv_post(s, &s->rx_ctx[i]);
}

static inline void
side_again(struct side *s, void **recvs, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		recv_post(s, recvs[i]);
}

/* Send one message. @return 1, or 0 if the provider's queue is full */
static inline uint32_t
send_post(struct side *s)
{
	struct fi_context2 *ctx;
	ssize_t ret;

	if (s->inject) {
		ret = fi_inject(s->ep, s->tx_buf, s->size, s->peer);
	} else {
		ctx = s->loop.free[s->loop.nb_free - 1];
		ret = fi_send(s->ep, s->tx_buf + (size_t)(ctx - s->tx_ctx) * s->stride, s->size,
			      s->tx_desc, s->peer, ctx);
		if (likely(ret == 0))
			s->loop.nb_free--;
	}
	if (likely(ret == 0))
		return 1;
	if (unlikely(ret != -FI_EAGAIN))
		fi_fail("send", ret);
	return 0;
}

static inline uint32_t
side_send(struct side *s, uint32_t n)
{
	uint32_t took;

	for (took = 0; took < n; took++) {
		if (unlikely(send_post(s) == 0))
			break;
	}
	return took;
}

static inline uint32_t
side_answer(struct side *s, void *again, uint32_t n, uint32_t done)
{
	(void)done; /* always 0: recv_post() never fails, so a call posts all n requests or none */
	if (unlikely(send_post(s) == 0))
		return 0;
	if (likely(n == 2))
		recv_post(s, again);
	return n;
}

static __attribute__((noinline, cold, noreturn)) void
cq_error(struct side *s, ssize_t ret)
{
	struct fi_cq_err_entry e = { 0 };

	if (ret == -FI_EAVAIL && fi_cq_readerr(s->cq, &e, 0) == 1)
		fi_fail("completion with error", e.err < 0 ? e.err : -e.err);
	fi_fail("fi_cq_read", ret);
}

static inline int
side_poll(struct side *s, void **recvs)
{
	struct fi_cq_msg_entry e[CQ_BURST];
	ssize_t i, n = fi_cq_read(s->cq, e, CQ_BURST);
	int nb_recv = 0;

	if (n == -FI_EAGAIN)
		return -1;
	if (unlikely(n < 0))
		cq_error(s, n);
	for (i = 0; i < n; i++) {
		if ((e[i].flags & FI_RECV) != 0)
			recvs[nb_recv++] = e[i].op_context;
		else
			s->loop.free[s->loop.nb_free++] = e[i].op_context;
	}
	return nb_recv;
}

#include "fi_loop.h"

/* ---- opening ---- */

static struct fi_info *
getinfo(const struct fi_side_conf *conf, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	const bool efa = strcmp(conf->provider, "efa") == 0;
	const char *node = efa ? NULL : "127.0.0.1"; /* efa has no network addresses */
	struct timespec now = { 0 };
	char name[64];
	int ret;

	if (hints == NULL)
		return NULL;
	hints->fabric_attr->prov_name = strdup(conf->provider);
	/* FI_REMOTE_COMM without FI_LOCAL_COMM: efa must not use shared memory. */
	hints->caps = FI_MSG | caps | (efa ? FI_REMOTE_COMM : 0);
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->av_type = FI_AV_TABLE;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY | FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT |
				      FI_MR_ENDPOINT;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	if (strncmp(conf->provider, "shm", 3) == 0) {
		/*
		 * The name includes the time: an earlier process with this pid may have left its
		 * shared memory behind.
		 */
		(void)clock_gettime(CLOCK_REALTIME, &now);
		snprintf(name, sizeof(name), "bare-%d-%lx%08lx", (int)getpid(),
			 (unsigned long)now.tv_sec, (unsigned long)now.tv_nsec);
		node = name;
	}
	ret = fi_getinfo(FI_VERSION(1, 17), node, NULL, node != NULL ? FI_SOURCE : 0, hints, &info);
	fi_freeinfo(hints);
	return ret == 0 ? info : NULL;
}

/* Find an endpoint type with every capability that the driver would use and the provider has. */
static struct fi_info *
find_info(const struct fi_side_conf *conf)
{
	static const uint64_t optional[] = { FI_RMA, FI_ATOMIC, FI_SOURCE, FI_DIRECTED_RECV };
	struct fi_info *info = getinfo(conf, 0), *more;
	uint64_t caps = 0;
	size_t i;

	if (info == NULL)
		bench_die("bare libfabric: no RDM endpoint of provider %s", conf->provider);
	for (i = 0; i < sizeof(optional) / sizeof(optional[0]); i++) {
		more = getinfo(conf, caps | optional[i]);
		if (more == NULL)
			continue;
		caps |= optional[i];
		fi_freeinfo(info);
		info = more;
	}
	return info;
}

static void
open_fids(struct side *s)
{
	struct fi_cq_attr cq = { .size = 4 * (size_t)s->loop.window + 64,
				 .format = FI_CQ_FORMAT_MSG,
				 .wait_obj = FI_WAIT_NONE };
	struct fi_av_attr av = { .type = FI_AV_TABLE, .count = 2 };
	int ret;

	if ((ret = fi_fabric(s->info->fabric_attr, &s->fabric, NULL)) != 0)
		fi_fail("fi_fabric", ret);
	if ((ret = fi_domain(s->fabric, s->info, &s->domain, NULL)) != 0)
		fi_fail("fi_domain", ret);
	if ((ret = fi_cq_open(s->domain, &cq, &s->cq, NULL)) != 0)
		fi_fail("fi_cq_open", ret);
	if ((ret = fi_av_open(s->domain, &av, &s->av, NULL)) != 0)
		fi_fail("fi_av_open", ret);
	if ((ret = fi_endpoint(s->domain, s->info, &s->ep, NULL)) != 0)
		fi_fail("fi_endpoint", ret);
	if ((ret = fi_ep_bind(s->ep, &s->av->fid, 0)) != 0 ||
	    (ret = fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV)) != 0)
		fi_fail("fi_ep_bind", ret);
	if ((ret = fi_enable(s->ep)) != 0)
		fi_fail("fi_enable", ret);
}

static void
open_mr(struct side *s, void *buf, uint64_t access, uint64_t key, struct fid_mr **mr, void **desc)
{
	int ret;

	if ((s->info->domain_attr->mr_mode & FI_MR_LOCAL) == 0)
		return;
	ret = fi_mr_reg(s->domain, buf, s->stride * s->loop.window, access, 0, key, 0, mr, NULL);
	if (ret == 0 && (s->info->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0) {
		ret = fi_mr_bind(*mr, &s->ep->fid, 0);
		if (ret == 0)
			ret = fi_mr_enable(*mr);
	}
	if (ret != 0)
		fi_fail("fi_mr_reg", ret);
	*desc = fi_mr_desc(*mr);
}

static void *
alloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (p == NULL)
		bench_die("out of memory");
	return p;
}

static void
open_memory(struct side *s, const struct fi_side_conf *conf)
{
	uint32_t i, window = s->loop.window;

	s->stride = FI_SIDE_STRIDE(conf->max_size);
	s->tx_buf = conf->mem;
	s->rx_buf = s->tx_buf + s->stride * window;
	s->tx_ctx = alloc(window, sizeof(*s->tx_ctx));
	s->rx_ctx = alloc(window, sizeof(*s->rx_ctx));
	s->loop.free = alloc(window, sizeof(s->loop.free[0]));
	for (i = 0; i < window; i++)
		s->loop.free[s->loop.nb_free++] = &s->tx_ctx[window - 1 - i];
	open_mr(s, s->tx_buf, FI_SEND, 1, &s->tx_mr, &s->tx_desc);
	open_mr(s, s->rx_buf, FI_RECV, 2, &s->rx_mr, &s->rx_desc);
}

static void
exchange(struct side *s)
{
	struct wire_addr ours = { 0 }, theirs;
	size_t len = sizeof(ours.addr);
	ssize_t ret = fi_getname(&s->ep->fid, ours.addr, &len);

	if (ret != 0 || len > sizeof(ours.addr))
		fi_fail("fi_getname", ret != 0 ? ret : -FI_ETOOSMALL);
	ours.len = (uint32_t)len;
	if (send(s->loop.fd, &ours, sizeof(ours), MSG_NOSIGNAL) != (ssize_t)sizeof(ours) ||
	    recv(s->loop.fd, &theirs, sizeof(theirs), MSG_WAITALL) != (ssize_t)sizeof(theirs))
		bench_die("exchange of addresses: the other side is gone");
	ret = fi_av_insert(s->av, theirs.addr, 1, &s->peer, 0, NULL);
	if (ret != 1)
		fi_fail("fi_av_insert", ret < 0 ? ret : -FI_EINVAL);
}

/* Send a message each way, which makes the provider connect. */
static void
greet(struct side *s)
{
	void *recvs[FI_BURST];

	begin(s, 1, 1, 1);
	send_one(s, 1);
	while (s->loop.got == 0)
		s->loop.got += drive(s, recvs);
}

static struct side *
side_open(const struct fi_side_conf *conf, int fd, bool first)
{
	struct side *s = alloc(1, sizeof(*s));

	(void)first;
	s->loop.fd = fd;
	s->loop.window = conf->window;
	s->info = find_info(conf);
	open_fids(s);
	open_memory(s, conf);
	exchange(s);
	greet(s);
	return s;
}

static size_t
side_inline_max(const struct side *s)
{
	return s->info->tx_attr->inject_size;
}

static void
side_close(struct side *s)
{
	(void)close(s->loop.fd);
	(void)fi_close(&s->ep->fid);
	if (s->tx_mr != NULL)
		(void)fi_close(&s->tx_mr->fid);
	if (s->rx_mr != NULL)
		(void)fi_close(&s->rx_mr->fid);
	(void)fi_close(&s->av->fid);
	(void)fi_close(&s->cq->fid);
	(void)fi_close(&s->domain->fid);
	(void)fi_close(&s->fabric->fid);
	fi_freeinfo(s->info);
	free(s->loop.free);
	free(s->tx_ctx);
	free(s->rx_ctx);
	free(s);
}

const struct fi_side bare_fi = {
	.open = side_open,
	.serve = side_serve,
	.lat = side_lat,
	.rate = side_rate,
	.inline_max = side_inline_max,
	.close = side_close,
};
