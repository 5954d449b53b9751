/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_BENCH_H
#define RB_BENCH_H

/* A run, and the program around it. */

#include <leat_app.h>
#include <leat_task.h>
#include <leat_task_event.h>

#include "link.h"
#include "node.h"

struct leat_rpc_reactor_conf;

/* Where a run is. */
enum rb_phase {
	RB_SETUP,
	RB_RUNNING,
	RB_GATHERING, /* no lcore calls any more: sessions may end */
	RB_LEAVING,
};

struct rb_bench {
	int argc;
	char **argv; /* all of the command line */
	struct rb_options o;
	struct leat_dev *dev;
	const char *bind; /* host to listen at, for the nodes */
	char host[LEAT_ADDR_MAX];
	struct leat_reactor_conf reactor;
	bool failed; /* it did not come to its end */
	int verdict; /* exit code of a run that did, by what was counted */

	/* the run */
	struct rb_plan plan;
	struct rb_world world;
	struct rb_node *nodes[RB_LCORES_MAX];
	uint16_t nb_nodes;
	enum rb_phase phase;
	bool crowded;
	uint32_t nb_ended; /* sessions that ended, of ranks that did not */
	bool interrupted, ran;
	enum leat_idle_policy idle; /* that it came to */
	char why[RB_TEXT];	    /* why it failed; "" if it did not */
	uint32_t small;		    /* bytes that fit a packet of it */
	struct leat_rpc_stats rpc;  /* of the first node's context: its configuration */
	struct cpu_load load[2];    /* begin and end of the measurement */
	struct rb_link link;
	struct leat_rendezvous *rendezvous;

	struct {
		uint64_t begin, at; /* cycles: the run began, the next line is due */
		uint64_t seen;	    /* calls of the last line */
		uint64_t final;	    /* of this process, when it leaves */
	} progress;

	/* news for the leading task */
	struct leat_task_event news;
	int nb_news; /* atomic: a message is on its way to it */
};

/* ---- look.c ---- */

/* Something has changed at which the leading task should look. Any thread with a reactor. */
void rb_news(struct rb_bench *b);
/* Notes what went wrong, unless something has before. @return -err */
int __attribute__((format(printf, 3, 4)))
rb_fail(struct rb_bench *b, int err, const char *fmt, ...);

/* ---- lead.c ---- */

/* The plan and the world are known: make the nodes. @return 0, or negative with b->why */
int rb_lead_open(struct rb_bench *b);
/* Tokens and ports of the others are known: connect, run, gather, leave. */
int rb_lead_run(struct rb_bench *b);
/* Closes the nodes. @return 0, or negative: some are left */
int rb_lead_close(struct rb_bench *b);
/* This process's tally, as far as it is. Task. @return 0, or negative with b->why */
int rb_lead_gather(struct rb_bench *b);
/* When the reactors are gone: the tally of a run that did not come to its end. */
void rb_lead_gather_late(struct rb_bench *b);
/* When the reactors are gone: frees what is left. @return 0, or -EBUSY after a message */
int rb_lead_free(struct rb_bench *b);

/* ---- card.c ---- */

/* What this process is. Task. @return 0, or negative with b->why */
int rb_card_fill(struct rb_bench *b, struct rb_card *card);

/* ---- drive.c ---- */

/* One turn of an endpoint and its context (NULL: none). *shut is set when it has shut down. */
int rb_drive(struct leat_ep *ep, struct leat_rpc *rpc, const struct leat_rpc_reactor_conf *on,
	     bool *shut);
/* A moment, in a task or without. */
void rb_nap(void);
/* Shuts an endpoint down and frees it with its context. @return 0, or -EBUSY with leat_err_msg() */
int rb_shut(struct leat_ep *ep, struct leat_rpc *rpc);

/* ---- host.c ---- */

/* Where others reach this process. @return 0, or negative after a message */
int rb_host_choose(const struct rb_bench *b, char *host, size_t len);
/* "host:port" without its port. */
void rb_host_of(const char *addr, char *host, size_t len);

/* ---- self.c, connect.c, listen.c, ranks.c: the leading task of each role ---- */

int rb_self(struct rb_bench *b);
/* The same, for a world of this process that is there already. */
int rb_self_run(struct rb_bench *b);
int rb_connect(struct rb_bench *b);
int rb_listen(struct rb_bench *b);
int rb_ranks(struct rb_bench *b);
/* Before and after, on the main thread: finds the others. @return 0, or negative with b->why */
int rb_ranks_meet(struct rb_bench *b);
void rb_ranks_part(struct rb_bench *b);

/* ---- progress.c ---- */

/* Calls done by the nodes of this process. */
uint64_t rb_live(const struct rb_bench *b);
void rb_progress_begin(struct rb_bench *b);
/* A line, if one is due. @return cycles: when the next one is; UINT64_MAX: never */
uint64_t rb_progress(struct rb_bench *b);
void rb_progress_end(struct rb_bench *b);

/* ---- report.c, json.c, histogram.c ---- */

/* What is run, with what: before it begins. */
void rb_report_head(const struct rb_bench *b);
/* The tables, or the JSON; and the histogram file. @return 0, or negative after a message */
int rb_report(struct rb_bench *b);
/* sum: NULL if there was no run */
int rb_json(const struct rb_bench *b, const struct rb_tally *sum);
int rb_histogram_write(const struct rb_bench *b);
/* The latencies of a kind, of all ranks. @return NULL: no memory */
struct leat_histogram *rb_latency(const struct rb_bench *b, int kind);

#endif /* RB_BENCH_H */
