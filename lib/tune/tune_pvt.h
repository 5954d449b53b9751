/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TUNE_PVT_H
#define TUNE_PVT_H

/*
 * Objects, and the control thread that agents talk to.
 *
 *     object.c    objects: add, remove, serve; the hand-over between control thread and owner
 *     file.c      the settings file
 *     dir.c       the directory, and the files of processes that died
 *     block.c     the file of measurements: its heap
 *     record.c    what is written to it: records, history, leases
 *     report.c    which object reports when; rows
 *     change.c    a change from request to answer
 *     lease.c     who holds which setting
 *     session.c   an agent: its socket, its channels, its frames
 *     control.c   the control thread's loop
 *     start.c     start and stop
 *
 * Who writes what:
 *
 *     struct tune_object    its list, name, conf: under tune_lock
 *       .pub.pending        control thread sets bits, owner takes them all
 *       .change_*           control thread until APPLY is pending; then the owner, until it
 *                           stores change_done; then the control thread again
 *       .report, .reported  likewise, with REPORT and report_done
 *       the rest            the control thread, under tune_lock
 *     the block, sessions, leases, changes: the control thread alone
 *
 * tune_lock is held for one object at a time. An owner takes it to add and to remove an object, so
 * nothing that may wait is done under it.
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

/* Sessions at a time, changes that wait, and rows of an object. */
#define TUNE_SESSIONS 32U
#define TUNE_ROWS_MAX 4096U

#define TUNE_TEXT_MAX 256U /* why a change was refused; tune_msg_answer.text */
#define TUNE_PATH_MAX 112U /* "reactor.lcore0" */

/* With a lease: as long as the session lasts. */
#define TUNE_LEASE_SESSION INT64_MAX

/* Updates of records without an agent, and at most. */
#define TUNE_INTERVAL_IDLE_NS UINT64_C(1000000000)
#define TUNE_INTERVAL_MIN_NS UINT64_C(1000000)
/* A change that its owner does not apply within this time is withdrawn. */
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
	struct leat_tune_conf conf; /* name is not kept */
	TAILQ_ENTRY(tune_object) fresh;
	bool is_fresh; /* it has no record yet */
	bool live;     /* leat_tune_add() is through */

	/* settings */
	void *current; /* as the control thread knows them */
	uint64_t epoch;
	void *shown;		    /* as the record shows them */
	bool restated;		    /* leat_tune_changed(): the record is older */
	struct tune_change *change; /* that is with the owner */
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
	uint32_t record; /* offset; 0: none */
	uint32_t slot;
	struct tune_row *rows;
	uint32_t nb_rows;
};

TAILQ_HEAD(tune_fresh, tune_object);

/* All objects; under tune_lock. */
struct tune_objects {
	struct tune_object **table; /* NULL: a free place */
	uint32_t size;
	uint32_t hint; /* no place below it is free */
	uint32_t next_id;
	struct tune_fresh fresh;
	struct tune_gone *gone; /* records of removed objects, for the control thread to free */
};

/* Records of a removed object. */
struct tune_gone {
	struct tune_gone *next;
	uint32_t id;
	struct tune_row record;
	struct tune_row *rows;
	uint32_t nb_rows;
};

extern pthread_mutex_t tune_lock;
extern struct tune_objects tune_objects;

/* CLOCK_MONOTONIC and CLOCK_REALTIME, ns */
uint64_t tune_now(void);
uint64_t tune_real(void);

/* Copy the settings of mask from one C structure to another. */
void tune_fields_copy(const struct leat_tune_schema *schema, uint64_t mask, void *to,
		      const void *from);

/* ---- object.c; with tune_lock held ---- */

struct tune_object *tune_object_find(uint32_t id);
/* "reactor.lcore0" */
void tune_object_path(const struct tune_object *o, char *path, size_t len);
/* Hand change_want and change_mask to the owner, or apply them here if there is none. */
void tune_object_apply(struct tune_object *o);
/* Take a change back that the owner has not begun. @return was it there? */
bool tune_object_withdraw(struct tune_object *o);
/* Is what was handed over done? */
bool tune_object_applied(const struct tune_object *o);
void tune_object_report_ask(struct tune_object *o);
bool tune_object_reported(const struct tune_object *o);

/* ---- file.c ---- */

int tune_file_load(const char *path);
/* tell: log the lines that had no effect, since no object had the name. */
void tune_file_free(bool tell);
/*
 * Settings of the file for an object, into want. @return mask of them; an error is told by *ret and
 * leat_err()
 */
uint64_t tune_file_apply(const struct leat_tune_schema *schema, const char *name, void *want,
			 int *ret);

/* ---- dir.c ---- */

/*
 * Open the directory, made if it is missing. @return its descriptor; path has its name
 */
int tune_dir_open(const char *dir, char *path, size_t len);
/* Remove the files of processes that died. */
void tune_dir_sweep(int dirfd);

/* ---- block.c; the control thread, or before there is one ---- */

/* @return 0 or a negative errno */
int tune_block_create(int dirfd, const char *program, char *name, size_t len);
void tune_block_destroy(void);
/* In the child of a fork(): the file, and its lock, are the parent's. */
void tune_block_forked(void);
struct tune_block_head *tune_block_head(void);
void *tune_block_at(uint32_t offset);
/* A place of size bytes, 8-aligned and zeroed; 0: there is no room */
uint32_t tune_block_alloc(uint32_t size);
void tune_block_free(uint32_t offset, uint32_t size);
/* The schema's text, written once. 0: no room */
uint32_t tune_block_schema(const struct leat_tune_schema *schema);

/* ---- record.c ---- */

struct tune_record_conf {
	const struct leat_tune_schema *schema;
	const char *name;
	uint32_t id, parent, flags;
	bool settings, report; /* it has some */
};

/* @return false: no room, counted */
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
	const void *from, *to; /* settings */
	const char *why, *who;
};
void tune_record_change(const struct tune_history *h);
void tune_record_lease(unsigned int place, uint32_t id, uint32_t session, uint64_t mask,
		       uint64_t expires_ns, const char *who);

/* ---- report.c ---- */

/* What agents want to see, all together. */
struct tune_watch {
	uint64_t interval_ns; /* 0: as without an agent */
	bool rows;
};

/* The settings are others: record, epoch, history. With tune_lock held. */
void tune_report_settings(struct tune_object *o, const char *why, const char *who);
/* Likewise, if the program has changed them by itself. */
void tune_report_restated(struct tune_object *o);
/* Gives objects that were added a record, and frees those of objects that are gone. */
void tune_report_registry(void);
/* All objects that are due. */
void tune_report_all(const struct tune_watch *watch, uint64_t now);

/* ---- change.c ---- */

struct tune_session;

struct tune_change {
	TAILQ_ENTRY(tune_change) next;
	struct tune_session *session; /* that asked; NULL: none, or it ended */
	int64_t request;
	uint32_t object;
	uint64_t mask;
	void *want; /* settings, of which those of mask are meant */
	int64_t lease_ns;
	uint64_t deadline_ns; /* UINT64_MAX: it is tried until it is done */
	char why[16];
	char who[TUNE_WHO_MAX];
	unsigned int takes; /* lease that begins with it: its place + 1; 0: none */
	unsigned int ends;  /* lease whose values go back with it, likewise */
};

/* A change that a session asks for; answers at once if it can't be. */
void tune_change_ask(struct tune_session *s, uint64_t hash, int64_t request, uint32_t object,
		     uint64_t mask, int64_t lease_ns, const void *settings, size_t len);
/* Values of a lease go back. @return false: no memory; try again */
bool tune_change_back(const struct tune_object *o, unsigned int lease, uint64_t mask,
		      const void *old, const char *why, const char *who);
/* Goes on with all changes. @return when to come again at the latest */
uint64_t tune_change_run(uint64_t now);
/* A session ended: what it asked for is done, and told to nobody. */
void tune_change_forget(const struct tune_session *s);
void tune_change_free_all(void);

/* ---- lease.c ---- */

/*
 * Who else holds one of these? NULL: no session. *left_ns: for how long still, 0: as long as it is
 * connected.
 */
#define TUNE_LEASE_ENDING UINT64_MAX /* its values go back right now */
const char *tune_lease_holder(uint32_t object, uint64_t mask, const struct tune_session *s,
			      uint64_t now, uint64_t *left_ns);
/* For a change with a lease that is about to be made. @return a place + 1; 0: there is none */
unsigned int tune_lease_reserve(const struct tune_object *o, const struct tune_session *s);
/* The change was made: remember what the settings were. */
void tune_lease_take(unsigned int lease, const struct tune_object *o, uint64_t mask,
		     const void *old, int64_t lease_ns, uint64_t now);
/* The change was not made. */
void tune_lease_unreserve(unsigned int lease);
/* s has set them for good: it holds them no more. */
void tune_lease_keep(uint32_t object, const struct tune_session *s, uint64_t mask);
/* s gives back what it has of an object, 0: of all. keep: the values stay. */
void tune_lease_release(const struct tune_session *s, uint32_t object, bool keep, const char *why);
/* The values of a lease are back, or never will be. */
void tune_lease_end(unsigned int lease);
/* Those that have run out, or whose object is gone. @return when to come again at the latest */
uint64_t tune_lease_run(uint64_t now);
void tune_lease_free_all(void);

/* ---- session.c ---- */

/* There are connections on the listening socket, which does not block. */
void tune_session_accept(int listen_fd, int epfd);
/* Something happened on a session's descriptor, or it may go on. */
void tune_session_run_all(uint64_t now);
void tune_session_event(uint64_t key, uint32_t events);
void tune_session_close_all(void);
/* @return when a session is to be looked at again without an event */
uint64_t tune_session_due(uint64_t now);
void tune_session_watch(struct tune_watch *watch);
const char *tune_session_who(const struct tune_session *s);
uint32_t tune_session_number(const struct tune_session *s);
/* Answer; settings may be NULL. */
void tune_session_answer(struct tune_session *s, int64_t request, int status,
			 const struct tune_object *o, uint64_t mask, const char *text);
/* The change it asked for is over. */
void tune_session_resume(struct tune_session *s);
/* An object's report was written. */
void tune_session_sample(const struct tune_object *o, const void *message);

/* ---- control.c ---- */

/* @return 0 or a negative errno */
int tune_control_start(int dirfd, const char *name);
void tune_control_stop(void);
/* Have the control thread look at objects and changes. Any thread. */
void tune_control_wake(void);

#endif /* TUNE_PVT_H */
