/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REDB_H
#define REDB_H

/*
 * leat-redis-bench: what its files share.
 *
 *     main.c       the program
 *     options.c    the command line; address.c its addresses; secret.c --auth-file; help.c
 *     value.h      contents of values, by key
 *     command.c    a command as bytes, with places for keys and values; gather.h puts them together
 *     transport.h  a connection: socket.c over TCP and UNIX sockets, stream.c over leat's streams
 *     client.c     a client: connects, sends, takes replies; reply.c looks at these
 *     worker.c     an lcore's clients, and what they do in a step; pace.c when, in an open loop
 *     lead.c       the task that leads all lcores through the steps
 *     tally.c      what was counted
 *     report.c     tables; json.c; progress.c
 *     service.c    what runs beside the clients: serve.c --respond, a trivial server; gateway.c
 *                  --gateway, leat-redis-gateway's engine
 *
 * A run is a row of steps, which all lcores begin and end together:
 *
 *     lcore 0            lcore 1
 *     connect            connect          each client; AUTH and SELECT
 *     fill               fill             keys for GET, list for LRANGE
 *     load               load             the measurement: a step for each test
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <leat_common.h>
#include <leat_idle.h>

#define REDB_NAME "leat-redis-bench"
#define REDB_US UINT64_C(1000000)

#define REDB_TEXT 256
#define REDB_SECRET_MAX 1024
#define REDB_CLIENTS_MAX 100000
#define REDB_PIPELINE_MAX 65536
#define REDB_DATA_MAX (UINT64_C(512) << 20) /* a server's proto-max-bulk-len */
#define REDB_KEYS_MAX UINT64_C(1000000000000)
#define REDB_RANGE_MAX 1000000
#define REDB_COUNT_MAX (UINT64_C(1) << 44)
#define REDB_MSET_KEYS 10
#define REDB_TESTS_MAX 16

/* Exit codes; a signal gives 128 and its number. */
enum {
	REDB_EXIT_OK = 0,
	REDB_EXIT_FAILED = 1, /* did not run, a client was lost, an error reply, a wrong value */
	REDB_EXIT_USAGE = 2,
};

/* Tests. */
enum redb_kind { REDB_PING, REDB_SET, REDB_GET, REDB_MSET, REDB_LRANGE, REDB_COMMAND, REDB_KINDS };

enum redb_role {
	REDB_LOAD,  /* clients */
	REDB_SERVE, /* --respond --listen */
};

/* What is run. */
struct redb_plan {
	enum redb_kind tests[REDB_TESTS_MAX];
	uint32_t nb_tests;
	int argc; /* the command of REDB_COMMAND */
	char **argv;
	uint32_t clients, pipeline;
	uint64_t data; /* bytes of a value */
	uint64_t keys;
	uint32_t range;	      /* elements of LRANGE's list */
	uint64_t requests;    /* of each test, of all lcores; 0: by time */
	uint64_t duration_us; /* 0: by requests */
	uint64_t rate_mhz;    /* open loop: requests per 1000 s, of all lcores; 0: closed */
	uint64_t seed;
	bool verify;
	bool fill;
};

struct redb_options {
	enum redb_role role;
	const char *connect, *listen, *gateway;
	bool respond;
	const char *dev;
	uint64_t window; /* receive window of a stream; 0: lib/stream's */
	struct redb_plan plan;
	const char *user, *auth_file;
	uint32_t db;
	bool db_given;
	enum leat_idle_policy idle;
	uint64_t timeout_us;
	bool json;
	bool progress;
	bool list_drivers, list_devices, version, help;
};

/* ---- main.c ---- */

extern volatile sig_atomic_t redb_signal; /* 0, or the one that asks for an end */

void __attribute__((format(printf, 1, 2))) redb_msg(const char *fmt, ...);

/* ---- options.c, secret.c, help.c ---- */

/* @return 0, or -EINVAL after a message. argv[0] is the program's name. */
int redb_options_parse(struct redb_options *o, int argc, char **argv);
/* Is it one of ours, or an EAL option? arg begins with "--". */
bool redb_option_known(const char *arg);

/*
 * The first line of a file, or of stdin ("-"): a password, of at least one byte.
 * @return 0, or negative after a message
 */
int redb_secret_read(const char *path, char *secret, size_t len);

void redb_help(FILE *f);
/* "set" */
const char *redb_kind_name(enum redb_kind kind);
/* -ENOENT: none has that name */
int redb_kind_parse(const char *name, size_t len, enum redb_kind *kind);

#endif /* REDB_H */
