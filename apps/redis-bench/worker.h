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

/* A request that has no reply yet. */
struct redb_request {
	uint64_t base;
	uint64_t begin; /* cycles: when the client claimed it; open loop: when it was due */
};

enum redb_client_state {
	REDB_CLIENT_NEW,
	REDB_CLIENT_CONNECTING,
	REDB_CLIENT_GREETING, /* AUTH, SELECT */
	REDB_CLIENT_UP,
	REDB_CLIENT_CLOSED,
};

/*
 * Requests of a client are a ring of plan.pipeline entries:
 *
 *     | answered | sent, no answer yet | sent in part | to be sent |
 *                 ^ head                ^ head + nb_sent            ^ head + nb
 */
struct redb_client {
	struct redb_conn conn; /* first: on_ready() casts its argument */
	struct redb_worker *worker;
	enum redb_client_state state;
	const struct redb_command *command;
	struct redb_request *ring;
	uint32_t head, nb;   /* requests without a reply: the first one, their number */
	uint32_t nb_sent;    /* how many of these requests were sent in full */
	uint64_t sent_bytes; /* bytes sent of the request that is sent in part */
	uint64_t stamp;	     /* cycles: when bytes were last sent or received */
	bool busy;	     /* counted in worker.nb_busy */
	redisReader *reader;
	/* the reply that is being read; set by reply.c */
	bool reply_error, reply_wrong, reply_nil;
	uint64_t connect_begin;
	uint32_t nth_addr, greeted;
	TAILQ_ENTRY(redb_client) link; /* entry in worker.idle */
	bool linked;
};

TAILQ_HEAD(redb_clients, redb_client);

/* A step of the run, which all lcores do at the same time. */
struct redb_step {
	const struct redb_command *command; /* NULL: connect */
	uint64_t requests;		    /* of all lcores; UINT64_MAX: use duration_us */
	uint64_t duration_us;
	uint64_t rate_mhz;
	bool one_client; /* the first lcore's first client sends all requests, in order */
};

struct redb_worker {
	struct redb_bench *bench;
	uint16_t index, nb; /* index of this worker, number of workers */
	struct leat_reactor *reactor;
	struct redb_port port;
	char *out; /* REDB_GATHER_BUF bytes */
	struct redb_client *clients;
	uint32_t nb_clients;
	struct redb_clients idle; /* with --rate: clients whose pipeline has room */
	struct leat_poller *looker, *pacer;
	struct leat_histogram *connect, *hist;
	struct redb_tally tally;
	bool open, closing;
	char why[REDB_TEXT]; /* why the worker could not be opened */

	/* the step */
	const struct redb_step *step;
	bool running;		/* true until the step has ended and all replies have arrived */
	bool over;		/* no new requests are sent */
	uint32_t nb_busy;	/* clients that connect, or have requests without a reply */
	uint32_t next, nb_next; /* step connect: next client, number that may begin now */
	bool connecting;	/* redb_worker_connect_next() is running */
	uint32_t nb_lost;	/* lost clients; the first REPORT_MAX are reported */
	uint64_t goal, claimed; /* requests: of this lcore in the step; claimed by its clients */
	uint64_t next_base, stride;
	uint64_t begin, end; /* cycles; end: UINT64_MAX if the number of requests ends the step */
	/* open loop */
	double interval;  /* cycles between two requests of this lcore */
	uint64_t give_up; /* cycles: when requests that are due and not sent are given up */
	uint64_t live;	  /* atomic: requests answered, for progress */
};

/* ---- client.c ---- */

/* @return 0 or -ENOMEM */
int redb_client_init(struct redb_client *c, struct redb_worker *w);
void redb_client_free(struct redb_client *c);
/* Begin to connect. */
void redb_client_connect(struct redb_client *c);
/* Closed loop, at the beginning of a step: claim requests and send them. */
void redb_client_start(struct redb_client *c);
/* Open loop: claim the request that was due at the time `due` (cycles), and send it. */
void redb_client_take(struct redb_client *c, uint64_t due);
/* Check the client's time-out; connect it again if the last attempt found no room. */
void redb_client_look(struct redb_client *c, uint64_t now);
void redb_client_close(struct redb_client *c);

/* ---- reply.c ---- */

/* Create a reader that checks the client's replies and keeps none. @return NULL: no memory */
redisReader *redb_reader_create(struct redb_client *c);

/* ---- worker.c ---- */

/* Create the clients, on the worker's reactor. @return 0 or negative with leat_err_msg() */
int redb_worker_open(struct redb_worker *w);
void redb_worker_begin(struct redb_worker *w, const struct redb_step *step);
/* Send no more requests: the step ends when all replies have arrived. */
void redb_worker_stop(struct redb_worker *w);
void redb_worker_close(struct redb_worker *w);
/* Free the worker, after its reactor has ended. */
void redb_worker_free(struct redb_worker *w);
/* Let one more client begin to connect, if any has not begun. */
void redb_worker_connect_next(struct redb_worker *w);
/* Claim a request of the step and set its base. @return false: the step has no more requests */
bool redb_worker_claim(struct redb_worker *w, uint64_t now, uint64_t *base);
/* Note that a client has nothing more to do in this step. */
void redb_worker_client_done(struct redb_worker *w, struct redb_client *c);
/* Count a lost client, and print why it was lost unless several were printed before. */
void __attribute__((format(printf, 3, 4)))
redb_worker_lost(struct redb_worker *w, const struct redb_client *c, const char *fmt, ...);

/* ---- pace.c ---- */

/* Begin to hand out requests when they are due. @return 0 or negative with leat_err_msg() */
int redb_pace_start(struct redb_worker *w);
void redb_pace_stop(struct redb_worker *w);

/* Add the client to the idle ones: its pipeline has room. */
static inline void
redb_pace_idle(struct redb_worker *w, struct redb_client *c)
{
	if (!c->linked) {
		TAILQ_INSERT_TAIL(&w->idle, c, link);
		c->linked = true;
	}
}

#endif /* REDB_WORKER_H */
