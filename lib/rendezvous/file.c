/* SPDX-License-Identifier: BSD-3-Clause */

/* The way "file": fences and close. file_join.c begins a session. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file_pvt.h"

void
file_name_rank(const struct leat_rendezvous *rv, uint32_t rank, char *name)
{
	snprintf(name, FILE_NAME_MAX, "%s.%" PRIu32, rv->job, rank);
}

void
file_name_session(const struct leat_rendezvous *rv, char *name)
{
	snprintf(name, FILE_NAME_MAX, "%s.session", rv->job);
}

static int
get(struct leat_rendezvous *rv, const char *name, uint8_t *buf, size_t room, enum record_kind kind,
    struct record *rec)
{
	const struct rendezvous_files *f = rv->priv;
	const char *why;
	int len = file_read(rv, f->dir, name, buf, room);

	if (len < 0)
		return len;
	if (record_parse(buf, (size_t)len, rec, &why) == 0 && rec->kind == (uint16_t)kind)
		return 0;
	/* Treat the file as if it did not exist: the rank that owns it will replace it. */
	rendezvous_note(rv, "%.80s/%.40s is not valid: %s", rv->dir, name, why);
	return -ENOENT;
}

int
file_get_rank(struct leat_rendezvous *rv, uint32_t rank, struct record *rec)
{
	char name[FILE_NAME_MAX];

	file_name_rank(rv, rank, name);
	return get(rv, name, rv->buf, RECORD_RANK_MAX, RECORD_RANK, rec);
}

int
file_get_session(struct leat_rendezvous *rv, struct record *rec)
{
	struct rendezvous_files *f = rv->priv;
	char name[FILE_NAME_MAX];

	file_name_session(rv, name);
	return get(rv, name, f->buf, RECORD_SESSION_LEN(LEAT_RENDEZVOUS_RANKS_MAX), RECORD_SESSION,
		   rec);
}

int
file_put_rank(struct leat_rendezvous *rv, uint32_t flags)
{
	const struct rendezvous_files *f = rv->priv;
	char name[FILE_NAME_MAX];
	struct record rec;

	rendezvous_record(rv, &rec);
	rec.session = f->session;
	rec.nonce = f->nonce;
	rec.pid = (uint32_t)getpid();
	rec.flags |= flags;
	file_name_rank(rv, rv->rank, name);
	return file_write(rv, f->dir, name, f->nonce, rv->buf, record_build(rv->buf, &rec));
}

int
file_pause(struct leat_rendezvous *rv, uint64_t until)
{
	const struct rendezvous_files *f = rv->priv;

	/*
	 * NFS remembers for up to a minute that a name does not exist, unless this machine changes
	 * the directory.
	 */
	if (rv->pause_us == RENDEZVOUS_PAUSE_MAX_US)
		file_refresh(rv, f->dir, f->nonce);
	return rendezvous_pause(rv, until);
}

static int
files_open(struct leat_rendezvous *rv, uint64_t until)
{
	struct rendezvous_files *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return leat_err(ENOMEM, "rendezvous (file): no memory");
	rv->priv = f;
	f->dir = -1;
	f->nonce = file_random();
	f->nonces = calloc(rv->size, sizeof(*f->nonces));
	f->buf = malloc(RECORD_SESSION_LEN(LEAT_RENDEZVOUS_RANKS_MAX));
	if (f->nonces == NULL || f->buf == NULL)
		return leat_err(ENOMEM, "rendezvous (file): no memory");
	f->dir = file_dir_open(rv->dir);
	if (f->dir < 0)
		return f->dir;
	return file_join(rv, until);
}

/* ---- the fence ----------------------------------------------------------------------------- */

/* Fail with -ESTALE if rank 0 of another run has written its session. */
static int
check_taken_over(struct leat_rendezvous *rv)
{
	const struct rendezvous_files *f = rv->priv;
	struct record rec;
	int ret = file_get_session(rv, &rec);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (rec.session == f->session)
		return 0;
	return leat_err(ESTALE,
			"rendezvous (file): another run has taken %.100s, job %s, over: its rank "
			"0 is process %" PRIu32 " on %s; give each run its own directory or job",
			rv->dir, rv->job, rec.pid, rec.host);
}

/*
 * Read the files of the ranks that have not reached this round. Return how many of them now have,
 * or a negative errno.
 */
static int
read_missing(struct leat_rendezvous *rv)
{
	const struct rendezvous_files *f = rv->priv;
	struct record rec;
	uint32_t i, r;
	int ret, come = 0;

	/* Each process starts at the rank after its own, so that not all read the same file. */
	for (i = 1; i < rv->size; i++) {
		r = (rv->rank + i) % rv->size;
		if (rendezvous_peer_arrived(rv, r))
			continue;
		ret = file_get_rank(rv, r, &rec);
		if (ret == 0 && (rec.session != f->session || rec.nonce != f->nonces[r]))
			continue;
		if (ret == 0)
			ret = rendezvous_take(rv, r, &rec);
		if (ret < 0 && ret != -ENOENT && ret != -EPROTO)
			return ret;
		come += rendezvous_peer_arrived(rv, r);
	}
	return come;
}

/* Tell whether any missing rank can still reach this round. */
static bool
any_expected(const struct leat_rendezvous *rv)
{
	uint32_t r;

	for (r = 0; r < rv->size; r++) {
		if (!rendezvous_peer_arrived(rv, r) && !rv->peers[r].left)
			return true;
	}
	return false;
}

static int
files_fence(struct leat_rendezvous *rv, uint64_t until)
{
	bool published = false;
	int ret;

	do {
		if (!published) {
			ret = file_put_rank(rv, 0);
			published = ret == 0;
			/* -ENOENT: rank 0 of another run has removed the temporary file, or the
			 * directory was removed. */
			if (ret == -ENOENT)
				rendezvous_note(rv, "%.80s can't be written to", rv->dir);
			else if (ret < 0)
				return ret;
		}
		ret = read_missing(rv);
		if (ret < 0)
			break;
		if (rendezvous_complete(rv))
			return 0;
		if (!any_expected(rv))
			return -ECONNRESET;
		if (ret > 0)
			rv->pause_us = RENDEZVOUS_PAUSE_MIN_US;
		ret = check_taken_over(rv);
		if (ret == 0)
			ret = file_pause(rv, until);
	} while (ret == 0);
	return ret;
}

/* ---- close --------------------------------------------------------------------------------- */

/* Tell whether all other ranks have closed. A rank whose file does not exist has closed. */
static bool
all_closed(struct leat_rendezvous *rv)
{
	const struct rendezvous_files *f = rv->priv;
	struct record rec;
	uint32_t r;
	int ret;

	for (r = 0; r < rv->size; r++) {
		if (r == rv->rank)
			continue;
		ret = file_get_rank(rv, r, &rec);
		if (ret == -ENOENT)
			continue;
		if (ret < 0 || rec.session != f->session || (rec.flags & RECORD_LEFT) == 0)
			return false;
	}
	return true;
}

/*
 * Remove the files of this session. The last process that closes calls this; the next run may have
 * begun, and its files stay.
 */
static void
remove_all(struct leat_rendezvous *rv)
{
	const struct rendezvous_files *f = rv->priv;
	char name[FILE_NAME_MAX];
	struct record rec;
	uint32_t r;

	if (file_get_session(rv, &rec) == 0 && rec.session == f->session) {
		file_name_session(rv, name);
		(void)unlinkat(f->dir, name, 0);
	}
	for (r = 0; r < rv->size; r++) {
		if (file_get_rank(rv, r, &rec) < 0 || rec.session != f->session)
			continue;
		file_name_rank(rv, r, name);
		(void)unlinkat(f->dir, name, 0);
	}
}

static void
leave_session(struct leat_rendezvous *rv)
{
	const struct rendezvous_files *f = rv->priv;
	char name[FILE_NAME_MAX];
	struct record rec;

	if (!f->admitted) {
		/* Remove only this process's own file; the session of rank 0 stays, for the others
		 * to read. */
		if (f->session != 0 && rv->rank != 0 && file_get_rank(rv, rv->rank, &rec) == 0 &&
		    rec.nonce == f->nonce) {
			file_name_rank(rv, rv->rank, name);
			(void)unlinkat(f->dir, name, 0);
		}
		return;
	}
	if (file_get_session(rv, &rec) < 0 || rec.session != f->session)
		return;
	if (file_put_rank(rv, RECORD_LEFT) == 0 && all_closed(rv))
		remove_all(rv);
}

static void
files_close(struct leat_rendezvous *rv)
{
	struct rendezvous_files *f = rv->priv;

	if (f == NULL)
		return;
	if (f->dir >= 0) {
		leave_session(rv);
		(void)close(f->dir);
	}
	free(f->nonces);
	free(f->buf);
	free(f);
}

const struct rendezvous_way rendezvous_file = {
	.name = "file",
	.open = files_open,
	.fence = files_fence,
	.close = files_close,
};
