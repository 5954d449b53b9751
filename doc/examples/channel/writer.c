/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Telemetry: a loop that must not be slowed tells what it does, and a program in Python looks on.
 *
 *	make && ./writer /telemetry &		samples until Ctrl-C; ./writer /telemetry 1000: so many
 *	./reader.py /telemetry			statistics, when the writer has ended
 *
 *     writer.c                                      reader.py
 *       reserve, fill, commit  --- /telemetry -->     peek, add up, consume
 *       terminate              ------------------>    Terminated: print
 *
 * Whoever comes first makes the channel. A sample that nobody fetches in time is overwritten by newer ones: the
 * loop never waits. They are numbered, so that the reader knows how many it has missed. It needs no DPDK:
 * neither of the two does.
 */

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <leat_channel.h>

#define NS_PER_S UINT64_C(1000000000)
#define MAKE_NS NS_PER_S /* how long another one may take to make the channel */

/* A frame of type 1. Both sides have the definition, and compare its hash with that of each frame. */
#define SAMPLE_TYPE 1
#define SAMPLE_DEFINITION "sample: number u64, time_ns u64, packets u64, depth u32, core u32"

struct sample {
	uint64_t number; /* from 0; none is left out but those that were overwritten */
	uint64_t time_ns;
	uint64_t packets; /* since the last one */
	uint32_t depth;	  /* of the queue */
	uint32_t core;
};

static volatile sig_atomic_t stop;

static void
on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

/* FNV-1a, 64 bits */
static uint64_t
hash_of(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t
now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Who comes first makes it. The other one may come while it is being made, or is removed. */
static struct leat_channel *
make_or_open(const char *name, const struct leat_channel_opts *opts)
{
	uint64_t end = now_ns() + MAKE_NS;
	struct leat_channel *ch;

	do {
		ch = leat_channel_create(name, NULL, opts);
		if (ch != NULL || errno != EEXIST)
			return ch;
		ch = leat_channel_open(name, opts);
		if (ch != NULL || (errno != ENOENT && errno != EAGAIN))
			return ch;
		sched_yield();
	} while (now_ns() < end);
	return NULL;
}

/* One turn of the loop: what it did goes straight into shared memory. */
static int
tell(struct leat_channel *ch, uint64_t hash, uint64_t number)
{
	struct sample *s;
	void *data;
	int ret;

	ret = leat_channel_reserve(ch, SAMPLE_TYPE, hash, sizeof(*s), &data);
	if (ret < 0)
		return ret;
	s = (struct sample *)data;
	s->number = number;
	s->time_ns = now_ns();
	s->packets = number % 64;
	s->depth = (uint32_t)(number % 32);
	s->core = 0;
	return leat_channel_commit(ch);
}

int
main(int argc, char **argv)
{
	const struct leat_channel_opts opts = { .full = LEAT_CHANNEL_FULL_DROP_OLDEST };
	const char *name = argc > 1 ? argv[1] : "/telemetry";
	uint64_t hash = hash_of(SAMPLE_DEFINITION), number, count, refused = 0;
	struct sigaction sa;
	struct leat_channel *ch;
	int ret = 0;

	count = argc > 2 ? strtoull(argv[2], NULL, 10) : UINT64_MAX;
	if (argc > 3 || count == 0) {
		fprintf(stderr, "usage: writer [NAME [COUNT]]\n");
		return 2;
	}
	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = on_signal;
	(void)sigaction(SIGINT, &sa, NULL);
	(void)sigaction(SIGTERM, &sa, NULL);
	ch = make_or_open(name, &opts);
	if (ch == NULL) {
		fprintf(stderr, "writer: %s\n", leat_channel_error());
		return 1;
	}
	for (number = 0; number < count && stop == 0; number++) {
		ret = tell(ch, hash, number);
		if (ret == -EAGAIN) {
			/* The reader has the oldest in its hands: this one is lost. */
			refused++;
			ret = 0;
		}
		if (ret < 0)
			break;
	}
	if (ret == 0)
		ret = leat_channel_terminate(ch);
	if (ret == -ESHUTDOWN)
		fprintf(stderr,
			"writer: %s is that of a run that ended; remove it: leat-channel destroy\n",
			name);
	else if (ret < 0)
		fprintf(stderr, "writer: %s\n", leat_channel_error());
	leat_channel_close(ch);
	if (ret == 0)
		printf("%llu samples, %llu without room\n", (unsigned long long)number,
		       (unsigned long long)refused);
	return ret < 0;
}
