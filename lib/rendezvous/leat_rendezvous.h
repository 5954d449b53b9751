/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_RENDEZVOUS_H
#define LEAT_RENDEZVOUS_H

/**
 * @file
 * A rendezvous of n processes: each process publishes a few bytes to all others (the addresses of
 * its endpoints), and waits until all have published theirs.
 *
 * @code
 *	const struct leat_rendezvous_conf conf = { .dir = dir };     (dir: an option, may be NULL)
 *	struct leat_rendezvous *rv = leat_rendezvous_open(&conf);
 *
 *	... listen first, then publish the address:
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
 * A value that a process has put becomes available to the others at the next fence that all
 * processes reach:
 *
 *     rank 0   put a ---- fence 1 ---- get a, b, c ---- put d ---- fence 2 ---- get d
 *     rank 1   put b ------- fence 1 ---- get a, b, c ------------- fence 2 ---- get d
 *     rank 2   put c -- fence 1 --------- get a, b, c ---- fence 2 ------------- get d
 *
 * The processes find one another in one of these ways:
 *
 *     PMIx    the service of mpirun, prterun and "srun --mpi=pmix" for processes that they start.
 *             libpmix.so.2 is loaded when it is needed; libleat is not linked with it
 *     file    files in a directory that all processes see
 *     list    the addresses are given, one for each rank; nothing is exchanged
 *     alone   rank 0 of 1
 *
 * doc/guide/rendezvous.md shows how to start programs in each of these ways, and what happens when
 * a process is late or dies.
 *
 * **Blocking.** leat_rendezvous_open() and leat_rendezvous_fence() wait for other processes, at
 * most 100 ms longer than their time-out. Call them before a program's poll loops start or after
 * these have ended; never in such a loop. leat_rendezvous_put() and leat_rendezvous_get() never
 * wait.
 *
 * **Environment.** A launcher passes rank and size to its processes in environment variables. This
 * is the only library of leat that reads environment variables, in leat_rendezvous_open() only:
 * PMIX_NAMESPACE and PMIX_RANK; OMPI_COMM_WORLD_RANK and _SIZE; PMI_RANK and PMI_SIZE; SLURM_PROCID
 * and SLURM_STEP_NUM_TASKS. (libpmix reads further ones.) The variables are checked like all input
 * from outside.
 *
 * EAL is not needed: all functions work before leat_init() and after it. Thread rules: a rendezvous
 * belongs to one thread; several rendezvous in several threads are independent, but those over PMIx
 * must be opened in the same order by all processes.
 */

#include <signal.h>

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Maximum number of processes. */
#define LEAT_RENDEZVOUS_RANKS_MAX 16384
/** Longest key, bytes, with its terminator. */
#define LEAT_RENDEZVOUS_KEY_MAX 32
/** Longest value, bytes. */
#define LEAT_RENDEZVOUS_VALUE_MAX 4096
/** Maximum number of keys of a process. */
#define LEAT_RENDEZVOUS_KEYS_MAX 16
/** Longest job name, bytes, with its terminator. */
#define LEAT_RENDEZVOUS_JOB_MAX 64
/** Longest address of a list, bytes, without its terminator. */
#define LEAT_RENDEZVOUS_ADDR_MAX 255
/** Default time-out, microseconds. */
#define LEAT_RENDEZVOUS_TIMEOUT_US UINT64_C(30000000)

/** Key of the address at which a process is reached; the only key that has values with a list. */
#define LEAT_RENDEZVOUS_ADDR "addr"

struct leat_rendezvous;

/** Way in which processes find one another. */
enum leat_rendezvous_how {
	/**
	 * The list or the directory if one is given; else PMIx if its environment variables are
	 * set; else alone. Opening fails, and never chooses alone, if a launcher has started
	 * several processes that can't find one another, or if PMIx's variables are set and its
	 * library is missing.
	 */
	LEAT_RENDEZVOUS_AUTO = 0,
	LEAT_RENDEZVOUS_PMIX,  /**< PMIx, provided by the launcher */
	LEAT_RENDEZVOUS_FILE,  /**< files in a directory: conf.dir */
	LEAT_RENDEZVOUS_LIST,  /**< a list of addresses: conf.list */
	LEAT_RENDEZVOUS_ALONE, /**< one process, with rank 0 */
};

/**
 * Configuration of a rendezvous; the same in all processes, except rank. Zeroed means all defaults.
 * All strings are copied; only the variable that cancel points to is not.
 */
struct leat_rendezvous_conf {
	enum leat_rendezvous_how how; /**< way in which the processes find one another */
	/**
	 * Way FILE: a directory that all processes see, used for nothing else. It is created if it
	 * does not exist; its parent must exist. The directory must belong to the user, and only
	 * the user may have write access; other directories, and symbolic links, are refused.
	 */
	const char *dir;
	/**
	 * Name of this run among those that share a directory or a PMIx job: up to 63 letters,
	 * digits and any of "_-". NULL: "leat". Simultaneous runs in one directory need different
	 * names; consecutive runs don't.
	 */
	const char *job;
	/** Way LIST: "host:port,host:port,...", in the order of ranks. */
	const char *list;
	/**
	 * True: the field rank has the rank of this process; with PMIx it must agree with the
	 * launcher's. False: the launcher gives the rank.
	 */
	bool rank_given;
	uint32_t rank; /**< if rank_given, below size; else ignored */
	/**
	 * Number of processes, 1..LEAT_RENDEZVOUS_RANKS_MAX. 0: the number that the launcher or the
	 * list gives; any other value must agree with that number.
	 */
	uint32_t size;
	/**
	 * Time-out of leat_rendezvous_open(), and of each fence that is called with time-out 0,
	 * microseconds; 0: 30 s.
	 */
	uint64_t timeout_us;
	/**
	 * Limit of all waiting together, counted from the start of leat_rendezvous_open(),
	 * microseconds; 0: no limit. See leat_rendezvous_limit().
	 */
	uint64_t limit_us;
	/**
	 * Variable of the program. Within 100 ms after a signal handler or another thread has set
	 * it to nonzero, waiting ends with -ECANCELED. NULL: waiting can't be cancelled. The
	 * variable must outlive the rendezvous.
	 */
	const volatile sig_atomic_t *cancel;
};

/**
 * Open a rendezvous. Blocks: with PMIx until the launcher's server answers; with files until all
 * processes have joined. Rank 0 logs the way and the reason; leat_rendezvous_describe() returns
 * them.
 *
 * @return
 *   The rendezvous, or NULL with leat_err_msg(), and rte_errno
 *   - EINVAL: a value is out of range, two values contradict each other, or a value contradicts the
 *     launcher or another process (file: the sizes differ)
 *   - ENOTSUP: the launcher has started several processes, but they have no way to find one another
 *   - ELIBACC: PMIx's environment variables are set, but libpmix.so.2 can't be loaded
 *   - ETIMEDOUT: the message names the ranks that are missing
 *   - EEXIST (file): another process has the same rank
 *   - EPERM (file): the directory or a file in it is another user's, can be written by others, or
 *     is a symbolic link
 *   - EIO: PMIx failed; the message has its reason
 *   - ECANCELED: conf.cancel was set; ENOMEM; others of open(2) and mkdir(2)
 */
LEAT_API struct leat_rendezvous *leat_rendezvous_open(const struct leat_rendezvous_conf *conf);

/**
 * Close a rendezvous: leave PMIx, or remove the files when all processes have closed. Does not wait
 * for other processes. Waits for PMIx's server, up to 5 s, even if conf.cancel is set or the limit
 * of leat_rendezvous_limit() has passed: mpirun treats a process that ends before it has left PMIx
 * as failed. NULL is ignored.
 *
 * A process that ends without this call leaves its files behind (the next run in that directory
 * replaces them). mpirun treats such a process as failed and ends the whole job, unless mpirun was
 * started with --enable-recovery.
 */
LEAT_API void leat_rendezvous_close(struct leat_rendezvous *rv);

/** Return the rank of this process, 0 to size - 1. */
LEAT_API uint32_t leat_rendezvous_rank(const struct leat_rendezvous *rv);

/** Return the number of processes. */
LEAT_API uint32_t leat_rendezvous_size(const struct leat_rendezvous *rv);

/** Return the way that was chosen; never LEAT_RENDEZVOUS_AUTO. */
LEAT_API enum leat_rendezvous_how leat_rendezvous_how(const struct leat_rendezvous *rv);

/** Describe the way that was chosen, and why: one line of text, valid until close. Never NULL. */
LEAT_API const char *leat_rendezvous_describe(const struct leat_rendezvous *rv);

/**
 * Set one limit for the waiting of all later calls together, except leat_rendezvous_close(). Each
 * time-out is cut to the time that is left until then; when no time is left, calls that wait return
 * -ETIMEDOUT at once.
 * @param rv the rendezvous
 * @param us microseconds from now; 0: no limit any more
 */
LEAT_API void leat_rendezvous_limit(struct leat_rendezvous *rv, uint64_t us);

/**
 * Put a value under a key; the next fence publishes it to all processes. The value replaces an
 * earlier value of this process under the key, published or not. Never waits.
 *
 * With a list all processes know the addresses: putting LEAT_RENDEZVOUS_ADDR does nothing, and
 * other keys can't be published.
 *
 * @param rv
 *   The rendezvous.
 * @param key
 *   1 to 31 letters, digits and any of "._-".
 * @param data
 *   Any bytes; copied.
 * @param len
 *   0..LEAT_RENDEZVOUS_VALUE_MAX bytes.
 * @return
 *   0; -EINVAL (key or len); -ENOSPC (LEAT_RENDEZVOUS_KEYS_MAX other keys exist); -ENOTSUP (list);
 *   -ENOMEM
 */
LEAT_API int leat_rendezvous_put(struct leat_rendezvous *rv, const char *key, const void *data,
				 size_t len);

/**
 * Publish the values that were put, and wait until all processes have called their fence of the
 * same number: the first fences of all processes belong together, then the second ones, and so on;
 * failed fences are counted, too. Blocks. A fence is also a barrier, with or without values.
 *
 * If processes are missing, the error message names them, leat_rendezvous_get() returns the values
 * of those that arrived, and the rendezvous continues: the next fence waits for all processes.
 *
 * @param rv
 *   The rendezvous.
 * @param timeout_us
 *   0: leat_rendezvous_conf.timeout_us. With PMIx a process that gets no CPU meanwhile still asks
 *   for missing records: for a quarter of this time, at least 50 ms and at most 1 s.
 * @return
 *   - 0
 *   - -ETIMEDOUT: not all processes arrived in time; the message names the missing ranks
 *   - -ECONNRESET: all processes have arrived except those that never will, since they have ended
 *     or closed their rendezvous; the message names these. The way PMIX detects processes that were
 *     killed, the way FILE those that have closed; all other cases end with -ETIMEDOUT
 *   - -ENOTSUP: with a list processes can't wait for each other
 *   - -ESTALE (file): another run has taken over the directory; this run can't use it any more
 *   - -EPERM, -EIO, -ECANCELED, -ENOMEM: as for leat_rendezvous_open(); others of open(2)
 */
LEAT_API int leat_rendezvous_fence(struct leat_rendezvous *rv, uint64_t timeout_us);

/**
 * Tell whether a process has reached the last fence of this process. True for this process itself.
 * False for ranks that don't exist, and, with a list, for all other processes.
 */
LEAT_API bool leat_rendezvous_arrived(const struct leat_rendezvous *rv, uint32_t rank);

/**
 * Get a copy of the value that a process had put under a key when it reached the last fence (or a
 * later fence of its own). Never waits.
 *
 * With a list the values of LEAT_RENDEZVOUS_ADDR are known from the start, without a terminator.
 * The value of this process itself is the address to listen at.
 *
 * @return
 *   length of the value in bytes, 0..LEAT_RENDEZVOUS_VALUE_MAX; -ENOENT (the process has published
 *   no such key, or is missing); -ENOSPC (room is too small); -EINVAL (no such rank, not a valid
 *   key)
 */
LEAT_API int leat_rendezvous_get(const struct leat_rendezvous *rv, uint32_t rank, const char *key,
				 void *buf, size_t room);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_RENDEZVOUS_H */
