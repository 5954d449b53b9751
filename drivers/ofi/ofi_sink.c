/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The sink: a second buffer of each receive, after the caller's, for providers that misbehave when
 * a message is longer than its receive. The excess of a message goes into the sink and is never
 * read. The length of the message then shows that the receive must fail with -EMSGSIZE.
 *
 *     receive:  | buf, size | sink, sink_len |
 *
 * Normally a sink is 1 MiB of memory that is mapped repeatedly, so a large sink costs no more
 * memory.
 *
 * OFI_Q_SINK_FAULT: the sink is one writable page and one that can't be written. When the other
 * process copies a message, the copy then fails at the second page instead of looping for ever. The
 * sink must be far from the end of the address space: the kernel refuses an iovec that reaches
 * beyond it.
 */

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ofi_pvt.h"

#define WINDOW (1u << 20)
/* Content of a sink to which nothing was written. */
#define MARK 0x6c6561742d6d6b21ULL

bool
ofi_sink_used(const struct ofi_ep *e)
{
	return *(volatile uint64_t *)e->sink != MARK;
}

void
ofi_sink_mark(struct ofi_ep *e)
{
	e->sink_dirty = false;
	if ((e->quirks & OFI_Q_SINK_FAULT) != 0)
		*(volatile uint64_t *)e->sink = MARK;
}

static int
alloc_fault(struct ofi_ep *e)
{
	static unsigned int next;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int i;

	e->sink_map = 2 * page;
	/*
	 * EAL's memory begins at 0x100000000000. If something is mapped at the hint already, the
	 * kernel chooses another address.
	 */
	for (i = 0; i < 64; i++) {
		uintptr_t hint = 0x200000000000ULL +
				 __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % 4096 * 16 * page;

		e->sink = mmap((void *)hint, e->sink_map, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (e->sink == MAP_FAILED) {
			e->sink = NULL;
			return -errno;
		}
		if ((uintptr_t)e->sink < (1ULL << 46)) {
			ofi_sink_mark(e);
			return mprotect((char *)e->sink + page, page, PROT_NONE) == 0 ? 0 : -errno;
		}
		ofi_sink_free(e);
	}
	return -ENOMEM;
}

static int
alloc_window(struct ofi_ep *e)
{
	size_t step = RTE_MIN(e->sink_len, (uint64_t)WINDOW), off;
	int fd, err = 0;
	char *p;

	e->sink_map = e->sink_len;
	fd = memfd_create("leat-sink", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	p = mmap(NULL, e->sink_map, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		err = -errno;
		(void)close(fd);
		return err;
	}
	e->sink = p;
	if (ftruncate(fd, (off_t)step) != 0)
		err = -errno;
	for (off = 0; err == 0 && off < e->sink_map; off += step) {
		if (mmap(p + off, step, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		    MAP_FAILED)
			err = -errno;
	}
	(void)close(fd);
	return err;
}

int
ofi_sink_alloc(struct ofi_ep *e)
{
	int ret;

	e->sink_len = e->dev->prov->sink_len;
	if (e->sink_len == 0)
		return 0;
	ret = (e->quirks & OFI_Q_SINK_FAULT) != 0 ? alloc_fault(e) : alloc_window(e);
	if (ret < 0)
		return leat_err(-ret,
				"%s: create endpoint: address space for too long messages: %s",
				e->dev->name, strerror(-ret));
	return 0;
}

void
ofi_sink_free(struct ofi_ep *e)
{
	if (e->sink != NULL)
		(void)munmap(e->sink, e->sink_map);
	e->sink = NULL;
}
