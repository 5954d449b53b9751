/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RENDEZVOUS_PVT_H
#define RENDEZVOUS_PVT_H

/*
 * Structures and functions that the files of lib/rendezvous share:
 *
 *     rendezvous.c     open, close, fence: the parts common to all ways
 *     choose.c         chooses the way, from the configuration and the launcher
 *     launcher.c       the environment of mpirun and srun; the only file that reads it
 *     values.c         values put by this process, and values of the others
 *     wait.c           time, and waiting with a limit
 *     missing.c        ranks as text: "2, 5-7"
 *     record.c         the format of the records that processes exchange
 *     file.c           way "file": the session, the fences; file_join.c how a session begins,
 *                      file_io.c files that are safe to read
 *     pmix.c           way "pmix": the fences; pmix_hub.c its calls and callbacks; pmix_abi.h
 *                      the declarations of PMIx
 *     list.c           ways "list" and "alone"
 */

#include <stdbool.h>
#include <stdint.h>

#include "leat_error.h"
#include "leat_log.h"
#include "leat_rendezvous.h"
#include "record.h"

/* State of a process as known here; also of this process itself. Round n is the n-th fence. */
struct rendezvous_peer {
	uint64_t round;	      /* last round that the process is known to have reached */
	uint64_t state_round; /* round in which the values in state were published */
	uint64_t state_due;   /* last round in which the values are known to have changed */
	uint8_t *state;	      /* packed values; NULL: none */
	uint32_t state_len;
	bool left; /* the process will reach no later round */
};

/* A value that this process has put. */
struct rendezvous_own {
	char key[LEAT_RENDEZVOUS_KEY_MAX];
	uint8_t *data; /* NULL when len is 0 */
	uint16_t len;
};

/* A way in which processes find one another: see enum leat_rendezvous_how. */
struct rendezvous_way {
	const char *name;
	/*
	 * Find the other processes, or fail at the time `until`, as rendezvous_now(). close() is
	 * called after a failure, too.
	 */
	int (*open)(struct leat_rendezvous *rv, uint64_t until);
	/*
	 * Publish this process's state and round, and get those of the other processes until
	 * rendezvous_complete() returns true. For -ETIMEDOUT and -ECONNRESET the caller writes the
	 * error message.
	 */
	int (*fence)(struct leat_rendezvous *rv, uint64_t until);
	void (*close)(struct leat_rendezvous *rv);
};

extern const struct rendezvous_way rendezvous_pmix;
extern const struct rendezvous_way rendezvous_file;
extern const struct rendezvous_way rendezvous_list;
extern const struct rendezvous_way rendezvous_alone;

struct leat_rendezvous {
	const struct rendezvous_way *way;
	enum leat_rendezvous_how how;
	uint32_t rank;
	uint32_t size;	     /* PMIx: the configured size, or 0, until PMIx reports the size */
	uint64_t timeout_us; /* time-out of a fence that is called with time-out 0 */
	uint64_t limit;	     /* rendezvous_now() at which all waiting ends; UINT64_MAX: no limit */
	const volatile sig_atomic_t *cancel;
	uint64_t round;	   /* number of fences begun, the current one included */
	uint64_t pause_us; /* length of the next rendezvous_pause() */
	bool changed;	   /* own values have changed since the last fence */
	unsigned int nb_own;
	struct rendezvous_own own[LEAT_RENDEZVOUS_KEYS_MAX];
	struct rendezvous_peer *peers; /* by rank; NULL until size is known */
	uint8_t *buf;		       /* RECORD_RANK_MAX bytes, to build and to read a record */
	char *dir;
	char *list;
	char job[LEAT_RENDEZVOUS_JOB_MAX];
	char host[RECORD_HOST_MAX];
	char where[160]; /* part of describe: where the other processes are found */
	char why[96];	 /* part of describe: why this way was chosen */
	char describe[320];
	char fault[160]; /* why this process waits, by rendezvous_note(); "": not known */
	void *priv;	 /* private data of the way */
};

/* ---- choose.c ---- */

/* Set way, how, rank, size, names, where and why. */
int rendezvous_choose(struct leat_rendezvous *rv, const struct leat_rendezvous_conf *conf);

/* ---- launcher.c ---- */

struct rendezvous_launcher {
	const char *name; /* name for messages; NULL: no launcher */
	uint32_t rank;
	uint32_t size;
	bool pmix; /* PMIx's environment variables are set */
	uint32_t pmix_rank;
};

/* Read the environment of a launcher. @return 0; -EINVAL: a variable is not valid. */
int rendezvous_launcher_get(struct rendezvous_launcher *l);

/* ---- values.c ---- */

int rendezvous_peers_create(struct leat_rendezvous *rv);
void rendezvous_values_free(struct leat_rendezvous *rv);
/* At a fence: pack the values that this process has put; they become its state. */
int rendezvous_values_pack(struct leat_rendezvous *rv);
/* Fill in this process's record of the current round. */
void rendezvous_record(const struct leat_rendezvous *rv, struct record *rec);
/*
 * Update rv->peers[r] from a record of rank r. @return -EPROTO: not a record of r in this run,
 * noted by rendezvous_note(); -ENOMEM.
 */
int rendezvous_take(struct leat_rendezvous *rv, uint32_t r, const struct record *rec);
/* Tell whether rank r has reached the current round and its values of that round are here. */
bool rendezvous_peer_arrived(const struct leat_rendezvous *rv, uint32_t r);
/* Tell whether rendezvous_peer_arrived() is true for all ranks. */
bool rendezvous_complete(const struct leat_rendezvous *rv);

/* ---- wait.c ---- */

/* Pauses between two reads of files double from the minimum to the maximum. */
#define RENDEZVOUS_PAUSE_MIN_US UINT64_C(1000)
#define RENDEZVOUS_PAUSE_MAX_US UINT64_C(64000)

/* Return the time of a monotonic clock, microseconds. */
uint64_t rendezvous_now(void);
/* Return the time at which a time-out ends, at most rv->limit. */
uint64_t rendezvous_until(const struct leat_rendezvous *rv, uint64_t timeout_us);
bool rendezvous_canceled(const struct leat_rendezvous *rv);
/* Sleep for rv->pause_us at most, then double it. @return 0, -ETIMEDOUT or -ECANCELED. */
int rendezvous_pause(struct leat_rendezvous *rv, uint64_t until);

/* ---- missing.c ---- */

#define RENDEZVOUS_MISSING_MAX 80

/* Write the ranks for which is() returns true as text, cut to fit. Return their number. */
uint32_t rendezvous_ranks_text(char *dst, size_t size, uint32_t ranks,
			       bool (*is)(const void *arg, uint32_t rank), const void *arg);

/* ---- rendezvous.c ---- */

/* Note why this process has to wait, for the error message if the wait fails. */
void rendezvous_note(struct leat_rendezvous *rv, const char *fmt, ...) __rte_format_printf(2, 3);

#endif /* RENDEZVOUS_PVT_H */
