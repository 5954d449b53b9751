/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TUNE_PVT_H
#define TUNE_PVT_H

/*
 * Objects, and the control thread that agents talk to.
 *
 *     object.c    objects: add, remove, serve; the hand-over between control thread and owner
 *     file.c      the settings file
 *     dir.c       the directory, and the files of processes that died
 *     block.c     the file of measurements: create, destroy, heap
 *     record.c    contents of that file: records, history, leases
 *     report.c    schedule of reports; rows
 *     change.c    a change from request to answer
 *     lease.c     leases: settings that a session holds
 *     session.c   an agent: its socket, its channels, its frames
 *     control.c   the control thread's loop
 *     start.c     start and stop
 *
 * Writers:
 *
 *     struct tune_object      its list, name, conf: under tune_lock
 *       .pub.pending          the control thread sets bits, the owner takes them all
 *       .change_*             the control thread until APPLY is pending; then the owner, until it
 *                             stores change_done; then the control thread again
 *       .report, .reported_*  as .change_*, with REPORT and report_done
 *       other fields          the control thread, under tune_lock
 *     the block, sessions, leases, changes: the control thread alone
 *
 * tune_lock is held for one object at a time. Owners take it to add and to remove an object, so a
 * function that may wait must not be called under it.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <leat_error.h>
#include <leat_log.h>
#include <leat_time.h>

#include "leat_tune.h"
#include "tune_block.h"

struct leat_channel;

/* Bits of leat_tune_object.pending. */
#define TUNE_PENDING_APPLY 1U
#define TUNE_PENDING_REPORT 2U

/* Maximum number of sessions at a time, and of rows of an object. */
#define TUNE_SESSIONS 32U
#define TUNE_ROWS_MAX 4096U

#define TUNE_TEXT_MAX 256U /* text of a refusal: tune_msg_answer.text */
#define TUNE_PATH_MAX 112U /* full name of an object: "reactor.lcore0" */

/* lease_ns of a lease that lasts as long as its session. */
#define TUNE_LEASE_SESSION INT64_MAX

/* Interval between updates of records: without an agent, and the shortest that an agent can get. */
#define TUNE_INTERVAL_IDLE_NS UINT64_C(1000000000)
#define TUNE_INTERVAL_MIN_NS UINT64_C(1000000)
/* A change that its owner does not begin within this time is withdrawn. */
#define TUNE_APPLY_NS UINT64_C(2000000000)

struct tune_change;

struct tune_row {
	uint32_t record; /* offset in the block; 0: none */
	uint32_t slot;
};

struct tune_object {
	struct leat_tune_object pub;
	uint32_t id;
	uint32_t place; /* index in the table of objects */
	char name[LEAT_TUNE_OBJECT_NAME_MAX];
	struct leat_tune_conf conf; /* conf.name is NULL: the name is in the field `name` */
	TAILQ_ENTRY(tune_object) fresh;
	bool is_fresh; /* the object is in tune_objects.fresh: it has no record yet */
	bool live;     /* leat_tune_add() has completed */

	/* settings */
	void *current; /* effective settings: last applied, or passed by leat_tune_changed() */
	uint64_t epoch;
	void *shown;		    /* settings as the record has them */
	bool program_changed;	    /* leat_tune_changed() was called: shown is out of date */
	struct tune_change *change; /* change that was handed to the owner; NULL: none */
	uint64_t change_mask;
	void *change_want;
	int change_status;
	uint32_t change_done;
	char change_text[TUNE_TEXT_MAX];

	/* reports */
	void *report;
	uint64_t reported_ns;
	uint32_t report_done;
	bool report_asked;

	/* in the block */
	uint32_t record; /* offset of the object's record; 0: none */
	uint32_t slot;
	struct tune_row *rows;
	uint32_t nb_rows;
};

TAILQ_HEAD(tune_fresh, tune_object);

/* All objects; under tune_lock. */
struct tune_objects {
	struct tune_object **table; /* the objects; NULL: a free entry */
	uint32_t size;
	uint32_t hint; /* no entry with a lower index is free */
	uint32_t next_id;
	uint64_t nb_removed; /* objects removed ever: lease.c looks for leases of removed objects */
	struct tune_fresh fresh;
	struct tune_removed *removed; /* records for the control thread to free */
};

/* Records of a removed object and of its rows. */
struct tune_removed {
	struct tune_removed *next;
	uint32_t id;
	struct tune_row record;
	struct tune_row *rows;
	uint32_t nb_rows;
};

extern pthread_mutex_t tune_lock;
extern struct tune_objects tune_objects;

/* Read CLOCK_MONOTONIC (now) or CLOCK_REALTIME (real), ns. */
uint64_t tune_now(void);
uint64_t tune_real(void);

/* Copy the settings of mask from one C structure to another. */
void tune_fields_copy(const struct leat_tune_schema *schema, uint64_t mask, void *to,
		      const void *from);

/* ---- object.c; with tune_lock held ---- */

struct tune_object *tune_object_find(uint32_t id);
/* Compose the full name of an object: "reactor.lcore0". */
void tune_object_path(const struct tune_object *o, char *path, size_t len);
/* Hand change_want and change_mask to the owner; without an owner apply them in this call. */
void tune_object_apply(struct tune_object *o);
/* Withdraw a change that was handed over. @return false: the owner has begun it */
bool tune_object_withdraw(struct tune_object *o);
/* Tell whether the owner has completed the change that was handed over. */
bool tune_object_applied(const struct tune_object *o);
void tune_object_report_ask(struct tune_object *o);
bool tune_object_reported(const struct tune_object *o);

/* ---- file.c ---- */

int tune_file_load(const char *path);
/* Free the lines of the file. log_unused: log lines whose object was never added. */
void tune_file_free(bool log_unused);
/*
 * Read the settings of the file for an object into want.
 * @return mask of these settings; *ret: 0, or a negative errno with leat_err()
 */
uint64_t tune_file_apply(const struct leat_tune_schema *schema, const char *name, void *want,
			 int *ret);

/* ---- dir.c ---- */

/* Open the directory, and create it if missing. @return its descriptor; path gets its name */
int tune_dir_open(const char *dir, char *path, size_t len);
/* Remove the files of processes that died. */
void tune_dir_sweep(int dirfd);

/* ---- block.c; on the control thread, or before it is started ---- */

/* @return 0 or a negative errno */
int tune_block_create(int dirfd, const char *program, char *name, size_t len);
void tune_block_destroy(void);
/* Close the file in the child of a fork(): the file, and its lock, are the parent's. */
void tune_block_forked(void);
struct tune_block_head *tune_block_head(void);
void *tune_block_at(uint32_t offset);
/* Allocate size bytes, 8-aligned and zeroed. @return offset; 0: no room */
uint32_t tune_block_alloc(uint32_t size);
void tune_block_free(uint32_t offset, uint32_t size);
/* Get the offset of a schema's text; write the text if the block lacks it. @return 0: no room */
uint32_t tune_block_schema(const struct leat_tune_schema *schema);

/* ---- record.c ---- */

struct tune_record_conf {
	const struct leat_tune_schema *schema;
	const char *name;
	uint32_t id, parent, flags;
	bool settings, report; /* the record has room for settings, for a report */
};

/* @return false: no room; the block counts it in dropped */
bool tune_record_create(struct tune_row *place, const struct tune_record_conf *conf);
void tune_record_destroy(struct tune_row *place);
void tune_record_settings(uint32_t record, const struct leat_tune_schema *schema,
			  const void *settings, uint64_t epoch);
void tune_record_report(uint32_t record, const struct leat_tune_schema *schema, const void *report,
			uint64_t time_ns);
void tune_record_name(uint32_t record, const char *name);

struct tune_history {
	const struct tune_object *o;
	uint32_t setting;
	const void *from, *to; /* old and new settings */
	const char *why, *who;
};
void tune_record_change(const struct tune_history *h);
void tune_record_lease(unsigned int place, uint32_t id, uint32_t session, uint64_t mask,
		       uint64_t expires_ns, const char *who);

/* ---- report.c ---- */

/* Requests of all agents together. */
struct tune_watch {
	uint64_t interval_ns; /* interval between updates; 0: TUNE_INTERVAL_IDLE_NS */
	bool rows;
};

/*
 * Show changed settings to agents: update the record and its epoch, and add to the history. With
 * tune_lock held.
 */
void tune_report_settings(struct tune_object *o, const char *why, const char *who);
/*
 * Like tune_report_settings(), for settings that the program itself has changed
 * (leat_tune_changed()).
 */
void tune_report_program_changed(struct tune_object *o);
/* Create the records of added objects, and free those of removed objects. */
void tune_report_registry(void);
/* Update the records of all objects. */
void tune_report_all(const struct tune_watch *watch, uint64_t now);

/* ---- change.c ---- */

struct tune_session;

struct tune_change {
	TAILQ_ENTRY(tune_change) next;
	struct tune_session *session; /* session that asked; NULL: none, or it has ended */
	int64_t request;
	uint32_t object;
	uint64_t mask;
	void *want; /* settings; only those of mask are valid */
	int64_t lease_ns;
	uint64_t deadline_ns; /* end of the wait for the owner; UINT64_MAX: no limit */
	char why[16];
	char who[TUNE_WHO_MAX];
	unsigned int lease_begins; /* lease that begins with this change: its index + 1; 0: none */
	unsigned int lease_ends;   /* lease that ends with this change: its index + 1; 0: none */
};

/* Queue a change for a session; answer at once if it is invalid. */
void tune_change_ask(struct tune_session *s, uint64_t hash, int64_t request, uint32_t object,
		     uint64_t mask, int64_t lease_ns, const void *settings, size_t len);
/* Queue a change that restores values from before a lease. @return false: no memory; try again */
bool tune_change_restore(const struct tune_object *o, unsigned int lease, uint64_t mask,
			 const void *old, const char *why, const char *who);
/* Advance all changes. @return latest time of the next call, ns */
uint64_t tune_change_run(uint64_t now);
/*
 * Detach the changes of a session that ends: they get no answer. Changes with a lease that were not
 * handed over yet will be refused, the others are made.
 */
void tune_change_forget(const struct tune_session *s);
void tune_change_free_all(void);

/* ---- lease.c ---- */

/*
 * Find another session that holds a setting of mask. @return its name; NULL: none. *left_ns:
 * remaining time of its lease; 0: until the session ends.
 */
#define TUNE_LEASE_ENDING UINT64_MAX /* *left_ns of a lease whose values are being restored */
const char *tune_lease_holder(uint32_t object, uint64_t mask, const struct tune_session *s,
			      uint64_t now, uint64_t *left_ns);
/* Reserve a lease for a change that is about to be made. @return its index + 1; 0: none is free */
unsigned int tune_lease_reserve(const struct tune_object *o, const struct tune_session *s);
/* Begin a reserved lease after its change was made; old: the settings before the change. */
void tune_lease_take(unsigned int lease, const struct tune_object *o, uint64_t mask,
		     const void *old, int64_t lease_ns, uint64_t now);
/* Undo a reservation: the change was not made. With tune_lock held. */
void tune_lease_unreserve(unsigned int lease);
/* Remove from the lease of s the settings that s has now set without a lease: these values stay. */
void tune_lease_keep(uint32_t object, const struct tune_session *s, uint64_t mask);
/* End the lease of s on an object (0: on all objects). keep: leave the values as they are. */
void tune_lease_release(const struct tune_session *s, uint32_t object, bool keep, const char *why);
/* Free a lease: its values were restored, are kept, or can't be restored. */
void tune_lease_end(unsigned int lease);
/* End leases that have expired or were released. @return latest time of the next call, ns */
uint64_t tune_lease_run(uint64_t now);
void tune_lease_free_all(void);

/* ---- session.c ---- */

/* Accept all pending connections of the listening socket, which does not block. */
void tune_session_accept(int listen_fd, int epfd);
/* Receive frames of all sessions that may have some. */
void tune_session_run_all(uint64_t now);
/* Handle an epoll event of a session's descriptor. */
void tune_session_event(uint64_t key, uint32_t events);
void tune_session_close_all(void);
/* @return time at which to call tune_session_run_all() next, unless an event comes earlier; ns */
uint64_t tune_session_due(uint64_t now);
/* Combine the requests of all sessions. */
void tune_session_watch(struct tune_watch *watch);
const char *tune_session_who(const struct tune_session *s);
uint32_t tune_session_number(const struct tune_session *s);
/* Send an answer, with the settings of o; o may be NULL. */
void tune_session_answer(struct tune_session *s, int64_t request, int status,
			 const struct tune_object *o, uint64_t mask, const char *text);
/* Receive frames of a session again, after its change has ended. */
void tune_session_resume(struct tune_session *s);
/* Send an object's report to the sessions that watch the object. */
void tune_session_sample(const struct tune_object *o, const void *message);

/* ---- control.c ---- */

/* @return 0 or a negative errno */
int tune_control_start(int dirfd, const char *name);
void tune_control_stop(void);
/* Wake the control thread to look at objects and changes. Any thread. */
void tune_control_wake(void);

#endif /* TUNE_PVT_H */
