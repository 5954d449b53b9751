/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REDB_BENCH_H
#define REDB_BENCH_H

/* The state of the program and of its run. The leading task (lead.c) runs the steps (redb.h). */

#include <leat_app.h>
#include <leat_dev.h>
#include <leat_reactor.h>
#include <leat_task.h>
#include <leat_task_event.h>

#include "worker.h"

struct gw;
struct redb_server;

struct redb_bench {
	int argc;
	char **argv; /* the whole command line, EAL's arguments included */
	struct redb_options o;
	struct redb_addr addr; /* address of --connect or --listen */
	struct leat_dev *dev;  /* NULL: the address is that of a socket */
	struct leat_reactor_conf reactor;
	struct redb_values values;
	/* AUTH and SELECT, which each client sends first */
	struct redb_command greetings[2];
	uint32_t nb_greetings;

	/* --respond, --gateway */
	struct redb_server *server;
	struct gw *gateway;
	struct leat_reactor *service_reactor;
	char service_addr[REDB_TEXT]; /* address of the service, or why it could not be opened */

	struct redb_worker *workers;
	uint16_t nb_workers;
	struct redb_step step;
	struct redb_command command;
	struct redb_result *now; /* result of the test that runs; NULL: none runs */
	struct redb_result results[REDB_TESTS_MAX];
	uint32_t nb_results;
	struct leat_histogram *connect; /* times to connect, ns */
	uint64_t connect_ns;		/* duration of the connect step, of the slowest lcore */
	uint32_t nb_connected;
	uint32_t nb_lost; /* atomic: lost clients */
	bool interrupted, failed;
	char why[REDB_TEXT]; /* why the run failed; "": it has not failed */

	struct {
		uint64_t begin, at; /* cycles: start of the step, time of the next line */
	} progress;

	/* wakes the leading task */
	struct leat_task_event news;
	int nb_news;	   /* atomic: 1 while a call to the leading task's reactor is queued */
	uint32_t nb_ended; /* atomic: workers that have ended the step */
};

/* ---- lead.c ---- */

/* Prepare what all lcores share; call before the reactors start. @return 0, or < 0 with b->why */
int redb_lead_prepare(struct redb_bench *b);
/* Run all steps; in a task of the first lcore. @return 0, or negative with b->why */
int redb_lead_run(struct redb_bench *b);
/* Add up the tally of a test that was interrupted, after the reactors have ended. */
void redb_lead_gather_late(struct redb_bench *b);
void redb_lead_free(struct redb_bench *b);
/* Wake the leading task when a step has ended or a client is lost. Call on any reactor's thread. */
void redb_news(struct redb_bench *b);
/* Set b->why, unless an earlier failure has set it. @return -err; -EIO if err is not positive */
int __attribute__((format(printf, 3, 4)))
redb_fail(struct redb_bench *b, int err, const char *fmt, ...);

/* ---- service.c ---- */

/* Do the clients of this process connect to a server or gateway in this process? */
bool redb_service_wanted(const struct redb_options *o);
/* The address to listen at for clients of this process: port 0, so any free port. */
const char *redb_service_here(void);
/*
 * Listen at b->addr, in a task. Afterwards b->addr names the actual address, with its port.
 * @return 0, or negative with b->why
 */
int redb_service_open(struct redb_bench *b);
/* Free the service, after the reactors have ended. */
void redb_service_close(struct redb_bench *b);

/* ---- gateway.c ---- */

/*
 * Listen at b->addr, on the thread of b->service_reactor; fill in b->service_addr.
 * @return 0, or negative with leat_err_msg()
 */
int redb_gateway_open(struct redb_bench *b);
/* Free the gateway, after the reactors have ended. */
void redb_gateway_close(struct redb_bench *b);

/* ---- progress.c ---- */

void redb_progress_begin(struct redb_bench *b);
/* Print a line of progress, if one is due. */
void redb_progress(struct redb_bench *b);
void redb_progress_end(struct redb_bench *b);

/* ---- report.c, json.c ---- */

/* Print the parameters of the run, before its first step. */
void redb_report_head(const struct redb_bench *b);
/* Print the tables, or the JSON. @return 0, or negative after printing a message */
int redb_report(struct redb_bench *b);
int redb_json(const struct redb_bench *b);

#endif /* REDB_BENCH_H */
