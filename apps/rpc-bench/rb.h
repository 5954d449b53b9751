/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_H
#define RB_H

/*
 * leat-rpc-bench: what its files share.
 *
 *     main.c      the program
 *     options.c   the command line; sizes.c sizes of messages; help.c what --help says
 *     world.c     who takes part; card.c what this process is
 *     node.c      an lcore's endpoint and context, node_session.c its sessions
 *     work.c      the tasks that call; pace.c when, in an open loop; flush.c ends one-way calls
 *     op*.c       kinds of calls, a row of a table each; content.h what is in them
 *     tally.c     what was counted
 *     link.c      control calls between processes, link_*.c each kind of them; wire.c their bytes
 *     lead.c      the first lcore's task, which leads a run through its phases; look.c what it hears of
 *     meet.c      points that all processes reach before any goes on
 *     listen.c    --listen; connect.c --connect; self.c --self; ranks.c n processes
 *     host.c      where this process is reached
 *     drive.c     a context without a poller
 *     report.c    tables; json.c; histogram.c; progress.c
 *
 * A run, all-to-all: each lcore (node) has one session with each other one, and both sides of it
 * call.
 *
 *     process 0 (rank)                            process 1
 *     lcore 0      lcore 1                        lcore 0      lcore 1
 *     node --------- node  <------ sessions ----> node -------- node
 *     tasks          tasks                        tasks         tasks
 *     link  <------------------ control calls --> link
 *
 *     HELLO   who are you, and what do we run                       ) once per pair
 *     NODES   where are your nodes                                  ) of processes
 *     MEET    start: all sessions are up                            )
 *     MEET    done: nobody calls any more                           ) answered when all have come
 *     MEET    end: this process's tally                             )
 *     PING    are you there, and how far
 *     BYE     leaving early, and why
 *
 * The process that leads the meetings also prints the report: the one that connects with two, the
 * first that is alive with more.
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
/* As lib/rpc. */
#define RB_PACKET_DEFAULT 4096
#define RB_COUNT_MAX (UINT64_C(1) << 44)
/* Of an lcore's requests and responses; and of its receives. */
#define RB_MEMORY_MAX (UINT64_C(1) << 30)

/* Exit codes; a signal gives 128 and its number. */
enum {
	RB_EXIT_OK = 0,
	RB_EXIT_FAILED = 1, /* did not run, a call failed, or a message was wrong */
	RB_EXIT_USAGE = 2,
	RB_EXIT_LOST = 3, /* ran to its end, but without ranks that ended early */
};

/* Kinds of calls; the numbers are those of their handlers, and travel. */
enum rb_kind { RB_CALL, RB_ONEWAY, RB_LONG, RB_BULK, RB_KINDS };

enum rb_role { RB_NO_ROLE, RB_LISTEN, RB_CONNECT, RB_SELF, RB_RANKS };

/* Sizes of messages: each item is as likely as the others, and in it each size. */
struct rb_sizes {
	uint32_t n; /* items */
	uint32_t max;
	struct {
		uint32_t lo, hi;
	} item[RB_SIZES_MAX];
};

/* What all processes of a run agree on. */
struct rb_plan {
	uint32_t tasks; /* of each calling lcore */
	uint32_t batch;
	uint64_t calls;	      /* of all calling lcores; 0: by time */
	uint64_t duration_us; /* 0: by calls */
	uint64_t warmup;      /* of each calling lcore */
	uint64_t rate_mhz;    /* open loop: calls per 1000 s, of all; 0: closed */
	uint64_t deadline_us; /* of each call; 0: the library's, which no call is to reach */
	uint64_t seed;
	uint64_t corrupt; /* 0, or which message of each lcore to spoil, from 1 */
	bool check;
	bool both;			 /* with two processes: the listening one calls, too */
	uint32_t packet, credits, slots; /* of leat_rpc_conf; 0: the library's */
	bool swift;			 /* congestion control of datagram sessions */
	enum leat_ep_type type;
	/* kinds: so many of a hundred batches */
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
	const char *run_only; /* name of an option given that has no meaning for --listen */
};

/* ---- main.c ---- */

extern volatile sig_atomic_t rb_signal; /* 0, or the one that asks for an end */

void __attribute__((format(printf, 1, 2))) rb_msg(const char *fmt, ...);

/* ---- options.c, sizes.c, help.c ---- */

/* @return 0, or -EINVAL after a message. argv[0] is the program's name. */
int rb_options_parse(struct rb_options *o, int argc, char **argv);
/* Is it one of ours, or an EAL option? arg begins with "--". */
bool rb_option_known(const char *arg);

/* "32", "8,4K", "8-4K,1M": @return 0, or -EINVAL after a message that names the option */
int rb_sizes_parse(const char *opt, const char *val, size_t len, struct rb_sizes *s);
void rb_sizes_print(const struct rb_sizes *s, char *text, size_t len);

/* One of them, by a random number. */
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
