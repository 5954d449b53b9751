/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Provider shm of libfabric 1.17: the command queue and the pools of an endpoint after a process
 * was killed that was writing to them. It held the lock; ofi_shm_dead.c frees that, and calls this
 * before.
 *
 * A message, a fast WRITE or READ and a connection request are one command. WRITE_IMM, a WRITE that
 * is not fast and atomics are two, a header and where it goes to, which are appended one after the
 * other:
 *
 *      rcnt                                               wcnt
 *       |                                                  |
 *       v                                                  v
 *     | msg | write | its iov | write_async | fetch_add | (its ioc: not written any more)
 *
 * The owner takes whatever comes next for the second half, a message of a living peer, say, or an
 * old command, and then reads beyond wcnt: nothing that is sent to it is found again. So a header
 * without its second half is taken back.
 *
 * The steps of a sender in the machine's order (Debian's build), with the lock held throughout, and
 * what is left when it is killed after each:
 *
 *     1  lock                             nothing
 *     2  next[top] = -1                   the pool's chain ends at its first entry: a later sender
 *                                         would take entry -1, and write over the pool. Repaired.
 *     3  top = what next[top] was         an inject or SAR buffer is lost
 *     4  fill the buffer, and buf[wcnt]   the same; what is behind wcnt is not read
 *     5  wcnt++                           cmd_cnt is one too high; the command is whole
 *     6  cmd_cnt--                        nothing, if the op has one command
 *     7  fill buf[wcnt]: second half      half an op from 5 on, taken back. Its buffer is lost;
 *                                         cmd_cnt is right if killed before 6, else too low
 *     8  wcnt++                           cmd_cnt is one too high
 *     9  cmd_cnt--                        nothing
 *     10 signal, unlock                   the owner does not look at its queue. Signalled again.
 *
 * With SAR there are up to 64 buffers, and before step 5 sar_cnt-- and a flag in the sender's own
 * memory. When an op was answered, its sender takes the same lock for
 *
 *     1  cmd_cnt++                        one too high for the buffer that does not come back
 *     2  next[entry] = top                a free entry that nothing leads to. Repaired.
 *     3  top = entry                      nothing; with SAR sar_cnt is one too low
 *
 * cmd_cnt does two things. As the number of free commands it keeps the ring from being overrun. And
 * since each inject buffer belongs to a command, the owner does not look whether their pool is
 * empty: as many as there are lost buffers must be missing from it. Which step the sender was at
 * can't be told, so one is taken off in any case: that is right after 5 and 8, makes up for the
 * buffer lost at 3 and 4, and by half an op that is taken back; in the other cases it costs one of
 * at least 1024 commands, for as long as the endpoint lives. There is never more than one missing,
 * since cmd_cnt follows each wcnt.
 *
 * SAR buffers are only taken after a look at their pool, and sar_cnt (256) just limits how many may
 * try: too high it does no harm, and one too low costs one.
 *
 * The steps of the owner don't matter: when that is dead its queue is not read.
 */

#include <errno.h>
#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

#include <rte_common.h>

#include "ofi_shm_mem.h"

/* Others can write here at any time: each value is read once, then checked, then used. */
#define READ(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)

#define POOL_MAX 32768 /* entries: indices have 15 bits */

static bool
has_second_half(uint32_t op)
{
	switch (op) {
	case OFI_SHM_OP_READ_REQ:
	case OFI_SHM_OP_WRITE:
	case OFI_SHM_OP_ATOMIC:
	case OFI_SHM_OP_ATOMIC_FETCH:
	case OFI_SHM_OP_ATOMIC_COMPARE:
		return true;
	default:
		return false;
	}
}

static struct ofi_shm_cmd_queue *
cmd_queue(struct ofi_shm_mem *m, size_t len, size_t *size)
{
	size_t off = READ(m->cmd_queue_offset), n;
	struct ofi_shm_cmd_queue *q;

	if (off > len || len - off < sizeof(*q) || off % alignof(struct ofi_shm_cmd_queue) != 0)
		return NULL;
	q = (struct ofi_shm_cmd_queue *)((char *)m + off);
	n = READ(q->size);
	if (n == 0 || (n & (n - 1)) != 0 || READ(q->size_mask) != n - 1 ||
	    n > (len - off - sizeof(*q)) / sizeof(q->buf[0]))
		return NULL;
	*size = n;
	return q;
}

static struct ofi_shm_pool *
pool_at(struct ofi_shm_mem *m, size_t len, size_t off, size_t *size)
{
	struct ofi_shm_pool *p;
	size_t n;

	if (off > len || len - off < sizeof(*p) || off % alignof(struct ofi_shm_pool) != 0)
		return NULL;
	p = (struct ofi_shm_pool *)((char *)m + off);
	n = READ(p->size);
	if (n == 0 || n > POOL_MAX || n > (len - off - sizeof(*p)) / sizeof(p->next[0]))
		return NULL;
	*size = n;
	return p;
}

static bool
in_pool(int16_t i, size_t size)
{
	return i >= 0 && (size_t)i < size;
}

/*
 * Makes one chain again of all entries that are free: those with an entry below them, those that
 * are below one, and the top.
 * @return how many are free
 */
static size_t
pool_repair(struct ofi_shm_pool *p, size_t size)
{
	uint8_t is_free[POOL_MAX / 8] = { 0 };
	int16_t i, below = -1;
	size_t n, all = 0, chain = 0;

	for (n = 0; n < size; n++) {
		i = READ(p->next[n]);
		if (!in_pool(i, size))
			continue;
		is_free[n / 8] |= (uint8_t)(1u << n % 8);
		is_free[i / 8] |= (uint8_t)(1u << i % 8);
	}
	i = READ(p->top);
	if (in_pool(i, size))
		is_free[i / 8] |= (uint8_t)(1u << i % 8);
	for (n = 0; n < size; n++)
		all += is_free[n / 8] >> n % 8 & 1;
	while (in_pool(i, size) && chain <= all) {
		chain++;
		i = READ(p->next[i]);
	}
	if (chain == all)
		return all;
	for (n = size; n-- > 0;) {
		bool f = (is_free[n / 8] >> n % 8 & 1) != 0;

		p->next[n] = f ? below : -1;
		if (f)
			below = (int16_t)n;
	}
	p->free = (int16_t)RTE_MIN(all, (size_t)INT16_MAX);
	p->top = below;
	return all;
}

/* @return 1: the last header had no second half and was taken back; 0: it had, or needs none */
static int
queue_repair(struct ofi_shm_cmd_queue *q, size_t size, size_t *used)
{
	size_t i, n, r = READ(q->rcnt), w = READ(q->wcnt);

	*used = w - r;
	if (*used > size)
		return -EPROTO;
	for (i = 0; i < *used; i += n) {
		n = has_second_half(READ(q->buf[(r + i) & (size - 1)].op)) ? 2 : 1;
		if (n > *used - i) {
			*used = i;
			q->wcnt = r + i;
			return 1;
		}
	}
	return 0;
}

int
ofi_shm_cmd_repair(struct ofi_shm_mem *m, size_t len)
{
	size_t size, used, inject_size = 0, sar_size = 0, count;
	struct ofi_shm_pool *inject, *sar;
	struct ofi_shm_cmd_queue *q;
	int half;

	if (len < sizeof(*m))
		return -EPROTO;
	q = cmd_queue(m, len, &size);
	inject = pool_at(m, len, READ(m->inject_pool_offset), &inject_size);
	sar = pool_at(m, len, READ(m->sar_pool_offset), &sar_size);
	if (q == NULL || inject == NULL || sar == NULL)
		return -EPROTO;
	half = queue_repair(q, size, &used);
	if (half < 0)
		return half;
	(void)pool_repair(sar, sar_size);
	count = READ(m->cmd_cnt);
	if (count > 0)
		count--;
	count = RTE_MIN(count, size - used);
	m->cmd_cnt = RTE_MIN(count, pool_repair(inject, inject_size));
	return half;
}
