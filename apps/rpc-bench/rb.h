/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_H
#define RB_H

/*
 * leat-rpc-bench: declarations that its files share.
 *
 *     main.c      the program
 *     options.c   the command line; sizes.c sizes of messages; help.c --help
 *     world.c     the processes and lcores of a run; card.c the description of this process
 *     node.c      an lcore's endpoint and context, node_session.c its sessions
 *     work.c      the tasks that call; pace.c the open loop; flush.c the end of one-way calls
 *     op*.c       kinds of calls, each with a struct rb_op; content.h contents of messages
 *     tally.c     counters
 *     link.c      control calls between processes; link_serve.c their handlers; link_ask.c their
 *                 callers; wire.c their bytes
 *     lead.c      the leading task, on the first lcore, which leads the nodes through the phases of
 *                 a run; look.c reacts to events of nodes and processes
 *     meet.c      meetings: points that all processes reach before any goes on
 *     listen.c    --listen; connect.c --connect; self.c --self; ranks.c n processes
 *     host.c      the host at which other processes reach this one
 *     drive.c     one turn of a context that has no poller
 *     report.c    tables; json.c; histogram.c; progress.c
 *
 * A run, all-to-all: each lcore (node) has one session with each other lcore, and both sides of a
 * session call.
 *
 *     process 0 (rank)                            process 1
 *     lcore 0      lcore 1                        lcore 0      lcore 1
 *     node --------- node  <------ sessions ----> node -------- node
 *     tasks          tasks                        tasks         tasks
 *     link  <------------------ control calls --> link
 *
 *     HELLO   descriptions of both processes, plan of the run       ) once per pair
 *     NODES   addresses of the nodes                                ) of processes
 *     MEET    start: all sessions are up                            ) answered when
 *     MEET    done: no lcore calls any more                         ) all processes
 *     MEET    end: tally of the process                             ) have come
 *     PING    number of calls done; finds dead processes
 *     BYE     the process leaves early, and why
 *
 * One process leads the meetings and prints the report: of two processes the one that connects, of
 * more the first that is not lost.
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <leat_dev.h>
#include <leat_ep.h>
#include <leat_reactor.h>
#include <leat_rendezvous.h>

#include "../common/cpu.h"

#define RB_NAME "leat-rpc-bench"
#define RB_US UINT64_C(1000000)

#define RB_LCORES_MAX LEAT_REACTOR_MAX
#define RB_RANKS_MAX 1024
#define RB_TASKS_MAX 1024
#define RB_BATCH_MAX 256
#define RB_SIZE_MAX (UINT32_C(16) << 20)
#define RB_SIZES_MAX 16
#define RB_TEXT 256
/* Default packet size of lib/rpc, bytes. */
#define RB_PACKET_DEFAULT 4096
#define RB_COUNT_MAX (UINT64_C(1) << 44)
/* Limit of an lcore's memory for requests and responses, bytes; the same limit is for receives. */
#define RB_MEMORY_MAX (UINT64_C(1) << 30)

/* Exit codes; 128 + N: ended by signal N. */
enum {
	RB_EXIT_OK = 0,
	RB_EXIT_FAILED = 1, /* did not run, a call failed, or a message was wrong */
	RB_EXIT_USAGE = 2,
	RB_EXIT_LOST = 3, /* ran to its end, but some ranks ended early */
};

/* Kinds of calls; the numbers are those of their handlers, and part of the wire format. */
enum rb_kind { RB_CALL, RB_ONEWAY, RB_LONG, RB_BULK, RB_KINDS };

enum rb_role { RB_NO_ROLE, RB_LISTEN, RB_CONNECT, RB_SELF, RB_RANKS };

/* Sizes of messages: each item is equally likely, and within an item each size from lo to hi. */
struct rb_sizes {
	uint32_t n; /* items */
	uint32_t max;
	struct {
		uint32_t lo, hi;
	} item[RB_SIZES_MAX];
};

/* Parameters that all processes of a run agree on. */
struct rb_plan {
	uint32_t tasks;	      /* tasks of each calling lcore */
	uint32_t batch;	      /* calls of a batch */
	uint64_t calls;	      /* of all calling lcores together; 0: duration_us ends the run */
	uint64_t duration_us; /* 0: the run ends after `calls` calls */
	uint64_t warmup;      /* calls of each calling lcore before the measurement */
	uint64_t rate_mhz;    /* open loop: calls per 1000 s, all lcores; 0: closed loop */
	uint64_t deadline_us; /* of a call; 0: lib/rpc's default, and an expired call has failed */
	uint64_t seed;
	uint64_t corrupt; /* number of the message to spoil on each lcore, from 1; 0: none */
	bool check;
	bool both;			 /* with two processes: the listening process calls, too */
	uint32_t packet, credits, slots; /* as in leat_rpc_conf; 0: lib/rpc's default */
	bool swift;			 /* datagram sessions have Swift congestion control */
	enum leat_ep_type type;
	/* share of batches of each kind, per cent */
	uint32_t percent[RB_KINDS];
	struct rb_sizes req[RB_KINDS], resp[RB_KINDS];
};

struct rb_options {
	enum rb_role role;
	const char *addr;
	const char *dev;
	const char *bind;
	bool type_given;
	struct leat_rendezvous_conf ranks;
	bool ranks_given;
	struct rb_plan plan;
	enum leat_idle_policy idle;
	uint64_t timeout_us;
	bool once;
	bool json;
	bool progress;
	const char *histogram;
	bool list_drivers, list_devices, version, help;
	const char *run_only; /* name of a given option that --listen ignores; NULL: none */
};

/* ---- main.c ---- */

extern volatile sig_atomic_t rb_signal; /* signal that asked the program to end; 0: none */

void __attribute__((format(printf, 1, 2))) rb_msg(const char *fmt, ...);

/* ---- options.c, sizes.c, help.c ---- */

/* Parse argv: the program's name, then options. @return 0; -EINVAL after printing a message */
int rb_options_parse(struct rb_options *o, int argc, char **argv);
/* Check whether arg, which begins with "--", is an option of this program, not of EAL. */
bool rb_option_known(const char *arg);

/*
 * Parse "32", "8,4K", "8-4K,1M". @return 0; -EINVAL after printing a message that names the option
 */
int rb_sizes_parse(const char *opt, const char *val, size_t len, struct rb_sizes *s);
void rb_sizes_print(const struct rb_sizes *s, char *text, size_t len);

/* Choose a size by a random number. */
static inline uint32_t
rb_size_pick(const struct rb_sizes *s, uint64_t random)
{
	uint32_t i = 0, lo, hi;

	if (likely(s->n == 1))
		lo = s->item[0].lo, hi = s->item[0].hi;
	else {
		i = (uint32_t)(((random & UINT32_MAX) * s->n) >> 32);
		lo = s->item[i].lo;
		hi = s->item[i].hi;
	}
	if (likely(lo == hi))
		return lo;
	return lo + (uint32_t)(((random >> 32) * (hi - lo + 1)) >> 32);
}

void rb_help(FILE *f);
const char *rb_kind_name(enum rb_kind kind);
const char *rb_type_name(enum leat_ep_type type);

#endif /* RB_H */
