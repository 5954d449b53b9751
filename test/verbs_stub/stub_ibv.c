/* SPDX-License-Identifier: BSD-3-Clause */

/* The device's objects, and the slow calls of libibverbs that the driver makes. */

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "stub_pvt.h"

#define DEVICES 2
#define DEPTH_MAX 32768
#define EVENTS 16
#define GIDS 3

struct sim sim = { .room = STUB_NO_LIMIT, .rroom = STUB_NO_LIMIT, .odp = UINT32_MAX };

/* An open context. events: the device's events that were not yet read from this context. */
struct stub_ctx {
	struct verbs_context v; /* its last member is the struct ibv_context */
	struct ibv_async_event events[EVENTS];
	uint32_t head, tail;
};

static struct ibv_device devices[DEVICES];
static struct ibv_device *device_list[DEVICES + 1];
static uint32_t next_qpn = 100;

static struct stub_ctx *
ctx_of(struct ibv_context *ctx)
{
	return (struct stub_ctx *)verbs_get_ctx(ctx);
}

static bool
is_fast(const struct ibv_context *ctx)
{
	return ctx->device == &devices[0];
}

void
stub_reset(void)
{
	sim.hold = sim.silent = sim.no_bad = sim.no_device = false;
	sim.room = sim.rroom = STUB_NO_LIMIT;
	sim.modify_err = sim.destroy_err = 0;
	sim.odp = UINT32_MAX;
	sim.sends = sim.recvs = sim.doorbells = sim.rdoorbells = 0;
	sim.polls = sim.polled = sim.inlined = 0;
	sim.overruns = 0;
}

/* ---- devices ---- */

struct ibv_device **
ibv_get_device_list(int *n)
{
	int i;

	for (i = 0; i < DEVICES; i++) {
		snprintf(devices[i].name, sizeof(devices[i].name), "sim%d", i);
		snprintf(devices[i].ibdev_path, sizeof(devices[i].ibdev_path), "/nowhere/sim%d", i);
		devices[i].node_type = IBV_NODE_CA;
		devices[i].transport_type = IBV_TRANSPORT_IB;
		device_list[i] = &devices[i];
	}
	if (n != NULL)
		*n = DEVICES;
	return device_list;
}

void
ibv_free_device_list(struct ibv_device **list)
{
	(void)list;
}

static int
query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr, size_t len)
{
	struct ibv_port_attr a = {
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = GIDS,
		.max_msg_sz = 1u << 30,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};

	(void)ctx;
	if (port != 1)
		return EINVAL;
	memcpy(attr, &a, len < sizeof(a) ? len : sizeof(a));
	return 0;
}

int
ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	*attr = (struct ibv_device_attr){
		.max_mr_size = UINT64_MAX,
		.vendor_id = 0x5742,
		.max_qp = 4096,
		.max_qp_wr = DEPTH_MAX + 1,
		.max_sge = 4,
		.max_cq = 4096,
		.max_cqe = 4 * DEPTH_MAX,
		.max_mr = 4096,
		.max_pd = 4096,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 16,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_srq = 4096,
		.max_srq_wr = DEPTH_MAX,
		.max_srq_sge = 4,
		.phys_port_cnt = 1,
	};
	return 0;
}

static int
query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
		struct ibv_device_attr_ex *attr, size_t len)
{
	(void)input;
	memset(attr, 0, len);
	if (len < sizeof(*attr))
		return EINVAL;
	if (sim.odp != 0) {
		attr->odp_caps.general_caps = IBV_ODP_SUPPORT;
		attr->odp_caps.per_transport_caps.rc_odp_caps = sim.odp;
	}
	return ibv_query_device(ctx, &attr->orig_attr);
}

int
_ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		  struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	(void)context;
	(void)flags;
	if (port != 1 || index >= GIDS || entry_size < sizeof(*entry))
		return ENODATA;
	memset(entry, 0, sizeof(*entry));
	entry->port_num = 1;
	entry->gid_index = index;
	if (index == 0) { /* fe80::1, RoCE v1 */
		entry->gid_type = IBV_GID_TYPE_ROCE_V1;
		entry->gid.raw[0] = 0xfe;
		entry->gid.raw[1] = 0x80;
		entry->gid.raw[15] = 1;
		return 0;
	}
	/* 192.0.2.1, and on the loopback interface 192.0.2.9 */
	entry->gid_type = IBV_GID_TYPE_ROCE_V2;
	entry->gid.raw[10] = entry->gid.raw[11] = 0xff;
	entry->gid.raw[12] = 192;
	entry->gid.raw[14] = 2;
	entry->gid.raw[15] = index == 1 ? 1 : 9;
	if (index == 2)
		entry->ndev_ifindex = if_nametoindex("lo");
	return 0;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
static struct ibv_cq_ex *create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr);

struct ibv_context *
ibv_open_device(struct ibv_device *dev)
{
	struct stub_ctx *s = calloc(1, sizeof(*s));
	struct ibv_context *ctx;

	if (s == NULL)
		return NULL;
	ctx = &s->v.context;
	ctx->device = dev;
	ctx->abi_compat = __VERBS_ABI_IS_EXTENDED;
	ctx->cmd_fd = -1;
	ctx->async_fd = eventfd(0, EFD_CLOEXEC);
	ctx->num_comp_vectors = 1;
	stub_fast_ops(&ctx->ops);
	s->v.sz = sizeof(s->v);
	s->v.query_port = query_port;
	if (is_fast(ctx)) {
		s->v.create_qp_ex = create_qp_ex;
		s->v.create_cq_ex = create_cq_ex;
		s->v.query_device_ex = query_device_ex;
	}
	sim.ctxs++;
	return ctx;
}

int
ibv_close_device(struct ibv_context *context)
{
	(void)close(context->async_fd); /* can't lose data: nothing was written */
	free(ctx_of(context));
	sim.ctxs--;
	return 0;
}

/* Return the result of a call that destroys an object: 0 or an error number. errno is 0. */
static int
destroyed(void)
{
	errno = 0;
	return sim.destroy_err;
}

/* ---- memory ---- */

struct ibv_pd *
ibv_alloc_pd(struct ibv_context *context)
{
	struct stub_pd *pd = calloc(1, sizeof(*pd));

	if (pd == NULL)
		return NULL;
	pd->pd.context = context;
	sim.pds++;
	return &pd->pd;
}

int
ibv_dealloc_pd(struct ibv_pd *pd)
{
	if (((struct stub_pd *)pd)->users > 0)
		return EBUSY;
	free(pd);
	sim.pds--;
	return destroyed();
}

struct ibv_mr *
ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, unsigned int access)
{
	static uint32_t key = 0x1000;
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	(void)iova;
	if (mr == NULL)
		return NULL;
	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = len;
	mr->lkey = mr->rkey = key++;
	((struct stub_pd *)pd)->users++;
	sim.mrs++;
	sim.mr_access = access;
	return mr;
}

#undef ibv_reg_mr
struct ibv_mr *
ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	return ibv_reg_mr_iova2(pd, addr, len, (uintptr_t)addr, (unsigned int)access);
}

int
ibv_dereg_mr(struct ibv_mr *mr)
{
	((struct stub_pd *)mr->pd)->users--;
	free(mr);
	sim.mrs--;
	return 0;
}

/* ---- completion queues ---- */

static uint32_t
pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

struct ibv_cq *
ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
	      struct ibv_comp_channel *channel, int vector)
{
	struct stub_cq *cq = calloc(1, sizeof(*cq));

	(void)vector;
	if (cq == NULL)
		return NULL;
	cq->mask = pow2((uint32_t)cqe) - 1;
	cq->size = (uint32_t)cqe;
	cq->ring = calloc(cq->mask + 1, sizeof(cq->ring[0]));
	if (cq->ring == NULL) {
		free(cq);
		errno = ENOMEM;
		return NULL;
	}
	cq->cq.context = context;
	cq->cq.cq_context = cq_context;
	cq->cq.channel = channel;
	cq->cq.cqe = cqe;
	sim.cqs++;
	return &cq->cq;
}

static struct ibv_cq_ex *
create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, (int)attr->cqe, attr->cq_context, attr->channel,
					  (int)attr->comp_vector);

	if (cq != NULL)
		stub_fast_cq((struct ibv_cq_ex *)cq);
	return (struct ibv_cq_ex *)cq;
}

int
ibv_destroy_cq(struct ibv_cq *cq)
{
	struct stub_cq *s = stub_cq_of(cq);

	if (s->users > 0)
		return EBUSY;
	free(s->ring);
	free(s);
	sim.cqs--;
	return destroyed();
}

/* ---- receive queues ---- */

static bool
rq_init(struct stub_rq *rq, uint32_t depth)
{
	rq->size = depth;
	rq->mask = pow2(depth) - 1;
	rq->ring = calloc(rq->mask + 1, sizeof(rq->ring[0]));
	return rq->ring != NULL;
}

struct ibv_srq *
ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct stub_srq *s = calloc(1, sizeof(*s));

	if (s == NULL || !rq_init(&s->rq, attr->attr.max_wr)) {
		free(s);
		errno = ENOMEM;
		return NULL;
	}
	s->srq.context = pd->context;
	s->srq.pd = pd;
	((struct stub_pd *)pd)->users++;
	sim.srqs++;
	return &s->srq;
}

int
ibv_destroy_srq(struct ibv_srq *srq)
{
	struct stub_srq *s = stub_srq_of(srq);

	if (s->users > 0)
		return EBUSY;
	((struct stub_pd *)srq->pd)->users--;
	free(s->rq.ring);
	free(s);
	sim.srqs--;
	return 0;
}

/* ---- queue pairs ---- */

static struct ibv_qp *
make_qp(struct ibv_pd *pd, const struct ibv_qp_init_attr *attr, bool wr_api)
{
	struct stub_qp *q = calloc(1, sizeof(*q));
	struct ibv_qp *qp;

	if (q == NULL)
		return NULL;
	q->mask = pow2(attr->cap.max_send_wr) - 1;
	q->depth = attr->cap.max_send_wr;
	q->waiting = calloc(q->mask + 1, sizeof(q->waiting[0]));
	if (q->waiting == NULL || !rq_init(&q->rq, attr->cap.max_recv_wr)) {
		free(q->waiting);
		free(q);
		errno = ENOMEM;
		return NULL;
	}
	qp = &q->ex.qp_base;
	qp->context = pd->context;
	qp->qp_context = attr->qp_context;
	qp->pd = pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->srq = attr->srq;
	qp->qp_num = next_qpn++;
	qp->qp_type = attr->qp_type;
	q->scq = stub_cq_of(attr->send_cq);
	q->rcq = stub_cq_of(attr->recv_cq);
	q->from = qp->srq != NULL ? &stub_srq_of(qp->srq)->rq : &q->rq;
	q->scq->users++;
	q->rcq->users++;
	if (qp->srq != NULL)
		stub_srq_of(qp->srq)->users++;
	((struct stub_pd *)pd)->users++;
	if (wr_api)
		stub_fast_qp(q);
	sim.qps++;
	return qp;
}

struct ibv_qp *
ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return make_qp(pd, attr, false);
}

static struct ibv_qp *
create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	(void)ctx;
	return make_qp(attr->pd, (const struct ibv_qp_init_attr *)attr,
		       (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0);
}

struct ibv_qp_ex *
ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	struct stub_qp *q = stub_qp_of(qp);

	return q->ex.wr_start != NULL ? &q->ex : NULL;
}

int
ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct stub_qp *q = stub_qp_of(qp);

	if ((mask & IBV_QP_STATE) == 0)
		return 0;
	if (sim.modify_err != 0)
		return sim.modify_err;
	qp->state = attr->qp_state;
	if (attr->qp_state == IBV_QPS_RTS && (mask & STUB_RTS_MASK) == STUB_RTS_MASK)
		sim.rts = *attr;
	q->error = attr->qp_state == IBV_QPS_ERR;
	if (q->error && !sim.silent)
		(void)stub_complete(qp, UINT32_MAX, IBV_WC_WR_FLUSH_ERR);
	return 0;
}

int
ibv_destroy_qp(struct ibv_qp *qp)
{
	struct stub_qp *q = stub_qp_of(qp);

	q->scq->users--;
	q->rcq->users--;
	if (qp->srq != NULL)
		stub_srq_of(qp->srq)->users--;
	((struct stub_pd *)qp->pd)->users--;
	free(q->rq.ring);
	free(q->waiting);
	free(q);
	sim.qps--;
	return destroyed();
}

/* ---- events ---- */

void
stub_async(struct ibv_context *ctx, enum ibv_event_type type, struct ibv_qp *qp)
{
	struct stub_ctx *s = ctx_of(ctx);
	struct ibv_async_event *ev = &s->events[s->tail++ % EVENTS];

	memset(ev, 0, sizeof(*ev));
	ev->event_type = type;
	ev->element.qp = qp;
	if (qp == NULL)
		ev->element.port_num = 1;
}

int
ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *ev)
{
	struct stub_ctx *s = ctx_of(context);

	if (s->head == s->tail) {
		errno = EAGAIN;
		return -1;
	}
	*ev = s->events[s->head++ % EVENTS];
	return 0;
}

void
ibv_ack_async_event(struct ibv_async_event *ev)
{
	(void)ev;
}
