/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RB_TALLY_H
#define RB_TALLY_H

/*
 * What was counted, and what was found wrong. Of lcores; sums of them are of processes and of the
 * run.
 */

#include <leat_rpc.h>

#include "rb.h"

struct leat_histogram;

/* Statuses that are told apart; larger ones are counted as the last. */
#define RB_ERRNOS 160

enum rb_wrong_what { RB_WRONG_NONE, RB_WRONG_LENGTH, RB_WRONG_BYTE, RB_WRONG_CALLER, RB_WRONGS };

/* A message that was wrong. */
struct rb_wrong {
	uint32_t what; /* enum rb_wrong_what */
	bool response;
	uint8_t kind;
	uint32_t from, to; /* nodes: the message went so */
	uint64_t id;	   /* of the call */
	uint64_t offset, expected, got;
};

struct rb_tally {
	/* of the measured part */
	uint64_t calls[RB_KINDS]; /* that came back well */
	uint64_t batches[RB_KINDS];
	uint64_t bytes_out, bytes_in; /* of their requests and responses */
	uint64_t elapsed_ns;
	uint64_t packets_sent, packets_received, items_sent, credit_packets;
	uint64_t retransmissions, probes, duplicates; /* datagrams */
	uint64_t pulled, pushed, by_message;	      /* bytes of --bulk that this side moved */
	uint64_t unsent, delayed, delayed_max_ns; /* open loop: batches never begun, begun late */
	/* of all of the run */
	uint64_t made;	  /* calls, warm-up included, however they ended */
	uint64_t failed;  /* calls with a status, but for those of the next lines */
	uint64_t cut;	  /* calls whose session ended, or was ending */
	uint64_t expired; /* calls whose --deadline passed */
	uint64_t busy;	  /* times that a call was refused for want of room, and tried again */
	uint64_t lost;	  /* one-way requests that the other side does not know of */
	uint64_t wrong;	  /* responses, and requests to this lcore, that were not right */
	uint64_t served;  /* requests handled */
	uint64_t late;	  /* responses to calls that had expired */
	uint64_t refused; /* requests that the library answered: no room, too late, closing */
	uint64_t errors[RB_ERRNOS];
	uint64_t preempted;
	int32_t others;	       /* per mille of the CPU that others used; -1: can't be told */
	struct rb_wrong first; /* of what was wrong */
};

/* Adds one to a sum. elapsed_ns and delayed_max_ns become the longest, first remains the first. */
void rb_tally_add(struct rb_tally *sum, const struct rb_tally *t);
uint64_t rb_tally_calls(const struct rb_tally *t);
/* Calls per second, millions; of a sum those of all over the longest time. */
double rb_tally_rate(const struct rb_tally *t);
/* Items per packet: requests, responses and pieces. */
double rb_tally_coalesced(const struct rb_tally *t);
/* A call came back with a status < 0: counts it by status. */
void rb_tally_status(struct rb_tally *t, int status);
/* In words, with its nodes as rank.lcore. */
void rb_wrong_print(const struct rb_wrong *w, char *text, size_t len);
/* Is it all as it should be, but for sessions that ended? */
bool rb_tally_good(const struct rb_tally *t);

/* What a context had counted when the measurement began, or ended. */
void rb_tally_begin(struct rb_tally *t, const struct leat_rpc_stats *st);
void rb_tally_end(struct rb_tally *t, const struct leat_rpc_stats *st);

/* A process's: of each of its lcores, and the latencies of batches, ns, of all of them. */
struct rb_result {
	uint16_t nb_lcores;
	struct rb_tally *lcore;
	struct leat_histogram *hist[RB_KINDS];
};

/* @return NULL: no memory */
struct rb_result *rb_result_create(uint16_t nb_lcores);
void rb_result_free(struct rb_result *r);

#endif /* RB_TALLY_H */
