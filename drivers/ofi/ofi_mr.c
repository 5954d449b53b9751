/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Registration. The address and key by which a peer names a region depend on the provider's
 * mr_mode:
 *
 *                        remote address of the first byte     key
 *     FI_MR_VIRT_ADDR    its virtual address                  -
 *     otherwise          0                                    -
 *     FI_MR_PROV_KEY     -                                    fi_mr_key()
 *     otherwise          -                                    chosen by the driver
 *
 * The driver seals the keys that it chooses where the provider handles wrong keys badly
 * (OFI_Q_KEY_SEALED). A sealed key tells the initiator the region's length and rights, so it can
 * check an op without posting it:
 *
 *     63          24 23    21 20      8 7     0
 *     |   length    | rights |  number | check |      length 0: too long for the field
 *
 * The number is random, so a peer can't compute the key of a region from the key of another one,
 * but the number has only 13 bits. The seal does not protect against a malicious peer: the provider
 * at the target still checks.
 */

#include <errno.h>
#include <inttypes.h>
#include <sys/random.h>
#include <sys/resource.h>

#include <rte_common.h>

#include "ofi_pvt.h"

static uint64_t
fi_access(const struct ofi_ep *e, uint32_t access)
{
	uint64_t a = FI_SEND | FI_RECV;

	if ((e->info->caps & FI_RMA) != 0)
		a |= FI_READ | FI_WRITE;
	if ((access & (LEAT_MR_REMOTE_READ | LEAT_MR_REMOTE_ATOMIC)) != 0)
		a |= FI_REMOTE_READ;
	if ((access & (LEAT_MR_REMOTE_WRITE | LEAT_MR_REMOTE_ATOMIC)) != 0)
		a |= FI_REMOTE_WRITE;
	return a;
}

#define SEAL_LEN_BITS 40
#define SEAL_RIGHTS_SHIFT 21
#define SEAL_LEN_SHIFT 24
#define SEAL_NUMBERS 8192

static inline uint64_t
seal_check(uint64_t key)
{
	return ((key >> 8) * 0x9e3779b97f4a7c15ULL) >> 56;
}

static uint64_t
seal(uint64_t len, uint32_t access, uint64_t number)
{
	uint64_t key = (len >> SEAL_LEN_BITS) == 0 ? len << SEAL_LEN_SHIFT : 0;

	key |= (uint64_t)((access & LEAT_MR_REMOTE_ALL) >> 1) << SEAL_RIGHTS_SHIFT;
	key |= (number % SEAL_NUMBERS) << 8;
	return key | seal_check(key);
}

int
ofi_mr_key_check(const struct leat_op *op)
{
	uint64_t len = op->rkey >> SEAL_LEN_SHIFT;

	if ((op->rkey & 0xff) != seal_check(op->rkey) ||
	    ((op->rkey >> SEAL_RIGHTS_SHIFT << 1) & leat_op_right(op->type)) == 0)
		return -EACCES;
	if (len == 0)
		return 0;
	return op->raddr <= len && op->size <= len - op->raddr ? 0 : -ERANGE;
}

static int
reg_failed(const struct ofi_ep *e, const struct leat_mr_piece *piece, int ret)
{
	struct rlimit lim = { 0 };
	int err = -ret;

	if (err == FI_ENOMEM || err == FI_EPERM || err == FI_EAGAIN) {
		(void)getrlimit(RLIMIT_MEMLOCK, &lim);
		return leat_err(ENOMEM,
				"%s: register %p, %" PRIu64 " B: %s: is the limit of locked memory "
				"(ulimit -l: %llu KiB) large enough?",
				e->dev->name, piece->addr, piece->len, fi_strerror(err),
				(unsigned long long)lim.rlim_cur / 1024);
	}
	return leat_err(err == FI_ENOSPC || err == FI_ENOKEY ? ENOSPC : EIO,
			"%s: register %p, %" PRIu64 " B: %s", e->dev->name, piece->addr, piece->len,
			fi_strerror(err));
}

int
ofi_mr_reg_raw(struct ofi_ep *e, struct leat_mr_piece *piece, uint64_t access, uint64_t key)
{
	int mode = e->info->domain_attr->mr_mode, ret;
	struct fid_mr *mr;

	ret = fi_mr_reg(e->domain, piece->addr, piece->len, access, 0, key, 0, &mr, NULL);
	if (ret != 0)
		return ret;
	if ((mode & FI_MR_ENDPOINT) != 0) {
		ret = fi_mr_bind(mr, &e->fid->fid, 0);
		if (ret == 0)
			ret = fi_mr_enable(mr);
		if (ret != 0) {
			(void)fi_close(&mr->fid);
			return ret;
		}
	}
	piece->drv = mr;
	piece->desc = fi_mr_desc(mr);
	piece->key = fi_mr_key(mr);
	piece->base = (mode & FI_MR_VIRT_ADDR) != 0 ? (uintptr_t)piece->addr : 0;
	return 0;
}

/*
 * Register with a key that peers can't compute from other keys: a random one, or the next one that
 * is not in use.
 */
static int
reg_random(struct ofi_ep *e, struct leat_mr_piece *piece, uint32_t access)
{
	const size_t bytes = e->info->domain_attr->mr_key_size;
	const uint64_t mask = bytes > 0 && bytes < 8 ? (UINT64_C(1) << (8 * bytes)) - 1
						     : UINT64_MAX;
	uint64_t key, number;
	int ret, tries;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number))
		return leat_err(errno, "%s: register: no random numbers: getrandom: %s",
				e->dev->name, strerror(errno));
	for (tries = 0; tries < SEAL_NUMBERS; tries++, number++) {
		key = e->sealed ? seal(piece->len, access, number) : number & mask;
		ret = ofi_mr_reg_raw(e, piece, fi_access(e, access), key);
		if (ret != -FI_ENOKEY)
			break;
	}
	return ret == 0 ? 0 : reg_failed(e, piece, ret);
}

int
ofi_mr_reg(struct leat_ep *ep, struct leat_mr_piece *piece, uint32_t access)
{
	struct ofi_ep *e = ofi_of(ep);
	uint32_t remote = access & LEAT_MR_REMOTE_ALL;
	int ret;

	if (remote != 0 && (e->info->caps & FI_RMA) == 0)
		return leat_err(EOPNOTSUPP, "%s: register: provider %s has no one-sided operations",
				e->dev->name, e->info->fabric_attr->prov_name);
	if ((remote & LEAT_MR_REMOTE_ATOMIC) != 0 && (e->info->caps & FI_ATOMIC) == 0)
		return leat_err(EOPNOTSUPP, "%s: register: provider %s has no atomics",
				e->dev->name, e->info->fabric_attr->prov_name);
	ret = reg_random(e, piece, access);
	if (ret == 0)
		e->readable |= (remote & (LEAT_MR_REMOTE_READ | LEAT_MR_REMOTE_ATOMIC)) != 0;
	return ret;
}

int
ofi_mr_dereg(struct leat_ep *ep, struct leat_mr_piece *piece)
{
	struct ofi_ep *e = ofi_of(ep);
	struct fid_mr *mr = piece->drv;
	int ret;

	/* A peer that resumes after a silence may still access the region. */
	if ((e->quirks & OFI_Q_ENDED_READS) != 0 && !e->closing &&
	    ofi_slots_use(e, piece->addr, piece->len))
		return leat_err(EBUSY,
				"%s: deregister %p: an op of a connection that ended uses it until "
				"its peer answers or ends, or the endpoint is closed",
				e->dev->name, piece->addr);
	ret = fi_close(&mr->fid);
	if (ret == -FI_EBUSY)
		return leat_err(EBUSY, "%s: deregister %p: the provider still uses it",
				e->dev->name, piece->addr);
	if (ret != 0)
		LEAT_LOG(WARNING, driver, "%s: deregister %p: %s", e->dev->name, piece->addr,
			 fi_strerror(-ret));
	return 0;
}

int
ofi_mr_reg_slots(struct ofi_ep *e)
{
	struct leat_mr_piece piece = {
		.addr = e->slots,
		.len = e->nb_slots * sizeof(*e->slots),
	};
	int ret = reg_random(e, &piece, 0);

	if (ret < 0)
		return ret;
	e->slots_mr = piece.drv;
	e->slots_desc = piece.desc;
	return 0;
}
