/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TELEMETRY_CLIENT_H
#define TELEMETRY_CLIENT_H

/* Ask this process's telemetry over its UNIX socket, as dpdk-telemetry.py does. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_eal.h>

#include "leat_cmocka.h"

#define TELEMETRY_ANSWER_MAX 16384

/*
 * Find "key":value after `at`, with or without a blank after the colon: newer versions of DPDK
 * leave the blank out. @return its place, or NULL
 */
static inline const char *
telemetry_find(const char *at, const char *key, const char *value)
{
	const char *found;
	char text[160];

	snprintf(text, sizeof(text), "\"%s\":%s", key, value);
	found = strstr(at, text);
	if (found == NULL) {
		snprintf(text, sizeof(text), "\"%s\": %s", key, value);
		found = strstr(at, text);
	}
	return found;
}

/*
 * Receive again after EINTR: a wait with a time limit also ends with EINTR when a signal stopped
 * and continued the program.
 */
static inline ssize_t
telemetry_recv(int fd, char *buf, size_t len)
{
	ssize_t n;

	do
		n = recv(fd, buf, len, 0);
	while (n < 0 && errno == EINTR);
	return n;
}

/*
 * Programs that run at the same time have a socket each: dpdk_telemetry.v2, then :1, :2 ... The
 * greeting of this process's socket holds its pid. @return the connection to socket number n, or -1
 * if that is another process's
 */
static inline int
telemetry_dial_nth(unsigned int n)
{
	const struct timeval patience = { .tv_sec = 10 }; /* for a program that hangs */
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	char hello[TELEMETRY_ANSWER_MAX], pid[32], suffix[16] = "";
	ssize_t len;
	int fd;

	if (n > 0)
		snprintf(suffix, sizeof(suffix), ":%u", n);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/dpdk_telemetry.v2%s",
		 rte_eal_get_runtime_dir(), suffix);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0) {
		len = telemetry_recv(fd, hello, sizeof(hello) - 1);
		hello[len > 0 ? len : 0] = '\0';
		snprintf(pid, sizeof(pid), "%d,", (int)getpid());
		if (telemetry_find(hello, "pid", pid) != NULL)
			return fd;
	}
	close(fd);
	return -1;
}

static inline int
telemetry_dial(void)
{
	unsigned int n;
	int fd = -1;

	for (n = 0; n < 64 && fd < 0; n++)
		fd = telemetry_dial_nth(n);
	return fd;
}

/* Send a question. @return the answer, valid until the next question */
static inline const char *
telemetry_ask(int fd, const char *cmd)
{
	static char answer[TELEMETRY_ANSWER_MAX + 1];
	ssize_t len;

	assert_int_equal(send(fd, cmd, strlen(cmd), 0), (ssize_t)strlen(cmd));
	len = telemetry_recv(fd, answer, sizeof(answer) - 1);
	assert_true(len > 0);
	answer[len] = '\0';
	return answer;
}

/* @return the counter `name` of object nr, from a command that lists objects by number */
static inline uint64_t
telemetry_counter(int fd, const char *cmd, unsigned int nr, const char *name)
{
	const char *at = telemetry_ask(fd, cmd);
	char key[64];

	snprintf(key, sizeof(key), "\"%u\":{", nr);
	at = strstr(at, key);
	assert_non_null(at);
	snprintf(key, sizeof(key), "\"%s\":", name);
	at = strstr(at, key);
	assert_non_null(at);
	return strtoull(at + strlen(key), NULL, 10);
}

#endif /* TELEMETRY_CLIENT_H */
