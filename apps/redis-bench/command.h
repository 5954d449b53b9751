/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REDB_COMMAND_H
#define REDB_COMMAND_H

/*
 * A command as bytes, formatted once. Requests differ only in their keys, of 12 digits, and in
 * their values:
 *
 *     *3\r\n$3\r\nSET\r\n$17\r\nleat:|000000000042|\r\n$64\r\n|value of 42|\r\n
 *     text                           |key 0       |text      |value 0    |text
 *
 * A request is a number, its base, from which its keys and values are computed. All requests of a
 * command have the same length.
 */

#include <hiredis.h>

#include "gather.h"
#include "redb.h"
#include "value.h"

#define REDB_KEY_PREFIX "leat:"
#define REDB_KEY_DIGITS 12
#define REDB_LIST "leat:list"
/* Marks: in the arguments of a user's command they stand for the request's keys and values. */
#define REDB_KEY_MARK "__rand_int__"
#define REDB_VALUE_MARK "__data__"

/* Longest value, bytes, for which a reader keeps its buffer from one value to the next. */
#define REDB_READER_KEEP (UINT64_C(64) << 20)

/* The reply that a request expects. */
enum redb_expect {
	REDB_EXPECT_ANY, /* any reply but an error */
	REDB_EXPECT_OK,
	REDB_EXPECT_PONG,
	REDB_EXPECT_INTEGER,
	REDB_EXPECT_VALUE, /* the value of the request's first key, or nil */
	REDB_EXPECT_LIST,  /* the values of keys 0 to range - 1 */
};

enum redb_piece_type { REDB_PIECE_TEXT, REDB_PIECE_KEY, REDB_PIECE_VALUE };

struct redb_piece {
	enum redb_piece_type type;
	uint32_t slot;	  /* of a KEY or VALUE: index of the key in the request */
	const char *text; /* of a TEXT: pointer into redb_command.text */
	size_t len;
};

struct redb_command {
	const char *name; /* name for messages: "SET" */
	char *text;
	struct redb_piece *pieces;
	uint32_t nb_pieces, nb_slots;
	uint64_t bytes; /* length of a request */
	uint64_t keys;	/* number of keys: they are 0 to keys - 1 */
	bool in_order;	/* key i of a request: true: base + i; false: a hash of base + i */
	enum redb_expect expect;
};

static inline uint64_t
redb_command_key(const struct redb_command *c, uint64_t base, uint32_t slot)
{
	return c->in_order ? base + slot : redb_below(redb_mix(base + slot), c->keys);
}

/*
 * Create the command of argv, in which marks stand for keys and for values of value_size bytes. A
 * value is that of the key before it. If keys is 0, marks are left as they are.
 * @return 0; -ENOMEM; -E2BIG: longer than hiredis can format
 */
int redb_command_create(struct redb_command *c, int argc, const char *const *argv,
			uint64_t value_size, uint64_t keys);
void redb_command_free(struct redb_command *c);

/* Add the request that `base` identifies to g. */
void redb_command_put(const struct redb_command *c, const struct redb_values *v, uint64_t base,
		      struct redb_gather *g);

/*
 * Let a reader keep a buffer with room for one value. By default hiredis' reader frees an empty
 * buffer that is longer than maxbuf, and grows it again by 1 MiB at a time.
 */
static inline void
redb_reader_keep(redisReader *r, uint64_t value_size)
{
	if (value_size > REDIS_READER_MAX_BUF && value_size <= REDB_READER_KEEP)
		r->maxbuf = value_size + (2u << 20);
}

/* ---- commands of tests ---- */

/* Create the command of a test. @return as redb_command_create() */
int redb_command_of(struct redb_command *c, enum redb_kind kind, const struct redb_plan *plan);
/* Create the command that deletes the list of an earlier run. @return as redb_command_create() */
int redb_command_clear(struct redb_command *c);
/*
 * Create the command that stores the data that a test reads. *requests: number of requests that
 * store all of them. @return as redb_command_create(); -ENOENT: the test needs no data
 */
int redb_command_fill(struct redb_command *c, enum redb_kind kind, const struct redb_plan *plan,
		      uint64_t *requests);

#endif /* REDB_COMMAND_H */
