/* SPDX-License-Identifier: BSD-3-Clause */

/* See bare_fi.h. Opening and closing. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bare_fi_pvt.h"

#define ADDR_MAX 512

struct wire_addr {
	uint32_t len;
	uint8_t addr[ADDR_MAX];
};

static char error[256];

const char *
bare_fi_error(void)
{
	return error;
}

int
bare_fi_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(error, sizeof(error), fmt, ap);
	va_end(ap);
	return -1;
}

static int
fi_fail(const char *what, ssize_t ret)
{
	return bare_fi_fail("%s: %s", what, fi_strerror((int)-ret));
}

static struct fi_info *
getinfo(const struct bare_fi_conf *conf, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	const char *node = conf->src;
	bool shm = strcmp(conf->provider, "shm") == 0;
	struct timespec now = { 0 };
	char name[64];
	int ret;

	if (hints == NULL)
		return NULL;
	hints->fabric_attr->prov_name = strdup(conf->provider);
	hints->caps = FI_MSG | caps;
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
	if (shm) {
		/* The process id may have been another's, who left its memory behind. */
		(void)clock_gettime(CLOCK_REALTIME, &now);
		snprintf(name, sizeof(name), "bare-%d-%lx%08lx", (int)getpid(),
			 (unsigned long)now.tv_sec, (unsigned long)now.tv_nsec);
		node = name;
	}
	ret = fi_getinfo(FI_VERSION(1, 17), node, NULL, node != NULL ? FI_SOURCE : 0, hints, &info);
	fi_freeinfo(hints);
	return ret == 0 ? info : NULL;
}

/* The leanest endpoint, or the driver's: every capability that it would use and that there is. */
static struct fi_info *
find_info(const struct bare_fi_conf *conf)
{
	static const uint64_t optional[] = { FI_RMA, FI_ATOMIC, FI_SOURCE, FI_DIRECTED_RECV };
	struct fi_info *info, *more;
	uint64_t caps = 0;
	size_t i;

	if (conf->caps != BARE_FI_CAPS_DRIVER)
		return getinfo(conf, conf->caps);
	info = getinfo(conf, 0);
	for (i = 0; info != NULL && i < sizeof(optional) / sizeof(optional[0]); i++) {
		more = getinfo(conf, caps | optional[i]);
		if (more == NULL)
			continue;
		caps |= optional[i];
		fi_freeinfo(info);
		info = more;
	}
	return info;
}

static int
open_fids(struct bare_fi *f)
{
	struct fi_cq_attr cq = { .size = 4 * (size_t)f->nb_slots + 64,
				 .format = FI_CQ_FORMAT_MSG,
				 .wait_obj = FI_WAIT_NONE };
	struct fi_av_attr av = { .type = FI_AV_TABLE, .count = 2 };
	int ret;

	if ((ret = fi_fabric(f->info->fabric_attr, &f->fabric, NULL)) != 0)
		return fi_fail("fi_fabric", ret);
	if ((ret = fi_domain(f->fabric, f->info, &f->domain, NULL)) != 0)
		return fi_fail("fi_domain", ret);
	if ((ret = fi_cq_open(f->domain, &cq, &f->cq, NULL)) != 0)
		return fi_fail("fi_cq_open", ret);
	if ((ret = fi_av_open(f->domain, &av, &f->av, NULL)) != 0)
		return fi_fail("fi_av_open", ret);
	if ((ret = fi_endpoint(f->domain, f->info, &f->ep, NULL)) != 0)
		return fi_fail("fi_endpoint", ret);
	if ((ret = fi_ep_bind(f->ep, &f->av->fid, 0)) != 0 ||
	    (ret = fi_ep_bind(f->ep, &f->cq->fid, FI_TRANSMIT | FI_RECV)) != 0)
		return fi_fail("fi_ep_bind", ret);
	if ((ret = fi_enable(f->ep)) != 0)
		return fi_fail("fi_enable", ret);
	return 0;
}

static int
open_mr(struct bare_fi *f, void *buf, size_t len, uint64_t access, uint64_t key, struct fid_mr **mr,
	void **desc)
{
	int ret;

	if ((f->info->domain_attr->mr_mode & FI_MR_LOCAL) == 0)
		return 0;
	ret = fi_mr_reg(f->domain, buf, len, access, 0, key, 0, mr, NULL);
	if (ret == 0 && (f->info->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0) {
		ret = fi_mr_bind(*mr, &f->ep->fid, 0);
		if (ret == 0)
			ret = fi_mr_enable(*mr);
	}
	if (ret != 0)
		return fi_fail("fi_mr_reg", ret);
	*desc = fi_mr_desc(*mr);
	return 0;
}

static void *
map_touched(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	memset(p, 0x5a, len);
	return p;
}

static int
open_memory(struct bare_fi *f, void *mem)
{
	f->stride = BARE_FI_STRIDE(f->max_size);
	if (f->stride == 0)
		f->stride = 128;
	f->map_len = f->stride * f->nb_slots;
	if (mem != NULL) {
		f->given = true;
		f->tx_buf = mem;
		f->rx_buf = f->tx_buf + f->map_len;
	} else {
		f->tx_buf = map_touched(f->map_len);
		f->rx_buf = map_touched(f->map_len);
	}
	f->tx_ctx = calloc(f->nb_slots, sizeof(*f->tx_ctx));
	f->rx_ctx = calloc(f->nb_slots, sizeof(*f->rx_ctx));
	if (f->tx_buf == NULL || f->rx_buf == NULL || f->tx_ctx == NULL || f->rx_ctx == NULL)
		return bare_fi_fail("no memory for %u buffers of %zu B", f->nb_slots, f->stride);
	if (open_mr(f, f->tx_buf, f->map_len, FI_SEND, 1, &f->tx_mr, &f->tx_desc) != 0 ||
	    open_mr(f, f->rx_buf, f->map_len, FI_RECV, 2, &f->rx_mr, &f->rx_desc) != 0)
		return -1;
	return 0;
}

static int
exchange(struct bare_fi *f)
{
	struct wire_addr ours = { 0 }, theirs;
	size_t len = sizeof(ours.addr);
	ssize_t ret = fi_getname(&f->ep->fid, ours.addr, &len);

	if (ret != 0 || len > sizeof(ours.addr))
		return fi_fail("fi_getname", ret != 0 ? ret : -FI_ETOOSMALL);
	ours.len = (uint32_t)len;
	if (send(f->fd, &ours, sizeof(ours), MSG_NOSIGNAL) != (ssize_t)sizeof(ours) ||
	    recv(f->fd, &theirs, sizeof(theirs), MSG_WAITALL) != (ssize_t)sizeof(theirs))
		return bare_fi_fail("exchange of addresses: the other side is gone");
	ret = fi_av_insert(f->av, theirs.addr, 1, &f->peer, 0, NULL);
	if (ret != 1)
		return bare_fi_fail("fi_av_insert: %s",
				    ret < 0 ? fi_strerror((int)-ret) : "refused");
	return 0;
}

struct bare_fi *
bare_fi_open(const struct bare_fi_conf *conf, int fd)
{
	struct bare_fi *f = calloc(1, sizeof(*f));

	if (f == NULL) {
		(void)bare_fi_fail("no memory");
		(void)close(fd);
		return NULL;
	}
	f->fd = fd;
	f->nb_slots = conf->window < 2 ? 2 : conf->window;
	f->max_size = conf->max_size;
	f->info = find_info(conf);
	if (f->info == NULL) {
		(void)bare_fi_fail("no RDM endpoint of provider %s (src %s)", conf->provider,
				   conf->src == NULL ? "any" : conf->src);
		goto fail;
	}
	f->inject_end = f->info->tx_attr->inject_size + 1;
	if (conf->inject_max == BARE_FI_NO_INJECT)
		f->inject_end = 0;
	else if (conf->inject_max != 0 && conf->inject_max < f->inject_end)
		f->inject_end = conf->inject_max + 1;
	if (open_fids(f) != 0 || open_memory(f, conf->mem) != 0 || exchange(f) != 0 ||
	    bare_fi_first(f) != 0)
		goto fail;
	return f;

fail:
	bare_fi_close(f);
	return NULL;
}

static void
close_fid(struct fid *fid)
{
	if (fid != NULL)
		(void)fi_close(fid);
}

static void
unmap(void *p, size_t len)
{
	if (p != NULL)
		(void)munmap(p, len);
}

void
bare_fi_close(struct bare_fi *f)
{
	if (f == NULL)
		return;
	(void)close(f->fd);
	close_fid(f->ep != NULL ? &f->ep->fid : NULL);
	close_fid(f->tx_mr != NULL ? &f->tx_mr->fid : NULL);
	close_fid(f->rx_mr != NULL ? &f->rx_mr->fid : NULL);
	close_fid(f->av != NULL ? &f->av->fid : NULL);
	close_fid(f->cq != NULL ? &f->cq->fid : NULL);
	close_fid(f->domain != NULL ? &f->domain->fid : NULL);
	close_fid(f->fabric != NULL ? &f->fabric->fid : NULL);
	if (!f->given) {
		unmap(f->tx_buf, f->map_len);
		unmap(f->rx_buf, f->map_len);
	}
	free(f->tx_ctx);
	free(f->rx_ctx);
	fi_freeinfo(f->info);
	free(f);
}

const char *
bare_fi_provider(const struct bare_fi *f)
{
	return f->info->fabric_attr->prov_name;
}

size_t
bare_fi_inject_max(const struct bare_fi *f)
{
	return f->inject_end == 0 ? BARE_FI_NO_INJECT : f->inject_end - 1;
}
