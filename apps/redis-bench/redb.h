/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REDB_H
#define REDB_H

/*
 * leat-redis-bench: declarations that its files share.
 *
 *     main.c       the program
 *     options.c    the command line; address.c its addresses; secret.c --auth-file; help.c
 *     value.h      contents of values, by key
 *     command.c    a command as bytes, with places for keys and values; gather.h fills an iovec
 *     transport.h  a connection: socket.c over TCP and UNIX sockets, stream.c over leat's streams
 *     client.c     a client: connects, sends, receives replies; reply.c checks them
 *     worker.c     an lcore's clients, and its share of a step; pace.c: the open loop
 *     lead.c       the task that leads all lcores through the steps
 *     tally.c      counters of a step
 *     report.c     tables; json.c; progress.c
 *     service.c    a server in this process: serve.c for --respond, a trivial one; gateway.c for
 *                  --gateway, leat-redis-gateway's engine
 *
 * A run is a sequence of steps, which all lcores begin and end together:
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
#define REDB_DATA_MAX (UINT64_C(512) << 20) /* default of a server's limit proto-max-bulk-len */
#define REDB_KEYS_MAX UINT64_C(1000000000000)
#define REDB_RANGE_MAX 1000000
#define REDB_COUNT_MAX (UINT64_C(1) << 44)
#define REDB_MSET_KEYS 10
#define REDB_TESTS_MAX 16

/* Exit codes; 128 + N: ended by signal N. */
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

/* The tests of a run and their parameters. */
struct redb_plan {
	enum redb_kind tests[REDB_TESTS_MAX];
	uint32_t nb_tests;
	int argc; /* the command of REDB_COMMAND */
	char **argv;
	uint32_t clients, pipeline;
	uint64_t data; /* bytes of a value */
	uint64_t keys;
	uint32_t range;	      /* elements of LRANGE's list */
	uint64_t requests;    /* per test, all lcores together; 0: duration_us ends a test */
	uint64_t duration_us; /* length of each test; 0: requests ends a test */
	uint64_t rate_mhz;    /* open loop: requests per 1000 s, all lcores; 0: closed loop */
	uint64_t seed;
	bool verify;
	bool fill;
};

struct redb_options {
	enum redb_role role;
	const char *connect, *listen, *gateway;
	bool respond;
	const char *dev;
	uint64_t window; /* receive window of a stream, bytes; 0: lib/stream's default */
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

extern volatile sig_atomic_t redb_signal; /* signal that asked the program to end; 0: none */

void __attribute__((format(printf, 1, 2))) redb_msg(const char *fmt, ...);

/* ---- options.c, secret.c, help.c ---- */

/* Parse argv: the program's name, then options. @return 0; -EINVAL after printing a message */
int redb_options_parse(struct redb_options *o, int argc, char **argv);
/* Is arg, which begins with "--", an option of this program? Else it is one of EAL's. */
bool redb_option_known(const char *arg);

/*
 * Read a password of at least one byte: the first line of a file, or of stdin if path is "-".
 * @return 0; a negative errno after printing a message
 */
int redb_secret_read(const char *path, char *secret, size_t len);

void redb_help(FILE *f);
/* Return the name of a test as in --test, such as "set". */
const char *redb_kind_name(enum redb_kind kind);
/* Find a test by its name. @return 0; -ENOENT: no test has this name */
int redb_kind_parse(const char *name, size_t len, enum redb_kind *kind);

#endif /* REDB_H */
