/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CHANNEL_MAP_H
#define CHANNEL_MAP_H

/* Memory that handles share, and its file descriptors: map.c, shm.c, memfd.c. */

#include "channel_pvt.h"

/* Create a map with one reference. Takes over fd, even on failure. mem NULL: map the file fd. */
struct chan_map *chan_map_new(void *mem, uint64_t bytes, int fd);
/* Have the mapping at mem replaced by private memory if its file is truncated. @return 0, -errno */
int chan_guard(struct chan_map *map, void *mem);
void chan_unguard(struct chan_map *map);
void chan_map_put(struct chan_map *map);
/* Attach to a map's memory. The handle takes over the caller's reference; a failure drops it. */
struct leat_channel *chan_map_attach(struct chan_map *map, void *mem, uint64_t bytes,
				     const struct leat_channel_opts *opts);

#endif /* CHANNEL_MAP_H */
