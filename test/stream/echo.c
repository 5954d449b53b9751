/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat-stream-echo EAL-ARGUMENTS -- --listen ADDRESS | --connect ADDRESS | both [OPTION]...
 *
 * An echo server on streams, and a client that verifies the bytes that come back, on any device.
 * Its peers may be foreign (test/stream_foreign).
 *
 *   --dev NAME, --rx BYTES, --tx BYTES, --max-streams N, --keepalive MS, --silence MS
 *                    as in struct leat_stream_net_conf
 *   --block          sleep when idle, instead of yielding
 *   --connect self   to the server of the same process, on one lcore
 * The server:
 *   --once N         end when N streams have ended
 *   --copy           read into a buffer, instead of borrowing
 * The client:
 *   --streams N      N streams at the same time (1)
 *   --again N        N streams one after the other in the place of each (1)
 *   --send BYTES     bytes that go there and back on each stream (1 MiB)
 *   --pieces N,...   lengths of the writes, repeated (default: as much as there is room)
 *   --in-turn        write a piece only when the one before has come back
 *   --read N         read at most N bytes at once
 *   --pause-after BYTES --pause MS
 *                    once, read nothing for MS after BYTES
 *   --zero-copy      write from registered memory
 *   --half-close     end this side's direction, then read to the end
 *   --beside         the first stream goes on until all others have ended
 *   --failing N      exactly N of all streams must fail (0)
 */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_app.h>
#include <leat_error.h>

#include "echo.h"

struct options opt = {
	.streams = 1,
	.again = 1,
	.send = 1 << 20,
	.read_max = UINT32_MAX,
};
static struct leat_reactor_conf reactor = { .idle.policy = LEAT_IDLE_YIELD };

/* clang-format off */
static const struct option options[] = {
	{ "listen", required_argument, NULL, 'l' },
	{ "connect", required_argument, NULL, 'c' },
	{ "dev", required_argument, NULL, 'd' },
	{ "rx", required_argument, NULL, 'r' },
	{ "tx", required_argument, NULL, 't' },
	{ "max-streams", required_argument, NULL, 'm' },
	{ "keepalive", required_argument, NULL, 'k' },
	{ "silence", required_argument, NULL, 'i' },
	{ "block", no_argument, NULL, 'b' },
	{ "once", required_argument, NULL, 'o' },
	{ "copy", no_argument, NULL, 'y' },
	{ "streams", required_argument, NULL, 's' },
	{ "again", required_argument, NULL, 'a' },
	{ "beside", no_argument, NULL, 'B' },
	{ "failing", required_argument, NULL, 'f' },
	{ "send", required_argument, NULL, 'n' },
	{ "pieces", required_argument, NULL, 'p' },
	{ "read", required_argument, NULL, 'R' },
	{ "in-turn", no_argument, NULL, 'T' },
	{ "zero-copy", no_argument, NULL, 'z' },
	{ "half-close", no_argument, NULL, 'H' },
	{ "pause-after", required_argument, NULL, 'P' },
	{ "pause", required_argument, NULL, 'M' },
	{ NULL, 0, NULL, 0 },
};
/* clang-format on */

static int
parse_pieces(char *list)
{
	char *word, *rest;

	for (word = strtok_r(list, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
		uint32_t n = (uint32_t)strtoul(word, NULL, 10);

		if (n == 0 || opt.pieces_n == PIECES_MAX)
			return -EINVAL;
		opt.pieces[opt.pieces_n++] = n;
	}
	return 0;
}

static int
option(int c)
{
	uint64_t n = optarg != NULL ? strtoull(optarg, NULL, 10) : 0;
	const struct {
		int c;
		uint32_t *to;
	} numbers[] = {
		{ 'r', &opt.net.rx_size },     { 't', &opt.net.tx_size },
		{ 'm', &opt.net.max_streams }, { 'k', &opt.net.keepalive_ms },
		{ 'i', &opt.net.silence_ms },  { 'o', &opt.once },
		{ 's', &opt.streams },	       { 'a', &opt.again },
		{ 'f', &opt.failing },	       { 'R', &opt.read_max },
		{ 'M', &opt.pause_ms },
	};
	const struct {
		int c;
		bool *to;
	} flags[] = {
		{ 'y', &opt.copy },	 { 'B', &opt.beside },	   { 'T', &opt.in_turn },
		{ 'z', &opt.zero_copy }, { 'H', &opt.half_close },
	};
	unsigned int i;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (c == numbers[i].c) {
			*numbers[i].to = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
			return 0;
		}
	}
	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (c == flags[i].c) {
			*flags[i].to = true;
			return 0;
		}
	}
	switch (c) {
	case 'l':
		opt.listen = optarg;
		return 0;
	case 'c':
		opt.connect = optarg;
		return 0;
	case 'd':
		opt.net.dev = optarg;
		return 0;
	case 'b':
		reactor.idle.policy = LEAT_IDLE_BLOCK;
		return 0;
	case 'n':
		opt.send = n;
		return 0;
	case 'P':
		opt.pause_after = n;
		return 0;
	case 'p':
		return parse_pieces(optarg);
	default:
		return -EINVAL;
	}
}

static int
parse(int argc, char **argv, void *arg)
{
	int c;

	(void)arg;
	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option(c) < 0)
			return -EINVAL;
	}
	if (optind < argc || (opt.listen == NULL && opt.connect == NULL) || opt.streams == 0 ||
	    opt.again == 0 || opt.send == 0 || opt.read_max == 0) {
		fprintf(stderr, "echo: what to do?\n");
		return -EINVAL;
	}
	return 0;
}

void
report(const char *who, const struct leat_stream_net *net)
{
	struct leat_stream_net_stats s;

	leat_stream_net_stats_get(net, &s);
	printf("%s: %" PRIu64 " streams, %" PRIu64 " refused, %" PRIu64 " failed, %" PRIu64
	       " of these against the protocol; %" PRIu64 " bytes in %" PRIu64 " notices, %" PRIu64
	       " and %" PRIu64 " keepalives; %u streams and %" PRIu64 " bytes left\n",
	       who, s.accepted + s.connected, s.refused, s.failed, s.protocol, s.rx_bytes,
	       s.rx_notices, s.keepalives_sent, s.keepalives_received, s.streams, s.mem);
	(void)fflush(stdout);
}

/* The server is on the first lcore, the client on the last one. */
static int
start(void *arg)
{
	unsigned int index = (unsigned int)leat_app_index();
	int ret = 0;

	(void)arg;
	if (opt.listen != NULL && index == 0)
		ret = server_start();
	if (ret == 0 && opt.connect != NULL && index == leat_app_count() - 1)
		ret = client_start();
	return ret < 0 ? ret : LEAT_APP_STAY;
}

static bool ended_well;

static void
end(void *arg)
{
	bool client = client_end();

	(void)arg;
	ended_well = server_end() && client;
}

int
main(int argc, char **argv)
{
	const struct leat_app app = {
		.name = "leat-stream-echo",
		.usage = "--listen ADDRESS | --connect ADDRESS [OPTION]...",
		.parse = parse,
		.start = start,
		.end = end,
		.reactor = &reactor,
	};
	int code = leat_app_run(argc, argv, &app);

	return code == LEAT_APP_OK && !ended_well ? LEAT_APP_FAILED : code;
}
