/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHM_MEMORY_H
#define SHM_MEMORY_H

/* Memory that processes share: memfds without names, sealed, passed as descriptors. */

#include <stdbool.h>
#include <stddef.h>

struct shm_memory {
	void *mem; /* NULL: none */
	size_t len;
};

/*
 * Makes memory that others may map, zeroed, and sealed so that it never shrinks.
 * @param others_read others can't write to it
 * @return its descriptor, or -errno with leat_err()
 */
int shm_memory_make(struct shm_memory *m, const char *what, size_t len, bool others_read);
/* Maps memory of another process. @return 0, or -errno with leat_err(), which says what is wrong */
int shm_memory_map(struct shm_memory *m, const char *what, int fd, size_t len, bool write);
/* Memory of this process's own. */
int shm_memory_own(struct shm_memory *m, size_t len);
void shm_memory_unmap(struct shm_memory *m);

#endif /* SHM_MEMORY_H */
