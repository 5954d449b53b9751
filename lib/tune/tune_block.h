/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TUNE_BLOCK_H
#define TUNE_BLOCK_H

/*
 * The file of measurements of a process, DIR/PID-INSTANCE.block. The process's control thread alone
 * writes it. Agents read it with pread(2), not through a mapping, so a truncated file can't kill
 * them.
 *
 *     0        struct tune_block_head
 *     4096     directory: TUNE_SLOTS of struct tune_block_slot
 *     ...      history: TUNE_HISTORY of struct tune_block_change, a ring
 *     ...      leases: TUNE_LEASES of struct tune_block_lease
 *     ...      heap: schemas, and the records of objects and rows
 *
 * The process holds a lock on the whole file (fcntl F_OFD_SETLK). A block without a lock belongs to
 * a process that died: any process with the permission may remove it and its socket,
 * DIR/PID-INSTANCE.sock. A block gets its name only after it is locked.
 *
 * Numbers are little endian; times are nanoseconds of CLOCK_MONOTONIC unless a comment says
 * otherwise. Records, changes and leases begin with a sequence number, odd while they are written:
 *
 *     agent: read the record, read the sequence again; same and even: the copy is whole
 *
 * python/leat_tune/_block.py reads the file; doc/guide/tune-agents.md describes it for other
 * readers.
 */

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define TUNE_BLOCK_MAGIC UINT64_C(0x454e55545441454c) /* "LEATTUNE" */
#define TUNE_BLOCK_VERSION 1U

#define TUNE_SLOTS 8192U
#define TUNE_HISTORY 256U
#define TUNE_LEASES 64U
#define TUNE_BLOCK_MAX (UINT64_C(64) << 20) /* bytes */

#define TUNE_WHO_MAX 64U   /* name of an agent: "leat-tune[1234]" */
#define TUNE_VALUE_MAX 64U /* a value as text */

struct tune_block_head {
	uint64_t magic;
	uint32_t version;
	uint32_t head_size; /* 4096 */
	uint64_t protocol;  /* hash of protocol.toml */
	uint64_t instance;  /* random */
	uint32_t pid, uid;
	uint64_t start_ns;     /* start of the process, CLOCK_REALTIME */
	uint64_t heartbeat_ns; /* last update by the control thread */
	uint64_t interval_ns;  /* current interval between updates of records */
	uint64_t bytes;	       /* bytes of the file in use */
	/* directory, history, leases: number of entries, offset in the file, bytes of an entry */
	uint32_t slots, slot_offset;
	uint32_t changes, change_offset, change_size;
	uint32_t leases, lease_offset, lease_size;
	uint64_t nb_changes; /* changes ever made; the newest is entry (nb_changes - 1) % changes */
	uint64_t dropped;    /* objects and rows without room for their record */
	char program[64];
};
static_assert(sizeof(struct tune_block_head) == 184, "numbers of tune-agents.md");

struct tune_block_slot {
	uint32_t offset; /* offset of a record; 0: free slot */
	uint32_t size;	 /* bytes of the record */
	uint32_t id;	 /* id of the object or row */
	uint32_t nil;
};

#define TUNE_RECORD_ROW 1U   /* record of a row; parent: id of the object; no settings */
#define TUNE_RECORD_OWNER 2U /* the owner's loop reports: no new reports while the loop hangs */

struct tune_block_record {
	uint64_t seq;
	uint32_t id, parent; /* 0: none */
	uint32_t schema;     /* offset of struct tune_block_schema */
	uint32_t flags;
	uint64_t hash; /* hash of the schema */
	uint64_t created_ns;
	uint64_t time_ns; /* time of the report; 0: no report yet */
	uint64_t epoch;	  /* number of changes of the settings */
	uint64_t updates; /* number of reports */
	/* the messages of settings and of measurements: offset in the record, and size, bytes */
	uint32_t settings, settings_size;
	uint32_t report, report_size;
	char name[64];
	/* settings, report */
};
static_assert(sizeof(struct tune_block_record) == 144, "numbers of tune-agents.md");

struct tune_block_schema {
	uint64_t hash;
	uint32_t len; /* bytes of the JSON text that follows */
	uint32_t nil;
};

/* A change of a setting. */
struct tune_block_change {
	uint64_t seq;
	uint64_t number;  /* from 1 */
	uint64_t real_ns; /* CLOCK_REALTIME */
	uint64_t epoch;
	uint32_t id;
	uint32_t setting;
	char why[16]; /* cause: "set", "lease over", "program" */
	char who[TUNE_WHO_MAX];
	char object[112]; /* "reactor.lcore0" */
	char name[32];	  /* name of the setting */
	char from[TUNE_VALUE_MAX], to[TUNE_VALUE_MAX];
};
static_assert(sizeof(struct tune_block_change) == 392, "numbers of tune-agents.md");

/* A lease: settings of an object that a session holds. */
struct tune_block_lease {
	uint64_t seq;
	uint32_t id; /* id of the object; 0: free entry */
	uint32_t session;
	uint64_t mask;	     /* bit i: setting i */
	uint64_t expires_ns; /* 0: the lease ends with its session */
	char who[TUNE_WHO_MAX];
};
static_assert(sizeof(struct tune_block_lease) == 96, "numbers of tune-agents.md");

#endif /* TUNE_BLOCK_H */
