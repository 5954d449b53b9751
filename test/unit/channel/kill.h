/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KILL_H
#define KILL_H

/* What the child that is killed does, and what must be true then: kill_scenarios.c; the killing: test_channel_kill.c */

#include <stdatomic.h>

#include "channel_pvt.h"
#include "channel_test.h"

#define SIZE 4096
#define PRESENT 5 /* frames that are there before, of LEN bytes */
#define LEN 200
#define CHILD 100 /* number of the child's first frame */
#define SLOW 50	  /* of the one that a living writer has reserved, in front of the others */
#define BEHIND 60 /* of the one behind a reservation that is set aside */
#define PATIENCE (2 * CHAN_LOOKS)
#define NUMBERS 256

/* Seen by both. */
struct notes {
	atomic_int done;      /* the child went through to the end */
	atomic_int consuming; /* it has what it took, and begins to give it away */
};

struct ctx {
	struct shared s;
	struct leat_channel *parent;
	struct leat_channel *other; /* of the same process, alive; with SLOW it has a reservation */
	uint64_t at;		    /* where write was when the child began */
	bool meddled;
	struct notes *notes;
	const struct scenario *sc;
};

enum with {
	ALONE = 0,
	MEDDLED, /* what the child reserves is set aside by others, as soon as it is there */
	SLOW_FIRST, /* a living writer's frame is in front, and committed before the survivor reads ... */
	SLOW_LAST, /* ... or after it has read all the others */
	/*
	 * a reader died in the middle of reading, a writer in the middle of reserving; the ring is
	 * full
	 */
	TWO_DEAD,
};

struct scenario {
	const char *name;
	struct leat_channel_conf conf;
	struct leat_channel_opts opts; /* of the child */
	uint32_t present;	       /* frames sent before */
	uint32_t early;		       /* of these are read before */
	bool dead; /* another participant died before, with what it read and what it reserved */
	void (*act)(struct leat_channel *ch, const struct ctx *c);
	/* What the survivor got, by number: how often. */
	void (*check)(const struct ctx *c, const struct leat_channel *ch, const uint32_t *got,
		      bool done);
	enum with with;
};

/* Of the child's frames; filled before it is stepped. */
extern uint8_t kill_data[3][LEN];
extern const struct scenario kill_scenarios[];
extern const unsigned int kill_nb_scenarios;

/* It ends the channel, and nothing can be sent after it. */
bool kill_ends(const struct scenario *sc);

#endif /* KILL_H */
