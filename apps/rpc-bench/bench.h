/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_BENCH_H
#define RB_BENCH_H

/* The state of the program and of its run. The leading task (lead.c) leads all nodes through it. */

#include <leat_app.h>
#include <leat_task.h>
#include <leat_task_event.h>

#include "link.h"
#include "node.h"

struct leat_rpc_reactor_conf;

/* Phases of a run. */
enum rb_phase {
	RB_SETUP,
	RB_RUNNING,
	RB_GATHERING, /* no lcore calls any more; sessions may end */
	RB_LEAVING,
};

struct rb_bench {
	int argc;
	char **argv; /* the whole command line, EAL's arguments included */
	struct rb_options o;
	struct leat_dev *dev;
	const char *bind; /* host at which the nodes listen */
	char host[LEAT_ADDR_MAX];
	struct leat_reactor_conf reactor;
	bool failed; /* the run ended early */
	int verdict; /* exit code of a complete run, which its counters decide */

	/* the run */
	struct rb_plan plan;
	struct rb_world world;
	struct rb_node *nodes[RB_LCORES_MAX];
	uint16_t nb_nodes;
	enum rb_phase phase;
	bool crowded;	   /* lcores may share CPUs, see rb_world_crowded() */
	uint32_t nb_ended; /* sessions that ended although the peer's process did not */
	bool interrupted, ran;
	enum leat_idle_policy idle; /* policy during the measurement */
	char why[RB_TEXT];	    /* why the run failed; "": it has not failed */
	uint32_t small;		    /* bytes of the longest message that fits a packet */
	struct leat_rpc_stats rpc;  /* counters and limits of the first node's context */
	struct cpu_load load[2];    /* load at start and end of the measurement */
	struct rb_link link;
	struct leat_rendezvous *rendezvous;

	struct {
		uint64_t begin, at; /* cycles: start of the run, time of the next line */
		uint64_t seen;	    /* number of calls in the last line */
		uint64_t final;	    /* calls of this process when it leaves the run */
	} progress;

	/* wakes the leading task */
	struct leat_task_event news;
	int nb_news; /* atomic: 1 while a call of news_arrive() is queued at its reactor */
};

/* ---- look.c ---- */

/* Wake the leading task: a node, a session or a process has changed. On any reactor's thread. */
void rb_news(struct rb_bench *b);
/* Set b->why, unless an earlier failure has set it. @return -err; -EIO if err is not positive */
int __attribute__((format(printf, 3, 4)))
rb_fail(struct rb_bench *b, int err, const char *fmt, ...);

/* ---- lead.c ---- */

/* Open the nodes; b->plan and b->world must be known. @return 0, or negative with b->why */
int rb_lead_open(struct rb_bench *b);
/*
 * Connect the nodes, run, gather, leave; tokens and ports of all ranks must be known.
 * @return 0; -ECANCELED; other negative with b->why
 */
int rb_lead_run(struct rb_bench *b);
/* Close the nodes. @return 0; -ECANCELED; -EBUSY with b->why: some have not closed in time */
int rb_lead_close(struct rb_bench *b);
/* Create this process's result from the counters so far, in a task. @return as rb_lead_run() */
int rb_lead_gather(struct rb_bench *b);
/* Create this process's result after an interrupted run; the reactors must have ended. */
void rb_lead_gather_late(struct rb_bench *b);
/*
 * Free nodes, link and world, after the reactors have ended. @return 0; -EBUSY after printing a
 * message
 */
int rb_lead_free(struct rb_bench *b);

/* ---- card.c ---- */

/*
 * Describe this process and its lcores, in a task. @return 0; -ECANCELED; other negative with
 * b->why
 */
int rb_card_fill(struct rb_bench *b, struct rb_card *card);

/* ---- drive.c ---- */

/*
 * Process one turn of an endpoint and its context (NULL: none). Set *shut when the endpoint has
 * shut down. @return > 0: there was work
 */
int rb_drive(struct leat_ep *ep, struct leat_rpc *rpc, const struct leat_rpc_reactor_conf *on,
	     bool *shut);
/* Sleep for a moment, in a task or outside of one. */
void rb_nap(void);
/* Shut an endpoint down; free it and its context. @return 0; -EBUSY with leat_err_msg() */
int rb_shut(struct leat_ep *ep, struct leat_rpc *rpc);

/* ---- host.c ---- */

/*
 * Choose the host at which others reach this process. @return 0, or negative after printing a
 * message
 */
int rb_host_choose(const struct rb_bench *b, char *host, size_t len);
/* Tell whether this is "host:port", with a numeric port, and fits into LEAT_ADDR_MAX. */
bool rb_is_addr(const char *addr);
/* Copy the host of "host:port". */
void rb_host_of(const char *addr, char *host, size_t len);

/* ---- self.c, connect.c, listen.c, ranks.c: the leading task of each role ---- */

int rb_self(struct rb_bench *b);
/* Like rb_self(), but b->plan and b->world are already set. */
int rb_self_run(struct rb_bench *b);
int rb_connect(struct rb_bench *b);
int rb_listen(struct rb_bench *b);
int rb_ranks(struct rb_bench *b);
/* Find the ranks, on the main thread, before rb_ranks(). @return 0, or negative with b->why */
int rb_ranks_meet(struct rb_bench *b);
/* Close the rendezvous, on the main thread, after rb_ranks(). */
void rb_ranks_part(struct rb_bench *b);

/* ---- progress.c ---- */

/* Return the number of calls that the nodes of this process have completed. */
uint64_t rb_live(const struct rb_bench *b);
void rb_progress_begin(struct rb_bench *b);
/*
 * Print a line of progress, if one is due. @return when the next one is due, cycles; UINT64_MAX:
 * never
 */
uint64_t rb_progress(struct rb_bench *b);
void rb_progress_end(struct rb_bench *b);

/* ---- report.c, json.c, histogram.c ---- */

/* Print the parameters of the run, before it begins. */
void rb_report_head(const struct rb_bench *b);
/*
 * Print tables or JSON, and write the histogram file. @return 0, or negative after printing a
 * message
 */
int rb_report(struct rb_bench *b);
/* sum: NULL if there was no run */
int rb_json(const struct rb_bench *b, const struct rb_tally *sum);
int rb_histogram_write(const struct rb_bench *b);
/* Merge the latencies of a kind, of all ranks. @return NULL: no memory */
struct leat_histogram *rb_latency(const struct rb_bench *b, int kind);

#endif /* RB_BENCH_H */
