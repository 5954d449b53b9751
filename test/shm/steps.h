/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEPS_H
#define STEPS_H

/*
 * leat-shm-steps: a process, the victim, that is killed at each of its instructions while it is
 * connected to an endpoint of another.
 *
 *     this process:  bystander <-> survivor  <-- connection -->  victim: a fork, single-stepped
 *                                                              (share=1: of the zygote)
 *
 *     steps.c           runs each scenario for every k: step k instructions, kill, check
 *     steps_living.c    the survivor and the bystander: one loop, with traffic between them
 *     steps_victim.c    the victim's endpoint, and what it does between its two marks
 *     steps_scenario.c  the scenarios: what the survivor does meanwhile, and finds afterwards
 *     steps_zygote.c    victims with an EAL of their own, for share=1
 *     steps_share.c     what the survivor takes back of memory that the victim reaches then
 *     steps_left.c      descriptors, mappings and names: as many as before
 *     steps_message.h   numbered messages with a pattern in each byte
 *
 * The victim does nothing between its marks but calls of leat, and notes of what they returned in
 * memory that it shares with the survivor. It fills its buffers before, and what arrives in them is
 * compared by the survivor, so that the steps are those of leat.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <leat_fabric.h>

#include "../lives/traffic.h" /* CHECK */

/*
 * Does turn until cond is true. It gives up after a time, but not before it had so many turns: a
 * machine that stood still for a while, as virtual ones do, has not given it any.
 */
#define STEPS_TURNS 10000
#define STEPS_UNTIL(turn, cond, ...)                                                               \
	do {                                                                                       \
		uint64_t end_ = leat_now() + leat_us_to_cycles(TRAFFIC_PATIENCE_US);               \
		unsigned int turns_ = 0;                                                           \
		while (!(cond)) {                                                                  \
			turn;                                                                      \
			CHECK(++turns_ < STEPS_TURNS || leat_now() < end_, __VA_ARGS__);           \
		}                                                                                  \
	} while (0)

#define STEPS_PEERS 8
#define STEPS_BURST 8
#define STEPS_SLOT 2048 /* bytes of each message of a burst, at most */
#define STEPS_MEMORY (256u << 10)
#define STEPS_DATA 64 /* where the data of one-sided ops begin; the counter is at 0 */

#define STEPS_COUNTER 100 /* before an atomic */
#define STEPS_ADDEND 3
#define STEPS_IMM UINT64_C(0x1122334455667788)

/* Patterns of the memory that one-sided ops reach: before, and of what is written. */
#define STEPS_OLD 7
#define STEPS_NEW 9

/* Where the victim listens. */
#define STEPS_ADDR "shm:victim"
#define STEPS_NAME "name-victim"

enum steps_role { STEPS_SURVIVOR = 1, STEPS_BYSTANDER, STEPS_VICTIM };

/* Travels with connect and accept. */
struct steps_hello {
	uint32_t role;
	struct leat_rkey key;
};

/* What the victim tells, and what is left when it is dead. */
struct steps_notes {
	atomic_uint posted;   /* sends that post has accepted */
	atomic_uint done;     /* its ops that came back with status 0 */
	atomic_uint received; /* messages */
	atomic_uint asked, up, ended, listens, through;
	atomic_uint failed; /* its ops and receives that ended with an error, which is allowed then */
	/* Written by the survivor. */
	atomic_uint enough;	  /* its ops are back */
	atomic_uint taken;	  /* it disconnects or deregisters: ops may fail */
	unsigned int nr;	  /* of the scenario */
	char addr[LEAT_ADDR_MAX]; /* where the survivor listens */
	uint64_t len[STEPS_BURST];
	/* Its region, its receives, or what it sends: only one of them in a scenario. */
	uint8_t memory[STEPS_MEMORY] __attribute__((aligned(4096)));
};

/* ---- the living ---- */

/* An endpoint of this process. */
struct steps_node {
	enum steps_role role;
	struct leat_ep *ep;
	struct leat_mr *mr;
	struct leat_rkey mine, theirs; /* of the memory that the other living endpoint reaches */
	uint8_t *memory;
	uint16_t peer; /* the other living endpoint */
	bool up;
	struct leat_op recv[16], send[3], onesided;
	uint8_t *recv_buf, *send_buf, *onesided_buf;
	uint64_t random, sent, done, pattern, written, counter;
	uint64_t next, seen; /* of the other living endpoint's messages: all before it came */
	unsigned int step;
};

enum steps_state { STEPS_NONE, STEPS_ASKED, STEPS_UP };

/* The survivor's view of the victim. */
struct steps_peer {
	enum steps_state state;
	uint16_t id;
	struct leat_rkey key;
	unsigned int ups, ends, failed; /* events */
	int status;			/* of the end */
	uint64_t ended;			/* in which turn */
	uint64_t received, bytes;	/* messages, and the bytes of the last one */
	uint64_t imms, broken;		/* receives that ended with the connection */
	struct leat_op op[STEPS_BURST];
	bool out[STEPS_BURST];
	int result[STEPS_BURST];
	uint8_t *buf;
};

struct steps_living {
	struct steps_node s, b;
	struct steps_peer v;
	struct leat_mr *mr; /* what the victim reaches */
	struct leat_rkey key;
	uint8_t *memory;
	char addr[LEAT_ADDR_MAX];
	uint64_t turns;
	bool asleep; /* the survivor's endpoint is armed, and the loop stands still */
	bool closing, shut;
};

void steps_living_open(struct steps_living *l, struct leat_dev *dev, uint64_t seed);
void steps_living_close(struct steps_living *l);
/* Polls both; takes events each time, or now and then. */
void steps_turn(struct steps_living *l, bool events);
/* Before a victim: no peer, the memory that it reaches as at the beginning. */
void steps_peer_reset(struct steps_living *l);
/* Posts an op to the victim. */
void steps_post(struct steps_living *l, unsigned int i);
/* Is the victim's connection gone, with every op back? */
bool steps_peer_gone(const struct steps_living *l);
/* A region that the victim may reach. */
struct leat_mr *steps_region(struct leat_ep *ep, uint8_t *mem, struct leat_rkey *key);
/* Goes on until the bystander has sent, and has got, so many messages more. */
void steps_bystander_moves(struct steps_living *l, uint64_t messages);

/* Has the device a wait object here? */
bool steps_can_wait(struct leat_dev *dev);
/* Arms the survivor's endpoint, with nothing to do for it. */
void steps_sleep(struct steps_living *l);
/* @return whether the survivor is woken within ms */
bool steps_woken(const struct steps_living *l, int ms);
/* Goes on. */
void steps_wake(struct steps_living *l);

/* ---- the victim ---- */

struct steps_victim {
	struct steps_notes *notes;
	struct leat_ep *ep;
	struct leat_mr *mr;
	struct leat_rkey key, theirs;
	uint16_t peer;
	uint8_t *buf; /* of the ops that it posts: the notes' memory, or shared memory of its own */
	struct leat_op op[STEPS_BURST];
};

void steps_victim_open(struct steps_victim *v, struct leat_dev *dev, struct steps_notes *notes);
/* Takes an event, if there is one. */
void steps_victim_event(struct steps_victim *v);
/* Connects to the survivor, and waits until the connection is up. */
void steps_victim_connect(struct steps_victim *v, const char *addr);

/* ---- scenarios ---- */

enum steps_size {
	STEPS_SMALL,
	STEPS_LINES,
	STEPS_BUFFER,
	STEPS_LARGE,
	STEPS_MIXED,
	STEPS_WORD,
	STEPS_SHARED
};

struct steps_scenario {
	const char *name;
	enum steps_call {
		STEPS_VICTIM_POSTS,
		STEPS_SURVIVOR_POSTS,
		STEPS_LISTEN,
		STEPS_CONNECT,
		STEPS_ACCEPT,
		STEPS_DISCONNECT,
		STEPS_DISCONNECTED,
		STEPS_CLOSE,
	} call;
	enum leat_op_type type; /* of the ops */
	enum steps_size size;
	unsigned int nb; /* of the ops */
	bool asleep;	 /* the survivor sleeps meanwhile */
	bool free;	 /* the ops are on no queue: in another part of the driver than others */
	bool share;	 /* with share=1, and then only */
};

extern const struct steps_scenario steps_scenarios[];
extern const unsigned int steps_nb_scenarios;

/* Bytes of an op of that size; of a burst, the i-th. */
uint64_t steps_bytes(enum steps_size size, unsigned int i);
void steps_set_segment(uint64_t segment);
bool steps_is_send(enum leat_op_type type);
/* The table of scenarios. @return NULL: there is none of that name */
const struct steps_scenario *steps_scenario_find(const char *name);
/* What an op sends or reaches; its type, buf and size are there. nr: of the message. */
void steps_op_fill(struct leat_op *op, enum steps_role role, unsigned int nr,
		   const struct leat_rkey *theirs);

/* Of the victim: before the first mark, and between the marks. */
void steps_prepare(const struct steps_scenario *sc, struct steps_victim *v, const char *addr);
void steps_act(const struct steps_scenario *sc, struct steps_victim *v, const char *addr);
/* Of the survivor, while the victim is at its first mark. */
void steps_meanwhile(const struct steps_scenario *sc, struct steps_living *l);
/* Of the survivor, in each of its turns while the victim runs. */
void steps_beside(const struct steps_scenario *sc, struct steps_living *l, struct steps_notes *n);
/*
 * Of the survivor, when the victim is dead or through.
 * @return whether what the victim did took effect
 */
bool steps_check(const struct steps_scenario *sc, const struct steps_living *l,
		 const struct steps_notes *n);

#endif /* STEPS_H */
