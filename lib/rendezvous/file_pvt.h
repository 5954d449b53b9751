/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RENDEZVOUS_FILE_PVT_H
#define RENDEZVOUS_FILE_PVT_H

/*
 * The way "file". A run has one file of rank 0, which says who belongs together, and one of each
 * rank, which says how far it is:
 *
 *     DIR/JOB.session    session S by rank 0: open, then complete, with the nonce of each rank
 *     DIR/JOB.R          session S by rank R, its nonce, its round, its values
 *
 * Files of an earlier run may be there, and processes start in any order. So both sides prove that
 * they live. A nonce is random and new in each process; S is the nonce of rank 0:
 *
 *     rank 0                                   rank R
 *     session S, open  --------------------->
 *                      <---------------------  session S, nonce N, round 0
 *     session S, complete: N is rank R ----->  this rank 0 has read what I have just written
 *     the file of S is by a live process:      and it is alive: all that it lists are
 *     nobody else could know S
 *
 * Who reads a session that was complete before it has joined knows that it is not its own. A file
 * of another session, or with another nonce, counts as not there. A process that finds its own file
 * replaced in an open session has a double, or was started again: rank 0 takes the one that wrote
 * last, and the other one fails.
 *
 * Files are written under another name and renamed, so that they are always read whole. They are
 * looked at again and again, with pauses of 1 to 64 ms.
 */

#include <stddef.h>
#include <stdint.h>

#include "rendezvous_pvt.h"

/* JOB.RANK, JOB.session. */
#define FILE_NAME_MAX (LEAT_RENDEZVOUS_JOB_MAX + 16)
/* With the writer's nonce: JOB.RANK.NONCE.tmp. */
#define FILE_TMP_MAX (FILE_NAME_MAX + 24)

struct rendezvous_files {
	int dir;
	uint64_t nonce;
	uint64_t session;      /* the one that this process has joined, or has made; 0: none */
	bool admitted;	       /* the session is complete */
	uint64_t *nonces;      /* by rank; 0: not there yet */
	uint8_t *buf;	       /* for a session's record */
	uint64_t double_until; /* another process is this rank; 0: none */
};

/* ---- file_io.c ---- */

/* Opens, or makes, a directory of the user's own. Returns the descriptor. */
int file_dir_open(const char *path);

/*
 * Reads a whole file into room bytes. Returns its length. -ENOENT: not there, or not now; with
 * leat_err(): -EPERM (another user's, or a symbolic link, or not a file, or too long), and others.
 */
int file_read(const struct leat_rendezvous *rv, int dir, const char *name, uint8_t *buf,
	      size_t room);

/* Replaces a file, whole. tag is part of the temporary name. */
int file_write(const struct leat_rendezvous *rv, int dir, const char *name, uint64_t tag,
	       const uint8_t *buf, size_t len);

/* Removes temporary files that processes have left which were killed. */
void file_sweep(const struct leat_rendezvous *rv, int dir);

/* Makes NFS ask the server again whether a name exists. */
void file_refresh(const struct leat_rendezvous *rv, int dir, uint64_t tag);

uint64_t file_random(void);

/* ---- file.c ---- */

void file_name_rank(const struct leat_rendezvous *rv, uint32_t rank, char *name);
void file_name_session(const struct leat_rendezvous *rv, char *name);
/* Reads and parses into rv->buf, or f->buf for a session. -ENOENT: not there, or odd. */
int file_get_rank(struct leat_rendezvous *rv, uint32_t rank, struct record *rec);
int file_get_session(struct leat_rendezvous *rv, struct record *rec);
/* Writes this process's file. */
int file_put_rank(struct leat_rendezvous *rv, uint32_t flags);
/* A pause between two looks. */
int file_pause(struct leat_rendezvous *rv, uint64_t until);

/* ---- file_join.c ---- */

/* Rank 0: makes a session; others: join it. Until all are there. */
int file_join(struct leat_rendezvous *rv, uint64_t until);

#endif /* RENDEZVOUS_FILE_PVT_H */
