/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A key-value service and its load generator.
 *
 *	make && ./kv -- both 127.0.0.1:7471 16 5		on two lcores or on one (-l 0)
 *	./kv --vdev=fabric_ofi0,provider=tcp -- server 127.0.0.1:7471
 *	./kv --vdev=fabric_ofi0,provider=tcp -- client 127.0.0.1:7471 16 0 100
 *
 * The numbers are: requests in flight; seconds to run (0: until Ctrl-C); deadline of a request, ms.
 * The server may be stopped and restarted while the client runs.
 *
 *     server   accept --> a session per connection: recv, look up the table, send
 *     client   dial --> workers, each with one request in flight: send, wait for an event
 *                       receiver: hands each answer to its worker, and ends the workers when the
 *                       connection ends
 *
 * Each worker owns its keys, so it knows which versions a get may return: those that it wrote, from
 * the last acknowledged one on. A restarted server has lost all keys.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_errno.h>

#include <leat_app.h>
#include <leat_msg_task.h>
#include <leat_task_event.h>

#define VALUE_MAX 128
#define ENTRIES (1U << 16)
#define WORKERS_MAX 256
#define KEYS 64 /* per worker */
#define SECOND_US 1000000

/*
 * The protocol: a request is one message, and its answer is one message with the same id. Answers
 * may come in any order. Numbers are in host byte order: both sides must have the same order.
 */
struct kv_message {
	uint64_t id, key;
	uint64_t version; /* of the value; a put older than the entry is ignored */
	uint32_t put;	  /* request: 1: put, 0: get */
	int32_t status;	  /* answer: 0 or a negative errno */
	uint8_t value[VALUE_MAX];
};
#define HEAD offsetof(struct kv_message, value)

static const char *addr;
static char role; /* first letter of server, client or both */
static unsigned long in_flight = 16, seconds = 5, deadline_ms = 1000;
static struct leat_app app;

static struct entry {	       /* the server's table */
	struct kv_message put; /* the newest put; version 0: a free entry */
	size_t len;	       /* of its value, bytes */
} table[ENTRIES];
static unsigned long long requests;

/* Find the entry of a key, or a free entry for it. Returns NULL when the table is full. */
static struct entry *
find(uint64_t key)
{
	uint32_t i, at = (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 48);

	for (i = 0; i < ENTRIES; i++, at = (at + 1) % ENTRIES)
		if (table[at].put.version == 0 || table[at].put.key == key)
			return &table[at];
	return NULL;
}

/*
 * Execute a request, whose value is len bytes, and turn it into its answer. Returns the length of
 * the answer's value.
 */
static size_t
answer(struct kv_message *m, size_t len)
{
	struct entry *e = find(m->key);

	requests++;
	m->status = e == NULL ? -ENOSPC : !m->put && e->put.version == 0 ? -ENOENT : 0;
	if (m->status < 0)
		return 0;
	if (!m->put) {
		m->version = e->put.version;
		memcpy(m->value, e->put.value, e->len);
		return e->len;
	}
	if (m->version > e->put.version) {
		e->put = *m;
		e->len = len;
	}
	return 0;
}

/* Serve one connection: a task per connection. */
static int
serve_conn(void *arg)
{
	struct leat_msg_conn *c = (struct leat_msg_conn *)arg;
	struct kv_message m;
	int n, ret = 0;

	/* A message too short to be a request ends the connection. */
	while (ret == 0 && (n = leat_msg_task_recv(c, &m, sizeof(m))) >= (int)HEAD)
		ret = leat_msg_task_send(c, &m, HEAD + answer(&m, (size_t)n - HEAD));
	return leat_msg_task_close(c, SECOND_US);
}

static int
serve(void *arg)
{
	struct leat_msg_net *net = leat_msg_net_open(NULL);
	struct leat_msg_conn *c;

	(void)arg;
	if (net == NULL || leat_msg_task_listen(net, addr) < 0)
		return -rte_errno;
	while (leat_msg_task_accept(net, &c) == 0)
		if (leat_task_start("session", serve_conn, c) < 0)
			(void)leat_msg_task_close(c, 0);
	return -rte_errno;
}

static struct worker {	 /* the client's workers */
	uint64_t number; /* requests so far */
	uint64_t id;	 /* of the request that waits for its answer; 0: none */
	struct leat_task_event answered;
	struct kv_message m;	/* the request, then its answer */
	size_t len;		/* of the answer's value, bytes */
	uint64_t written[KEYS]; /* per key: the last version that was sent */
	uint64_t known[KEYS];	/* per key: the last version that this server acknowledged */
} workers[WORKERS_MAX];
static struct leat_msg_conn *conn;
static unsigned long long answered, late, wrong, nb_sessions;

static size_t
make_value(uint64_t key, uint64_t version, uint8_t *value)
{
	size_t i, len = 1 + (size_t)(version * 13 % VALUE_MAX);

	for (i = 0; i < len; i++)
		value[i] = (uint8_t)(key * 31 + version * 7 + i);
	return len;
}

/* Check the answer to a get: its version is in known..written, with the value of this version. */
static bool
right(const struct worker *w, const struct kv_message *m, uint64_t known, uint64_t written)
{
	uint8_t value[VALUE_MAX];

	if (m->status == -ENOENT)
		return known == 0;
	return m->status == 0 && m->version >= known && m->version <= written &&
	       w->len == make_value(m->key, m->version, value) &&
	       memcmp(m->value, value, w->len) == 0;
}

static int
ask(struct worker *w, size_t len)
{
	int ret;

	leat_task_event_reset(&w->answered);
	ret = leat_msg_task_send(conn, &w->m, HEAD + len);
	return ret < 0 ? ret : leat_task_event_wait(&w->answered);
}

/*
 * Put or get one of the worker's keys. Returns 0, also when the answer was late; a negative errno
 * ends the worker.
 */
static int
request(struct worker *w)
{
	const unsigned int k = (unsigned int)(++w->number * 7 % KEYS);
	const bool put = w->number % 4 == 0 || w->written[k] == 0;
	size_t len = 0;
	int ret;

	w->m.id = w->id = w->number * WORKERS_MAX + (uint64_t)(w - workers);
	w->m.key = (uint64_t)(w - workers) * KEYS + k;
	w->m.put = put;
	if (put) {
		w->m.version = ++w->written[k];
		len = make_value(w->m.key, w->m.version, w->m.value);
	}
	ret = leat_task_within(deadline_ms * 1000, ask(w, len));
	w->id = 0;
	if (ret == -ETIMEDOUT) {
		late++;
		return leat_task_yield(); /* -ECANCELED: the scope was cancelled, too */
	}
	if (ret < 0)
		return ret;
	answered++;
	if (put && w->m.status == 0)
		w->known[k] = w->written[k];
	else if (put || !right(w, &w->m, w->known[k], w->written[k]))
		wrong++;
	return 0;
}

static int
worker(void *arg)
{
	struct worker *w = (struct worker *)arg;
	int ret = 0;

	memset(w->known, 0, sizeof(w->known)); /* a restarted server knows no key */
	while (ret == 0)
		ret = request(w);
	return ret;
}

static int
receiver(void *arg)
{
	struct kv_message m;
	int n;

	(void)arg;
	while ((n = leat_msg_task_recv(conn, &m, sizeof(m))) >= (int)HEAD) {
		struct worker *w = &workers[m.id % WORKERS_MAX];

		if (w->id == 0 || w->id != m.id)
			continue; /* its worker has timed out */
		w->m = m;
		w->len = (size_t)n - HEAD;
		w->id = 0;
		leat_task_event_set(&w->answered);
	}
	leat_scope_break(n); /* cancels the workers */
}

/* Run one session after the other, until the time is up or the program stops. */
static int
sessions(struct leat_msg_net *net)
{
	uint64_t dial_us = SECOND_US;
	struct leat_scope s;
	unsigned long i;
	int ret;

	do {
		ret = leat_msg_task_dial(net, addr, dial_us, &conn);
		if (ret == -EINVAL)
			return ret;
		if (ret < 0) { /* report once; the next dial retries for longer */
			if (dial_us == SECOND_US && ret != -ECANCELED)
				fprintf(stderr, "kv: no server at %s, trying again\n", addr);
			dial_us = 50 * SECOND_US;
			continue;
		}
		dial_us = SECOND_US;
		nb_sessions++;
		leat_scope_init(&s);
		leat_scope_branch(&s, "receiver", receiver, NULL, NULL);
		for (i = 0; i < in_flight; i++)
			leat_scope_branch(&s, "worker", worker, &workers[i], NULL);
		(void)leat_scope_wait(&s); /* returns when all have ended */
		(void)leat_msg_task_close(conn, SECOND_US);
	} while (leat_task_sleep(dial_us / 50) == 0);
	return leat_task_cancelled() ? -ECANCELED : 0;
}

static int
progress(void *arg)
{
	unsigned long long last = 0;

	(void)arg;
	for (; leat_task_sleep(SECOND_US) == 0; last = answered) {
		printf("%llu requests/s, %llu late, %llu wrong\n", answered - last, late, wrong);
		(void)fflush(stdout);
	}
	return 0;
}

static int
load(void)
{
	struct leat_msg_net *net = leat_msg_net_open(NULL);

	if (net == NULL || leat_task_start("progress", progress, NULL) < 0)
		return -rte_errno;
	return seconds == 0 ? sessions(net) : leat_task_within(seconds * SECOND_US, sessions(net));
}

/* Start this lcore's part: the server on the first lcore, the client on the second, if any. */
static int
start(void *arg)
{
	const int self = leat_app_index(), last = leat_app_count() > 1 && role == 'b' ? 1 : 0;
	int ret;

	if (self == 0 && role == 's')
		return serve(arg);
	if (self == 0 && role == 'b' && leat_task_start("server", serve, NULL) < 0)
		return -rte_errno;
	if (self != last)
		return LEAT_APP_STAY;
	ret = load();
	if (ret == 0) /* the time is up */
		leat_app_stop(answered > 0 ? LEAT_APP_OK : LEAT_APP_FAILED);
	return ret;
}

static void
end(void *arg)
{
	(void)arg;
	if (role != 'c')
		printf("server: %llu requests\n", requests);
	if (role != 's')
		printf("client: %llu answered, %llu late, %llu wrong, %llu sessions\n", answered,
		       late, wrong, nb_sessions);
	if (wrong > 0)
		leat_app_stop(LEAT_APP_FAILED);
}

static int
parse(int argc, char **argv, void *arg)
{
	static const unsigned long min[] = { 1, 0, 1 }, max[] = { WORKERS_MAX, 1000000, 1000000 };
	unsigned long *const to[] = { &in_flight, &seconds, &deadline_ms };
	char *rest;
	int i;

	(void)arg;
	if (argc < 3 || argc > 6 ||
	    (strcmp(argv[1], "server") != 0 && strcmp(argv[1], "client") != 0 &&
	     strcmp(argv[1], "both") != 0))
		return -EINVAL;
	role = argv[1][0];
	addr = argv[2];
	for (i = 0; i < argc - 3; i++) {
		*to[i] = strtoul(argv[i + 3], &rest, 10);
		if (rest != argv[i + 3] && *rest == '\0' && *to[i] >= min[i] && *to[i] <= max[i])
			continue;
		fprintf(stderr, "kv: '%s': not %lu to %lu\n", argv[i + 3], min[i], max[i]);
		return -EINVAL;
	}
	return 0;
}

int
main(int argc, char **argv)
{
	app.usage = "server|client|both ADDRESS [IN-FLIGHT [SECONDS [DEADLINE-MS]]]";
	app.parse = parse;
	app.start = start;
	app.end = end;
	return leat_app_run(argc, argv, &app);
}
