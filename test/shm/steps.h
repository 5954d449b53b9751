/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEPS_H
#define STEPS_H

/*
 * leat-shm-steps: a process, the victim, is killed at each of its instructions while it is
 * connected to an endpoint of another process.
 *
 *     this process:  bystander <-> survivor  <-- connection -->  victim: a fork, single-stepped
 *                                                              (share=1: of the zygote)
 *
 *     steps.c           runs each scenario for every k: step k instructions, kill, check
 *     steps_living.c    the survivor and the bystander: one loop, with traffic between them
 *     steps_victim.c    the victim's endpoint, and its actions between its two marks
 *     steps_scenario.c  the scenarios: the survivor's actions meanwhile, and its checks afterwards
 *     steps_zygote.c    victims with an EAL of their own, for share=1
 *     steps_share.c     the survivor takes memory back while the victim accesses it
 *     steps_left.c      counts descriptors, mappings and names, which no victim may leave behind
 *     steps_message.h   numbered messages with a pattern in each byte
 *
 * The victim stops at two marks, and the survivor then goes on. Between its marks the victim only
 * calls leat, and notes the results in memory that it shares with the survivor. It fills its
 * buffers before the first mark, and the survivor compares the received bytes, so that the steps
 * are those of leat.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <leat_fabric.h>

#include "../lives/traffic.h" /* CHECK */

/*
 * Run turn until cond is true. Give up after a time, but not before STEPS_TURNS turns: a virtual
 * machine can stand still for a while, and then the time passes without a turn.
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
#define STEPS_SLOT 2048 /* largest message of a burst, bytes */
#define STEPS_MEMORY (256u << 10)
#define STEPS_DATA 64 /* offset of the data of one-sided ops; the counter is at 0 */

#define STEPS_COUNTER 100 /* value before an atomic */
#define STEPS_ADDEND 3
#define STEPS_IMM UINT64_C(0x1122334455667788)

/* Patterns of the region: the old one, and the one that WRITEs write. */
#define STEPS_OLD 7
#define STEPS_NEW 9

/* Address at which the victim listens. */
#define STEPS_ADDR "shm:victim"
#define STEPS_NAME "name-victim"

enum steps_role { STEPS_SURVIVOR = 1, STEPS_BYSTANDER, STEPS_VICTIM };

/* Private data of connect and accept. */
struct steps_hello {
	uint32_t role;
	struct leat_rkey key;
};

/* Notes of the victim in shared memory, which remain when it is dead. */
struct steps_notes {
	atomic_uint posted;   /* sends that post accepted */
	atomic_uint done;     /* ops that completed with status 0 */
	atomic_uint received; /* messages */
	/* flags: events CONNECT_REQ, CONNECTED, end of the connection; listens; has acted */
	atomic_uint asked, up, ended, listens, through;
	atomic_uint failed; /* ops and receives that ended with an error, after taken */
	/* Written by the survivor. */
	atomic_uint enough;	  /* all ops of the survivor have completed */
	atomic_uint taken;	  /* the survivor disconnects or deregisters: ops may fail */
	unsigned int nr;	  /* number of the scenario */
	char addr[LEAT_ADDR_MAX]; /* where the survivor listens */
	uint64_t len[STEPS_BURST];
	/*
	 * The victim's region, receive buffers, or send buffers: a scenario needs only one of them.
	 */
	uint8_t memory[STEPS_MEMORY] __attribute__((aligned(4096)));
};

/* ---- the survivor and the bystander ---- */

/* An endpoint of this process. */
struct steps_node {
	enum steps_role role;
	struct leat_ep *ep;
	struct leat_mr *mr;
	struct leat_rkey mine, theirs; /* keys of this and of the other endpoint's memory */
	uint8_t *memory;
	uint16_t peer; /* id of the other living endpoint */
	bool up;
	struct leat_op recv[16], send[3], onesided;
	uint8_t *recv_buf, *send_buf, *onesided_buf;
	uint64_t random, sent, done, pattern, written, counter;
	/* All messages before next were received; bit i of seen: message next + i was, too. */
	uint64_t next, seen;
	unsigned int step;
};

enum steps_state { STEPS_NONE, STEPS_ASKED, STEPS_UP };

/* What the survivor knows of the victim. */
struct steps_peer {
	enum steps_state state;
	uint16_t id;
	struct leat_rkey key;
	unsigned int ups, ends, failed; /* events CONNECTED, DISCONNECTED, CONNECT_FAILED */
	int status;			/* status of the DISCONNECTED event */
	uint64_t ended;			/* turn in which the connection ended */
	uint64_t received, bytes;	/* messages, and the bytes of the last one */
	uint64_t imms, broken;		/* immediates; receives that ended with the connection */
	struct leat_op op[STEPS_BURST];
	bool out[STEPS_BURST];
	int result[STEPS_BURST];
	uint8_t *buf;
};

struct steps_living {
	struct steps_node s, b;
	struct steps_peer v;
	struct leat_mr *mr; /* the region that the victim reaches */
	struct leat_rkey key;
	uint8_t *memory;
	char addr[LEAT_ADDR_MAX];
	uint64_t turns;
	bool asleep; /* the survivor's endpoint is armed, and not polled */
	bool closing, shut;
};

void steps_living_open(struct steps_living *l, struct leat_dev *dev, uint64_t seed);
void steps_living_close(struct steps_living *l);
/* Poll both endpoints; events: read their events in every turn, not only now and then. */
void steps_turn(struct steps_living *l, bool events);
/* Prepare for the next victim: forget the last one, and restore the region. */
void steps_peer_reset(struct steps_living *l);
/* Post the scenario's i-th op to the victim. */
void steps_post(struct steps_living *l, unsigned int i);
/* Has the victim's connection ended, and every op to the victim completed? */
bool steps_peer_gone(const struct steps_living *l);
/* Register a region that the victim may reach. */
struct leat_mr *steps_region(struct leat_ep *ep, uint8_t *mem, struct leat_rkey *key);
/* Run turns until the bystander has sent, and received, `messages` more messages. */
void steps_bystander_moves(struct steps_living *l, uint64_t messages);

/* Does the device have wait objects on this system? */
bool steps_can_wait(struct leat_dev *dev);
/* Arm the survivor's endpoint when it has nothing to do. */
void steps_sleep(struct steps_living *l);
/* @return whether the survivor's endpoint is woken within ms */
bool steps_woken(const struct steps_living *l, int ms);
/* Disarm the survivor's endpoint, and poll it again. */
void steps_wake(struct steps_living *l);

/* ---- the victim ---- */

struct steps_victim {
	struct steps_notes *notes;
	struct leat_ep *ep;
	struct leat_mr *mr;
	struct leat_rkey key, theirs;
	uint16_t peer;
	/* buffers of the ops that the victim posts: in the notes, or in EAL memory of its own */
	uint8_t *buf;
	struct leat_op op[STEPS_BURST];
};

void steps_victim_open(struct steps_victim *v, struct leat_dev *dev, struct steps_notes *notes);
/* Read one event, if there is one, and note it. */
void steps_victim_event(struct steps_victim *v);
/* Connect to the survivor, and wait until the connection is up. */
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
	enum leat_op_type type; /* type of the ops */
	enum steps_size size;
	unsigned int nb; /* number of the ops */
	bool asleep;	 /* the survivor sleeps while the victim acts */
	bool free;	 /* the ops are on no queue: the driver has a different path for these */
	bool share;	 /* the scenario runs only with share=1 */
};

extern const struct steps_scenario steps_scenarios[];
extern const unsigned int steps_nb_scenarios;

/* @return bytes of an op of this size class; for a burst, of its i-th op */
uint64_t steps_bytes(enum steps_size size, unsigned int i);
void steps_set_segment(uint64_t segment);
bool steps_is_send(enum leat_op_type type);
/* Find a scenario by its name. @return NULL: none has that name */
const struct steps_scenario *steps_scenario_find(const char *name);
/*
 * Fill in the message of a send, or the data and target of a one-sided op; type, buf and size are
 * set. nr: message number.
 */
void steps_op_fill(struct leat_op *op, enum steps_role role, unsigned int nr,
		   const struct leat_rkey *theirs);

/* The victim's actions: before the first mark, and between the marks. */
void steps_prepare(const struct steps_scenario *sc, struct steps_victim *v, const char *addr);
void steps_act(const struct steps_scenario *sc, struct steps_victim *v, const char *addr);
/* The survivor's actions while the victim is at its first mark. */
void steps_meanwhile(const struct steps_scenario *sc, struct steps_living *l);
/* The survivor's actions in each of its turns while the victim runs. */
void steps_beside(const struct steps_scenario *sc, struct steps_living *l, struct steps_notes *n);
/*
 * The survivor's checks when the victim is dead or has passed its second mark. @return whether the
 * victim's action took effect
 */
bool steps_check(const struct steps_scenario *sc, const struct steps_living *l,
		 const struct steps_notes *n);

#endif /* STEPS_H */
