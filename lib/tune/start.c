/* SPDX-License-Identifier: BSD-3-Clause */

/* Start and stop: leat_tune_start(), leat_tune_stop(). */

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tune_pvt.h"

static bool started;
static int dirfd = -1;

static int
open_for_agents(const struct leat_tune_start_conf *conf)
{
	char path[PATH_MAX], name[64];
	int ret;

	dirfd = tune_dir_open(conf->dir, path, sizeof(path));
	if (dirfd < 0)
		return dirfd;
	tune_dir_sweep(dirfd);
	ret = tune_block_create(dirfd, conf->program == NULL ? "?" : conf->program, name,
				sizeof(name));
	if (ret == 0)
		ret = tune_control_start(dirfd, name);
	if (ret < 0) {
		tune_block_destroy();
		(void)close(dirfd);
		dirfd = -1;
	}
	return ret;
}

int
leat_tune_start(const struct leat_tune_start_conf *conf)
{
	int ret = 0;

	if (started)
		return leat_err(EALREADY, "tune: it was started already");
	if (conf->settings != NULL)
		ret = tune_file_load(conf->settings);
	if (ret == 0 && !conf->off) {
		ret = open_for_agents(conf);
		/* A program that named no directory must not fail because agents can't connect. */
		if (ret < 0 && conf->dir == NULL) {
			LEAT_LOG(WARNING, tune, "no leat-top and leat-tune for this process: %s",
				 leat_err_msg());
			ret = 0;
		}
	}
	if (ret < 0)
		tune_file_free(false);
	started = ret == 0;
	return ret;
}

/* Reset the remaining objects: their records end with the block. A later start creates new ones. */
static void
objects_forget(void)
{
	struct tune_removed *g;
	uint32_t i;

	pthread_mutex_lock(&tune_lock);
	for (i = 0; i < tune_objects.size; i++) {
		struct tune_object *o = tune_objects.table[i];

		if (o == NULL)
			continue;
		free(o->rows);
		o->rows = NULL;
		o->nb_rows = 0;
		o->record = 0;
		o->change = NULL;
		o->report_asked = false;
		__atomic_store_n(&o->pub.pending, 0, __ATOMIC_RELAXED);
		if (o->live && !o->is_fresh) {
			TAILQ_INSERT_TAIL(&tune_objects.fresh, o, fresh);
			o->is_fresh = true;
		}
	}
	while ((g = tune_objects.removed) != NULL) {
		tune_objects.removed = g->next;
		free(g->rows);
		free(g);
	}
	pthread_mutex_unlock(&tune_lock);
}

void
leat_tune_stop(void)
{
	if (!started)
		return;
	tune_control_stop();
	objects_forget();
	tune_block_destroy();
	if (dirfd >= 0)
		(void)close(dirfd);
	dirfd = -1;
	tune_file_free(true);
	started = false;
}
