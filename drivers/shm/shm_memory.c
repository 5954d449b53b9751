/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "leat_error.h"

#include "shm_memory.h"

#ifndef F_SEAL_FUTURE_WRITE /* Linux 5.1 */
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* Close the descriptor after a failed call. @return the call's errno, negative, with leat_err() */
static int
failed(const char *call, const char *what, size_t len, int fd)
{
	const int err = errno;

	if (fd >= 0)
		(void)close(fd);
	return leat_err(err, "shm: %s: %s of %zu bytes: %s%s", what, call, len, strerror(err),
			err == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
}

int
shm_memory_make(struct shm_memory *m, const char *what, size_t len, bool others_read)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int fd = memfd_create("leat-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *mem;

	if (fd < 0)
		return failed("memfd_create", what, len, fd);
	if (ftruncate(fd, (off_t)len) != 0)
		return failed("ftruncate", what, len, fd);
	/* NORESERVE: the kernel need not commit all of it, because few lanes are full at a time. */
	mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (mem == MAP_FAILED)
		return failed("mmap", what, len, fd);
	/* After F_SEAL_FUTURE_WRITE new mappings can only read; the one above still writes. */
	if (fcntl(fd, F_ADD_SEALS, others_read ? seals | F_SEAL_FUTURE_WRITE : seals) != 0) {
		int ret = failed("F_ADD_SEALS", what, len, fd);

		(void)munmap(mem, len);
		return ret;
	}
	*m = (struct shm_memory){ .mem = mem, .len = len };
	return fd;
}

int
shm_memory_map(struct shm_memory *m, const char *what, int fd, size_t len, bool write)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;
	void *mem;

	/* No huge pages: this side's first access to one raises SIGBUS if no huge page is free. */
	if (fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC)
		return leat_err(EPROTO, "its %s is not a memfd with pages of the usual size", what);
	/* Without this seal the peer could truncate the memory while this side reads it: SIGBUS. */
	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
		return leat_err(EPROTO, "its %s is no memory that is sealed against shrinking",
				what);
	if (fstat(fd, &st) != 0 || st.st_size < 0 || (size_t)st.st_size < len)
		return leat_err(EPROTO, "its %s is shorter than %zu bytes", what, len);
	mem = mmap(NULL, len, write ? PROT_READ | PROT_WRITE : PROT_READ,
		   MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (mem == MAP_FAILED)
		return failed("mmap", what, len, -1);
	*m = (struct shm_memory){ .mem = mem, .len = len };
	return 0;
}

int
shm_memory_own(struct shm_memory *m, size_t len)
{
	void *mem = mmap(NULL, len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (mem == MAP_FAILED)
		return failed("mmap", "connection", len, -1);
	*m = (struct shm_memory){ .mem = mem, .len = len };
	return 0;
}

void
shm_memory_unmap(struct shm_memory *m)
{
	if (m->mem != NULL)
		(void)munmap(m->mem, m->len); /* fails only for a wrong address */
	m->mem = NULL;
}
