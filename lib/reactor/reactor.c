/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_pause.h>

#include <leat_error.h>
#include <leat_log.h>

#include "reactor_pvt.h"

#define MESSAGES_LIMIT (1U << 20)
#define HK_TURNS_LIMIT 65536
#define INTERVAL_US_LIMIT 1000000
/* The tick only decides how many timers a walk over the wheel looks at, see leat_wheel.h. */
#define WHEEL_TICK_US 32
/* Timer slack of a reactor's thread. The kernel's default rounds sleeps up by 50 us. */
#define TIMER_SLACK_NS 1000UL

static __thread struct leat_reactor *self;

struct leat_reactor *
leat_reactor_self(void)
{
	return self;
}

struct leat_reactor *
reactor_self_set(struct leat_reactor *r)
{
	struct leat_reactor *old = self;

	self = r;
	return old;
}

void
reactor_name_copy(char *to, const char *from)
{
	size_t i;

	for (i = 0; i < LEAT_REACTOR_NAME_MAX - 1 && from[i] != '\0'; i++) {
		char c = from[i];

		to[i] = c <= ' ' || c > '~' || c == '"' || c == '\\' ? '_' : c;
	}
	to[i] = '\0';
}

bool
reactor_runs_here(const struct leat_reactor *r)
{
	uint32_t state = __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);

	return (state == LEAT_REACTOR_RUNNING || state == LEAT_REACTOR_STOPPING) &&
	       RLX_LOAD(r->owner) == &self;
}

bool
leat_reactor_owned(const struct leat_reactor *r)
{
	uint32_t state = __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);

	return state == LEAT_REACTOR_READY || state == LEAT_REACTOR_STOPPED || reactor_runs_here(r);
}

int
reactor_owned(const struct leat_reactor *r, const char *what)
{
	if (leat_reactor_owned(r))
		return 0;
	return leat_err(EPERM, "%s: %s runs on another thread; do it there (leat_reactor_call)",
			what, r->name);
}

static int
check_range(const char *reactor, const char *what, uint64_t value, uint64_t max)
{
	if (value <= max)
		return 0;
	return leat_err(EINVAL, "%s: %s: %" PRIu64 " is more than %" PRIu64, reactor, what, value,
			max);
}

int
reactor_resize(struct leat_reactor *r, uint32_t messages, uint16_t max_pollers)
{
	size_t len = max_pollers * sizeof(*r->pollers);
	struct leat_poller *pollers = aligned_alloc(LEAT_CACHE_LINE, len);
	struct leat_poller **active = calloc(max_pollers, sizeof(struct leat_poller *));
	struct reactor_ring *ring = reactor_messages_new(r, messages);

	if (pollers == NULL || active == NULL || ring == NULL) {
		free(pollers);
		free(active);
		free(ring);
		return leat_err(ENOMEM, "%s: no memory for %u pollers and %u messages", r->name,
				max_pollers, messages);
	}
	memset(pollers, 0, len);
	/* Take the lock: telemetry may be reading the reactor already. */
	reactor_lock();
	free(r->pollers);
	free(r->active);
	free(r->ring);
	r->pollers = pollers;
	r->active = active;
	r->ring = ring;
	r->max_pollers = max_pollers;
	reactor_unlock();
	return 0;
}

/* Fill in the settings from the program's configuration; where that is 0, from reactor.toml. */
static int
configure(struct leat_reactor *r, const struct leat_reactor_conf *conf)
{
	const struct reactor_tune_settings *def = reactor_tune_schema.defaults;
	struct reactor_tune_settings *set = &r->set;
	int ret;

	if ((ret = check_range(r->name, "housekeeping_turns", conf->housekeeping_turns,
			       HK_TURNS_LIMIT)) < 0 ||
	    (ret = check_range(r->name, "housekeeping_us", conf->housekeeping_us,
			       INTERVAL_US_LIMIT)) < 0 ||
	    (ret = check_range(r->name, "events_us", conf->events_us, INTERVAL_US_LIMIT)) < 0 ||
	    (ret = check_range(r->name, "messages", conf->messages, MESSAGES_LIMIT)) < 0 ||
	    (ret = reactor_idle_init(r, &conf->idle)) < 0)
		return ret;

	*set = *def;
	reactor_tune_idle_show(r);
	if (conf->housekeeping_turns != 0)
		set->housekeeping_turns = rte_align32pow2(conf->housekeeping_turns);
	if (conf->housekeeping_us != 0)
		set->housekeeping_us = conf->housekeeping_us;
	if (conf->events_us != 0)
		set->events_us = conf->events_us;
	if (conf->messages != 0)
		set->messages = rte_align32pow2(conf->messages);
	if (conf->max_pollers != 0)
		set->max_pollers = conf->max_pollers;
	reactor_tune_derive(r, set);
	leat_wheel_init(&r->wheel, leat_us_to_cycles(WHEEL_TICK_US), leat_now());
	return reactor_resize(r, set->messages, (uint16_t)set->max_pollers);
}

static void
release(struct leat_reactor *r)
{
	reactor_block_fini(r);
	free(r->ring);
	free(r->active);
	free(r->pollers);
	free(r);
}

struct leat_reactor *
leat_reactor_create(const struct leat_reactor_conf *conf)
{
	static const struct leat_reactor_conf defaults;
	struct leat_reactor *r;

	if (conf == NULL)
		conf = &defaults;
	r = aligned_alloc(LEAT_CACHE_LINE, sizeof(*r));
	if (r == NULL) {
		leat_err(ENOMEM, "reactor: no memory");
		return NULL;
	}
	memset(r, 0, sizeof(*r));
	r->lcore = LCORE_ID_ANY;
	r->launched = LCORE_ID_ANY;
	r->stop_deadline = UINT64_MAX;
	r->block_epfd = -1;
	r->block_stale = true;
	reactor_name_copy(r->name, conf->name ? conf->name : "reactor");
	if (configure(r, conf) < 0) {
		release(r);
		return NULL;
	}
	if (reactor_registry_add(r) < 0) {
		release(r);
		return NULL;
	}
	if (conf->name == NULL) {
		/* Take the lock: telemetry may be reading the reactor already. */
		reactor_lock();
		snprintf(r->name, sizeof(r->name), "reactor%u", r->id);
		reactor_unlock();
	}
	/* Last: from now on the control thread may ask for measurements. */
	if (reactor_tune_add(r) < 0) {
		reactor_registry_del(r);
		release(r);
		return NULL;
	}
	reactor_telemetry_init();
	return r;
}

int
leat_reactor_destroy(struct leat_reactor *r)
{
	unsigned int lost;
	uint32_t state;

	if (r == NULL)
		return 0;
	state = __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);
	if (self == r || ((state == LEAT_REACTOR_RUNNING || state == LEAT_REACTOR_STOPPING) &&
			  !RLX_LOAD(r->by_turns)))
		return leat_err(EBUSY, "%s: destroy: it is running; stop it first", r->name);
	leat_tune_del(r->tune);
	/* Do this first: drop and release functions may free objects that hold timers. */
	leat_wheel_clear(&r->wheel);
	lost = reactor_messages_drop(r);
	if (lost > 0)
		LEAT_LOG(WARNING, reactor, "%s: destroyed, %u messages were never run", r->name,
			 lost);
	reactor_registry_del(r);
	/* Do this first: release functions may free objects that hold descriptors. */
	reactor_fds_fini(r);
	reactor_pollers_release(r);
	release(r);
	return 0;
}

uint32_t
leat_reactor_events_us(const struct leat_reactor *r)
{
	return RLX_LOAD(r->events_interval_us);
}

unsigned int
leat_reactor_id(const struct leat_reactor *r)
{
	return r->id;
}

const char *
leat_reactor_name(const struct leat_reactor *r)
{
	return r->name;
}

enum leat_reactor_state
leat_reactor_state(const struct leat_reactor *r)
{
	return __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);
}

void
leat_reactor_stats_get(const struct leat_reactor *r, struct leat_reactor_stats *stats)
{
	stats->turns = RLX_LOAD(r->turns);
	stats->busy_cycles = RLX_LOAD(r->busy_cycles);
	stats->idle_cycles = RLX_LOAD(r->idle_cycles);
	stats->sleep_cycles = RLX_LOAD(r->sleep_cycles);
	stats->housekeeping_cycles = RLX_LOAD(r->hk_cycles);
	stats->turn_max_cycles = RLX_LOAD(r->turn_max);
	stats->messages = RLX_LOAD(r->messages);
	stats->timers = RLX_LOAD(r->timers);
	stats->sleeps = RLX_LOAD(r->sleeps);
	stats->yields = RLX_LOAD(r->yields);
	stats->blocks = RLX_LOAD(r->blocks);
	stats->wake_events = RLX_LOAD(r->wake_events);
	stats->wake_messages = RLX_LOAD(r->wake_messages);
	stats->wake_timeouts = RLX_LOAD(r->wake_timeouts);
}

void
leat_reactor_turn_max_reset(struct leat_reactor *r)
{
	/* At worst, the owner then stores the length of a turn that began before this store. */
	RLX_STORE(r->turn_max, 0);
}

/*
 * Return the average cost moved by a quarter of its distance to the sample. The sample is limited
 * from above: one preemption must not spoil the average for long.
 */
static inline uint32_t
smooth(uint32_t cost, uint64_t sample)
{
	uint64_t limit = RTE_MIN((uint64_t)cost * 4 + 256, (uint64_t)INT32_MAX);

	return cost + (int32_t)((uint32_t)RTE_MIN(sample, limit) - cost) / 4;
}

/*
 * Call each poller once, and return the time of the end.
 *
 * Which poller used the time? Reading the clock after each call would be exact, but can cost more
 * than the call of an idle poller. So the clock is read after pollers that worked, and once at the
 * end. An idle run is charged with the poller's average cost, which is measured in the turns in
 * which the clock is read after each poller (sample).
 *
 *     poller    A idle   B busy        C idle   D idle
 *     clock   ^                      ^                 ^
 *             now                  B's time: since   end
 *                                  now, less A's cost
 */
static __rte_always_inline uint64_t
run_pollers(struct leat_reactor *r, uint64_t now, const bool sample, bool *worked)
{
	uint64_t last = now, busy = 0, idle = 0, t = 0;
	uint32_t i, n = r->nb_active;

	for (i = 0; i < n; i++) {
		struct leat_poller *p = r->active[i];
		uint64_t cycles;
		int rc;

		/* A poller that ran earlier in this turn paused or removed this one. */
		if (unlikely(RLX_LOAD(p->state) != LEAT_POLLER_WAITING)) {
			t = 0;
			continue;
		}
		RLX_STORE(r->running, p);
		rc = p->fn(p->arg, now);
		RLX_ADD(p->runs, 1);
		if (likely(rc == 0)) {
			if (sample) {
				t = leat_now();
				RLX_ADD(p->idle_cycles, t - last);
				p->idle_cost = smooth(p->idle_cost, t - last);
				last = t;
			} else {
				t = 0;
				idle += p->idle_cost;
				RLX_ADD(p->idle_cycles, p->idle_cost);
			}
			continue;
		}
		t = leat_now();
		cycles = t - last;
		cycles -= RTE_MIN(cycles, idle);
		last = t;
		idle = 0;
		busy += cycles;
		RLX_ADD(p->busy_runs, 1);
		RLX_ADD(p->busy_cycles, cycles);
		*worked = true;
		if (unlikely(rc < 0))
			reactor_poller_failed(p, rc);
	}
	RLX_STORE(r->running, NULL);

	if (t == 0)
		t = leat_now();
	if (busy != 0)
		RLX_ADD(r->busy_cycles, busy);
	RLX_ADD(r->idle_cycles, t - now - busy);
	return t;
}

static __rte_noinline uint64_t
run_pollers_sampled(struct leat_reactor *r, uint64_t now, bool *worked)
{
	return run_pollers(r, now, true, worked);
}

/* Do the work that is not done in each turn. Returns the time of its end. */
static __rte_noinline uint64_t
housekeeping(struct leat_reactor *r, uint64_t now, bool *worked)
{
	uint32_t state;

	r->stamp = now;
	r->worked = 0;

	/* Before taking messages, acquire what other threads did before they stored ATTN_WORK. */
	if (RLX_LOAD(r->attn->word) != ATTN_NONE) {
		__atomic_exchange_n(&r->attn->word, ATTN_NONE, __ATOMIC_ACQUIRE);
		/* Acquire: pairs with leat_reactor_wake(). */
		if (RLX_LOAD(r->attn->turn) != 0)
			r->again = __atomic_exchange_n(&r->attn->turn, 0, __ATOMIC_ACQUIRE) != 0;
		if (unlikely(RLX_LOAD(r->idle_changed) != 0)) {
			RLX_STORE(r->idle_changed, 0);
			reactor_tune_idle_show(r);
		}
	}
	leat_tune_serve(r->tune);
	if (reactor_messages_run(r) > 0) {
		r->worked = 1;
		RLX_ADD(r->busy_cycles, reactor_lap(r));
	}
	reactor_timers_run(r, now);
	RLX_STORE(r->nb_timers, leat_wheel_count(&r->wheel));
	reactor_idle_choose(r, now);

	state = RLX_LOAD(r->state);
	if (unlikely(state == LEAT_REACTOR_STOPPING ||
		     r->stop_seen != __atomic_load_n(&r->attn->stop_count, __ATOMIC_ACQUIRE)))
		reactor_stop_step(r, now);
	if (unlikely(r->dirty != 0))
		reactor_pollers_compact(r);

	RLX_ADD(r->hk_cycles, reactor_lap(r));
	r->due = RTE_MIN(leat_time_add(r->stamp, r->hk_interval), leat_wheel_due(&r->wheel));
	r->due = RTE_MIN(r->due, r->stop_deadline);
	if (r->worked)
		*worked = true;
	return r->stamp;
}

/* Run one turn that begins at `now`. Returns the time of its end, at which the next one begins. */
static __rte_always_inline uint64_t
turn(struct leat_reactor *r, uint64_t now, bool *worked)
{
	bool nth = (r->turns & r->hk_mask) == 0;
	uint64_t end;

	*worked = false;
	if (unlikely(nth))
		end = run_pollers_sampled(r, now, worked);
	else
		end = run_pollers(r, now, false, worked);
	RLX_STORE(r->turns, r->turns + 1);

	if (unlikely(nth || end >= r->due || RLX_LOAD(r->attn->word) != ATTN_NONE))
		end = housekeeping(r, end, worked);
	if (unlikely(end - now > RLX_LOAD(r->turn_max)))
		RLX_STORE(r->turn_max, end - now);

	if (*worked)
		r->idle_since = 0;
	else if (r->effective > LEAT_IDLE_SPIN && !r->done)
		end = reactor_idle(r, end);
	return end;
}

/*
 * Claim the reactor for the calling thread, or for an lcore. @return its state before that, or
 * -EBUSY
 */
static int
claim(struct leat_reactor *r)
{
	uint32_t state = RLX_LOAD(r->state);

	while (state == LEAT_REACTOR_READY || state == LEAT_REACTOR_STOPPED)
		if (__atomic_compare_exchange_n(&r->state, &state, LEAT_REACTOR_RUNNING, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			reactor_messages_open(r);
			return (int)state;
		}
	return leat_err(EBUSY, "%s: it is running already", r->name);
}

/* Undo claim() for a reactor that was not run. state: its state before the claim. */
static void
unclaim(struct leat_reactor *r, uint32_t state)
{
	unsigned int lost = state == LEAT_REACTOR_STOPPED ? reactor_messages_drop(r) : 0;

	if (lost > 0)
		LEAT_LOG(WARNING, reactor, "%s: not launched, %u messages were never run", r->name,
			 lost);
	__atomic_store_n(&r->state, state, __ATOMIC_RELEASE);
	/* A thread may be waiting for the end of this run, which never began. */
	reactor_sys->wake(&r->state);
}

static void
enter(struct leat_reactor *r, bool by_turns)
{
	RLX_STORE(r->owner, &self);
	RLX_STORE(r->by_turns, by_turns);
	RLX_STORE(r->lcore, rte_lcore_id());
	r->done = 0;
	r->due = 0;
	r->idle_since = 0;
	reactor_stop_reset(r);
	reactor_registry_enter(r);
}

static int
run_claimed(struct leat_reactor *r)
{
	int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	uint64_t now;
	bool worked;

	enter(r, false);
	self = r;
	if (prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0) < 0)
		LEAT_LOG(DEBUG, reactor, "%s: sleeps may be 50 us longer than asked for", r->name);

	now = leat_now();
	do {
		now = turn(r, now, &worked);
	} while (likely(!r->done));

	if (slack > 0 && prctl(PR_SET_TIMERSLACK, (unsigned long)slack, 0, 0, 0) < 0)
		LEAT_LOG(DEBUG, reactor, "%s: timer slack of the thread stays at 1 us", r->name);
	self = NULL;
	return r->result;
}

static int
leave(struct leat_reactor *r, int result)
{
	uint32_t *state = &r->state;

	reactor_registry_leave(r);
	/*
	 * Release: pairs with the acquire in leat_reactor_wait(). From now on another thread may
	 * run or destroy the reactor; the wake-up needs only the address.
	 */
	__atomic_store_n(state, LEAT_REACTOR_STOPPED, __ATOMIC_RELEASE);
	reactor_sys->wake(state);
	return result;
}

int
leat_reactor_run(struct leat_reactor *r)
{
	int ret;

	if (self != NULL)
		return leat_err(EBUSY, "%s: run: this thread is inside %s", r->name, self->name);
	ret = claim(r);
	if (ret < 0)
		return ret;
	r->launched = LCORE_ID_ANY;
	return leave(r, run_claimed(r));
}

static int
lcore_main(void *arg)
{
	struct leat_reactor *r = arg;

	return leave(r, run_claimed(r));
}

int
leat_reactor_launch(struct leat_reactor *r, unsigned int lcore)
{
	unsigned int before;
	int ret, was;

	if (lcore >= RTE_MAX_LCORE || !rte_lcore_is_enabled(lcore) || lcore == rte_get_main_lcore())
		return leat_err(EINVAL, "%s: launch: lcore %u is not a worker lcore; see -l",
				r->name, lcore);
	/* Check this before the reactor is claimed: a claimed reactor accepts messages. */
	if (rte_eal_get_lcore_state(lcore) != WAIT)
		return leat_err(EBUSY, "%s: launch: lcore %u is busy", r->name, lcore);
	was = claim(r);
	if (was < 0)
		return was;
	RLX_STORE(r->owner, NULL);
	RLX_STORE(r->by_turns, false);
	before = r->launched;
	r->launched = lcore;
	ret = rte_eal_remote_launch(lcore_main, r, lcore);
	if (ret < 0) { /* another thread has used the lcore meanwhile */
		r->launched = before;
		unclaim(r, (uint32_t)was);
		return leat_err(EBUSY, "%s: launch: lcore %u is busy", r->name, lcore);
	}
	return 0;
}

int
leat_reactor_turn(struct leat_reactor *r)
{
	uint32_t state = RLX_LOAD(r->state);
	struct leat_reactor *outer;
	bool worked, more;
	int ret;

	if (unlikely(state == LEAT_REACTOR_READY)) {
		ret = claim(r);
		if (ret < 0)
			return ret;
		enter(r, true);
	} else if (unlikely(state == LEAT_REACTOR_STOPPED)) {
		return r->result < 0 ? leat_err(-r->result, "%s", r->why) : -ESHUTDOWN;
	}
	if (unlikely(RLX_LOAD(r->owner) != &self || !RLX_LOAD(r->by_turns) || self == r))
		return leat_err(EBUSY, "%s: turn: another thread runs it, or it is in a turn",
				r->name);

	outer = reactor_self_set(r);
	turn(r, leat_now(), &worked);
	self = outer;
	more = r->again;
	r->again = false;
	if (unlikely(r->done))
		leave(r, r->result);
	return worked || (!r->done && (more || reactor_ready(r)));
}
