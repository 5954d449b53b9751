/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_RENDEZVOUS_H
#define LEAT_RENDEZVOUS_H

/**
 * @file
 * A rendezvous of n processes: each tells all others a few bytes (where its endpoints are), and
 * waits until all have.
 *
 * @code
 *	const struct leat_rendezvous_conf conf = { .dir = dir };     (dir: an option, may be NULL)
 *	struct leat_rendezvous *rv = leat_rendezvous_open(&conf);
 *
 *	... listen, then tell where; never an address that nobody listens at yet:
 *	leat_rendezvous_put(rv, LEAT_RENDEZVOUS_ADDR, addr, strlen(addr));
 *	leat_rendezvous_fence(rv, 0);
 *	for (r = 0; r < leat_rendezvous_size(rv); r++)
 *		len = leat_rendezvous_get(rv, r, LEAT_RENDEZVOUS_ADDR, buf, sizeof(buf));
 *	... connect ...
 *	leat_rendezvous_fence(rv, 0);                                (all are connected)
 *	... work ...
 *	leat_rendezvous_fence(rv, 0);                                (all are done)
 *	leat_rendezvous_close(rv);
 * @endcode
 *
 * What one process put is seen by the others after the next fence that they all reach:
 *
 *     rank 0   put a ---- fence 1 ---- get a, b, c ---- put d ---- fence 2 ---- get d
 *     rank 1   put b ------- fence 1 ---- get a, b, c ------------- fence 2 ---- get d
 *     rank 2   put c -- fence 1 --------- get a, b, c ---- fence 2 ------------- get d
 *
 * How the processes find one another is one of:
 *
 *     PMIx    what mpirun, prterun and "srun --mpi=pmix" offer to the processes that they start.
 *             libpmix.so.2 is loaded when it is needed; libleat is not linked with it
 *     file    files in a directory that all processes see
 *     list    the addresses are given, one for each rank; nothing is exchanged
 *     alone   rank 0 of 1
 *
 * doc/guide/rendezvous.md shows how to start programs in each of these ways, and what happens when
 * a process is late or dies.
 *
 * **It blocks.** leat_rendezvous_open() and leat_rendezvous_fence() wait for other processes, up to
 * their time-out, and 100 ms beyond it at most. They are for the time before a program's loops run, and after; a loop must not
 * call them. leat_rendezvous_put() and leat_rendezvous_get() never wait.
 *
 * **Environment.** A launcher speaks to the processes that it starts through environment variables.
 * This is the one library of leat that reads any, in leat_rendezvous_open() only: PMIX_NAMESPACE
 * and PMIX_RANK; OMPI_COMM_WORLD_RANK and _SIZE; PMI_RANK and PMI_SIZE; SLURM_PROCID and
 * SLURM_STEP_NUM_TASKS. (libpmix reads its own ones.) They are checked like everything that comes
 * from outside.
 *
 * EAL is not needed: all of it works before leat_init() and after it. Thread rules: a rendezvous
 * belongs to one thread; several rendezvous in several threads are independent, but those over PMIx
 * must be opened in the same order by all processes.
 */

#include <signal.h>

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Most processes. */
#define LEAT_RENDEZVOUS_RANKS_MAX 16384
/** Longest key, bytes, with its terminator. */
#define LEAT_RENDEZVOUS_KEY_MAX 32
/** Longest value, bytes. */
#define LEAT_RENDEZVOUS_VALUE_MAX 4096
/** Most keys of a process. */
#define LEAT_RENDEZVOUS_KEYS_MAX 16
/** Longest job name, bytes, with its terminator. */
#define LEAT_RENDEZVOUS_JOB_MAX 64
/** Longest address of a list, bytes, without terminator. */
#define LEAT_RENDEZVOUS_ADDR_MAX 255
/** Time-out unless another one is given, microseconds. */
#define LEAT_RENDEZVOUS_TIMEOUT_US UINT64_C(30000000)

/** Key of the address at which a process is reached: the one key that a list has values of. */
#define LEAT_RENDEZVOUS_ADDR "addr"

struct leat_rendezvous;

/** How processes find one another. */
enum leat_rendezvous_how {
	/**
	 * The list or the directory when one is given; else PMIx when its environment is there;
	 * else alone. An error, never alone, when a launcher has started several processes that
	 * can't find one another, or when PMIx's environment is there and its library is not.
	 */
	LEAT_RENDEZVOUS_AUTO = 0,
	LEAT_RENDEZVOUS_PMIX,
	LEAT_RENDEZVOUS_FILE,
	LEAT_RENDEZVOUS_LIST,
	LEAT_RENDEZVOUS_ALONE,
};

/** What a rendezvous is to be like; the same in all processes, but for rank. Zeroed: all
 * defaults. Everything is copied, except what cancel points to. */
struct leat_rendezvous_conf {
	enum leat_rendezvous_how how;
	/**
	 * File: a directory, for this one purpose, that all processes see; made when it is not
	 * there, but its parent must be. It belongs to the user and only the user can write to it:
	 * others are refused, as are symbolic links.
	 */
	const char *dir;
	/**
	 * Name of this run among those that share a directory, or a PMIx job: up to 63 letters,
	 * digits and any of "_-". NULL: "leat". Two runs at a time in one directory need different
	 * names; runs one after another don't.
	 */
	const char *job;
	/** List: "host:port,host:port,...", that of rank 0 first. */
	const char *list;
	/** File, list: the rank is given here; false: it is the launcher's. */
	bool rank_given;
	uint32_t rank; /**< below size, if rank_given; else ignored */
	/** Processes, 1..LEAT_RENDEZVOUS_RANKS_MAX; 0: what the launcher or the list says. When
	 * both are there they must agree. */
	uint32_t size;
	/** For leat_rendezvous_open(), and for each fence that names none; 0: 30 s. */
	uint64_t timeout_us;
	/** As leat_rendezvous_limit(), from the start of leat_rendezvous_open(); 0: no limit. */
	uint64_t limit_us;
	/**
	 * Waiting ends with -ECANCELED within 100 ms when this is not 0: for a signal handler, or
	 * another thread. NULL: never. It must outlive the rendezvous.
	 */
	const volatile sig_atomic_t *cancel;
};

/**
 * Open a rendezvous. Blocks: PMIx until the launcher's server answers; file until all processes
 * are there. How it was chosen is logged by rank 0, and in leat_rendezvous_describe().
 *
 * @return
 *   It, or NULL with leat_err_msg(), and rte_errno
 *   - EINVAL: a value out of range, or two that don't agree: with each other, with the launcher,
 *     or with what another process says (file: the sizes differ)
 *   - ENOTSUP: the launcher has started several processes, and there is no way for them to meet
 *   - ELIBACC: PMIx's environment is there, but libpmix.so.2 can't be loaded
 *   - ETIMEDOUT: the message names the ranks that are missing
 *   - EEXIST (file): another process has the same rank
 *   - EPERM (file): the directory or a file in it is another user's, can be written by others, or
 *     is a symbolic link
 *   - EIO: PMIx failed, as the message says
 *   - ECANCELED; ENOMEM; others of open(2) and mkdir(2)
 */
LEAT_API struct leat_rendezvous *leat_rendezvous_open(const struct leat_rendezvous_conf *conf);

/**
 * Close a rendezvous: leave PMIx, or remove the files when all have closed. It does not wait for
 * other processes; PMIx's server is waited for up to 5 s. NULL is ignored.
 *
 * A process that ends without this call leaves its files behind (the next run in that directory
 * replaces them), and counts as failed for mpirun, which then ends the whole job unless it was
 * started with --enable-recovery.
 */
LEAT_API void leat_rendezvous_close(struct leat_rendezvous *rv);

/** This process, 0 to size - 1. */
LEAT_API uint32_t leat_rendezvous_rank(const struct leat_rendezvous *rv);

/** Number of processes. */
LEAT_API uint32_t leat_rendezvous_size(const struct leat_rendezvous *rv);

/** What was chosen; never LEAT_RENDEZVOUS_AUTO. */
LEAT_API enum leat_rendezvous_how leat_rendezvous_how(const struct leat_rendezvous *rv);

/** What was chosen and why, for people: one line, valid until close. Never NULL. */
LEAT_API const char *leat_rendezvous_describe(const struct leat_rendezvous *rv);

/**
 * Limit all waiting from now on, in this and all later calls together. Every time-out is cut to
 * what is left of it; when nothing is left they end with -ETIMEDOUT at once.
 * @param us microseconds; 0: no limit any more
 */
LEAT_API void leat_rendezvous_limit(struct leat_rendezvous *rv, uint64_t us);

/**
 * Put a value under a key, for all processes, to be published by the next fence. It replaces an
 * earlier one of this process, also one that was published. Never waits.
 *
 * With a list the address is known to all: putting LEAT_RENDEZVOUS_ADDR does nothing, and other
 * keys can't be published.
 *
 * @param key
 *   1 to 31 letters, digits and any of "._-".
 * @param data
 *   Any bytes; copied.
 * @param len
 *   0..LEAT_RENDEZVOUS_VALUE_MAX bytes.
 * @return
 *   0; -EINVAL (key or len); -ENOSPC (LEAT_RENDEZVOUS_KEYS_MAX others); -ENOTSUP (list);
 *   -ENOMEM
 */
LEAT_API int leat_rendezvous_put(struct leat_rendezvous *rv, const char *key, const void *data,
				 size_t len);

/**
 * Publish what was put, and wait until all processes have called their fence of the same number:
 * the first one of each belong together, the second ones, and so on, those that failed included.
 * Blocks. It is a barrier as well, with or without values.
 *
 * When it fails because of others, they are named, what the ones that came have published can be
 * got, and the rendezvous goes on: the next fence waits for all of them again.
 *
 * @param timeout_us
 *   0: leat_rendezvous_conf.timeout_us.
 * @return
 *   - 0
 *   - -ETIMEDOUT: in time not all came; the message names those who are missing
 *   - -ECONNRESET: a process will never come, since it has ended, or has closed its rendezvous; the
 *     message names it, and all others came. Known by PMIx for processes that were killed, and
 *     by file for those that have closed; else the time runs out
 *   - -ENOTSUP: with a list processes can't wait for each other
 *   - -ESTALE (file): another run has taken the directory over; this one can't go on with it
 *   - -EPERM, -EIO, -ECANCELED, -ENOMEM; others of open(2)
 */
LEAT_API int leat_rendezvous_fence(struct leat_rendezvous *rv, uint64_t timeout_us);

/**
 * Did a process reach this one's last fence? Itself always; with a list no other one is known to.
 * False for ranks that don't exist.
 */
LEAT_API bool leat_rendezvous_arrived(const struct leat_rendezvous *rv, uint32_t rank);

/**
 * Get a copy of what a process had put under a key when it reached the last fence (of its own
 * that may be a later one). Never waits.
 *
 * With a list LEAT_RENDEZVOUS_ADDR is there from the start, without a terminator: also this
 * process's own, for it to listen at.
 *
 * @return
 *   its length in bytes, 0..LEAT_RENDEZVOUS_VALUE_MAX; -ENOENT (it has published no such key, or is
 *   missing); -ENOSPC (room is too small); -EINVAL (no such rank, no such key)
 */
LEAT_API int leat_rendezvous_get(const struct leat_rendezvous *rv, uint32_t rank, const char *key,
				 void *buf, size_t room);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_RENDEZVOUS_H */
