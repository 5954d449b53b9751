/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TUNE_H
#define LEAT_TUNE_H

/**
 * @file
 * Settings that change while a program runs, and measurements that agents (leat-top, leat-tune)
 * read from outside the process.
 *
 * A component describes its settings and measurements in a file, from which leat-tune-gen generates
 * C structures and a schema (leat_tune_schema.h). The component adds each of its objects here; from
 * then on agents see the object.
 *
 * @code
 *	app.toml                 [[setting]] name = "batch" ... [[report]] name = "calls" ...
 *
 *	struct app {
 *		struct app_tune_settings set;     one cache line that only this lcore writes
 *		struct leat_tune_object *tune;
 *	};
 *
 *	const struct leat_tune_conf conf = {
 *		.schema = &app_tune_schema, .name = "worker0", .settings = &a->set,
 *		.report = report, .arg = a,
 *	};
 *	a->tune = leat_tune_add(&conf);
 *
 *	for (;;) {                            the loop of its owner
 *		... a->set.batch ...          a plain load
 *		every now and then:
 *			leat_tune_serve(a->tune);
 *	}
 *	leat_tune_del(a->tune);
 * @endcode
 *
 *     agent                 control thread                    owner's loop
 *     SET batch=32   --->   type, range, group
 *                           request, pending  ------------->  leat_tune_serve(): apply()
 *                           record, history, log  <---------  effective values
 *     effective, epoch <--- answer
 *
 * The owner's loop takes no lock, and its only atomic operation is one relaxed load in its
 * housekeeping. A loop that hangs delays no other object. The control thread alone writes the file
 * that agents read: as often as agents ask for, at most once per millisecond; without an agent once
 * per second.
 *
 * Thread rules: each object has one owner: the thread that calls leat_tune_serve() for it, or, if
 * none does, the thread that added it. Call leat_tune_start() and leat_tune_stop() on one thread;
 * leat_init() and leat_cleanup() call them.
 */

#include <stdbool.h>
#include <stdint.h>

#include <leat_common.h>

#include "leat_tune_schema.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An object. All fields are private; the library keeps further fields behind them. */
struct leat_tune_object {
	uint32_t pending; /**< bits: requests that the owner has not served yet */
};

/** A row: one of many similar parts of an object, e.g. a peer of an endpoint. */
struct leat_tune_row {
	/** out: name of the row, terminated */
	char name[LEAT_TUNE_OBJECT_NAME_MAX];
	void *report; /**< the row schema's structure, zeroed, to be filled in */
};

/** Configuration of an object. */
struct leat_tune_conf {
	const struct leat_tune_schema *schema; /**< required; not copied */
	/**
	 * Name of the object. Copied; characters that separate names, or would break JSON, become
	 * '_'.
	 */
	const char *name;
	/**
	 * struct NAME_tune_settings with the values that the program wants. Before leat_tune_add()
	 * returns, it calls apply() with the values of the `--settings` file, which replace them.
	 * Later only leat_tune_serve() writes to this structure, or the program itself, which then
	 * calls leat_tune_changed(). NULL: the object has no settings.
	 */
	void *settings;
	/**
	 * Make settings effective, on the owner's thread. *want has all settings; bit i of changed
	 * is set if setting i has a new value. The function may round or clamp values in *want,
	 * which is then copied to .settings and sent to the agent. NULL: only copy.
	 * @return 0; a negative errno with leat_err_msg(): refused, and nothing was changed
	 */
	int (*apply)(void *arg, void *want, uint64_t changed);
	/** Fill in struct NAME_tune_report, which is zeroed. NULL: there are no measurements. */
	void (*report)(void *arg, void *report);
	/**
	 * True: leat_tune_serve() calls report(), on the owner's thread. False: the control thread
	 * calls report(), under a lock; it must read only data that any thread may read.
	 */
	bool report_on_owner;
	/** True: the control thread calls apply(), under a lock; leat_tune_serve() is not needed.
	 */
	bool ownerless;
	/**
	 * Wake the owner from a long sleep, so that it calls leat_tune_serve(). Called on any
	 * thread. NULL: the owner never sleeps for long.
	 */
	void (*kick)(void *arg);
	/**
	 * Fill in row i. Called on the control thread, under a lock, while an agent asks for rows.
	 * @return 1: filled in; 0: there is no row i now; negative: there is no row i, nor any
	 * higher one
	 */
	int (*row)(void *arg, uint32_t i, struct leat_tune_row *row);
	const struct leat_tune_schema *row_schema; /**< schema of the rows, without settings */
	void *arg; /**< first argument of apply(), report(), kick() and row() */
};

/**
 * Add an object. Its name is made unique among the objects of the schema: the second gets "+2"
 * appended, and so on.
 *
 * When the file of measurements is full the object is still added, but agents do not see it.
 *
 * @return
 *   The object, or NULL with rte_errno and leat_err_msg():
 *   - EINVAL: no schema, no name, or row() without row_schema; or the settings file has values for
 *     the object that are not valid together, see leat_tune_check()
 *   - the error with which apply() has refused values of the settings file
 *   - ENOMEM
 */
LEAT_API struct leat_tune_object *leat_tune_add(const struct leat_tune_conf *conf);

/** Remove an object, on its owner's thread. Changes pending for it are refused. NULL is allowed. */
LEAT_API void leat_tune_del(struct leat_tune_object *o);

/**
 * Show agents the values that the program itself has written to .settings, e.g. after a device has
 * clamped one, or a function of the program has changed one. On the owner's thread; takes a lock.
 */
LEAT_API void leat_tune_changed(struct leat_tune_object *o);

/** Private: slow path of leat_tune_serve(). */
LEAT_API void leat_tune_serve_now(struct leat_tune_object *o);

/**
 * Apply a change of settings, and report measurements, if an agent has asked for either. Call this
 * on the owner's thread, at a place where settings may change, at least once per millisecond.
 */
static inline void
leat_tune_serve(struct leat_tune_object *o)
{
	if (__builtin_expect(__atomic_load_n(&o->pending, __ATOMIC_RELAXED) != 0, 0))
		leat_tune_serve_now(o);
}

/** Get the id of an object, by which agents name it; unique in the process. Any thread. */
LEAT_API uint32_t leat_tune_id(const struct leat_tune_object *o);

/** Configuration of leat_tune_start(). */
struct leat_tune_start_conf {
	const char *program; /**< name for agents; copied */
	/**
	 * Directory in which agents find the process. Created with mode 0700 if missing. It must
	 * belong to the user, with no access for others, and not be a symbolic link. NULL:
	 * /run/user/UID/leat; without /run/user/UID: /dev/shm/leat-UID, or /tmp/leat-UID.
	 */
	const char *dir;
	const char *settings; /**< file of settings; NULL: none */
	bool off;	      /**< admit no agents; the settings file is read nevertheless */
};

/**
 * Read the settings file, and admit agents. Call it before objects are added.
 *
 * @return
 *   0; or with leat_err_msg():
 *   - -EINVAL: a line of the settings file is wrong; the message names it
 *   - -EALREADY: started already
 *   - -EACCES: the directory does not belong to the user, or others have access to it
 *   - -ENOMEM, and errors of open(2), mkdir(2), socket(2), mmap(2), posix_fallocate(3)
 *
 *   With dir NULL a failure to admit agents is only logged.
 */
LEAT_API int leat_tune_start(const struct leat_tune_start_conf *conf);

/**
 * End all sessions of agents, and remove the files. Remaining objects stay valid. Settings of which
 * an agent has a lease keep the agent's values: the loops that would apply the former ones may have
 * ended already.
 */
LEAT_API void leat_tune_stop(void);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TUNE_H */
