/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KILL_H
#define KILL_H

/*
 * Scenarios in which test_channel_kill.c kills a child process that uses a channel:
 * kill_scenarios.c says what the child does, and what must be true for the survivors afterwards.
 */

#include <stdatomic.h>

#include "channel_pvt.h"
#include "channel_test.h"

#define SIZE 4096
#define PRESENT 5 /* how many frames are sent before the child begins */
#define LEN 200	  /* payload bytes of each frame */
#define CHILD 100 /* frame number of the child's first frame */
/* frame number of the frame that a living writer reserved before all others */
#define SLOW 50
#define BEHIND 60 /* frame number of a frame sent after a reservation that is set aside */
#define PATIENCE (2 * CHAN_LOOKS)
#define NUMBERS 256

/* Shared by the child and its parent. */
struct notes {
	atomic_int done;      /* the child returned from the call */
	atomic_int consuming; /* the child has peeked its frames, and begins to consume them */
};

struct ctx {
	struct shared s;
	struct leat_channel *parent;
	/* a living participant of the parent's process; with SLOW_* it has a reservation */
	struct leat_channel *other;
	uint64_t at; /* the write position when the child began */
	bool aside;
	struct notes *notes;
	const struct scenario *sc;
};

enum with {
	ALONE = 0,
	/* other participants set aside what the child reserves, as soon as it is reserved */
	ASIDE,
	/* a living writer's frame is the oldest; it commits before the survivor reads */
	SLOW_FIRST,
	SLOW_LAST, /* as SLOW_FIRST, but it commits after the survivor has read the others */
	/*
	 * a reader has died that held three frames, and a writer that had reserved one; the ring is
	 * full
	 */
	TWO_DEAD,
};

struct scenario {
	const char *name;
	struct leat_channel_conf conf;
	struct leat_channel_opts opts; /* options of the child */
	uint32_t present;	       /* frames sent before the child begins */
	uint32_t early;		       /* how many of these are read before the child begins */
	/*
	 * another participant died before the child begins; it had peeked frames and reserved one
	 */
	bool dead;
	void (*act)(struct leat_channel *ch, const struct ctx *c);
	/* Check the survivor's result. got[n] is how often it got frame n. */
	void (*check)(const struct ctx *c, const struct leat_channel *ch, const uint32_t *got,
		      bool done);
	enum with with;
};

/* Payloads of the child's frames; filled before the child is stepped. */
extern uint8_t kill_data[3][LEN];
extern const struct scenario kill_scenarios[];
extern const unsigned int kill_nb_scenarios;

/* @return whether the scenario ends the channel, so that nothing can be sent after it */
bool kill_ends(const struct scenario *sc);

#endif /* KILL_H */
