/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * iWARP: RDMA over TCP, which is different in five things.
 *
 * Connections. The kernel's connection manager moves the queue pair to RTS itself, and both sides are
 * told ESTABLISHED: there is no response that the connecting side would answer.
 *
 * Addresses. A device has one GID, made of its hardware address. The address that connections come
 * from is one of those that rdma_cm finds the device behind.
 *
 * WRITEs complete when they are sent, not when they are there, and one that was refused has succeeded. So
 * a list of requests with a WRITE ends with a READ, and the WRITEs are done when that is: it overtakes
 * nothing, and its answer comes after what came before it was placed. It reads the other side's word of
 * credits (see below), or 0 B where there is none.
 *
 *     post  W1 W2 S3        requests  W1 W2 S3 R, of which only R tells its completion: that of W1 W2 S3
 *
 * Memory that a READ brings data to must be open to writing from outside. Its key is told to nobody;
 * what peers are to access has a second registration, with the rights that were asked for.
 *
 * Credits. A message that meets no receive ends the connection: there is no RNR. So each side says
 * how many buffers it has for the other, and goes on to say so:
 *
 *     connect, accept: {magic, 16 buffers, where to write to} in front of the private data
 *
 *     sender                                       receiver
 *     sent 0, granted 16: SEND 1 2 3 4  --------->  buffers 1 2 3 4 in use
 *     sent 4, granted 16                            the messages are received, 4 buffers go back
 *     sent 4, granted 20                <--WRITE--  "20" into the sender's word
 *
 * When sent reaches granted post takes no SEND to that peer any more. The word is a region of its own
 * for each connection. What a peer writes there harms its own connection at most.
 *
 * The WRITE takes no receive, so it can't be held up by what it is to end. There is one at a time, for
 * which the send queue has a place of its own. A peer that says nothing in its private data is no
 * leat: it is sent to without credits, and gets none.
 */

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>

#include "rc/verbs_rc.h"
#include "verbs_iwarp.h"

/* What wr_id says of a WRITE of credits: as a tag it is nobody's; below is the tag of its queue pair. */
#define WR_CREDIT UINT64_C(0xfffeffff00000000)
#define HELLO_MAGIC 0x6c656174 /* "leat" */
#define HELLO_VERSION 1

/* In front of the private data, big endian. */
struct hello {
	uint32_t magic;
	uint16_t version;
	uint16_t buffers;
	uint64_t addr;
	uint32_t rkey;
	uint32_t zero;
};

_Static_assert(sizeof(struct hello) == VB_HELLO, "the hello is 24 B");

struct vb_credit {
	uint32_t granted; /* the other side writes it */
	uint32_t mine;	  /* what is being written there */
	uint32_t echo;	  /* what the READs behind WRITEs bring */
	struct ibv_mr *mr;
	uint32_t sent;
	uint32_t posted; /* buffers, ever */
	uint32_t told;	 /* of them the other side knows */
	uint64_t raddr;
	uint32_t rkey;
	bool counts;  /* the other side counts, too */
	bool writing; /* a WRITE is under way */
};

const struct vb_rules vb_iwarp_rules = {
	.cm_addrs = true,
	.no_datagrams = true,
	.no_imm = true,
	.no_atomics = true,
	.no_loop = true,
	.kernel_qp = true,
	.rd_atom_unset = true, /* by older kernels */
	.credits = true,
	.own_requests = true, /* READs behind WRITEs, and WRITEs of credits */
	.sent_only = true,
	.leave_flushes = true,
	.sink_open = true,
};

/* ---- addresses ---- */

static bool
leads_here(const struct vb_dev *d, struct rdma_event_channel *ch, struct sockaddr *sa)
{
	struct rdma_cm_id *id = NULL;
	bool here;

	if (rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) != 0)
		return false;
	here = rdma_bind_addr(id, sa) == 0 && id->verbs != NULL &&
	       strcmp(ibv_get_device_name(id->verbs->device), ibv_get_device_name(d->ibdev)) == 0;
	(void)rdma_destroy_id(id); /* as new */
	return here;
}

int
vb_iwarp_addrs(struct vb_dev *d)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct ifaddrs *list = NULL, *i;

	if (ch == NULL || getifaddrs(&list) != 0) {
		int err = errno;

		if (ch != NULL)
			rdma_destroy_event_channel(ch);
		return leat_err(err, "%s: addresses of device %s: %s", d->name,
				ibv_get_device_name(d->ibdev), strerror(err));
	}
	for (i = list; i != NULL; i = i->ifa_next) {
		bool v4 = i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_INET;
		bool v6 = i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_INET6;
		struct sockaddr_storage *src = v4 ? &d->src4 : &d->src6;
		const struct sockaddr_in6 *in6 = (const void *)i->ifa_addr;

		/* From a link-local one only link-local ones can be reached. */
		if (v6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
			continue;
		if ((!v4 && !v6) || src->ss_family != 0 || !leads_here(d, ch, i->ifa_addr))
			continue;
		memcpy(src, i->ifa_addr,
		       v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	}
	freeifaddrs(list);
	rdma_destroy_event_channel(ch);
	if (d->src4.ss_family != 0 || d->src6.ss_family != 0)
		return 0;
	return leat_err(ENODEV,
			"%s: no address of this machine leads to device %s: has its network "
			"interface one (ip addr), or does another RDMA device have it as well "
			"(rdma link)?",
			d->name, ibv_get_device_name(d->ibdev));
}

/* ---- credits ---- */

int
vb_credit_open(struct vb_ep *e, struct vb_conn *c)
{
	struct vb_credit *cr = aligned_alloc(LEAT_CACHE_LINE, RTE_CACHE_LINE_ROUNDUP(sizeof(*cr)));
	int err;

	if (cr == NULL)
		return leat_err(ENOMEM, "%s: connection: out of memory", e->dev->name);
	memset(cr, 0, sizeof(*cr));
	/* The other side's part and ours: the rest of the structure is not registered. */
	cr->mr = ibv_reg_mr(e->pd, cr, offsetof(struct vb_credit, mr),
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				    IBV_ACCESS_REMOTE_READ);
	if (cr->mr == NULL) {
		err = errno;
		free(cr);
		return leat_err(err == ENOMEM ? ENOMEM : EIO, "%s: register credits: %s",
				e->dev->name, strerror(err));
	}
	cr->posted = cr->told = e->rxqs->nb;
	c->credit = cr;
	return 0;
}

void
vb_credit_close(struct vb_ep *e, struct vb_conn *c)
{
	struct vb_credit *cr = c->credit;
	int err;

	if (cr == NULL)
		return;
	c->credit = NULL;
	e->grants -= cr->writing;
	err = ibv_dereg_mr(cr->mr);
	if (err == 0)
		free(cr);
	else /* memory that the device may still write is better leaked */
		LEAT_LOG(ERR, driver, "%s: deregister credits: %s", e->dev->name, strerror(err));
}

void
vb_hello_write(const struct vb_conn *c, void *buf)
{
	struct hello h = {
		.magic = htobe32(HELLO_MAGIC),
		.version = htobe16(HELLO_VERSION),
		.buffers = htobe16((uint16_t)c->e->rxqs->nb),
		.addr = htobe64((uintptr_t)&c->credit->granted),
		.rkey = htobe32(c->credit->mr->rkey),
	};

	memcpy(buf, &h, sizeof(h));
}

void
vb_hello_no(void *buf)
{
	struct hello h = { .magic = htobe32(HELLO_MAGIC), .version = htobe16(HELLO_VERSION) };

	memcpy(buf, &h, sizeof(h));
}

uint16_t
vb_hello_read(struct vb_hello *out, const void *priv, uint16_t len)
{
	struct hello h;

	memset(out, 0, sizeof(*out));
	if (len < sizeof(h))
		return 0;
	memcpy(&h, priv, sizeof(h));
	if (be32toh(h.magic) != HELLO_MAGIC || be16toh(h.version) != HELLO_VERSION)
		return 0;
	out->there = true;
	out->buffers = be16toh(h.buffers);
	out->addr = be64toh(h.addr);
	out->rkey = be32toh(h.rkey);
	return sizeof(h);
}

bool
vb_credit_take(struct vb_conn *c)
{
	struct vb_credit *cr = c->credit;

	/* The device writes it. */
	if (cr->counts &&
	    (int32_t)(__atomic_load_n(&cr->granted, __ATOMIC_RELAXED) - cr->sent) <= 0) {
		c->e->starved = true;
		return false;
	}
	cr->sent++;
	return true;
}

static void
tell(struct vb_conn *c)
{
	struct vb_credit *cr = c->credit;
	struct ibv_sge sge = { (uintptr_t)&cr->mine, sizeof(cr->mine), cr->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = WR_CREDIT | c->tag,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = cr->raddr, .rkey = cr->rkey },
	};

	if (!cr->counts || cr->writing || cr->told == cr->posted || c->state != VB_UP)
		return;
	cr->mine = cr->told = cr->posted;
	if (ibv_post_send(c->qp, &wr, &bad) != 0) {
		vb_conn_end(c, -EIO, "the device refused to write credits");
		return;
	}
	cr->writing = true;
	c->e->grants++;
}

void
vb_credit_start(struct vb_conn *c, const struct vb_hello *h)
{
	struct vb_credit *cr = c->credit;

	cr->counts = h->there;
	cr->raddr = h->addr;
	cr->rkey = h->rkey;
	/* Nothing was sent there yet, so it had no reason to write. */
	cr->granted = h->buffers;
	tell(c); /* of those that came back before it was up */
}

void
vb_credit_give(struct vb_conn *c, uint32_t n)
{
	c->credit->posted += n;
	tell(c);
}

void
vb_credit_done(struct vb_ep *e, const struct ibv_wc *wc)
{
	uint32_t tag = (uint32_t)wc->wr_id, index = (uint16_t)tag;
	struct vb_conn *c = index < e->nb_peers ? e->conns[index] : NULL;

	if ((wc->wr_id ^ WR_CREDIT) >> 32 != 0 || c == NULL || c->tag != tag || c->credit == NULL ||
	    !c->credit->writing)
		return; /* of a queue pair that is gone */
	c->credit->writing = false;
	e->grants--;
	if (wc->status == IBV_WC_SUCCESS)
		tell(c);
	else if (wc->status != IBV_WC_WR_FLUSH_ERR) /* then its end is told next */
		vb_conn_broken(c, wc, false);
}

/* ---- WRITEs ---- */

void
vb_iwarp_fence(const struct vb_conn *c, struct ibv_send_wr *wr, uint32_t n, struct ibv_sge *sge)
{
	const struct vb_credit *cr = c->credit;
	bool writes = false;
	uint32_t i;

	for (i = 0; i < n; i++)
		writes = writes || wr[i].opcode == IBV_WR_RDMA_WRITE;
	if (!writes)
		return;
	for (i = 0; i < n; i++)
		wr[i].send_flags &= ~(unsigned int)IBV_SEND_SIGNALED;
	sge->addr = (uintptr_t)&cr->echo;
	sge->length = cr->counts ? sizeof(cr->echo) : 0;
	sge->lkey = cr->mr->lkey;
	memset(&wr[n], 0, sizeof(wr[n]));
	wr[n].wr_id = wr[n - 1].wr_id;
	wr[n].sg_list = sge;
	wr[n].num_sge = 1;
	wr[n].opcode = IBV_WR_RDMA_READ;
	wr[n].send_flags = IBV_SEND_SIGNALED;
	wr[n].wr.rdma.remote_addr = cr->raddr;
	wr[n].wr.rdma.rkey = cr->rkey;
	wr[n - 1].next = &wr[n];
}

/* ---- memory ---- */

struct iwarp_mr {
	struct ibv_mr *local;
	struct ibv_mr *remote; /* NULL: no access for peers */
};

int
vb_iwarp_mr_reg(struct vb_ep *e, struct leat_mr_piece *piece, int flags)
{
	struct iwarp_mr *m = calloc(1, sizeof(*m));
	int err;

	if (m == NULL)
		return ENOMEM;
	m->local = ibv_reg_mr(e->pd, piece->addr, piece->len,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	err = m->local == NULL ? errno : 0;
	if (err == 0 && flags != IBV_ACCESS_LOCAL_WRITE) {
		m->remote = ibv_reg_mr(e->pd, piece->addr, piece->len, flags);
		err = m->remote == NULL ? errno : 0;
	}
	if (err != 0) {
		if (m->local != NULL)
			(void)ibv_dereg_mr(m->local); /* nobody knows it yet */
		free(m);
		return err;
	}
	piece->drv = m;
	piece->desc = (void *)(uintptr_t)m->local->lkey;
	piece->key = m->remote != NULL ? m->remote->rkey : 0;
	piece->base = (uintptr_t)piece->addr;
	return 0;
}

int
vb_iwarp_mr_dereg(void *drv)
{
	struct iwarp_mr *m = drv;
	int err = m->remote != NULL ? ibv_dereg_mr(m->remote) : 0;

	if (err != 0)
		return err;
	m->remote = NULL;
	err = ibv_dereg_mr(m->local);
	if (err == 0)
		free(m);
	return err;
}
