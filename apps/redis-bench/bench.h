/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REDB_BENCH_H
#define REDB_BENCH_H

/* A run, and the program around it. */

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
	char **argv; /* all of the command line */
	struct redb_options o;
	struct redb_addr addr; /* of --connect, --listen */
	struct leat_dev *dev;  /* NULL: sockets only */
	struct leat_reactor_conf reactor;
	struct redb_values values;
	/* what clients send when they are connected */
	struct redb_command greetings[2];
	uint32_t nb_greetings;

	/* --respond, --gateway */
	struct redb_server *server;
	struct gw *gateway;
	struct leat_reactor *service_reactor;
	char service_addr[REDB_TEXT]; /* where it listens */

	struct redb_worker *workers;
	uint16_t nb_workers;
	struct redb_step step;
	struct redb_command command;
	struct redb_result *now; /* whose step is run, NULL: none */
	struct redb_result results[REDB_TESTS_MAX];
	uint32_t nb_results;
	struct leat_histogram *connect; /* ns */
	uint64_t connect_ns;		/* from the first to the last */
	uint32_t nb_connected;
	uint32_t nb_lost; /* atomic: clients */
	bool interrupted, failed;
	char why[REDB_TEXT]; /* why it failed; "" if it did not */

	struct {
		uint64_t begin, at; /* cycles: the step began, the next line is due */
	} progress;

	/* news for the leading task */
	struct leat_task_event news;
	int nb_news;	   /* atomic: a message is on its way to it */
	uint32_t nb_ended; /* atomic: workers whose step is over */
};

/* ---- lead.c ---- */

/* Before the reactors: what all lcores share. @return 0, or negative with b->why */
int redb_lead_prepare(struct redb_bench *b);
/* The leading task. @return 0, or negative with b->why */
int redb_lead_run(struct redb_bench *b);
/* When the reactors are gone: the tally of a test that did not come to its end. */
void redb_lead_gather_late(struct redb_bench *b);
void redb_lead_free(struct redb_bench *b);
/* Something has changed at which the leading task should look. Any thread with a reactor. */
void redb_news(struct redb_bench *b);
/* Notes what went wrong, unless something has before. @return -err */
int __attribute__((format(printf, 3, 4)))
redb_fail(struct redb_bench *b, int err, const char *fmt, ...);

/* ---- service.c ---- */

/* Do clients connect to what runs in this process? */
bool redb_service_wanted(const struct redb_options *o);
/* The address of it, before it is known where it listens. */
const char *redb_service_here(void);
/*
 * Task. It listens at b->addr, which is what it came to afterwards.
 * @return 0, or negative with b->why
 */
int redb_service_open(struct redb_bench *b);
/* When the reactors are gone. */
void redb_service_close(struct redb_bench *b);

/* ---- gateway.c ---- */

/*
 * On its reactor's thread: at b->addr; fills in b->service_addr.
 * @return 0, or negative with leat_err_msg()
 */
int redb_gateway_open(struct redb_bench *b);
/* When the reactors are gone. */
void redb_gateway_close(struct redb_bench *b);

/* ---- progress.c ---- */

void redb_progress_begin(struct redb_bench *b);
/* A line, if one is due. */
void redb_progress(struct redb_bench *b);
void redb_progress_end(struct redb_bench *b);

/* ---- report.c, json.c ---- */

/* What is run, with what: before it begins. */
void redb_report_head(const struct redb_bench *b);
/* The tables, or the JSON. @return 0, or negative after a message */
int redb_report(struct redb_bench *b);
int redb_json(const struct redb_bench *b);

#endif /* REDB_BENCH_H */
