/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The reference side of bench-efa (efa_side.h): bare libfabric, opened with the driver's hints. It
 * injects the messages that the driver injects. No leat code, no DPDK.
 */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "efa_side.h"

#define ADDR_MAX 512
/* Entries per fi_cq_read. */
#define CQ_BURST 16

struct end {
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	struct fid_mr *mr;
	void *desc;
	fi_addr_t peer;
};

struct side {
	const char *name;
	enum efa_what what;
	size_t size, inject_max;
	bool inject; /* send with fi_inject(), since size fits */
	struct end end[2];
	struct fi_context2 tx_ctx, rx_ctx;
	char *tx, *rx;
	uint64_t key;
	/* Objects of libfabric. */
	struct fi_info *info;
	struct fid_fabric *fabric;
};

static void __attribute__((noreturn, cold)) fi_fail(const char *what, ssize_t ret)
{
	bench_die("bare libfabric: %s: %s", what, fi_strerror((int)-ret));
}

/* Post one op. @return 1 if it was injected, and so will not complete */
static inline int
side_post(struct side *s)
{
	struct end *a = &s->end[0];
	bool inject = s->inject;
	ssize_t ret;

	switch (s->what) {
	case EFA_SEND:
		ret = inject ? fi_inject(a->ep, s->tx, s->size, a->peer)
			     : fi_send(a->ep, s->tx, s->size, a->desc, a->peer, &s->tx_ctx);
		break;
	case EFA_TSEND:
		ret = inject ? fi_tinject(a->ep, s->tx, s->size, a->peer, 1)
			     : fi_tsend(a->ep, s->tx, s->size, a->desc, a->peer, 1, &s->tx_ctx);
		break;
	default:
		ret = fi_read(a->ep, s->tx, s->size, a->desc, a->peer, (uintptr_t)s->rx, s->key,
			      &s->tx_ctx);
	}
	if (__builtin_expect(ret != 0, 0))
		fi_fail("post", ret);
	return inject;
}

static inline void
side_recv(struct side *s)
{
	struct end *b = &s->end[1];
	ssize_t ret;

	if (s->what == EFA_SEND)
		ret = fi_recv(b->ep, s->rx, s->size, b->desc, FI_ADDR_UNSPEC, &s->rx_ctx);
	else
		ret = fi_trecv(b->ep, s->rx, s->size, b->desc, FI_ADDR_UNSPEC, 1, 0, &s->rx_ctx);
	if (__builtin_expect(ret != 0, 0))
		fi_fail("receive", ret);
}

static __attribute__((noinline, cold, noreturn)) void
cq_error(struct fid_cq *cq, ssize_t ret)
{
	struct fi_cq_err_entry e = { 0 };

	if (ret == -FI_EAVAIL && fi_cq_readerr(cq, &e, 0) == 1)
		fi_fail("completion with error", e.err < 0 ? e.err : -e.err);
	fi_fail("fi_cq_read", ret);
}

static inline int
side_poll(struct side *s, int end)
{
	struct fi_cq_msg_entry e[CQ_BURST];
	ssize_t n = fi_cq_read(s->end[end].cq, e, CQ_BURST);

	if (n == -FI_EAGAIN)
		return 0;
	if (__builtin_expect(n < 0, 0))
		cq_error(s->end[end].cq, n);
	return (int)n;
}

static void
side_set(struct side *s)
{
	s->inject = s->what != EFA_READ && s->size <= s->inject_max;
}

#include "efa_loop.h"

static struct fi_info *
find_info(void)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	int ret;

	if (hints == NULL)
		bench_die("out of memory");
	hints->fabric_attr->prov_name = strdup("efa");
	/* FI_REMOTE_COMM without FI_LOCAL_COMM: the provider must not use shared memory. */
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SOURCE | FI_DIRECTED_RECV |
		      FI_REMOTE_COMM;
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
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	if (ret != 0)
		fi_fail("fi_getinfo", ret);
	return info;
}

static void
open_end(struct side *s, struct end *e, char *buf, uint64_t access)
{
	struct fi_cq_attr cq = { .size = 4096,
				 .format = FI_CQ_FORMAT_MSG,
				 .wait_obj = FI_WAIT_NONE };
	struct fi_av_attr av = { .type = FI_AV_TABLE, .count = 4 };
	int ret;

	if ((ret = fi_domain(s->fabric, s->info, &e->domain, NULL)) != 0)
		fi_fail("fi_domain", ret);
	if ((ret = fi_cq_open(e->domain, &cq, &e->cq, NULL)) != 0)
		fi_fail("fi_cq_open", ret);
	if ((ret = fi_av_open(e->domain, &av, &e->av, NULL)) != 0)
		fi_fail("fi_av_open", ret);
	if ((ret = fi_endpoint(e->domain, s->info, &e->ep, NULL)) != 0)
		fi_fail("fi_endpoint", ret);
	if ((ret = fi_ep_bind(e->ep, &e->av->fid, 0)) != 0 ||
	    (ret = fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV)) != 0)
		fi_fail("fi_ep_bind", ret);
	if ((ret = fi_enable(e->ep)) != 0)
		fi_fail("fi_enable", ret);
	if ((ret = fi_mr_reg(e->domain, buf, EFA_MAX, access, 0, 0, 0, &e->mr, NULL)) != 0)
		fi_fail("fi_mr_reg", ret);
	e->desc = fi_mr_desc(e->mr);
}

static void
insert(struct end *e, const struct end *other)
{
	char addr[ADDR_MAX];
	size_t len = sizeof(addr);
	int ret = fi_getname(&other->ep->fid, addr, &len);

	if (ret != 0)
		fi_fail("fi_getname", ret);
	ret = fi_av_insert(e->av, addr, 1, &e->peer, 0, NULL);
	if (ret != 1)
		fi_fail("fi_av_insert", ret < 0 ? ret : -FI_EINVAL);
}

static struct side *
side_open(const struct bench_args *args, char *tx, char *rx)
{
	struct side *s = calloc(1, sizeof(*s));
	int ret;

	(void)args;
	if (s == NULL)
		bench_die("out of memory");
	s->name = bare_efa.name;
	s->tx = tx;
	s->rx = rx;
	s->info = find_info();
	if ((ret = fi_fabric(s->info->fabric_attr, &s->fabric, NULL)) != 0)
		fi_fail("fi_fabric", ret);
	open_end(s, &s->end[A], tx, FI_SEND | FI_RECV | FI_READ | FI_WRITE);
	open_end(s, &s->end[B], rx, FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ);
	s->key = fi_mr_key(s->end[B].mr);
	insert(&s->end[A], &s->end[B]);
	insert(&s->end[B], &s->end[A]);
	return s;
}

static size_t
side_inject_max(struct side *s, size_t max)
{
	s->inject_max = max;
	return max;
}

static void
side_close(struct side *s)
{
	unsigned int i;

	for (i = 0; i < ENDS; i++) {
		struct end *e = &s->end[i];

		if (fi_close(&e->ep->fid) != 0 || fi_close(&e->mr->fid) != 0 ||
		    fi_close(&e->av->fid) != 0 || fi_close(&e->cq->fid) != 0 ||
		    fi_close(&e->domain->fid) != 0)
			bench_die("bare libfabric: fi_close failed");
	}
	if (fi_close(&s->fabric->fid) != 0)
		bench_die("bare libfabric: fi_close failed");
	fi_freeinfo(s->info);
	free(s);
}

const struct efa_side bare_efa = {
	.name = "reference",
	.open = side_open,
	.inject_max = side_inject_max,
	.prepare = side_prepare,
	.run = side_run,
	.finish = side_finish,
	.close = side_close,
};
