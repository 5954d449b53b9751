/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "leat_error.h"

#include "ring_buf.h"

int
ring_buf_init(struct ring_buf *b, uint32_t nb, uint32_t max)
{
	uint64_t each = RTE_ALIGN_CEIL(max, (uint32_t)LEAT_CACHE_LINE);
	size_t msgs = RTE_ALIGN_CEIL(nb * sizeof(*b->msgs), (size_t)LEAT_CACHE_LINE);
	void *mem;

	memset(b, 0, sizeof(*b));
	/*
	 * Room for one message more than there are slots: it makes up for the gap at the end, which
	 * is smaller than a message.
	 */
	b->size = (uint32_t)RTE_MIN((nb + 1) * each, (uint64_t)RING_BUF_MAX);
	b->mask = nb - 1;
	b->mapped = msgs + b->size;
	/*
	 * NORESERVE: the kernel need not commit memory for all buffers. Among thousands of
	 * connections, few have a full buffer at a time.
	 */
	mem = mmap(NULL, b->mapped, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mem == MAP_FAILED)
		return leat_err(ENOMEM,
				"ring: connection: mmap of %zu bytes for datagrams: %s: check "
				"ulimit -v, vm.overcommit_memory and vm.max_map_count",
				b->mapped, strerror(errno));
	/*
	 * The buffers of many connections are adjacent: a transparent huge page would populate
	 * several of them as soon as one is used. A kernel without huge pages returns EINVAL, which
	 * is harmless.
	 */
	(void)madvise(mem, b->mapped, MADV_NOHUGEPAGE);
	b->msgs = mem;
	b->mem = (char *)mem + msgs;
	return 0;
}

void
ring_buf_free(struct ring_buf *b)
{
	if (b->msgs != NULL)
		(void)munmap(b->msgs, b->mapped); /* fails only for a wrong address */
	b->msgs = NULL;
}
