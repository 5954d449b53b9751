/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PERF_H
#define PERF_H

/*
 * leat-perf: declarations that its files share.
 *
 *     main.c      the program; sides.c which side runs on which lcore
 *     options.c   the command line; help.c the text of --help; num.c lists of sizes
 *     cpu.c       warnings about conditions that may spoil a measurement
 *     wire.c      encoding of control messages and cards
 *     side.c      a side: its endpoint, events and close
 *     mem.c       the buffers and ops of a side; msgs.c runs of lib/msg messages
 *     chan.c      receives, and control messages over the endpoint
 *     client.c    the side that measures; connect.c how it connects; plan.c choice of its runs
 *     server.c    the side that serves; serve.c its loops
 *     lat.c, lat_write.c, bw.c, openloop.c   the measuring loops
 *     check.c     the patterns of --check; rma.c which pattern belongs where
 *     report.c    tables and histogram files; json.c --json; plot*.c --plot
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
 *     SYNC {messages sent}            ->    waits until that many arrived, checks
 *                                     <-    RESULT {messages, errors}
 *     data of the measurement         <->
 *     SYNC                            ->
 *                                     <-    RESULT
 *     RUN ... or BYE                  ->
 *                                     <-    BYE
 *
 * Control messages are SENDs of a length that no data message of the run has. So the receiving loop
 * tells them from data by their length, which it compares in any case.
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
struct perf_plot;
struct plot_run;

#define PERF_NAME "leat-perf"
#define PERF_US UINT64_C(1000000)

#define PERF_SIZE_MAX (UINT64_C(4) << 30)
#define PERF_WINDOW_MAX 65536
#define PERF_BURST_MAX 256
#define PERF_SIZES_MAX 4096
#define PERF_TEXT 256

/*
 * A run is named by the type of the op that it posts. Runs of lib/msg messages have no type of
 * their own and use LEAT_OP_TRECV, which never names a run of ops.
 */
#define PERF_OP_MSG LEAT_OP_TRECV

/* The atomics: each op moves 8 bytes. */
#define PERF_OPS_ATOMIC (LEAT_OP_BIT(LEAT_OP_FETCH_ADD) | LEAT_OP_BIT(LEAT_OP_CMP_SWAP))

/* Exit codes; 128 + N: ended by signal N. */
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
	uint32_t ops_named; /* ops given by name, not by "all": the device must offer them */
	uint64_t *sizes;
	uint32_t nb_sizes;    /* 0: the default sizes of the test */
	uint64_t iterations;  /* messages per size; 0: duration_us, or the size's default */
	uint64_t duration_us; /* per size; 0: use iterations */
	int64_t warmup;	      /* messages; -1: default */
	uint32_t window;      /* 0: default */
	uint32_t burst;	      /* 0: default */
	double rate;	      /* messages/s, 0: closed loop */
	bool check;
	uint64_t corrupt; /* number of the message to spoil in each run, from 1; 0: none */
	enum perf_idle idle;
	uint64_t timeout_us;
	bool once;
	bool tags; /* use the ops that the library implements in software, too */
	uint32_t mbufs;
	uint32_t mbuf_size;
	bool eal_memory;
	bool json;
	bool progress;
	const char *histogram;
	const char *plot, *beside; /* beside: an earlier run's file */
	struct plot_run *earlier;  /* the run that beside holds; NULL: none */
	bool list_drivers;
	bool list_devices;
	bool version, help;
	const char *client_only; /* name of a given option that --listen ignores; NULL: none */
};

/* The result of a run: one line of the table. */
struct perf_row {
	enum perf_test test;
	unsigned int op;
	uint64_t size;
	uint64_t iterations; /* messages measured */
	uint32_t window, burst;
	bool round_trip; /* latencies in hist are whole round trips, not halves */
	bool interrupted;
	uint64_t errors; /* found by --check on both sides */
	uint64_t elapsed_ns;
	struct leat_histogram *hist; /* latencies, ns; NULL for bw and rate */
	/* open loop */
	double rate;	 /* messages/s asked for */
	uint64_t unsent; /* messages that were due, but never sent */
	uint64_t late;	 /* messages sent more than one interval late */
	uint64_t late_max_ns;
};

/* A side's CPUs and device, exchanged in HELLO: the client reports both sides. */
struct perf_card {
	struct cpu_where at;
	uint64_t max_msg;
	uint32_t ops;
	char dev[32], driver[32], provider[40], interface[40];
};

/* ---- main.c ---- */

extern volatile sig_atomic_t perf_signal; /* the signal that asks the program to end, or 0 */

void __attribute__((format(printf, 1, 2))) perf_msg(const char *fmt, ...);

/* ---- options.c, num.c, help.c ---- */

/*
 * Parse the options after "--"; argv[0]: the program. @return 0, or -EINVAL after printing a
 * message
 */
int perf_options_parse(struct perf_options *o, int argc, char **argv);
void perf_options_free(struct perf_options *o);
/* Is arg, which begins with "--", an option of leat-perf and not of EAL? */
bool perf_option_known(const char *arg);

/*
 * Append the sizes of a list such as "8,4K,1-1M", in which a range doubles from size to size. The
 * caller frees *sizes. @return 0, or a negative errno after printing a message
 */
int perf_parse_sizes(const char *s, uint64_t **sizes, uint32_t *n);

void perf_help(FILE *f);
/* Is the op two-sided, so that it completes a receive of the other side? */
static inline bool
perf_is_message(unsigned int op)
{
	return op == LEAT_OP_SEND || op == LEAT_OP_TSEND || op == PERF_OP_MSG;
}

/* Can a run of op use a device that offers the op types in ops? */
static inline bool
perf_op_offered(uint32_t ops, unsigned int op)
{
	uint32_t need = LEAT_OP_BIT(op);

	if (op == LEAT_OP_TSEND || op == PERF_OP_MSG)
		need = LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV);
	return (ops & need) == need;
}

/* Names as on the command line: "send", "tagged", ... */
const char *perf_op_name(unsigned int op);
int perf_op_by_name(const char *name, size_t len);
const char *perf_test_name(enum perf_test test);
const char *perf_idle_name(enum perf_idle idle);

/* ---- cpu.c ---- */

/* CPU load and CPU time, read at the same time. */
struct perf_cpu_start {
	struct cpu_load load;
	struct cpu_used used;
};

void perf_cpu_start(struct perf_cpu_start *start);
/* Warn on stderr of conditions that may spoil the numbers. since: readings at program start. */
void perf_cpu_warn(const struct perf_card *mine, const struct perf_card *other,
		   const struct perf_cpu_start *since);

/* ---- report.c, json.c ---- */

struct perf_report {
	const struct perf_options *o;
	struct perf_card mine, other;
	enum perf_idle idle;
	char peer_addr[128];
	FILE *histogram;
	struct perf_plot *plot;
	struct json_object *json, *results;
	unsigned int head_op;
	bool head_done; /* the column heads were printed, for head_op */
};

/* How the program ended. */
struct perf_end {
	const char *why; /* why the program failed; NULL: it did not fail */
	bool interrupted;
	uint64_t errors;    /* found by --check */
	double others;	    /* share of the client's CPU that other programs used: cpu_others() */
	uint64_t preempted; /* involuntary context switches of the client's thread */
};

int perf_report_open(struct perf_report *r, const struct perf_options *o);
void perf_report_head(struct perf_report *r);
int perf_report_row(struct perf_report *r, const struct perf_row *row);
int perf_report_close(struct perf_report *r, const struct perf_end *end);

/*
 * Check --plot, and read the file of --beside into o->earlier, which perf_plot_check_free() frees.
 * @return 0, or a negative errno after printing a message
 */
int perf_plot_check(struct perf_options *o);
void perf_plot_check_free(struct perf_options *o);
/* @return NULL after printing a message */
struct perf_plot *perf_plot_open(const struct perf_options *o);
int perf_plot_row(struct perf_plot *p, const struct perf_row *row);
/* Write the picture and free p. @return 0, or a negative errno after printing a message */
int perf_plot_close(struct perf_plot *p, const struct perf_card *here);

int perf_json_open(struct perf_report *r);
void perf_json_head(struct perf_report *r);
int perf_json_row(struct perf_report *r, const struct perf_row *row);
int perf_json_close(struct perf_report *r, const struct perf_end *end);

/* ---- client.c, server.c ---- */

/* Measure against the server at addr. @return the exit code */
int perf_client(const struct perf_options *o, struct leat_dev *dev, const char *addr,
		const struct perf_cpu_start *start);

/* --self: how server and client find each other in one process. */
struct perf_self {
	int state;		    /* atomic: 0 server starts, 1 it listens at addr, 2 it ended */
	volatile sig_atomic_t quit; /* the client has finished: the server is to end */
	char addr[128];
};

/* Serve clients. self: not NULL if the client is in this process. @return the exit code */
int perf_server(const struct perf_options *o, struct leat_dev *dev, struct perf_self *self);

#endif /* PERF_H */
