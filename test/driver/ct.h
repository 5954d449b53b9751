/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef CT_H
#define CT_H

/*
 * The interface of the tests. A test gives requests to sides: endpoints that are near (CT_NEAR: in
 * the thread of the test) or far (CT_FAR). The mode decides where far endpoints live; a test is the
 * same in all modes.
 *
 *     --mode self     in the thread of the test, which drives both sides in turn: nothing depends
 *                     on the scheduler
 *     --mode lcores   on another lcore of this process
 *     --mode fork     in other processes, which can be killed
 *
 *     struct ct_pair p;
 *     ct_pair_open(&p, NULL, NULL);                      two endpoints, connected
 *     rx = ct_stream(&p.b, &(struct ct_spec){ ... });    "receive 10 messages of this pattern"
 *     tx = ct_stream(&p.a, &(struct ct_spec){ ... });    "send 10 messages of this pattern"
 *     ct_wait_ok(&p.a, tx, 10);                          all sent, status 0
 *     ct_wait_ok(&p.b, rx, 10);                          all received, every byte right
 *
 * Each of these functions drives the near endpoints while it waits. A function that fails ends the
 * test.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_time.h>

#include "agent.h"
#include "pattern.h"

enum ct_mode { CT_SELF_MODE = 1, CT_LCORES_MODE = 2, CT_FORK_MODE = 4 };
#define CT_ALL_MODES 7

/* Capabilities that a test may need, besides op types. */
#define CT_CAP_DIRECTED 0x1
#define CT_CAP_SOURCE 0x2
#define CT_CAP_SEND_IMM 0x4
#define CT_CAP_BOUNDED 0x8
#define CT_CAP_WAIT 0x10
#define CT_CAP_CABLE 0x20

/* Kinds of endpoints that a test applies to. */
#define CT_RELIABLE (1u << LEAT_EP_RELIABLE) /* messages arrive, in order */
/* messages may be lost, a peer's end is not reported */
#define CT_DATAGRAM (1u << LEAT_EP_DATAGRAM)
#define CT_ANY_TYPE (CT_RELIABLE | CT_DATAGRAM)

struct ct_test {
	const char *name; /* "promise.what_it_shows" */
	void (*fn)(void);
	uint32_t modes; /* 0: all */
	uint32_t ops;	/* op types that the device must be able to do */
	uint32_t caps;
	uint32_t types; /* 0: CT_RELIABLE */
};

#define SR (LEAT_OP_BIT(LEAT_OP_SEND) | LEAT_OP_BIT(LEAT_OP_RECV))
#define TSR (LEAT_OP_BIT(LEAT_OP_TSEND) | LEAT_OP_BIT(LEAT_OP_TRECV))
#define W LEAT_OP_BIT(LEAT_OP_WRITE)
#define WI LEAT_OP_BIT(LEAT_OP_WRITE_IMM)
#define R LEAT_OP_BIT(LEAT_OP_READ)
#define FA LEAT_OP_BIT(LEAT_OP_FETCH_ADD)
#define CS LEAT_OP_BIT(LEAT_OP_CMP_SWAP)

/* Each file's tests end with a NULL name. */
extern const struct ct_test ct_tests_ops[], ct_tests_onesided[], ct_tests_conservation[],
	ct_tests_order[], ct_tests_ownership[], ct_tests_bounded[], ct_tests_errors[],
	ct_tests_refused[], ct_tests_silence[], ct_tests_stop[], ct_tests_alone[],
	ct_tests_connect[], ct_tests_peers[], ct_tests_clients[], ct_tests_cancel[],
	ct_tests_death[], ct_tests_threads[], ct_tests_wait[], ct_tests_cable[],
	ct_tests_datagram[], ct_tests_datagram_peers[], ct_tests_random[];

/* Options of the program, and the device under test. */
struct ct_globals {
	struct leat_dev *dev;
	struct leat_dev_info info; /* limits of an endpoint with all tested ops */
	enum ct_mode mode;
	enum leat_ep_type type; /* type of all endpoints */
	uint64_t seed;		/* seed of the current run */
	uint32_t nb_seeds;	/* runs of each test, each with the next seed */
	const char *filter[32]; /* globs: a test runs if one matches, or if there are none */
	uint32_t nb_filter;
	uint32_t scale;	       /* percent of the usual amount of work */
	const char *known[16]; /* GLOB=REASON of tests that the device is known to fail */
	uint32_t nb_known;
	bool plain;		/* test no ops that the library emulates in software */
	uint32_t slow;		/* factor on every time limit */
	const char *listen;	/* address with port 0 */
	const char *far_listen; /* as listen, for far processes that use a second device, or NULL */
	const char *cable;	/* command that pulls the cable between the sides, or NULL */
	bool impatient;		/* the device disconnects a peer that posts no receives */
	bool eal_memory;	/* buffers and most regions lie in EAL memory */
	int argc;		/* the program's arguments, which its children get as well */
	char **argv;
};
extern struct ct_globals ct;

/*
 * Time that a loaded machine may add to a time limit, ms; multiplied by ct.slow. With ct.slow 1 it
 * is less than the 5 s after which a connect without a limit fails: a test still notices a driver
 * that ignores the limit.
 */
#define CT_SLACK_MS 4000

static inline uint64_t
ct_ms_since(uint64_t start)
{
	return leat_cycles_to_ns(leat_now() - start) / 1000000;
}

/* Did an action that took ms keep its limit? The slack is for a loaded machine. */
static inline bool
ct_in_time(uint64_t ms, uint64_t limit_ms)
{
	return ms <= limit_ms + (uint64_t)CT_SLACK_MS * ct.slow;
}

/* Amount of work, scaled; at least 1. */
static inline uint32_t
ct_scaled(uint32_t n)
{
	uint64_t s = (uint64_t)n * ct.scale / 100;

	return s == 0 ? 1 : (uint32_t)s;
}

/* ---- run.c: outcome of a test ---- */

void ct_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
void ct_skip(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Print a line of the report. */
void ct_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int ct_run(const struct ct_test *const *groups, bool list);

#define CT_FAIL(...) ct_fail(__FILE__, __LINE__, __VA_ARGS__)
#define CT_CHECK(cond, ...)                                                                        \
	do {                                                                                       \
		if (!(cond))                                                                       \
			ct_fail(__FILE__, __LINE__, __VA_ARGS__);                                  \
	} while (0)
#define CT_EQ(got, want, what)                                                                     \
	do {                                                                                       \
		int64_t got_ = (int64_t)(got), want_ = (int64_t)(want);                            \
		if (got_ != want_)                                                                 \
			ct_fail(__FILE__, __LINE__, "%s: %" PRId64 ", expected %" PRId64, what,    \
				got_, want_);                                                      \
	} while (0)

/* ---- host.c: the threads and processes in which sides live ---- */

struct ct_host;

struct ct_side {
	struct ct_host *host;
	unsigned int node;
	const char *what; /* "near" or "far 0", for messages */
};

void ct_hosts_init(void);
void ct_hosts_fini(void);
/*
 * Close every endpoint; a killed process is replaced by a new one. @return what went wrong, or NULL
 */
const char *ct_hosts_reset(bool failed);
void ct_hosts_dump(void);
/* After a jump out of a call of leat: abandon this thread's endpoints without closing them. */
void ct_hosts_abandon(void);
struct ct_side ct_near(unsigned int i);
struct ct_side ct_far(unsigned int i);
/* Drive the near endpoints, and in CT_SELF_MODE the far ones, once. */
void ct_pump(void);
/*
 * As ct_pump(), for us microseconds, to see that an event does not happen. To wait for an event
 * that must happen use CT_UNTIL: on a loaded machine one turn can take all of this time.
 */
void ct_pump_us(uint64_t us);
#define CT_UNTIL(cond, ...)                                                                        \
	do {                                                                                       \
		uint64_t limit_ = leat_now() + leat_us_to_cycles(UINT64_C(20000000) * ct.slow);    \
		while (!(cond)) {                                                                  \
			CT_CHECK(leat_now() < limit_, __VA_ARGS__);                                \
			ct_pump();                                                                 \
		}                                                                                  \
	} while (0)
/*
 * Kill the side's process with SIGKILL, and wait until it has ended. The next ct_far() of the same
 * number starts a new process.
 */
void ct_kill(struct ct_side *s);
/*
 * Send a request and wait for its answer. An answer with err < 0 is returned; any other failure
 * ends the test.
 */
void ct_call(struct ct_side *s, struct ct_req *req, struct ct_rep *rep);
/* The endpoint of a near side. */
struct ct_node *ct_node(struct ct_side *s);
/* Run a child process until its parent has ended; role differs between children. */
int ct_child(uint64_t role);

/* ---- side.c: requests; a function that returns int returns what the side's call returned ---- */

int ct_try_open(struct ct_side *s, const struct ct_conf *conf);
void ct_open(struct ct_side *s, const struct ct_conf *conf);
void ct_listen(struct ct_side *s, char *addr);
int ct_try_connect(struct ct_side *s, const char *addr, const void *priv, uint16_t len,
		   uint64_t timeout_us, uint64_t user);
/* Connect a to b, and wait until both ends are up. b must listen and accept. */
void ct_connect(struct ct_side *a, struct ct_side *b, const char *addr, uint16_t *pa, uint16_t *pb);
void ct_policy(struct ct_side *s, enum ct_policy p, const void *priv, uint16_t len);
int ct_accept(struct ct_side *s, uint16_t peer, const void *priv, uint16_t len);
int ct_reject(struct ct_side *s, uint16_t peer);
/* Wait for an event; timeout_ms 0: the default timeout. @return whether it came */
bool ct_try_event(struct ct_side *s, enum leat_event_type type, uint16_t peer, uint32_t timeout_ms,
		  struct leat_event *ev);
void ct_event(struct ct_side *s, enum leat_event_type type, uint16_t peer, struct leat_event *ev);
void ct_counts(struct ct_side *s, uint64_t *counts);
int ct_peer_state(struct ct_side *s, uint16_t peer);
int ct_disconnect(struct ct_side *s, uint16_t peer);
/* Wait until a peer id is free, after its DISCONNECTED or CONNECT_FAILED event. */
void ct_wait_free(struct ct_side *s, uint16_t peer);
/* Start a stream. Sizes above the device's largest message are reduced to that size. */
int ct_stream(struct ct_side *s, const struct ct_spec *spec);
/* Wait until n ops of the stream have completed. @return whether they did in time */
bool ct_try_wait(struct ct_side *s, int stream, uint32_t n, uint32_t timeout_ms,
		 struct ct_result *res);
void ct_wait(struct ct_side *s, int stream, uint32_t n, struct ct_result *res);
/* Wait until n ops of the stream were accepted. */
void ct_wait_posted(struct ct_side *s, int stream, uint32_t n);
/* As ct_wait(), and all n must be successful and have the right data. */
void ct_wait_ok(struct ct_side *s, int stream, uint32_t n);
/*
 * Prepare no more ops; those already prepared will still be posted. @return how many ops the stream
 * has now
 */
uint32_t ct_trim(struct ct_side *s, int stream);
void ct_result(struct ct_side *s, int stream, struct ct_result *res);
/* Run a stream of one op to its end. @return the op's status */
int ct_one(struct ct_side *s, const struct ct_spec *spec, struct ct_result *res);
/*
 * Cancel ops [from, to) of a stream. @return how many cancels were accepted; *cant: how many were
 * refused because the device can't cancel such ops
 */
uint32_t ct_cancel(struct ct_side *s, int stream, uint32_t from, uint32_t to, uint32_t *cant);
/*
 * Cancel the ops that the stream has in flight, prepare no more, and wait until all have completed.
 * @return how many ops the stream had
 */
uint32_t ct_recall(struct ct_side *s, int stream, struct ct_result *res);
int ct_try_mr(struct ct_side *s, uint64_t len, uint32_t access, uint64_t seed,
	      struct leat_rkey *rkey);
int ct_mr(struct ct_side *s, uint64_t len, uint32_t access, uint64_t seed, struct leat_rkey *rkey);
/*
 * Check that the region holds, in len bytes from off on, the pattern of seed from its byte `at` on.
 * @return the offset of the first wrong byte, or -1
 */
int64_t ct_mr_verify(struct ct_side *s, int mr, uint64_t off, uint64_t len, uint64_t seed,
		     uint64_t at);
void ct_mr_check(struct ct_side *s, int mr, uint64_t off, uint64_t len, uint64_t seed, uint64_t at);
void ct_mr_fill(struct ct_side *s, int mr, uint64_t off, uint64_t len, uint64_t seed, uint64_t at);
uint64_t ct_mr_peek(struct ct_side *s, int mr, uint64_t off);
void ct_mr_poke(struct ct_side *s, int mr, uint64_t off, uint64_t value);
int ct_mr_dereg(struct ct_side *s, int mr);
void ct_freeze(struct ct_side *s, bool frozen);
int ct_shutdown(struct ct_side *s, uint64_t timeout_us);
int ct_destroy(struct ct_side *s);
/* End an endpoint cleanly: shutdown, SHUTDOWN event, destroy. */
void ct_finish(struct ct_side *s);
int ct_close(struct ct_side *s, uint64_t timeout_us);
struct ct_rep ct_state(struct ct_side *s);
/* @return leat_err_msg() of the last call that failed */
const char *ct_err_text(void);

/* @return how often a status occurs in a result */
uint32_t ct_status_count(const struct ct_result *res, int status);
/*
 * Every op of the result must have completed with status 0 or one of these (0 ends the list).
 */
void ct_only(const struct ct_result *res, const int *allowed, const char *what);
#define CT_ONLY(res, what, ...) ct_only(res, (const int[]){ __VA_ARGS__, 0 }, what)

/* ---- pair.c ---- */

struct ct_pair {
	struct ct_side a, b;	  /* near, far 0 */
	uint16_t pa, pb;	  /* a's id for b, b's id for a */
	char addr[LEAT_ADDR_MAX]; /* where b listens */
};

void ct_pair_open(struct ct_pair *p, const struct ct_conf *ca, const struct ct_conf *cb);
/* Close both sides cleanly. */
void ct_pair_close(struct ct_pair *p);

/* A near endpoint between two others, which connected to it. */
struct ct_trio {
	struct ct_side a, b, c;	  /* near, far 0, far 1: another process in CT_FORK_MODE */
	uint16_t pb, pc;	  /* a's ids for b and c */
	uint16_t ab, ac;	  /* the ids of a at b and at c */
	char addr[LEAT_ADDR_MAX]; /* where a listens */
};

void ct_trio_open(struct ct_trio *t, const struct ct_conf *ca);
void ct_trio_close(struct ct_trio *t);

/*
 * Send datagrams of at least 8 B until count of them were received: lost ones are sent again. More
 * may arrive later.
 */
void ct_datagrams(struct ct_side *from, uint16_t to_peer, struct ct_side *to, uint32_t count,
		  uint64_t size, uint64_t size_max, uint64_t seed);
/* Send count messages of size to size_max bytes, and receive and check all of them. */
void ct_traffic(struct ct_side *from, uint16_t to_peer, struct ct_side *to, uint32_t count,
		uint64_t size, uint64_t size_max, uint64_t seed);
/* Check that messages arrive in both directions of the connection. */
void ct_pair_works(struct ct_pair *p);
/* @return a size that the device does not send before the receiver has posted a receive */
uint64_t ct_big(void);
/*
 * Open the pair, freeze b (CT_FREEZE: it does nothing), and post count sends of ct_big() bytes to
 * it, with a deadline if timeout_us is not 0. @return the stream of a
 */
int ct_pair_big_sends(struct ct_pair *p, uint32_t count, uint64_t timeout_us);
/* @return the remote rights for every op of the device on remote memory; 0: it has none */
uint32_t ct_access(void);

/*
 * Store the sizes with which every op type is tried, up to the device's limit. @return how many
 */
unsigned int ct_sizes(uint64_t *sizes, unsigned int max);

#endif /* CT_H */
