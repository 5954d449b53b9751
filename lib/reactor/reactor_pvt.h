/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef REACTOR_PVT_H
#define REACTOR_PVT_H

/*
 * Layout of a reactor and its pollers.
 *
 * The writers of each part (the owner is the thread that runs the reactor):
 *
 *     struct leat_reactor, leat_poller   the owner; counters and states with relaxed stores, since
 *                                        telemetry reads them
 *     idle_req, spin_us, ...             any thread, relaxed
 *     struct reactor_attn                any thread, to get the owner's attention
 *     slots of pollers, the registry     under reactor_lock, which a turn takes only if a poller is
 *                                        added, removed or paused, or has failed
 *     set                                the owner; see tune.c
 *     stall                              the control thread of lib/tune
 */

#include <assert.h>
#include <sched.h>
#include <stddef.h>

#include <leat_common.h>
#include <leat_time.h>
#include <leat_tune.h>
#include <leat_wheel.h>

#include "leat_reactor.h"
#include "reactor_tune.h"

/* Values of reactor_attn.word, the futex on which a sleeping reactor waits. */
#define ATTN_NONE 0U
#define ATTN_WORK 1U	/* the owner has work */
#define ATTN_ASLEEP 2U	/* the owner sleeps on the word, or is about to */
#define ATTN_BLOCKED 3U /* the owner blocks, or is about to; event wakes it */

/*
 * What other threads write to get the owner's attention. Static and never freed, so that a signal
 * handler may write to it at any time.
 */
struct reactor_attn {
	uint32_t word;
	uint32_t stop_count; /* calls of leat_reactor_stop() */
	uint32_t turn;	     /* 1: leat_reactor_wake() asks for a turn before the next sleep */
	uint64_t stop_us;    /* shortest timeout of the stops that the owner has not seen yet */
	int event; /* eventfd + 1; 0: not opened. Never closed: a sender may be about to write */
} __attribute__((aligned(LEAT_CACHE_LINE)));

/* The endpoint part of a poller. */
struct ep_poller {
	struct leat_ep *ep;
	leat_ep_ops_fn ops_fn;
	leat_ep_event_fn event_fn;
	void *arg;
	int shutdown_status; /* status of LEAT_EV_SHUTDOWN */
	bool shut;	     /* LEAT_EV_SHUTDOWN was returned */
	bool asked;	     /* reactor_ep_stop_begin() called leat_ep_shutdown() */
	bool expected;	     /* that call succeeded: LEAT_EV_SHUTDOWN will follow */
	bool watched;	     /* fd is in the reactor's epoll set */
	int fd;
	uint16_t burst;	      /* maximum number of ops of one leat_ep_poll() */
	uint16_t budget;      /* maximum number of bursts in a turn */
	uint64_t asked_until; /* if asked: the reactor's deadline for which that call was made */
};

struct leat_poller {
	/* cache line 0: everything that a turn touches */
	leat_poller_fn fn;
	void *arg;
	uint32_t state;
	uint32_t idle_cost; /* cycles of an idle run, smoothed */
	uint64_t runs;
	uint64_t busy_runs;
	uint64_t busy_cycles;
	uint64_t idle_cycles;
	struct leat_reactor *reactor;

	/* line 1 */
	struct ep_poller ep;

	/* the rest */
	/* timer of the poller's period; for an endpoint's poller, timer of leat_ep_events() */
	struct leat_timer timer __attribute__((aligned(LEAT_CACHE_LINE)));
	uint64_t period; /* cycles; 0: each turn */
	leat_poller_quiesce_fn quiesce;
	leat_poller_ready_fn ready;
	leat_poller_release_fn release;
	leat_ep_drain_fn drain; /* drain function of an endpoint's poller */
	uint64_t drain_until;	/* end of the drain, cycles; 0: no stop has asked drain yet */
	int error;
	bool used;	/* the slot is taken */
	bool in_active; /* the poller is in leat_reactor.active */
	bool told_wait; /* it was logged that this poller can't wake the reactor */
	bool local;	/* leat_poller_local_set(): it does not keep the reactor from blocking */
	char name[LEAT_REACTOR_NAME_MAX];
} __attribute__((aligned(LEAT_CACHE_LINE)));

struct leat_reactor {
	/* cache line 0: everything that an idle turn touches, besides the pollers and attn */
	struct leat_poller **active; /* pollers called each turn, in this order */
	uint32_t nb_active;
	uint32_t effective; /* policy in effect, enum leat_idle_policy but not AUTO */
	struct reactor_attn *attn;
	uint64_t due;	/* time of the next housekeeping */
	uint64_t turns; /* turns done */
	uint32_t hk_mask;
	uint32_t done; /* 1: the run ends after this turn and returns `result` */
	struct leat_poller *running;
	uint64_t idle_cycles;

	/* line 1: busy turns and housekeeping */
	uint64_t busy_cycles;
	uint64_t turn_max;
	uint64_t stamp; /* begin of the present lap, see reactor_lap() */
	/* Function of the running timer; NULL: none, or the timer accounts for its own cycles. */
	leat_timer_fn timer_fn;
	uint64_t hk_cycles;
	uint64_t hk_interval; /* cycles */
	uint64_t messages;
	uint64_t timers;

	/* line 2: idle */
	uint64_t idle_since; /* since when no poller worked; 0: a poller worked in the last turn */
	uint64_t sleep_cycles;
	uint64_t sleeps;
	uint64_t yields;
	uint32_t step_us;  /* length of the next sleep */
	uint32_t idle_req; /* configured policy, enum leat_idle_policy */
	uint32_t spin_us;
	uint32_t sleep_min_us;
	uint32_t sleep_max_us;
	uint32_t crowded;    /* this process has more loops than CPUs; the registry sets it */
	uint32_t preempted;  /* the kernel keeps taking the CPU away */
	uint32_t auto_quiet; /* windows of AUTO_WINDOW_US in a row with one preemption at most */
	/* end of line 2 */
	uint64_t auto_at; /* time of the next check of preemptions */
	uint64_t auto_count;
	uint32_t worked;    /* a timer or message worked in this turn's housekeeping */
	uint32_t nb_timers; /* wheel.count, for other threads */
	bool policy_reported;
	bool preempted_reported;

	/* blocking */
	bool block_ok;	  /* everything that the reactor polls can wake it */
	bool block_stale; /* block_ok must be computed anew */
	int block_epfd;	  /* -1: not opened */
	uint64_t blocks;
	uint64_t wake_events;
	uint64_t wake_messages;
	uint64_t wake_timeouts;
	bool block_fds;	     /* the descriptors' epoll set was added to block_epfd */
	bool block_reported; /* it was logged that the reactor's epoll set does not work */

	struct reactor_fds *fds; /* descriptors; NULL: none was ever added */

	struct leat_wheel wheel;
	struct reactor_ring *ring; /* messages */
	uint64_t dropped;	   /* messages taken from the ring, but not run */

	/* stop */
	uint32_t state; /* enum leat_reactor_state; leat_reactor_wait() sleeps on it */
	uint32_t stop_seen;
	uint64_t stop_deadline; /* cycles */
	int result;
	char why[128]; /* error message, if result < 0 */

	/* settings and measurements */
	struct reactor_tune_settings set __attribute__((aligned(LEAT_CACHE_LINE)));
	struct leat_tune_object *tune __attribute__((aligned(LEAT_CACHE_LINE)));
	struct {
		uint64_t turns; /* number of turns that the control thread saw last */
		uint64_t since; /* when it first saw that number, cycles; 0: not in a turn then */
		uint64_t busy;	/* busy cycles reported so far */
	} stall;
	bool long_turns;       /* long turns are not reported as stalls; set by any thread */
	uint32_t idle_changed; /* leat_reactor_idle_set() was called; set by any thread */

	uint32_t dirty; /* pollers were removed, paused or failed */
	bool again;	/* one more turn before the reactor idles */
	bool has_ready; /* some poller has a leat_poller_ready_fn */
	uint32_t events_interval_us;
	unsigned int id;
	unsigned int lcore;    /* lcore that runs or last ran it, or LCORE_ID_ANY */
	unsigned int launched; /* lcore of leat_reactor_launch(), or LCORE_ID_ANY */
	const void *owner;     /* thread that runs it: the address of its thread-local self */
	bool by_turns;	       /* driven by leat_reactor_turn() */
	bool cpus_known;
	cpu_set_t cpus; /* CPUs on which its thread may run */
	uint16_t max_pollers;
	struct leat_poller *pollers; /* slots */
	char name[LEAT_REACTOR_NAME_MAX];
} __attribute__((aligned(LEAT_CACHE_LINE)));

static_assert(offsetof(struct leat_poller, ep) == LEAT_CACHE_LINE, "first line of a poller");
static_assert(offsetof(struct leat_poller, timer) == 2 * LEAT_CACHE_LINE,
	      "second line of a poller");
static_assert(sizeof(struct ep_poller) <= LEAT_CACHE_LINE, "the endpoint part of a poller");
static_assert(offsetof(struct leat_reactor, busy_cycles) == LEAT_CACHE_LINE,
	      "first line of a reactor");
static_assert(offsetof(struct leat_reactor, idle_since) == 2 * LEAT_CACHE_LINE,
	      "second line of a reactor");
static_assert(offsetof(struct leat_reactor, auto_at) == 3 * LEAT_CACHE_LINE,
	      "third line of a reactor");

struct epoll_event;

/* The system calls of reactors, in a table so that tests can replace them. */
struct reactor_sys {
	/* Sleep while *word == val, at most ns. */
	void (*wait)(uint32_t *word, uint32_t val, uint64_t ns);
	/* Wake all threads that sleep on word. Async-signal-safe. */
	void (*wake)(uint32_t *word);
	/*
	 * Sleep until a descriptor of the epoll set is readable, at most ns. @return number of
	 * events
	 */
	int (*block)(int epfd, struct epoll_event *ev, int n, uint64_t ns);
	/* Make an eventfd readable. Async-signal-safe. */
	void (*poke)(int fd);
	void (*yield)(void);
	/* Count how often the kernel has taken the CPU away from this thread so far. */
	uint64_t (*preemptions)(void);
};

extern const struct reactor_sys *reactor_sys;

/* ns of reactor_sys.wait and block: no timeout. */
#define REACTOR_WAIT_FOREVER UINT64_MAX

#define RLX_LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define RLX_STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
/* The owner is the only writer: no read-modify-write needed. */
#define RLX_ADD(x, n) RLX_STORE(x, (x) + (n))

/* End a lap, a part of housekeeping whose cycles are counted separately. @return its cycles */
static inline uint64_t
reactor_lap(struct leat_reactor *r)
{
	uint64_t now = leat_now();
	uint64_t cycles = now - r->stamp;

	r->stamp = now;
	return cycles;
}

/* Copy a name; characters that could break a log line or JSON become '_'. */
void reactor_name_copy(char *to, const char *from);

/* Check that this thread may change the reactor. @return 0, or -EPERM with leat_err() */
int reactor_owned(const struct leat_reactor *r, const char *what);

/* reactor.c */
/* Check whether this thread is running the reactor. */
bool reactor_runs_here(const struct leat_reactor *r);
struct leat_reactor *reactor_self_set(struct leat_reactor *r);
/*
 * Replace the ring of messages and the slots of pollers, while all are unused. @return 0; -ENOMEM:
 * nothing changed
 */
int reactor_resize(struct leat_reactor *r, uint32_t messages, uint16_t max_pollers);

/* poller.c */
void reactor_poller_failed(struct leat_poller *p, int rc);
void reactor_pollers_compact(struct leat_reactor *r);
/* Call the release functions of pollers: the reactor is about to be freed. */
void reactor_pollers_release(struct leat_reactor *r);
struct leat_poller *reactor_poller_new(struct leat_reactor *r, const char *name, leat_poller_fn fn,
				       void *arg);
void reactor_poller_publish(struct leat_poller *p);

/* ep_poller.c */
void reactor_ep_events_start(struct leat_poller *p);
void reactor_ep_stop_begin(struct leat_poller *p, uint64_t now);
/* Check whether the endpoint must stay open because its protocol has not finished. */
bool reactor_ep_draining(struct leat_poller *p, uint64_t now);
int reactor_ep_quiesce(const struct leat_poller *p, char *what, size_t len);

static inline bool
reactor_poller_is_ep(const struct leat_poller *p)
{
	return p->ep.ep != NULL;
}

/* timer.c */
void reactor_timers_run(struct leat_reactor *r, uint64_t now);

/* call.c */
void reactor_attn_kick(struct reactor_attn *attn);
/* Create a ring for at least count messages. NULL with leat_err() */
struct reactor_ring *reactor_messages_new(const struct leat_reactor *r, uint32_t count);
unsigned int reactor_messages_run(struct leat_reactor *r);
unsigned int reactor_messages_waiting(const struct leat_reactor *r);
/* Close the ring, and run the messages that were accepted. */
void reactor_messages_close(struct leat_reactor *r);
void reactor_messages_open(struct leat_reactor *r);
/* Close the ring, and drop its messages. @return number of those without a drop function */
unsigned int reactor_messages_drop(struct leat_reactor *r);

/* idle.c */
int reactor_idle_init(struct leat_reactor *r, const struct leat_idle_conf *conf);
/* Do leat_reactor_idle_set() without the log and without waking the owner. Any thread. */
int reactor_idle_request(struct leat_reactor *r, const struct leat_idle_conf *conf);
void reactor_idle_choose(struct leat_reactor *r, uint64_t now);
uint64_t reactor_idle(struct leat_reactor *r, uint64_t now);
/* Check for work that no poller reported in this turn. */
bool reactor_ready(const struct leat_reactor *r);
/* Check whether the reactor has been idle for spin_us; if not, pause once. */
bool reactor_idle_spun(struct leat_reactor *r, uint64_t now);
/* Return the end of the next sleep of the sleep policy. */
uint64_t reactor_idle_step(struct leat_reactor *r, uint64_t now);

/* block.c */
/*
 * Values of epoll_event.data in the reactor's epoll set: of the eventfd, and of the epoll set of
 * the descriptors (fd.c). Other values are numbers of pollers.
 */
#define BLOCK_ATTN UINT32_MAX
#define BLOCK_FDS (UINT32_MAX - 1)
bool reactor_block_possible(struct leat_reactor *r);
uint64_t reactor_block(struct leat_reactor *r, uint64_t now);
/* Take a poller that is not called any more out of the epoll set. */
void reactor_block_forget(struct leat_poller *p);
void reactor_block_fini(struct leat_reactor *r);

/* fd.c; call the first two only if r->fds is set */
int reactor_fds_epfd(const struct leat_reactor *r);
/* Look at the descriptors in the next turn: one of them is ready. */
void reactor_fds_look(struct leat_reactor *r);
/* Detach the descriptors that were not deleted, with a warning, and free the table. */
void reactor_fds_fini(struct leat_reactor *r);

/* stop.c */
void reactor_stop_step(struct leat_reactor *r, uint64_t now);
void reactor_stop_reset(struct leat_reactor *r);

/* registry.c: add, del, enter and leave take reactor_lock */
extern struct reactor_attn reactor_attns[LEAT_REACTOR_MAX];
void reactor_lock(void);
void reactor_unlock(void);
int reactor_registry_add(struct leat_reactor *r);
void reactor_registry_del(struct leat_reactor *r);
/* Record that the calling thread began, or ended, to run the reactor. */
void reactor_registry_enter(struct leat_reactor *r);
void reactor_registry_leave(struct leat_reactor *r);
/* Return the reactor with an id, or NULL. The caller holds reactor_lock. */
struct leat_reactor *reactor_registry_get(unsigned int id);

/* telemetry.c */
void reactor_telemetry_init(void);

/* tune.c */
/* Compute from the settings the fields that a turn reads. */
void reactor_tune_derive(struct leat_reactor *r, const struct reactor_tune_settings *set);
/* Add the reactor as an object of lib/tune. @return 0, or negative with leat_err() */
int reactor_tune_add(struct leat_reactor *r);
/* Copy the idle policy that another thread has requested into the settings. Owner thread. */
void reactor_tune_idle_show(struct leat_reactor *r);

#endif /* REACTOR_PVT_H */
