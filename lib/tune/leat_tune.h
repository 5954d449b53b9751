/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TUNE_H
#define LEAT_TUNE_H

/**
 * @file
 * Settings that change while a program runs, and measurements that are seen from outside.
 *
 * A component describes its settings and measurements in a file, of which leat-tune-gen makes C
 * structures and a schema (leat_tune_schema.h). Each object of it is added here; from then on
 * leat-top and leat-tune see it.
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
 * So a loop has no lock and no atomic operation but one relaxed load in its housekeeping, and a
 * loop that hangs delays no other object. The control thread alone writes what agents read, at most
 * every millisecond, and only as often as an agent asks for; without an agent once per second.
 *
 * Thread rules: an object has an owner, the thread that added it, or that calls leat_tune_serve().
 * leat_tune_start() and leat_tune_stop(): one thread, which leat_init() and leat_cleanup() do.
 */

#include <stdbool.h>
#include <stdint.h>

#include <leat_common.h>

#include "leat_tune_schema.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An object that is seen and set. The rest of it is private. */
struct leat_tune_object {
	uint32_t pending; /**< private: what the owner is asked for */
};

/** A row of an object that has many alike: a peer of an endpoint, a poller of a reactor. */
struct leat_tune_row {
	char name[LEAT_TUNE_OBJECT_NAME_MAX];
	void *report; /**< to be filled in: the row schema's structure, zeroed */
};

/** An object. */
struct leat_tune_conf {
	const struct leat_tune_schema *schema;
	const char *name; /**< copied; what would break a name or JSON in it becomes '_' */
	/**
	 * struct NAME_tune_settings with the values that the program wants. Settings of
	 * `--settings` replace them, by apply() with starting set, before leat_tune_add() returns.
	 * Later only leat_tune_serve() writes to it, and the program followed by
	 * leat_tune_changed(). NULL: there are no settings.
	 */
	void *settings;
	/**
	 * Make settings effective, on the owner's thread. *want has all settings, and bits of
	 * changed tell which are new. It may round or clamp in *want, which is then copied to
	 * .settings, and is answered. NULL: copying is all.
	 * @return 0; a negative errno with leat_err_msg(), and nothing changed: refused
	 */
	int (*apply)(void *arg, void *want, uint64_t changed);
	/**
	 * Fill in struct NAME_tune_report, which is zeroed. NULL: there are no measurements.
	 */
	void (*report)(void *arg, void *report);
	/**
	 * report() is called by leat_tune_serve(), on the owner's thread; else it is called on the
	 * control thread, under a lock, and reads what any thread may read.
	 */
	bool report_on_owner;
	/** apply() is called on the control thread, under a lock; there is no leat_tune_serve(). */
	bool ownerless;
	/** Wake the owner, if it may sleep for long. Any thread; NULL: it comes by. */
	void (*kick)(void *arg);
	/**
	 * Fill in row i. Called on the control thread, under a lock, while an agent asks for rows.
	 * @return 1; 0: there is no such row now; negative: nor are there any behind it
	 */
	int (*row)(void *arg, uint32_t i, struct leat_tune_row *row);
	const struct leat_tune_schema *row_schema; /**< it has no settings */
	void *arg;
};

/**
 * Add an object. Its name is made unique among those of the schema, by "#2" and so on.
 *
 * @return
 *   It, never NULL but for:
 *   - EINVAL: no schema, no name; or a value of the settings file was refused by apply()
 *   - ENOMEM
 *   with rte_errno and leat_err_msg(). Where the file of measurements has no room the object is
 *   not seen from outside; all else holds.
 */
LEAT_API struct leat_tune_object *leat_tune_add(const struct leat_tune_conf *conf);

/**
 * Remove an object, on its owner's thread; NULL is allowed. A change that waits for it is refused.
 */
LEAT_API void leat_tune_del(struct leat_tune_object *o);

/**
 * Show what the program itself has written to .settings: a device that clamped a value, a call of
 * its own that does the same as a setting. On the owner's thread; it takes a lock.
 */
LEAT_API void leat_tune_changed(struct leat_tune_object *o);

/** Private: of leat_tune_serve(). */
LEAT_API void leat_tune_serve_now(struct leat_tune_object *o);

/**
 * Apply a change, and report, if asked for. On the owner's thread, where a change does no harm:
 * each millisecond or oftener.
 */
static inline void
leat_tune_serve(struct leat_tune_object *o)
{
	if (__builtin_expect(__atomic_load_n(&o->pending, __ATOMIC_RELAXED) != 0, 0))
		leat_tune_serve_now(o);
}

/** Number of an object, unique in the process; agents name it so. Any thread. */
LEAT_API uint32_t leat_tune_id(const struct leat_tune_object *o);

/** Where agents find the process. */
struct leat_tune_start_conf {
	const char *program; /**< name for agents; copied */
	/**
	 * Directory, made with mode 0700 where it is missing; it must be the user's own and not a
	 * link. NULL: /run/user/UID/leat, or where that is not there /dev/shm/leat-UID, or
	 * /tmp/leat-UID.
	 */
	const char *dir;
	const char *settings; /**< file of settings; NULL: none */
	bool off;	      /**< no agents; the settings file holds nevertheless */
};

/**
 * Read the settings file, and let agents in. Before objects are added.
 *
 * @return
 *   0; or with leat_err_msg():
 *   - -EINVAL: a line of the settings file; it is named
 *   - -EALREADY: started
 *   - -EACCES: the directory is not the user's own, or others may write to it
 *   - -ENOMEM, and of open(2), mkdir(2), socket(2), mmap(2)
 */
LEAT_API int leat_tune_start(const struct leat_tune_start_conf *conf);

/** Turn agents away, and remove the files. Objects that are left stay valid. */
LEAT_API void leat_tune_stop(void);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TUNE_H */
