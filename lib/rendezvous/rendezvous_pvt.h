/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RENDEZVOUS_PVT_H
#define RENDEZVOUS_PVT_H

/*
 * The rendezvous' insides:
 *
 *     rendezvous.c     open, close, fence: what all ways have in common
 *     choose.c         which way, from the configuration and the launcher
 *     launcher.c       the environment of mpirun and srun; the only file that reads it
 *     values.c         what this process puts, and what it has got from the others
 *     wait.c           time, and waiting with a limit
 *     missing.c        ranks in words: "2, 5-7"
 *     record.c         bytes that processes exchange
 *     file.c           way "file": the session, the fences; file_join.c how a session begins,
 *                      file_io.c files that are safe to read
 *     pmix.c           way "pmix": the fences; pmix_hub.c its calls and callbacks; pmix_abi.h what
 *                      it uses of PMIx
 *     list.c           ways "list" and "alone"
 */

#include <stdbool.h>
#include <stdint.h>

#include "leat_error.h"
#include "leat_log.h"
#include "leat_rendezvous.h"
#include "record.h"

/* What is known of a process, this one included. */
struct rendezvous_peer {
	uint64_t round;	      /* the last one it is known to have reached */
	uint64_t state_round; /* of state */
	uint64_t state_due;   /* at which its values changed last, as far as is known */
	uint8_t *state;	      /* packed values; NULL: none */
	uint32_t state_len;
	bool left; /* it will reach no later round */
};

/* A value that this process has put. */
struct rendezvous_own {
	char key[LEAT_RENDEZVOUS_KEY_MAX];
	uint8_t *data; /* NULL when len is 0 */
	uint16_t len;
};

struct rendezvous_way {
	const char *name;
	/* Until others are found; `until` as rendezvous_now(). On failure close is called, too. */
	int (*open)(struct leat_rendezvous *rv, uint64_t until);
	/*
	 * Publishes this process's state and round, and takes those of the others, until
	 * rendezvous_complete(). -ETIMEDOUT, and -ECONNRESET, are put into words by the caller.
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
	uint32_t size;	     /* PMIx: 0 until it was asked, or what it must be */
	uint64_t timeout_us; /* of a fence that names none */
	uint64_t limit;	     /* rendezvous_now() at which all waiting ends; UINT64_MAX: never */
	const volatile sig_atomic_t *cancel;
	uint64_t round;	   /* fences begun */
	uint64_t pause_us; /* the next one of rendezvous_pause() */
	bool rank_known;   /* of PMIx: what it must be */
	bool changed;	   /* own values, since the last fence */
	unsigned int nb_own;
	struct rendezvous_own own[LEAT_RENDEZVOUS_KEYS_MAX];
	struct rendezvous_peer *peers; /* size; NULL until it is known */
	uint8_t *buf;		       /* RECORD_RANK_MAX, to build and to read a record */
	char *dir;
	char *list;
	char job[LEAT_RENDEZVOUS_JOB_MAX];
	char host[RECORD_HOST_MAX];
	char where[160]; /* of describe: where the others are found */
	char why[96];	 /* of describe: why this way */
	char describe[320];
	char oddity[160]; /* what is wrong with something that is waited for; "": nothing */
	void *priv;	  /* the way's own */
};

/* ---- choose.c ---- */

/* Sets way, how, rank, size, names, where and why. */
int rendezvous_choose(struct leat_rendezvous *rv, const struct leat_rendezvous_conf *conf);

/* ---- launcher.c ---- */

struct rendezvous_launcher {
	const char *name; /* for people; NULL: none */
	uint32_t rank;
	uint32_t size;
	bool pmix; /* there is PMIx's environment */
	uint32_t pmix_rank;
};

/* -EINVAL: the environment says what it can't. */
int rendezvous_launcher_get(struct rendezvous_launcher *l);

/* ---- values.c ---- */

int rendezvous_peers_create(struct leat_rendezvous *rv);
void rendezvous_values_free(struct leat_rendezvous *rv);
/* What was put becomes this process's state; at a fence. */
int rendezvous_values_pack(struct leat_rendezvous *rv);
/* This process's record, for the round under way. */
void rendezvous_record(const struct leat_rendezvous *rv, struct record *rec);
/* Takes a record of rank r. -EPROTO: it is not r's, or of other processes, an oddity; -ENOMEM. */
int rendezvous_take(struct leat_rendezvous *rv, uint32_t r, const struct record *rec);
/* It has reached the round under way, and its values are here. */
bool rendezvous_peer_here(const struct leat_rendezvous *rv, uint32_t r);
/* All have. */
bool rendezvous_complete(const struct leat_rendezvous *rv);

/* ---- wait.c ---- */

/* The pauses between two looks at files double from the one to the other. */
#define RENDEZVOUS_PAUSE_MIN_US UINT64_C(1000)
#define RENDEZVOUS_PAUSE_MAX_US UINT64_C(64000)

/* Microseconds, of a clock that never goes back. */
uint64_t rendezvous_now(void);
/* When this time-out ends, the limit considered. */
uint64_t rendezvous_until(const struct leat_rendezvous *rv, uint64_t timeout_us);
bool rendezvous_canceled(const struct leat_rendezvous *rv);
/* Sleeps for rv->pause_us at most, then doubles it. 0, -ETIMEDOUT or -ECANCELED. */
int rendezvous_pause(struct leat_rendezvous *rv, uint64_t until);

/* ---- missing.c ---- */

#define RENDEZVOUS_MISSING_MAX 80

/* Ranks for which the function says true, in words, cut to fit. Returns their number. */
uint32_t rendezvous_ranks_text(char *dst, size_t size, uint32_t ranks,
			       bool (*is)(const void *arg, uint32_t rank), const void *arg);

/* ---- rendezvous.c ---- */

/* Notes what is wrong with something that others have to replace; for the error message. */
void rendezvous_odd(struct leat_rendezvous *rv, const char *fmt, ...) __rte_format_printf(2, 3);

#endif /* RENDEZVOUS_PVT_H */
