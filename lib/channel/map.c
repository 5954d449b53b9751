/* SPDX-License-Identifier: BSD-3-Clause */

/* Mappings that handles of one process share, and channels in the caller's memory. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "map.h"

struct chan_map *
chan_map_new(void *mem, uint64_t bytes, int fd)
{
	struct chan_map *map = calloc(1, sizeof(*map));
	void *p = NULL;
	int seals;

	if (map == NULL) {
		(void)chan_err(ENOMEM, "channel: can't allocate %zu bytes", sizeof(*map));
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	if (mem == NULL) {
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p == MAP_FAILED) {
			(void)chan_err(errno, "channel: mmap of %llu bytes: %m",
				       (unsigned long long)bytes);
			close(fd);
			free(map);
			return NULL;
		}
	}
	atomic_init(&map->refs, 1);
	map->mem = p;
	map->bytes = bytes;
	map->fd = fd;
	seals = fd >= 0 ? fcntl(fd, F_GET_SEALS) : F_SEAL_SHRINK;
	if (mem == NULL && (seals < 0 || (seals & F_SEAL_SHRINK) == 0) && chan_guard(map, p) != 0) {
		chan_map_put(map);
		return NULL;
	}
	return map;
}

void
chan_map_put(struct chan_map *map)
{
	uint32_t i;

	/* acq_rel: other handles' accesses come before munmap() */
	if (atomic_fetch_sub_explicit(&map->refs, 1, memory_order_acq_rel) != 1)
		return;
	chan_unguard(map);
	if (map->mem != NULL)
		munmap(map->mem, map->bytes);
	if (map->fd >= 0)
		close(map->fd);
	for (i = 0; i < map->nb_efd; i++)
		close(map->efd[i]);
	free(map->name);
	free(map);
}

struct leat_channel *
chan_map_attach(struct chan_map *map, void *mem, uint64_t bytes,
		const struct leat_channel_opts *opts)
{
	struct leat_channel *ch = chan_attach(map, mem, bytes, opts);
	int saved = errno;

	if (ch == NULL) {
		chan_map_put(map);
	} else if (atomic_load_explicit(&map->truncated, memory_order_acquire)) {
		saved = -chan_corrupt(ch, "its memory", 0);
		leat_channel_close(ch);
		ch = NULL;
	}
	errno = saved;
	return ch;
}

struct leat_channel *
leat_channel_attach(void *mem, uint64_t bytes, const struct leat_channel_opts *opts, const int *fds)
{
	struct chan_map *map = chan_map_new(mem, bytes, -1);

	(void)fds;
	return map != NULL ? chan_map_attach(map, mem, bytes, opts) : NULL;
}

struct leat_channel *
leat_channel_attach_fd(int fd, const struct leat_channel_opts *opts, const int *fds)
{
	struct chan_map *map;
	struct stat st;
	int own;

	(void)fds;
	if (fstat(fd, &st) != 0 || st.st_size < (off_t)sizeof(struct chan_block)) {
		(void)chan_err(EAGAIN,
			       "channel: descriptor %d: no file, or too small; is it being made?",
			       fd);
		return NULL;
	}
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0) {
		(void)chan_err(errno, "channel: descriptor %d: %m", fd);
		return NULL;
	}
	map = chan_map_new(NULL, (uint64_t)st.st_size, own);
	return map != NULL ? chan_map_attach(map, map->mem, (uint64_t)st.st_size, opts) : NULL;
}

struct leat_channel *
leat_channel_join(struct leat_channel *ch, const struct leat_channel_opts *opts)
{
	/* relaxed: ch holds a reference */
	atomic_fetch_add_explicit(&ch->map->refs, 1, memory_order_relaxed);
	return chan_map_attach(ch->map, ch->block, ch->map->bytes, opts);
}
