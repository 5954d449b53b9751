/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * iWARP: RDMA over TCP, which differs from InfiniBand and RoCE in five things.
 *
 * Connections. The kernel's connection manager moves the queue pair to RTS itself, and both sides
 * get ESTABLISHED. The connecting side gets no response that it would have to answer.
 *
 * Addresses. A device has one GID, made of its hardware address. The source addresses of
 * connections are the local addresses for which rdma_cm finds the device.
 *
 * WRITEs complete when they are sent, not when they are placed, and a WRITE that was refused
 * completes with success. So a list of requests with a WRITE ends with a READ, and the WRITEs count
 * as done when the READ is done. The READ overtakes no request, and the target answers it after
 * placing the data of the WRITEs before it. It reads the other side's word of credits, or 0 B where
 * there is none.
 *
 *     post  W1 W2 S3        requests  W1 W2 S3 R; only R completes, for all of them
 *
 * The destination of a READ must permit remote writes, but no peer gets the key of this
 * registration. Memory that peers are to access has a second registration, with the rights that
 * were asked for.
 *
 * Flow control is by credits, in place of the RNR of InfiniBand and RoCE: see
 * verbs_iwarp_credits.c.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>

#include "rc/verbs_rc.h"
#include "verbs_iwarp.h"

const struct vb_rules vb_iwarp_rules = {
	.cm_addrs = true,
	.no_datagrams = true,
	.no_imm = true,
	.no_atomics = true,
	.no_loop = true,
	.kernel_qp = true,
	.rd_atom_unset = true, /* older kernels leave rd_atom unset */
	.credits = true,
	.own_requests = true, /* READs after WRITEs, and WRITEs of credits */
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
	(void)rdma_destroy_id(id); /* can't fail for a new id */
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

		/* A link-local source reaches only link-local addresses. */
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
			(void)ibv_dereg_mr(m->local); /* no peer knows its key yet */
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
