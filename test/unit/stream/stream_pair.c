/* SPDX-License-Identifier: BSD-3-Clause */

#include "stream_pair.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <leat_dev.h>
#include <leat_error.h>

struct pair pair;
bool pair_telemetry;
const char *pair_dev;
struct leat_stream_net_conf pair_conf, pair_server_conf;

int
pair_start(void **state)
{
	static char prog[] = "test_stream", no_tel[] = "--no-telemetry", pci[] = "--no-pci";
	static char tel[] = "--telemetry";
	static char log[] = "--log-level=leat.*:error", ring[] = "--vdev=" PAIR_RING;
	static char fault[] = "--vdev=" PAIR_FAULT ",lower=" PAIR_RING
			      ",reorder=8,refuse=0.1,refuse_recv=0.1";
	static char tcp[128], notune[] = "--no-tune";
	char *argv[] = { prog, pair_telemetry ? tel : no_tel, notune, pci, log, ring, fault, tcp,
			 NULL };
	int argc = 7;

	(void)state;
	if (&pair_tcp_vdev != NULL) {
		snprintf(tcp, sizeof(tcp), "--vdev=%s", pair_tcp_vdev);
		argc++;
	}
	argv[argc] = NULL;
	if (leat_init(argc, argv) < 0) {
		print_error("leat_init: %s\n", leat_err_msg());
		return -1;
	}
	return 0;
}

int
pair_stop(void **state)
{
	(void)state;
	return leat_cleanup();
}

static void
on_accept(struct leat_stream *s, void *arg)
{
	(void)arg;
	pair.s = s;
	pair.nb_accepted++;
}

void
pair_open(void)
{
	static unsigned int number;
	const struct leat_stream_listener listener = { .accept = on_accept };
	const struct leat_reactor_conf conf = { .events_us = 10,
						.idle = { .policy = LEAT_IDLE_YIELD } };

	memset(&pair, 0, sizeof(pair));
	pair.r = leat_reactor_create(&conf);
	assert_non_null(pair.r);
	pair_conf.dev = pair_server_conf.dev = pair_dev != NULL ? pair_dev : PAIR_RING;
	pair.server = leat_stream_net_open(pair.r, &pair_server_conf);
	pair.client = leat_stream_net_open(pair.r, &pair_conf);
	if (pair.server == NULL || pair.client == NULL)
		fail_msg("%s", leat_err_msg());
	if (strcmp(pair_conf.dev, PAIR_TCP) == 0)
		snprintf(pair.addr, sizeof(pair.addr), "127.0.0.1:0");
	else
		snprintf(pair.addr, sizeof(pair.addr), "stream%u:1", number++);
	assert_int_equal(leat_stream_listen(pair.server, pair.addr, &listener), 0);
	assert_int_equal(leat_stream_listen_addr(pair.server, pair.addr, sizeof(pair.addr)), 0);
}

void
pair_connect(void)
{
	const unsigned int before = pair.nb_accepted;

	pair.c = leat_stream_connect(pair.client, pair.addr, 0);
	assert_non_null(pair.c);
	pair_until((leat_stream_ready(pair.c) & LEAT_STREAM_WRITABLE) != 0 &&
		   pair.nb_accepted > before);
	assert_int_equal(leat_stream_error(pair.c), 0);
}

void
pair_close(void)
{
	assert_int_equal(leat_stream_net_close(pair.client), 0);
	assert_int_equal(leat_stream_net_close(pair.server), 0);
	if (pair.r != NULL)
		assert_int_equal(leat_reactor_destroy(pair.r), 0);
	memset(&pair_conf, 0, sizeof(pair_conf));
	memset(&pair_server_conf, 0, sizeof(pair_server_conf));
	pair_dev = NULL;
}

void
pair_turn(void)
{
	assert_true(leat_reactor_turn(pair.r) >= 0);
}

bool
pair_patience(uint64_t *turns)
{
	static uint64_t until;
	struct timespec now;

	if ((*turns)++ == 0)
		until = 0;
	if (*turns % 1024 != 0)
		return true;
	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	if (until == 0)
		until = (uint64_t)now.tv_sec + 60;
	return (uint64_t)now.tv_sec < until;
}

void
pair_write(struct leat_stream *s, uint64_t *at, size_t n)
{
	uint8_t buf[4096];
	size_t i, len;
	ssize_t ret;

	for (; n > 0; n -= (size_t)ret) {
		len = n < sizeof(buf) ? n : sizeof(buf);
		for (i = 0; i < len; i++)
			buf[i] = pair_byte(*at + i);
		ret = leat_stream_write(s, buf, len);
		if (ret == -EAGAIN)
			return;
		if (ret <= 0)
			fail_msg("write: %zd: %s", ret, leat_stream_why(s));
		*at += (uint64_t)ret;
	}
}

size_t
pair_read(struct leat_stream *s, uint64_t *at, size_t n)
{
	const uint8_t *p;
	const void *data;
	size_t sum = 0;
	ssize_t got;

	while (sum < n) {
		got = leat_stream_borrow(s, &data);
		if (got == -EAGAIN)
			break;
		if (got <= 0)
			fail_msg("read: %zd at %" PRIu64 ": %s", got, *at, leat_stream_why(s));
		if ((size_t)got > n - sum)
			got = (ssize_t)(n - sum);
		for (p = data; p < (const uint8_t *)data + got; p++) {
			if (*p != pair_byte(*at))
				fail_msg("byte %" PRIu64 " is %#x, not %#x", *at, *p,
					 pair_byte(*at));
			(*at)++;
		}
		assert_int_equal(leat_stream_give_back(s, (size_t)got), 0);
		sum += (size_t)got;
	}
	return sum;
}
