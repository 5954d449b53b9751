/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The beginning of a session. Files of earlier runs may be there, and processes start in any order;
 * file_pvt.h shows how the processes prove to each other that they are alive.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file_pvt.h"
#include "leat_le.h"

/*
 * When rank 0 has read the file of a rank that was started with a different size, it waits this
 * long for further ranks to join, so that they, too, get the error.
 */
#define REFUSE_US UINT64_C(1000000)
/* Interval at which rank 0 reads the files of joined ranks again: one may have been restarted. */
#define AGAIN_US UINT64_C(250000)
/*
 * Time for which a process whose file was replaced waits for the decision of rank 0, which may have
 * read the file before it was replaced.
 */
#define DOUBLE_US UINT64_C(1000000)

/* ---- rank 0 -------------------------------------------------------------------------------- */

/* Write the session's file. text: for the error messages of the other ranks; "": none. */
static int
put_session(struct leat_rendezvous *rv, enum record_session what, const char *text)
{
	struct rendezvous_files *f = rv->priv;
	uint8_t *nonces = malloc(8 * (size_t)rv->size);
	uint8_t *buf = malloc(RECORD_SESSION_LEN(rv->size));
	char name[FILE_NAME_MAX];
	struct record rec = {
		.kind = RECORD_SESSION,
		.session = f->session,
		.nonce = f->session,
		.size = rv->size,
		.flags = (uint32_t)what,
		.pid = (uint32_t)getpid(),
		.nonces = nonces,
		.text = text,
		.text_len = (uint32_t)strnlen(text, RECORD_TEXT_MAX),
	};
	uint32_t r;
	int ret;

	if (nonces == NULL || buf == NULL) {
		ret = leat_err(ENOMEM, "rendezvous (file): no memory");
		goto out;
	}
	for (r = 0; r < rv->size; r++)
		leat_put_le64(nonces + 8 * (size_t)r, f->nonces[r]);
	memcpy(rec.host, rv->host, sizeof(rec.host));
	file_name_session(rv, name);
	ret = file_write(rv, f->dir, name, f->nonce, buf, record_build(buf, &rec));
out:
	free(buf);
	free(nonces);
	return ret;
}

/*
 * Check that the session is still the one that this process, rank 0, has created. @return -EEXIST:
 * another process is rank 0, too.
 */
static int
check_double_zero(struct leat_rendezvous *rv)
{
	const struct rendezvous_files *f = rv->priv;
	struct record rec;
	int ret = file_get_session(rv, &rec);

	/* The session's file was removed by hand, or by the close of an earlier run. */
	if (ret == -ENOENT)
		return put_session(rv, RECORD_OPEN, "");
	if (ret < 0)
		return ret;
	if (rec.session == f->session)
		return 0;
	return leat_err(EEXIST,
			"rendezvous (file): process %" PRIu32 " on %s is rank 0, too, in %.100s, "
			"job %s",
			rec.pid, rec.host, rv->dir, rv->job);
}

/* Read the file of a rank. Return 1: it has joined; 0: not yet; or a negative errno. */
static int
admit_one(struct leat_rendezvous *rv, uint32_t r, char *refused)
{
	struct rendezvous_files *f = rv->priv;
	struct record rec;
	int ret = file_get_rank(rv, r, &rec);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (rec.session != f->session || rec.rank != r || rec.nonce == 0)
		return 0;
	if (rec.size != rv->size)
		snprintf(refused, RECORD_TEXT_MAX,
			 "rank %" PRIu32 " (process %" PRIu32 " on %.40s) says %" PRIu32
			 " ranks, rank 0 says %" PRIu32,
			 r, rec.pid, rec.host, rec.size, rv->size);
	if (f->nonces[r] == 0)
		rv->pause_us = RENDEZVOUS_PAUSE_MIN_US;
	f->nonces[r] = rec.nonce;
	return 1;
}

/*
 * Admit the ranks that have joined. If again is set, also read the files of ranks admitted before.
 * Return the number of missing ranks, or a negative errno.
 */
static int
admit(struct leat_rendezvous *rv, bool again, char *refused)
{
	struct rendezvous_files *f = rv->priv;
	int ret, missing = 0;
	uint32_t r;

	for (r = 1; r < rv->size; r++) {
		if (f->nonces[r] != 0 && !again)
			continue;
		ret = admit_one(rv, r, refused);
		if (ret < 0)
			return ret;
		missing += f->nonces[r] == 0;
	}
	return missing;
}

static bool
not_joined(const void *arg, uint32_t rank)
{
	const struct leat_rendezvous *rv = arg;
	const struct rendezvous_files *f = rv->priv;

	return f->nonces[rank] == 0;
}

/* Rank 0: end the session with a time-out, name the missing ranks in its file, and fail. */
static int
give_up(struct leat_rendezvous *rv, uint64_t began)
{
	char ranks[RENDEZVOUS_MISSING_MAX], text[RECORD_TEXT_MAX + 1];
	uint32_t n = rendezvous_ranks_text(ranks, sizeof(ranks), rv->size, not_joined, rv);

	snprintf(text, sizeof(text), "missing %s %s of %" PRIu32 " after %.1f s",
		 n == 1 ? "is rank" : "are ranks", ranks, rv->size,
		 (double)(rendezvous_now() - began) / 1e6);
	(void)put_session(rv, RECORD_TIMEOUT, text);
	return leat_err(ETIMEDOUT, "rendezvous (file): in %.100s, job %s: %s%s%s", rv->dir, rv->job,
			text, rv->fault[0] != '\0' ? "; " : "", rv->fault);
}

/*
 * Wait until all ranks have joined. @return 0; -ETIMEDOUT or -ECANCELED, without a message; another
 * negative errno, with a message
 */
static int
admit_all(struct leat_rendezvous *rv, uint64_t until, char *refused)
{
	uint64_t again_at = 0, now;
	bool again;
	int ret;

	for (;;) {
		now = rendezvous_now();
		again = now >= again_at;
		if (again)
			again_at = now + AGAIN_US;
		ret = admit(rv, again, refused);
		/* Read all files once more before the session becomes complete. */
		if (ret == 0 && !again)
			ret = admit(rv, true, refused);
		if (ret <= 0)
			return ret;
		ret = check_double_zero(rv);
		if (ret < 0 && ret != -ENOENT)
			return ret;
		if (refused[0] != '\0')
			until = RTE_MIN(until, now + REFUSE_US);
		ret = file_pause(rv, until);
		if (ret < 0)
			return ret;
	}
}

static int
join_as_zero(struct leat_rendezvous *rv, uint64_t until)
{
	struct rendezvous_files *f = rv->priv;
	uint64_t began = rendezvous_now();
	char refused[RECORD_TEXT_MAX + 1] = "";
	int ret;

	f->session = f->nonce;
	f->nonces[0] = f->nonce;
	ret = put_session(rv, RECORD_OPEN, "");
	if (ret < 0)
		return ret;
	file_sweep(rv, f->dir);
	ret = admit_all(rv, until, refused);
	if (ret == -ECANCELED) {
		(void)put_session(rv, RECORD_TIMEOUT, "rank 0 was canceled");
		return leat_err(ECANCELED, "rendezvous (file): canceled while ranks joined");
	}
	if (refused[0] != '\0' && (ret == 0 || ret == -ETIMEDOUT)) {
		(void)put_session(rv, RECORD_REFUSED, refused);
		return leat_err(EINVAL, "rendezvous (file): in %.100s, job %s: %s", rv->dir,
				rv->job, refused);
	}
	if (ret == -ETIMEDOUT)
		return give_up(rv, began);
	if (ret < 0)
		return ret;
	f->admitted = true;
	/* Rank 0 needs a file, too: a rank without one counts as closed. */
	ret = file_put_rank(rv, 0);
	return ret < 0 ? ret : put_session(rv, RECORD_COMPLETE, "");
}

/* ---- the other ranks ----------------------------------------------------------------------- */

static int
fail_double(struct leat_rendezvous *rv, const char *host, uint32_t pid)
{
	if (host == NULL)
		return leat_err(EEXIST,
				"rendezvous (file): another process is rank %" PRIu32
				", too, in %.100s, job %s",
				rv->rank, rv->dir, rv->job);
	return leat_err(EEXIST,
			"rendezvous (file): process %" PRIu32 " on %s is rank %" PRIu32
			", too, in %.100s, job %s",
			pid, host, rv->rank, rv->dir, rv->job);
}

/*
 * Handle the outcome of a session that this process has joined: it is complete, was refused, or
 * timed out.
 */
static int
session_decided(struct leat_rendezvous *rv, const struct record *s)
{
	struct rendezvous_files *f = rv->priv;
	struct record rec;
	uint32_t r;

	if (s->flags != RECORD_COMPLETE)
		return leat_err(s->flags == RECORD_REFUSED ? EINVAL : ETIMEDOUT,
				"rendezvous (file): in %.100s, job %s: rank 0 says: %.*s", rv->dir,
				rv->job, (int)s->text_len, s->text);
	if (s->size != rv->size)
		return leat_err(EINVAL,
				"rendezvous (file): in %.100s, job %s: rank 0 says %" PRIu32
				" ranks, rank %" PRIu32 " says %" PRIu32,
				rv->dir, rv->job, s->size, rv->rank, rv->size);
	if (record_nonce(s, rv->rank) != f->nonce) {
		/* Name the other process if its file is still there. */
		if (file_get_rank(rv, rv->rank, &rec) == 0 && rec.nonce != f->nonce)
			return fail_double(rv, rec.host, rec.pid);
		return fail_double(rv, NULL, 0);
	}
	for (r = 0; r < rv->size; r++)
		f->nonces[r] = record_nonce(s, r);
	f->admitted = true;
	return 0;
}

/* Check this process's file, while the session is open: it may have been removed or replaced. */
static int
check_double(struct leat_rendezvous *rv)
{
	struct rendezvous_files *f = rv->priv;
	struct record rec;
	int ret = file_get_rank(rv, rv->rank, &rec);

	/* The file was removed by hand or by the close of an earlier run; or rank 0 removed it
	 * while it still had its temporary name. */
	if (ret == -ENOENT || (ret == 0 && rec.session != f->session))
		return file_put_rank(rv, 0);
	if (ret < 0 || rec.nonce == f->nonce)
		return ret;
	/* Rank 0 decides, since it may have read this process's file. If rank 0 does not decide in
	 * time, this process fails, and the process that wrote later keeps the rank. */
	rendezvous_note(rv, "process %" PRIu32 " on %.40s is rank %" PRIu32 ", too", rec.pid,
			rec.host, rv->rank);
	if (f->double_until == 0)
		f->double_until = rendezvous_now() + DOUBLE_US;
	return rendezvous_now() < f->double_until ? 0 : fail_double(rv, rec.host, rec.pid);
}

/* Read the session once. Return 1: admitted; 0: not yet; or a negative errno. */
static int
look_at_session(struct leat_rendezvous *rv)
{
	struct rendezvous_files *f = rv->priv;
	struct record s;
	int ret = file_get_session(rv, &s);

	if (ret == -ENOENT) {
		if (rv->fault[0] == '\0')
			rendezvous_note(rv, "rank 0 has not come");
		return 0;
	}
	if (ret < 0)
		return ret;
	if (s.session == f->session && s.flags != RECORD_OPEN) {
		ret = session_decided(rv, &s);
		return ret == 0 ? 1 : ret;
	}
	if (s.session == f->session)
		return check_double(rv);
	if (s.flags != RECORD_OPEN) {
		rendezvous_note(rv,
				"rank 0 has not come: the session there, of process %" PRIu32
				" on %.40s, is over or is complete without this process",
				s.pid, s.host);
		return 0;
	}
	f->session = s.session;
	f->double_until = 0;
	rendezvous_note(rv, "rank 0 (process %" PRIu32 " on %.40s) waits for others, or has ended",
			s.pid, s.host);
	return file_put_rank(rv, 0);
}

static int
others_missing(struct leat_rendezvous *rv, uint64_t began)
{
	struct rendezvous_files *f = rv->priv;
	char ranks[RENDEZVOUS_MISSING_MAX], odd[sizeof(rv->fault)];
	struct record rec;
	uint32_t r, n = 0;

	memcpy(odd, rv->fault, sizeof(odd));
	/* Read the files of the ranks, to know which have joined this session. */
	for (r = 0; r < rv->size && f->session != 0; r++) {
		if (r == 0 || (file_get_rank(rv, r, &rec) == 0 && rec.session == f->session))
			f->nonces[r] = f->nonce;
	}
	if (f->session != 0)
		n = rendezvous_ranks_text(ranks, sizeof(ranks), rv->size, not_joined, rv);
	/* All ranks have joined, or no session was found: the next step is rank 0's, which is
	 * therefore named as missing. */
	if (n == 0)
		snprintf(ranks, sizeof(ranks), "0");
	return leat_err(ETIMEDOUT,
			"rendezvous (file): in %.100s, job %s: missing %s %s of %" PRIu32
			" after %.1f s; %s",
			rv->dir, rv->job, n > 1 ? "are ranks" : "is rank", ranks, rv->size,
			(double)(rendezvous_now() - began) / 1e6, odd);
}

static int
join_as_other(struct leat_rendezvous *rv, uint64_t until)
{
	uint64_t began = rendezvous_now();
	int ret;

	for (;;) {
		ret = look_at_session(rv);
		/* -ENOENT: rank 0 has removed the temporary file; write it again. */
		if (ret < 0 && ret != -ENOENT)
			return ret;
		if (ret == 1)
			return 0;
		ret = file_pause(rv, until);
		if (ret == -ETIMEDOUT)
			return others_missing(rv, began);
		if (ret < 0)
			return leat_err(-ret, "rendezvous (file): canceled while ranks joined");
	}
}

int
file_join(struct leat_rendezvous *rv, uint64_t until)
{
	if (rv->rank == 0)
		return join_as_zero(rv, until);
	return join_as_other(rv, until);
}
