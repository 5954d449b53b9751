/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHM_MEMORY_H
#define SHM_MEMORY_H

/* Memory that processes share: nameless, sealed memfds, which are passed as descriptors. */

#include <stdbool.h>
#include <stddef.h>

struct shm_memory {
	void *mem; /* NULL: none */
	size_t len;
};

/*
 * Create zeroed memory that other processes may map, sealed so that it never changes its size.
 * @param what the memory's purpose, for error messages
 * @param others_read other processes can map it for reading only
 * @return its descriptor, which the caller closes, or -errno with leat_err()
 */
int shm_memory_make(struct shm_memory *m, const char *what, size_t len, bool others_read);
/*
 * Map memory of another process, which must be a memfd of small pages, sealed against shrinking,
 * and at least len bytes long. The descriptor stays the caller's.
 * @return 0, or -errno with leat_err(): EPROTO if the descriptor is not such a memfd
 */
int shm_memory_map(struct shm_memory *m, const char *what, int fd, size_t len, bool write);
/* Map zeroed memory that is private to this process. @return 0, or -errno with leat_err() */
int shm_memory_own(struct shm_memory *m, size_t len);
void shm_memory_unmap(struct shm_memory *m);

#endif /* SHM_MEMORY_H */
