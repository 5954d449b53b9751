/* SPDX-License-Identifier: BSD-3-Clause */

/* Channels in POSIX shared memory, by name. */

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "map.h"

/* Create a map that keeps the file's name, by which lock.c may open the file once more. */
static struct chan_map *
map_new(const char *name, uint64_t bytes, int fd)
{
	struct chan_map *map = chan_map_new(NULL, bytes, fd);

	if (map == NULL)
		return NULL;
	map->name = strdup(name);
	if (map->name == NULL) {
		chan_map_put(map);
		(void)chan_err(ENOMEM, "channel %s: can't allocate its name", name);
		return NULL;
	}
	return map;
}

struct leat_channel *
leat_channel_create(const char *name, const struct leat_channel_conf *conf,
		    const struct leat_channel_opts *opts)
{
	uint64_t bytes = leat_channel_bytes(conf);
	struct leat_channel *ch = NULL;
	struct chan_map *map;
	int fd, ret;

	if (bytes == 0) {
		(void)chan_err(EINVAL,
			       "channel create %s: size, participants, policies or start are "
			       "out of range",
			       name);
		return NULL;
	}
	if (conf != NULL && conf->notify == LEAT_CHANNEL_NOTIFY_EVENTFD) {
		(void)chan_err(EINVAL, "channel create %s: eventfds can't be had by name", name);
		return NULL;
	}
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		(void)chan_err(errno, "channel create %s: %m%s", name,
			       errno == EEXIST ? "; leat_channel_unlink() removes it" : "");
		return NULL;
	}
	/* Allocate all memory now: otherwise a write gets SIGBUS later, when /dev/shm is full. */
	do
		ret = posix_fallocate(fd, 0, (off_t)bytes);
	while (ret == EINTR);
	if (ret != 0) {
		(void)chan_err(ret, "channel create %s: %llu bytes of shared memory: %s", name,
			       (unsigned long long)bytes, strerror(ret));
		close(fd);
	} else {
		map = map_new(name, bytes, fd);
		if (map != NULL && leat_channel_format(map->mem, bytes, conf) == 0)
			ch = chan_map_attach(map, map->mem, bytes, opts);
		else if (map != NULL)
			chan_map_put(map);
	}
	if (ch == NULL) {
		ret = errno;
		shm_unlink(name);
		errno = ret;
	}
	return ch;
}

struct leat_channel *
leat_channel_open(const char *name, const struct leat_channel_opts *opts)
{
	struct chan_map *map;
	struct stat st;
	int fd;

	fd = shm_open(name, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0) {
		(void)chan_err(errno, "channel open %s: %m", name);
		return NULL;
	}
	if (fstat(fd, &st) != 0 || st.st_size < (off_t)sizeof(struct chan_block)) {
		(void)chan_err(EAGAIN, "channel open %s: too small; is it being made?", name);
		close(fd);
		return NULL;
	}
	map = map_new(name, (uint64_t)st.st_size, fd);
	return map != NULL ? chan_map_attach(map, map->mem, (uint64_t)st.st_size, opts) : NULL;
}

int
leat_channel_unlink(const char *name)
{
	return shm_unlink(name) == 0 ? 0 : chan_err(errno, "channel unlink %s: %m", name);
}

int
leat_channel_inspect_name(const char *name, struct leat_channel_info *info)
{
	struct chan_map map = { 0 };
	struct leat_channel view = { .map = &map };
	struct stat st;
	void *mem;
	int fd, ret;

	fd = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return chan_err(errno, "channel inspect %s: %m", name);
	if (fstat(fd, &st) != 0 || st.st_size < (off_t)sizeof(struct chan_block)) {
		close(fd);
		return chan_err(EAGAIN, "channel inspect %s: too small; is it being made?", name);
	}
	mem = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (mem == MAP_FAILED) {
		ret = chan_err(errno, "channel inspect %s: mmap: %m", name);
		close(fd);
		return ret;
	}
	map.fd = fd;
	map.bytes = (uint64_t)st.st_size;
	ret = chan_guard(&map, mem);
	if (ret == 0)
		ret = chan_view(&view, mem, (uint64_t)st.st_size);
	if (ret == 0)
		ret = leat_channel_inspect(&view, info);
	if (atomic_load_explicit(&map.truncated, memory_order_acquire))
		ret = chan_err(EPROTO, "channel inspect %s: its file was cut off", name);
	chan_unguard(&map);
	munmap(mem, (size_t)st.st_size);
	close(fd);
	return ret;
}
