/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat-shm-hostile ROUNDS SEED EAL-ARGUMENTS
 *
 * A peer of a shm endpoint writes ROUNDS times arbitrary values to the memory that it shares; or
 * connects with a malformed hello (struct shm_hello), or with wrong descriptors. Only the peer's
 * own connection may end: the endpoint's other connections must go on, with every byte right. When
 * the peer's connection has ended, the peer connects again.
 *
 * All of it runs in one process, from one loop and one seed, so that each run can be repeated, and
 * a sanitizer sees both sides.
 */

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include <rte_common.h>

#include <leat_error.h>

#include "leat_cmocka.h"
#include "honest.h"
#include "intruder.h"

/*
 * Maximum number of rounds in one life of the intruder, from a connect to the end of the
 * connection.
 */
#define LIFE 4000
/*
 * An endpoint refuses a connector that makes no progress for seconds. A well-formed intruder is
 * refused if the machine gives this process no CPU time: allow this many refusals in a run.
 */
#define LATE_MAX 5

static struct honest victim, bystander;
static struct intruder intruder;
static uint64_t random_state;
static unsigned int nb_late; /* lives that did not begin in time */

static bool
is_datagram(const struct leat_dev *dev)
{
	struct leat_dev_info info;

	CHECK(leat_dev_info_get(dev, &info) == 0, "%s", leat_err_msg());
	return (info.ep_types & 1u << LEAT_EP_DATAGRAM) != 0;
}

static void
turn(void)
{
	honest_turn(&victim, &bystander);
	intruder_turn(&intruder);
}

static void
end_life(void)
{
	intruder_end(&intruder);
	/* A datagram endpoint gets no event when a peer leaves: disconnect it. */
	if (victim.datagram)
		honest_disconnect(&victim);
	UNTIL(TRAFFIC_PATIENCE_US, turn(), victim.intruder == LEAT_PEER_ANY,
	      "the intruder's connection does not end");
	honest_check(&victim, &bystander);
}

static void
begin_life(enum intruder_hello hello)
{
	const bool listens = (test_random(&random_state) & 1) != 0;

	victim.queued = (test_random(&random_state) & 1) != 0;
	intruder_begin(&intruder, victim.addr, listens, hello);
	if (listens)
		honest_connect(&victim, intruder.addr);
}

/* Let a well-formed intruder connect. @return false: the machine was too slow for it */
static bool
let_in(void)
{
	begin_life(INTRUDER_WELL_FORMED);
	UNTIL(TRAFFIC_PATIENCE_US, turn(), intruder.up || intruder.ended, "no connection");
	if (!intruder.up && strstr(intruder.why, "made no progress") != NULL &&
	    nb_late < LATE_MAX) {
		nb_late++;
		end_life();
		return false;
	}
	CHECK(intruder.up, "a well-formed intruder is turned away: %s", intruder.why);
	return true;
}

/* Let the intruder write up to max times. @return how many rounds were run */
static uint64_t
attack(uint64_t max)
{
	uint64_t n = 0, i, burst, life = RTE_MIN(max, 1 + test_random(&random_state) % LIFE);

	if (!let_in())
		return 0;
	while (n < life && intruder.up) {
		burst = UINT64_C(1) << test_random(&random_state) % 5;
		for (i = 0; i < burst; i++)
			intruder_attack(&intruder);
		n += burst;
		turn();
	}
	if ((test_random(&random_state) & 7) == 0)
		honest_disconnect(&victim);
	end_life();
	return n;
}

/*
 * Send a datagram whose bytes are not in the intruder's buffer, after `before` good ones. The
 * victim must receive none of its bytes, and no other message, and end the connection.
 */
static void
bad_bytes(uint32_t before, uint32_t flags)
{
	const uint32_t violated = victim.intruders_violated;
	uint64_t first = victim.intruder_messages, n;

	if (!let_in())
		return;
	for (n = 1; n <= before; n++) {
		intruder_send(&intruder, RING_F_INLINE << 8 | LEAT_OP_SEND, 8, n);
		UNTIL(TRAFFIC_PATIENCE_US, turn(), victim.intruder_messages == first + n,
		      "the intruder's datagram %" PRIu64 " does not arrive", n);
	}
	intruder_send(&intruder, flags << 8 | LEAT_OP_SEND, 1000, intruder.shape.nb_bytes);
	UNTIL(TRAFFIC_PATIENCE_US, turn(), victim.intruder == LEAT_PEER_ANY,
	      "the connection survives a datagram whose bytes are not in the buffer");
	CHECK(victim.intruder_messages == first + before,
	      "%" PRIu64 " datagrams received, after %" PRIu32 " good ones",
	      victim.intruder_messages - first, before);
	CHECK(victim.intruders_violated == violated + 1, "the victim does not say why it ended");
	end_life();
}

/* The last datagram of the second half is number 65534 modulo 65536. */
static void
all_bad_bytes(void)
{
	const uint32_t last = (uint16_t)(UINT16_MAX - 1 - RING_FIRST);
	unsigned int i;

	victim.silent = true;
	for (i = 0; i < 16; i++)
		bad_bytes(i < 8 ? i : last, (i & 1) != 0 ? RING_F_IMM : 0);
	victim.silent = false;
}

/* A peer with this hello must never be accepted. */
static void
bad_hello(enum intruder_hello hello)
{
	const uint32_t before = victim.intruders;

	begin_life(hello);
	UNTIL(TRAFFIC_PATIENCE_US, turn(), intruder.up || intruder.ended, "hello %d: no answer",
	      (int)hello);
	/* On a kernel without huge pages INTRUDER_LANE_HUGE is a well-formed hello. */
	if (hello != INTRUDER_LANE_HUGE)
		UNTIL(TRAFFIC_PATIENCE_US, turn(), victim.intruder == LEAT_PEER_ANY,
		      "hello %d: it is let in", (int)hello);
	end_life();
	CHECK(victim.intruders == before || hello == INTRUDER_LANE_HUGE, "hello %d: it is let in",
	      (int)hello);
}

static void
play(struct leat_dev *dev, const char *dir, uint64_t rounds)
{
	uint64_t n = 0, told = 0;
	const bool datagram = is_datagram(dev);
	int hello;

	honest_open(&victim, &bystander, dev, datagram, random_state % 4 == 1 ? HONEST_CONNS : 2,
		    random_state);
	intruder_open(&intruder, dir, datagram, random_state);
	for (hello = 1; hello < INTRUDER_HELLOS; hello++)
		bad_hello((enum intruder_hello)hello);
	if (datagram)
		all_bad_bytes();
	while (n < rounds) {
		n += attack(rounds - n);
		if (n / 100000 != told) {
			told = n / 100000;
			printf("# %" PRIu64 " rounds\n", n);
			CHECK(fflush(stdout) == 0, "stdout");
		}
	}
	intruder_close(&intruder);
	printf("# %" PRIu64 " rounds, %u intruders, %u of them broke the rules\n", n,
	       victim.intruders, victim.intruders_violated);
	honest_close(&victim, &bystander);
}

/* Find the value of the device's argument dir=. @return buf, which holds it */
static const char *
directory(int argc, char **argv, char *buf, size_t len)
{
	const char *at;
	int i;

	for (i = 1; i < argc; i++) {
		at = strstr(argv[i], "dir=");
		if (at == NULL)
			continue;
		snprintf(buf, len, "%.*s", (int)strcspn(at + 4, ","), at + 4);
		return buf;
	}
	CHECK(false, "the device needs an argument dir=");
	return NULL;
}

int
main(int argc, char **argv)
{
	uint64_t rounds;
	char dir[128];
	cpu_set_t cpus;

	CHECK(argc > 3, "usage: leat-shm-hostile ROUNDS SEED EAL-ARGUMENTS");
	rounds = strtoull(argv[1], NULL, 0);
	random_state = strtoull(argv[2], NULL, 0) | 1;
	argv[2] = argv[0];
	(void)directory(argc, argv, dir, sizeof(dir));
	/*
	 * EAL pins this thread to one CPU, the same in all concurrent tests: undo that.
	 */
	CHECK(sched_getaffinity(0, sizeof(cpus), &cpus) == 0, "affinity: %s", strerror(errno));
	CHECK(leat_init(argc - 2, argv + 2) >= 0, "leat_init: %s", leat_err_msg());
	CHECK(sched_setaffinity(0, sizeof(cpus), &cpus) == 0, "affinity: %s", strerror(errno));
	CHECK(leat_dev_get(0) != NULL, "no device");
	play(leat_dev_get(0), dir, rounds);
	CHECK(leat_cleanup() == 0, "%s", leat_err_msg());
	return 0;
}
