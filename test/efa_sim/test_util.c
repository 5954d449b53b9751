/* SPDX-License-Identifier: BSD-3-Clause */

/* Helpers with which tests open devices and queue pairs, post, and wait for completions. */

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

#define WAIT_S 30
#define SIM_NAME "memfd:efa-sim"

void
test_fail(const char *file, int line, const char *what)
{
	const char *base = strrchr(file, '/');

	fprintf(stderr, "# process %d: %s:%d: %s\n", (int)getpid(), base != NULL ? base + 1 : file,
		line, what);
	_exit(1);
}

void
test_check_equal(const char *file, int line, const char *what, uint64_t a, uint64_t b)
{
	char text[256];

	if (a == b)
		return;
	snprintf(text, sizeof(text), "%s: %llu, not %llu", what, (unsigned long long)a,
		 (unsigned long long)b);
	test_fail(file, line, text);
}

uint64_t
counter(const char *name)
{
	uint64_t (*of)(const char *name);
	uint64_t value;

	*(void **)&of = dlsym(RTLD_DEFAULT, "efa_sim_counter");
	CHECK(of != NULL);
	value = of(name);
	CHECK(value != UINT64_MAX);
	return value;
}

uint64_t
now_ns(void)
{
	struct timespec ts;

	CHECK(clock_gettime(CLOCK_MONOTONIC, &ts) == 0);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static unsigned int
count_fds(const char *name)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	unsigned int nb = 0;
	char target[256];

	CHECK(dir != NULL);
	/* cppcheck-suppress readdirCalled ; no other function has this directory open */
	while ((entry = readdir(dir)) != NULL) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		if (n < 0)
			continue; /* . and .. */
		target[n] = '\0';
		nb += strstr(target, name) != NULL;
	}
	closedir(dir);
	return nb;
}

unsigned int
nb_fds(void)
{
	return count_fds("");
}

unsigned int
nb_sim_fds(void)
{
	return count_fds(SIM_NAME);
}

unsigned int
nb_sim_maps(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned int nb = 0;
	char line[1024];

	CHECK(file != NULL);
	while (fgets(line, sizeof(line), file) != NULL)
		nb += strstr(line, SIM_NAME) != NULL;
	fclose(file);
	return nb;
}

void
host_open(struct host *host, int device)
{
	struct ibv_device **list;
	int nb;

	list = ibv_get_device_list(&nb);
	CHECK(list != NULL && device < nb);
	host->context = ibv_open_device(list[device]);
	CHECK(host->context != NULL);
	ibv_free_device_list(list);
	host->pd = ibv_alloc_pd(host->context);
	CHECK(host->pd != NULL);
	CHECK(ibv_query_gid(host->context, 1, 0, &host->gid) == 0);
}

void
host_close(struct host *host)
{
	CHECK_EQUAL(ibv_dealloc_pd(host->pd), 0);
	CHECK_EQUAL(ibv_close_device(host->context), 0);
}

static void
ready(struct ep *ep, const struct ep_options *options)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .qkey = options->qkey,
				    .port_num = 1 };
	int rnr = options->datagram ? 0 : IBV_QP_RNR_RETRY;

	CHECK(ibv_modify_qp(ep->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	attr.qp_state = IBV_QPS_RTR;
	CHECK(ibv_modify_qp(ep->qp, &attr, IBV_QP_STATE) == 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.rnr_retry = options->rnr_retry;
	CHECK(ibv_modify_qp(ep->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | rnr) == 0);
}

static void
qp_open(struct ep *ep, const struct ep_options *options)
{
	struct efadv_qp_init_attr efa = { .driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD };
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = ibv_cq_ex_to_cq(ep->cq),
		.recv_cq = ibv_cq_ex_to_cq(ep->cq),
		.cap = { .max_send_wr = options->sends == 0 ? 64 : options->sends,
			 .max_recv_wr = options->recvs == 0 ? 64 : options->recvs,
			 .max_send_sge = 2,
			 .max_recv_sge = 2,
			 .max_inline_data = 32 },
		.qp_type = options->datagram ? IBV_QPT_UD : IBV_QPT_DRIVER,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = ep->host->pd,
	};

	if (options->datagram) {
		ep->qp = ibv_create_qp_ex(ep->host->context, &attr);
	} else {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ;
		ep->qp = efadv_create_qp_ex(ep->host->context, &attr, &efa, sizeof(efa));
	}
	CHECK(ep->qp != NULL);
	ep->ex = ibv_qp_to_qp_ex(ep->qp);
	if (!options->reset)
		ready(ep, options);
}

void
ep_open(struct ep *ep, struct host *host, const struct ep_options *options)
{
	static const struct ep_options defaults = { .qkey = 0x11 };
	struct ibv_cq_init_attr_ex attr = { .cqe = 1024, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct efadv_cq_init_attr efa = { .wc_flags = EFADV_WC_EX_WITH_SGID };

	if (options == NULL)
		options = &defaults;
	ep->host = host;
	ep->own_cq = options->cq_of == NULL;
	ep->cq = ep->own_cq ? efadv_create_cq(host->context, &attr, &efa, sizeof(efa))
			    : options->cq_of->cq;
	CHECK(ep->cq != NULL);
	ep->dv = efadv_cq_from_ibv_cq_ex(ep->cq);
	qp_open(ep, options);
	ep->mem = mmap(NULL, EP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(ep->mem != MAP_FAILED);
	ep->mr = ibv_reg_mr(host->pd, ep->mem, EP_BYTES,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	CHECK(ep->mr != NULL);
	ep->addr = (struct addr){ .gid = host->gid,
				  .qpn = ep->qp->qp_num,
				  .qkey = options->qkey,
				  .rkey = ep->mr->rkey,
				  .mem = (uintptr_t)ep->mem };
}

void
ep_close(struct ep *ep)
{
	CHECK_EQUAL(ibv_destroy_qp(ep->qp), 0);
	if (ep->own_cq)
		CHECK_EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(ep->cq)), 0);
	CHECK_EQUAL(ibv_dereg_mr(ep->mr), 0);
	CHECK_EQUAL(munmap(ep->mem, EP_BYTES), 0);
}

void
ep_error(struct ep *ep)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	CHECK_EQUAL(ibv_modify_qp(ep->qp, &attr, IBV_QP_STATE), 0);
}

struct ibv_ah *
ah_open(struct host *host, const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = *gid } };
	struct ibv_ah *ah = ibv_create_ah(host->pd, &attr);

	CHECK(ah != NULL);
	return ah;
}

void
ah_close(struct ibv_ah *ah)
{
	CHECK_EQUAL(ibv_destroy_ah(ah), 0);
}

static struct ibv_sge
sge_of(const struct ep *ep, uint32_t offset, uint32_t length)
{
	return (struct ibv_sge){ .addr = (uintptr_t)ep->mem + offset,
				 .length = length,
				 .lkey = ep->mr->lkey };
}

int
post_recv_sges(struct ep *ep, uint64_t wr_id, struct ibv_sge *sge, int nb)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = nb };
	struct ibv_recv_wr *bad = NULL;
	int err = ibv_post_recv(ep->qp, &wr, &bad);

	CHECK(bad == (err == 0 ? NULL : &wr));
	return err;
}

int
post_recv(struct ep *ep, uint64_t wr_id, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = sge_of(ep, offset, length);

	return post_recv_sges(ep, wr_id, &sge, 1);
}

int
post_send_sges(struct ep *ep, uint64_t wr_id, struct ibv_ah *ah, const struct addr *to,
	       struct ibv_sge *sge, int nb, unsigned int flags)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = sge,
		.num_sge = nb,
		.opcode = IBV_WR_SEND,
		.send_flags = flags,
		.wr = { .ud = { .ah = ah, .remote_qpn = to->qpn, .remote_qkey = to->qkey } },
	};
	struct ibv_send_wr *bad = NULL;
	int err = ibv_post_send(ep->qp, &wr, &bad);

	CHECK(bad == (err == 0 ? NULL : &wr));
	return err;
}

int
post_send(struct ep *ep, uint64_t wr_id, struct ibv_ah *ah, const struct addr *to, uint32_t offset,
	  uint32_t length)
{
	struct ibv_sge sge = sge_of(ep, offset, length);

	return post_send_sges(ep, wr_id, ah, to, &sge, 1, 0);
}

int
post_read_sge(struct ep *ep, uint64_t wr_id, struct ibv_ah *ah, const struct addr *from,
	      uint32_t rkey, uint64_t remote, struct ibv_sge *sge)
{
	ibv_wr_start(ep->ex);
	ep->ex->wr_id = wr_id;
	ibv_wr_rdma_read(ep->ex, rkey, remote);
	ibv_wr_set_sge_list(ep->ex, sge == NULL ? 0 : 1, sge);
	ibv_wr_set_ud_addr(ep->ex, ah, from->qpn, from->qkey);
	return ibv_wr_complete(ep->ex);
}

int
post_read(struct ep *ep, uint64_t wr_id, struct ibv_ah *ah, const struct addr *from,
	  uint64_t remote, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = sge_of(ep, offset, length);

	return post_read_sge(ep, wr_id, ah, from, from->rkey, remote, &sge);
}

bool
comp_poll(struct ep *ep, struct comp *comp)
{
	struct ibv_poll_cq_attr attr = { 0 };
	int err = ibv_start_poll(ep->cq, &attr);

	if (err == ENOENT)
		return false;
	CHECK_EQUAL(err, 0);
	memset(comp, 0, sizeof(*comp));
	comp->wr_id = ep->cq->wr_id;
	comp->wc_status = ep->cq->status;
	comp->status = ibv_wc_read_vendor_err(ep->cq);
	comp->opcode = ibv_wc_read_opcode(ep->cq);
	comp->byte_len = ibv_wc_read_byte_len(ep->cq);
	comp->qp_num = ibv_wc_read_qp_num(ep->cq);
	comp->src_qp = ibv_wc_read_src_qp(ep->cq);
	comp->slid = ibv_wc_read_slid(ep->cq);
	comp->sgid_err = efadv_wc_read_sgid(ep->dv, &comp->sgid);
	CHECK_EQUAL(ibv_wc_read_wc_flags(ep->cq), 0);
	CHECK_EQUAL(ibv_wc_read_sl(ep->cq), 0);
	ibv_end_poll(ep->cq);
	CHECK((comp->status == ST_OK) == (comp->wc_status == IBV_WC_SUCCESS));
	return true;
}

void
comp_wait(struct ep *ep, struct comp *comp)
{
	uint64_t until = now_ns() + WAIT_S * 1000000000ull;

	while (!comp_poll(ep, comp)) {
		if (now_ns() > until)
			test_fail(__FILE__, __LINE__, "no completion came");
		sched_yield();
	}
}

uint64_t
comp_expect(struct ep *ep, uint32_t status)
{
	struct comp comp;

	comp_wait(ep, &comp);
	CHECK_EQUAL(comp.status, status);
	return comp.wr_id;
}

void
comp_none(struct ep *ep)
{
	struct comp comp;

	CHECK(!comp_poll(ep, &comp));
}
