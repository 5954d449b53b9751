/* SPDX-License-Identifier: BSD-3-Clause */

/* Memory that handles of one process share, and channels in the caller's. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "map.h"

static void
close_all(int fd, const int *efd)
{
	if (fd >= 0)
		close(fd);
	if (efd != NULL && efd[0] >= 0)
		close(efd[0]);
	if (efd != NULL && efd[1] >= 0)
		close(efd[1]);
}

struct chan_map *
chan_map_new(void *mem, uint64_t bytes, int fd, const int *efd)
{
	struct chan_map *map = calloc(1, sizeof(*map));
	void *p = NULL;

	if (map == NULL) {
		(void)chan_err(ENOMEM, "channel: can't allocate %zu bytes", sizeof(*map));
		close_all(fd, efd);
		return NULL;
	}
	if (mem == NULL) {
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p == MAP_FAILED) {
			(void)chan_err(errno, "channel: mmap of %llu bytes: %m",
				       (unsigned long long)bytes);
			close_all(fd, efd);
			free(map);
			return NULL;
		}
	}
	atomic_init(&map->refs, 1);
	map->mem = p;
	map->bytes = bytes;
	map->fd = fd;
	map->efd[0] = efd != NULL ? efd[0] : -1;
	map->efd[1] = efd != NULL ? efd[1] : -1;
	return map;
}

void
chan_map_put(struct chan_map *map)
{
	/* acq_rel: what other handles did with it comes before it goes */
	if (atomic_fetch_sub_explicit(&map->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (map->mem != NULL)
		munmap(map->mem, map->bytes);
	close_all(map->fd, map->efd);
	free(map);
}

struct leat_channel *
chan_map_attach(struct chan_map *map, void *mem, uint64_t bytes,
		const struct leat_channel_opts *opts)
{
	struct leat_channel *ch = chan_attach(map, mem, bytes, opts);
	int saved = errno;

	if (ch == NULL)
		chan_map_put(map);
	errno = saved;
	return ch;
}

struct leat_channel *
leat_channel_attach(void *mem, uint64_t bytes, const struct leat_channel_opts *opts, const int *fds)
{
	int efd[2] = { -1, -1 };
	struct chan_map *map;
	int i;

	for (i = 0; fds != NULL && i < 2; i++) {
		efd[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
		if (efd[i] < 0) {
			(void)chan_err(errno, "channel: eventfd %d: %m", fds[i]);
			close_all(-1, efd);
			return NULL;
		}
	}
	map = chan_map_new(mem, bytes, -1, efd);
	return map != NULL ? chan_map_attach(map, mem, bytes, opts) : NULL;
}

struct leat_channel *
leat_channel_join(struct leat_channel *ch, const struct leat_channel_opts *opts)
{
	/* relaxed: ch holds one already */
	atomic_fetch_add_explicit(&ch->map->refs, 1, memory_order_relaxed);
	return chan_map_attach(ch->map, ch->block, ch->map->bytes, opts);
}
