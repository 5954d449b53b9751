/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Telemetry: a loop that must not be slowed down writes samples of its work to a shared-memory
 * channel, and a Python program reads them.
 *
 *	make && ./writer /telemetry &		until Ctrl-C; with a count (1000): that many samples
 *	./reader.py /telemetry			prints statistics when the writer has ended
 *
 *     writer.c                                      reader.py
 *       reserve, fill, commit  --- /telemetry -->     peek, add up, consume
 *       terminate              ------------------>    Terminated: print
 *
 * The program that starts first creates the channel. The writer never waits: when the channel is
 * full, a new sample overwrites the oldest one. Samples are numbered, so that the reader can count
 * those that it missed. Neither program needs DPDK.
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
#define CREATE_NS NS_PER_S /* longest wait for the reader to finish creating the channel */

/*
 * A sample is a frame of type 1. Each frame carries the hash of the sample's definition; the reader
 * compares it with the hash of its own definition.
 */
#define SAMPLE_TYPE 1
#define SAMPLE_DEFINITION "sample: number u64, time_ns u64, packets u64, depth u32, core u32"

struct sample {
	uint64_t number;  /* counts from 0; a gap means lost samples */
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t packets; /* since the previous sample */
	uint32_t depth;	  /* of the queue, packets */
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

/*
 * Create the channel, or open it when it exists. The reader may be creating or removing it at this
 * moment: try again for CREATE_NS.
 */
static struct leat_channel *
create_or_open(const char *name, const struct leat_channel_opts *opts)
{
	uint64_t end = now_ns() + CREATE_NS;
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

/* Write one sample, straight into shared memory. */
static int
send_sample(struct leat_channel *ch, uint64_t hash, uint64_t number)
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
	ch = create_or_open(name, &opts);
	if (ch == NULL) {
		fprintf(stderr, "writer: %s\n", leat_channel_error());
		return 1;
	}
	for (number = 0; number < count && stop == 0; number++) {
		ret = send_sample(ch, hash, number);
		if (ret == -EAGAIN) {
			/* The reader holds the oldest frames: there is no room. Drop the sample. */
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
