/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RENDEZVOUS_FILE_PVT_H
#define RENDEZVOUS_FILE_PVT_H

/*
 * The way "file". A run has one file of rank 0, which lists the processes of the run, and one file
 * of each rank, with the round that it has reached and its values:
 *
 *     DIR/JOB.session    session S by rank 0: open, then complete, with the nonce of each rank
 *     DIR/JOB.R          session S by rank R, its nonce, its round, its values
 *
 * Files of an earlier run may be there, and processes start in any order. So each side proves to
 * the other that it is alive. Each process draws a random nonce; S is the nonce of rank 0:
 *
 *     rank 0                                   rank R
 *     session S, open  --------------------->
 *                      <---------------------  session S, nonce N, round 0
 *     session S, complete: N is rank R ----->  rank 0 has read the new file of rank R, so rank 0
 *     rank R is alive: only a process that     is alive, and so are all ranks that it lists
 *     runs now can know S
 *
 * If a session was complete before a process has joined it, the process treats the session as one
 * of another run. A file of another session, or with another nonce, is treated as if it did not
 * exist. If a process finds its own file replaced in an open session, another process has the same
 * rank, or the rank was started again: rank 0 admits the process that wrote last, and the other
 * process fails.
 *
 * Files are written under a temporary name and renamed, so that a reader always sees a whole file.
 * Processes read them repeatedly, with pauses of 1 to 64 ms.
 */

#include <stddef.h>
#include <stdint.h>

#include "rendezvous_pvt.h"

/* Room for the name of a file: JOB.RANK or JOB.session. */
#define FILE_NAME_MAX (LEAT_RENDEZVOUS_JOB_MAX + 16)
/* Room for the name of a temporary file, JOB.RANK.NONCE.tmp; NONCE is the writer's. */
#define FILE_TMP_MAX (FILE_NAME_MAX + 24)

struct rendezvous_files {
	int dir; /* descriptor of the directory */
	uint64_t nonce;
	uint64_t session; /* session that this process has joined, or created; 0: none */
	bool admitted;	  /* the session is complete */
	uint64_t *nonces; /* nonces by rank; 0: the rank has not joined */
	uint8_t *buf;	  /* buffer for a session's record */
	/*
	 * Time, as rendezvous_now(), until which this process waits for rank 0 to choose between
	 * two processes of this rank; 0: there is no second process.
	 */
	uint64_t double_until;
};

/* ---- file_io.c ---- */

/* Open or create a directory that belongs to the user. Return the descriptor. */
int file_dir_open(const char *path);

/*
 * Read a whole file into buf. @return its length; -ENOENT, without a message: the file does not
 * exist, or was just replaced. Other errors are reported by leat_err(), too, e.g. -EPERM: the file
 * is another user's, writable by others, a symbolic link, not a regular file, or longer than room.
 */
int file_read(const struct leat_rendezvous *rv, int dir, const char *name, uint8_t *buf,
	      size_t room);

/* Replace a file as a whole. tag is part of the temporary name. */
int file_write(const struct leat_rendezvous *rv, int dir, const char *name, uint64_t tag,
	       const uint8_t *buf, size_t len);

/* Remove the temporary files of processes that were killed. */
void file_sweep(const struct leat_rendezvous *rv, int dir);

/* Make NFS ask the server again whether a name exists. */
void file_refresh(const struct leat_rendezvous *rv, int dir, uint64_t tag);

uint64_t file_random(void);

/* ---- file.c ---- */

void file_name_rank(const struct leat_rendezvous *rv, uint32_t rank, char *name);
void file_name_session(const struct leat_rendezvous *rv, char *name);
/*
 * Read and parse a file into rv->buf, or f->buf for a session. @return -ENOENT: it does not exist,
 * or is not valid.
 */
int file_get_rank(struct leat_rendezvous *rv, uint32_t rank, struct record *rec);
int file_get_session(struct leat_rendezvous *rv, struct record *rec);
/* Write this process's file. flags: RECORD_LEFT or 0. */
int file_put_rank(struct leat_rendezvous *rv, uint32_t flags);
/* Pause between two reads of files. */
int file_pause(struct leat_rendezvous *rv, uint64_t until);

/* ---- file_join.c ---- */

/* Create a session (rank 0) or join it (others), and wait until all ranks have joined. */
int file_join(struct leat_rendezvous *rv, uint64_t until);

#endif /* RENDEZVOUS_FILE_PVT_H */
