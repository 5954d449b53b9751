/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_TALLY_H
#define RB_TALLY_H

/*
 * Counters, and the first wrong message. A tally is that of an lcore, or a sum: of a process, or of
 * the run.
 */

#include <leat_rpc.h>

#include "rb.h"

struct leat_histogram;

/* Counters of failed calls, by errno; values from RB_ERRNOS - 1 on share the last counter. */
#define RB_ERRNOS 160

enum rb_wrong_what { RB_WRONG_NONE, RB_WRONG_LENGTH, RB_WRONG_BYTE, RB_WRONG_CALLER, RB_WRONGS };

/* A wrong message. */
struct rb_wrong {
	uint32_t what; /* enum rb_wrong_what */
	bool response;
	uint8_t kind;
	uint32_t from, to; /* nodes that sent and received the message */
	uint64_t id;	   /* id of the call */
	uint64_t offset, expected, got;
};

struct rb_tally {
	/* of the measured part of the run */
	uint64_t calls[RB_KINDS];     /* calls that succeeded */
	uint64_t batches[RB_KINDS];   /* batches of which all calls succeeded */
	uint64_t bytes_out, bytes_in; /* of the requests and responses of `calls` */
	uint64_t elapsed_ns;
	uint64_t packets_sent, packets_received, items_sent, credit_packets;
	uint64_t retransmissions, probes, duplicates; /* datagram endpoints */
	uint64_t pulled, pushed, by_message;	      /* bytes of --bulk that this side moved */
	uint64_t unsent, delayed, delayed_max_ns; /* open loop: batches never begun, begun late */
	/* of the whole run */
	uint64_t made;	  /* calls, warm-up included, whether they succeeded or not */
	uint64_t failed;  /* calls that failed, except those counted in cut and expired */
	uint64_t cut;	  /* failed calls to nodes whose session or process has ended */
	uint64_t expired; /* calls that reached their --deadline */
	uint64_t busy;	  /* times that a call was refused for lack of room and sent again */
	uint64_t lost;	  /* one-way requests that the peer has not handled */
	uint64_t wrong;	  /* wrong responses, and wrong requests to this lcore */
	uint64_t served;  /* requests handled */
	uint64_t late;	  /* responses to calls that had expired */
	uint64_t refused; /* requests that lib/rpc answered itself: no room, too late, closing */
	uint64_t errors[RB_ERRNOS]; /* failed calls by status */
	uint64_t preempted;
	int32_t others;	       /* CPU time used by other threads, per mille; -1: not known */
	struct rb_wrong first; /* the first wrong message */
};

/* Add t to sum. elapsed_ns, delayed_max_ns and others become the largest, first stays the first. */
void rb_tally_add(struct rb_tally *sum, const struct rb_tally *t);
uint64_t rb_tally_calls(const struct rb_tally *t);
/* Return millions of calls per second; of a sum: all calls divided by the longest time. */
double rb_tally_rate(const struct rb_tally *t);
/* Return the mean number of items (requests, responses, pieces) per packet. */
double rb_tally_coalesced(const struct rb_tally *t);
/* Count a failed call by its status, which is negative. */
void rb_tally_status(struct rb_tally *t, int status);
/* Describe a wrong message in words, its nodes as rank.lcore. */
void rb_wrong_print(const struct rb_wrong *w, char *text, size_t len);
/* Tell whether failed, lost and wrong are all 0; calls in cut and expired do not matter. */
bool rb_tally_good(const struct rb_tally *t);

/* Note the counters of a context at the start and at the end of the measurement. */
void rb_tally_begin(struct rb_tally *t, const struct leat_rpc_stats *st);
void rb_tally_end(struct rb_tally *t, const struct leat_rpc_stats *st);

/* The result of a process: a tally of each lcore; latencies of batches of all its lcores, ns. */
struct rb_result {
	uint16_t nb_lcores;
	struct rb_tally *lcore;
	struct leat_histogram *hist[RB_KINDS];
};

/* @return NULL: no memory */
struct rb_result *rb_result_create(uint16_t nb_lcores);
void rb_result_free(struct rb_result *r);

#endif /* RB_TALLY_H */
