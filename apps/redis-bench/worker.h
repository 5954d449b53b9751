/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REDB_WORKER_H
#define REDB_WORKER_H

/* An lcore's clients. */

#include <sys/queue.h>

#include <hiredis.h>

#include <leat_app.h>
#include <leat_histogram.h>
#include <leat_timer.h>

#include "command.h"
#include "tally.h"
#include "transport.h"

struct redb_bench;
struct redb_worker;

/* A request that waits for its reply. */
struct redb_request {
	uint64_t base;
	uint64_t begin; /* cycles: when it was sent, or was due */
};

enum redb_client_state {
	REDB_CLIENT_NEW,
	REDB_CLIENT_CONNECTING,
	REDB_CLIENT_GREETING, /* AUTH, SELECT */
	REDB_CLIENT_UP,
	REDB_CLIENT_CLOSED,
};

/*
 * Requests of a client, a ring of plan.pipeline:
 *
 *     | answered | sent, no answer yet | sent in part | to be sent |
 *                 ^ head                ^ sent                      ^ head + nb
 */
struct redb_client {
	struct redb_conn conn; /* first: on_ready() gets it */
	struct redb_worker *worker;
	enum redb_client_state state;
	const struct redb_command *command;
	struct redb_request *ring;
	uint32_t head, nb;   /* first without a reply; how many */
	uint32_t nb_sent;    /* of these, sent in full */
	uint64_t sent_bytes; /* of the one behind them */
	uint64_t stamp;	     /* cycles: when something last went either way */
	bool busy;	     /* counted in worker.nb_busy */
	redisReader *reader;
	/* of the reply that is being read, by reply.c */
	bool reply_error, reply_wrong, reply_nil;
	uint64_t connect_begin;
	uint32_t nth_addr, greeted;
	TAILQ_ENTRY(redb_client) link; /* in worker.idle */
	bool linked;
};

TAILQ_HEAD(redb_clients, redb_client);

/* What all lcores do at a time. */
struct redb_step {
	const struct redb_command *command; /* NULL: connect */
	uint64_t requests;		    /* of all lcores; UINT64_MAX: by time */
	uint64_t duration_us;
	uint64_t rate_mhz;
	bool one_client; /* the first lcore's first client sends all requests, in order */
	bool all_keys;	 /* request i has base i, of all lcores */
};

struct redb_worker {
	struct redb_bench *bench;
	uint16_t index, nb; /* among those that have clients */
	struct leat_reactor *reactor;
	struct redb_port port;
	char *out; /* REDB_GATHER_BUF bytes */
	struct redb_client *clients;
	uint32_t nb_clients;
	struct redb_clients idle; /* those that could take a request, with --rate */
	struct leat_poller *looker, *pacer;
	struct leat_histogram *connect, *hist;
	struct redb_tally tally;
	bool open, closing;
	char why[REDB_TEXT]; /* why it could not be opened */

	/* the step */
	const struct redb_step *step;
	bool running;		/* not over, or answers are still to come */
	bool over;		/* no more requests */
	uint32_t nb_busy;	/* clients with requests, or that connect */
	uint32_t next, nb_next; /* connect: the next client to begin; how many are to */
	bool connecting;
	uint32_t nb_told;	/* lost clients that were told of */
	uint64_t goal, claimed; /* requests of this lcore */
	uint64_t next_base, stride;
	uint64_t begin, end; /* cycles; end: when it is over, UINT64_MAX: by requests */
	/* open loop */
	double interval; /* cycles */
	uint64_t give_up;
	uint64_t live; /* requests answered, for progress; atomic */
};

/* ---- client.c ---- */

/* @return 0 or -ENOMEM */
int redb_client_init(struct redb_client *c, struct redb_worker *w);
void redb_client_free(struct redb_client *c);
/* Begins to connect. */
void redb_client_connect(struct redb_client *c);
/* A step begins: takes requests and sends them. */
void redb_client_start(struct redb_client *c);
/* Takes a request that was due at that time, and sends it. */
void redb_client_take(struct redb_client *c, uint64_t due);
/* Nothing has gone either way for too long. */
void redb_client_look(struct redb_client *c, uint64_t now);
void redb_client_close(struct redb_client *c);

/* ---- reply.c ---- */

/* A reader whose replies are looked at and not kept. @return NULL: no memory */
redisReader *redb_reader_create(struct redb_client *c);

/* ---- worker.c ---- */

/* On the worker's reactor. @return 0 or negative with leat_err_msg() */
int redb_worker_open(struct redb_worker *w);
void redb_worker_begin(struct redb_worker *w, const struct redb_step *step);
/* No more requests: the step ends with the answers. */
void redb_worker_stop(struct redb_worker *w);
void redb_worker_close(struct redb_worker *w);
/* When the reactor is gone. */
void redb_worker_free(struct redb_worker *w);
/* A client connects next, if there are some left. */
void redb_worker_connect_next(struct redb_worker *w);
/* Base of a new request; false: there are no more. */
bool redb_worker_claim(struct redb_worker *w, uint64_t now, uint64_t *base);
/* A client that was busy has no more to do in this step. */
void redb_worker_client_done(struct redb_worker *w, struct redb_client *c);
/* A client is lost; it says why. */
void __attribute__((format(printf, 3, 4)))
redb_worker_lost(struct redb_worker *w, const struct redb_client *c, const char *fmt, ...);

/* ---- pace.c ---- */

/* @return 0 or negative with leat_err_msg() */
int redb_pace_start(struct redb_worker *w);
void redb_pace_stop(struct redb_worker *w);

/* The client could take one more. */
static inline void
redb_pace_idle(struct redb_worker *w, struct redb_client *c)
{
	if (!c->linked) {
		TAILQ_INSERT_TAIL(&w->idle, c, link);
		c->linked = true;
	}
}

#endif /* REDB_WORKER_H */
