/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PERF_H
#define PERF_H

/*
 * leat-perf: what its files share.
 *
 *     main.c      the program; sides.c which side runs on which lcore
 *     options.c   the command line; help.c what --help says; num.c lists of sizes
 *     cpu.c       what may spoil a measurement
 *     wire.c      control messages and cards, byte by byte
 *     side.c      a side: its endpoint, its events, its end; mem.c its buffers and ops; msgs.c messages
 *     chan.c      control messages over the endpoint
 *     client.c    the side that measures; connect.c how it connects; plan.c what it runs
 *     server.c    the side that serves; serve.c its loops
 *     lat.c, lat_write.c, bw.c, openloop.c   the measuring loops
 *     check.c     what the data look like, and whether they do
 *     report.c    tables and histogram files; json.c
 *     tune.c      settings and measurements of a side, perf.toml
 *     ../common/list.c   --list-drivers, --list-devices; cpu.c CPUs and load,
 *                 num.c numbers, front.c options in front of "--", cursor.h bytes of messages
 *
 * A run is one op at one size:
 *
 *     client                                server
 *     HELLO {card}                    ->    once per connection
 *                                     <-    HELLO {card}
 *
 *     RUN {op, size, window, memory}  ->    prepares buffers, posts receives
 *                                     <-    READY {memory}, or REFUSED {why}
 *     data of the warm-up             <->
 *     SYNC {messages sent}            ->    waits until it has as many, checks
 *                                     <-    RESULT {messages, errors}
 *     data of the measurement         <->
 *     SYNC                            ->
 *                                     <-    RESULT
 *     RUN ... or BYE                  ->
 *                                     <-    BYE
 *
 * Control messages are SENDs of a length that the data of the run don't have, so the receiving loop
 * tells them apart by a comparison that it makes anyhow.
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <leat_dev.h>
#include <leat_op.h>

#include "../common/cpu.h"

struct leat_histogram;

#define PERF_NAME "leat-perf"
#define PERF_US UINT64_C(1000000)

#define PERF_SIZE_MAX (UINT64_C(4) << 30)
#define PERF_WINDOW_MAX 65536
#define PERF_BURST_MAX 256
#define PERF_SIZES_MAX 4096
#define PERF_TEXT 256

/*
 * A run has the number of the op that it posts. Messages of lib/msg have that of the receive: no run is of
 * receives alone.
 */
#define PERF_OP_MSG LEAT_OP_TRECV

/* Each moves 8 bytes. */
#define PERF_OPS_ATOMIC (LEAT_OP_BIT(LEAT_OP_FETCH_ADD) | LEAT_OP_BIT(LEAT_OP_CMP_SWAP))

/* Exit codes; a signal gives 128 and its number. */
enum { PERF_EXIT_OK = 0, PERF_EXIT_FAILED = 1, PERF_EXIT_USAGE = 2 };

enum perf_test { PERF_LAT, PERF_BW, PERF_RATE, PERF_TESTS };
enum perf_role { PERF_NO_ROLE, PERF_LISTEN, PERF_CONNECT, PERF_SELF };
enum perf_idle {
	PERF_IDLE_AUTO,
	PERF_IDLE_SPIN,
	PERF_IDLE_PAUSE,
	PERF_IDLE_YIELD,
	PERF_IDLE_BLOCK,
	PERF_IDLES
};

struct perf_options {
	enum perf_role role;
	const char *addr;
	const char *dev;
	enum perf_test test;
	uint32_t ops;	    /* mask of LEAT_OP_BIT */
	uint32_t ops_named; /* of these by name: the others, from "all", may be left out */
	uint64_t *sizes;
	uint32_t nb_sizes;    /* 0: the default of the test */
	uint64_t iterations;  /* 0: by duration, or the default of the size */
	uint64_t duration_us; /* 0: by iterations */
	int64_t warmup;	      /* -1: default */
	uint32_t window;      /* 0: default */
	uint32_t burst;	      /* 0: default */
	double rate;	      /* messages/s, 0: closed loop */
	bool check;
	uint64_t corrupt; /* 0, or which message to spoil, from 1 */
	enum perf_idle idle;
	uint64_t timeout_us;
	bool once;
	bool tags; /* with the ops that the library does in software */
	uint32_t mbufs;
	uint32_t mbuf_size;
	bool eal_memory;
	bool json;
	bool progress;
	const char *histogram;
	bool list_drivers;
	bool list_devices;
	bool version, help;
	const char *client_only; /* name of an option given that has no meaning for --listen */
};

/* One line of the table. */
struct perf_row {
	enum perf_test test;
	unsigned int op;
	uint64_t size;
	uint64_t iterations; /* measured */
	uint32_t window, burst;
	bool round_trip; /* whole round trips, not halves */
	bool interrupted;
	uint64_t errors; /* of --check, both sides */
	uint64_t elapsed_ns;
	struct leat_histogram *hist; /* ns; NULL for bw and rate */
	/* open loop */
	double rate;	 /* asked for */
	uint64_t unsent; /* due, but never sent */
	uint64_t late;	 /* sent more than one interval late */
	uint64_t late_max_ns;
};

/* Where a side runs and what it runs on; the client shows the server's too. */
struct perf_card {
	struct cpu_where at;
	uint64_t max_msg;
	uint32_t ops;
	char dev[32], driver[32], provider[40], interface[40];
};

/* ---- main.c ---- */

extern volatile sig_atomic_t perf_signal; /* 0, or the one that asks for an end */

void __attribute__((format(printf, 1, 2))) perf_msg(const char *fmt, ...);

/* ---- options.c, num.c, help.c ---- */

/* @return 0, or -EINVAL after a message. argv[0] is the program's name. */
int perf_options_parse(struct perf_options *o, int argc, char **argv);
void perf_options_free(struct perf_options *o);
/* Is it one of ours, or an EAL option? arg begins with "--". */
bool perf_option_known(const char *arg);

/* "8,4K,1-1M": appends to a list. @return 0, or negative after a message that names the option */
int perf_parse_sizes(const char *s, uint64_t **sizes, uint32_t *n);

void perf_help(FILE *f);
/* Two-sided: the other side's receive takes it. */
static inline bool
perf_is_message(unsigned int op)
{
	return op == LEAT_OP_SEND || op == LEAT_OP_TSEND || op == PERF_OP_MSG;
}

/* Does a device that offers ops have all that op needs? */
static inline bool
perf_op_offered(uint32_t ops, unsigned int op)
{
	uint32_t need = LEAT_OP_BIT(op);

	if (op == LEAT_OP_TSEND || op == PERF_OP_MSG)
		need = LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV);
	return (ops & need) == need;
}

/* "send", "tagged", ... as on the command line. */
const char *perf_op_name(unsigned int op);
int perf_op_by_name(const char *name, size_t len);
const char *perf_test_name(enum perf_test test);
const char *perf_idle_name(enum perf_idle idle);

/* ---- cpu.c ---- */

/* Readings at one moment. */
struct perf_cpu_start {
	struct cpu_load load;
	struct cpu_used used;
};

void perf_cpu_start(struct perf_cpu_start *start);
/* Says on stderr what may spoil the numbers. since: a reading at the start of the program. */
void perf_cpu_warn(const struct perf_card *mine, const struct perf_card *other,
		   const struct perf_cpu_start *since);

/* ---- report.c, json.c ---- */

struct perf_report {
	const struct perf_options *o;
	struct perf_card mine, other;
	enum perf_idle idle;
	char peer_addr[128];
	FILE *histogram;
	struct json_object *json, *results;
	unsigned int head_op;
	bool head_done; /* the table's head was printed for head_op */
};

/* How it ended. */
struct perf_end {
	const char *why; /* NULL: well */
	bool interrupted;
	uint64_t errors; /* of --check */
	double others;	 /* see cpu_others() */
	uint64_t preempted;
};

int perf_report_open(struct perf_report *r, const struct perf_options *o);
void perf_report_head(struct perf_report *r);
int perf_report_row(struct perf_report *r, const struct perf_row *row);
int perf_report_close(struct perf_report *r, const struct perf_end *end);

int perf_json_open(struct perf_report *r);
void perf_json_head(struct perf_report *r);
int perf_json_row(struct perf_report *r, const struct perf_row *row);
int perf_json_close(struct perf_report *r, const struct perf_end *end);

/* ---- client.c, server.c ---- */

/* Measures against a server at addr. @return exit code */
int perf_client(const struct perf_options *o, struct leat_dev *dev, const char *addr,
		const struct perf_cpu_start *start);

/* How a server in the same process and its client find each other. */
struct perf_self {
	int state;		    /* atomic: 0 not yet, 1 listening at addr, 2 ended */
	volatile sig_atomic_t quit; /* the client is through */
	char addr[128];
};

/* Serves clients. self: NULL, or in the client's process. @return exit code */
int perf_server(const struct perf_options *o, struct leat_dev *dev, struct perf_self *self);

#endif /* PERF_H */
