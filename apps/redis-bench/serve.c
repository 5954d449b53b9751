/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A trivial server. It parses a command in the reader's buffer. Replies wait in a ring until the
 * connection accepts them; while the ring is full the server parses no more commands.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include <hiredis.h>

#include <leat_error.h>
#include <leat_poller.h>
#include <leat_stream.h>

#include "command.h"
#include "serve.h"

#define REPLIES 1024u
#define READS_MAX 4
#define LOOK_US 1000000u
/* A peer is closed if its reader holds more bytes than this of commands not yet parsed. */
#define COMMAND_MAX (UINT64_C(1) << 31)

#if HIREDIS_MAJOR >= 1
typedef size_t count_t;
#else
typedef int count_t;
#endif

enum verb { UNKNOWN, PING, SET, GET, MSET, RPUSH, LRANGE, DEL, AUTH, SELECT, VERBS };

enum reply_type { REPLY_TEXT, REPLY_VALUE, REPLY_LIST };

struct reply {
	enum reply_type type;
	uint32_t n; /* LIST: elements */
	union {
		const char *text; /* TEXT */
		uint64_t key;	  /* VALUE */
	};
};

struct peer {
	struct redb_conn conn; /* first: on_ready() casts its argument */
	struct redb_server *server;
	redisReader *reader;
	/* the command that is being read */
	enum verb verb;
	uint64_t key, range;
	bool wrong;
	/* replies that are not sent in full */
	struct reply ring[REPLIES];
	uint32_t head, nb;
	size_t sent;		/* bytes sent of the first reply */
	TAILQ_ENTRY(peer) link; /* entry in server.peers or server.spare */
};

TAILQ_HEAD(peers, peer);

struct redb_server {
	struct redb_server_conf conf;
	struct redb_port port;
	struct peers peers, spare;
	uint32_t nb;
	struct leat_poller *looker;
	char *out;
	char head[32]; /* bytes that precede a value in a reply: "$64\r\n" */
};

/* ---- commands ---- */

/*
 * The callbacks of hiredis's reader return this instead of objects: they create none, and the
 * reader would take NULL for an error.
 */
static char made;

static enum verb
verb_of(const char *str, size_t len)
{
	static const char *const names[VERBS] = {
		[PING] = "PING", [SET] = "SET",	    [GET] = "GET",
		[MSET] = "MSET", [RPUSH] = "RPUSH", [LRANGE] = "LRANGE",
		[DEL] = "DEL",	 [AUTH] = "AUTH",   [SELECT] = "SELECT",
	};
	int i;

	for (i = UNKNOWN + 1; i < VERBS; i++) {
		if (strlen(names[i]) == len && strncasecmp(names[i], str, len) == 0)
			return i;
	}
	return UNKNOWN;
}

/* Return the number in the last digits of a key. */
static uint64_t
number_of(const char *str, size_t len, size_t digits)
{
	uint64_t n = 0;
	size_t i;

	for (i = len > digits ? len - digits : 0; i < len; i++) {
		if (str[i] >= '0' && str[i] <= '9')
			n = n * 10 + (uint64_t)(str[i] - '0');
	}
	return n;
}

static void
argument(struct peer *p, int idx, const char *str, size_t len)
{
	const bool value = (p->verb == SET && idx == 2) || (p->verb == MSET && idx % 2 == 0);

	if (idx == 0)
		p->verb = verb_of(str, len);
	else if (value && p->server->conf.verify)
		p->wrong |= redb_value_differs(p->server->conf.values, p->key, str, len) !=
			    UINT64_MAX;
	else if (p->verb == LRANGE && idx == 3)
		p->range = RTE_MIN(number_of(str, len, REDB_KEY_DIGITS) + 1, REDB_RANGE_MAX);
	else if (!value)
		p->key = number_of(str, len, REDB_KEY_DIGITS);
}

static void *
on_string(const redisReadTask *task, char *str, size_t len)
{
	if (task->parent == NULL)
		((struct peer *)task->privdata)->verb = UNKNOWN;
	else
		argument(task->privdata, task->idx, str, len);
	return &made;
}

static void *
on_array(const redisReadTask *task, count_t elements)
{
	struct peer *p = task->privdata;

	(void)elements;
	p->verb = UNKNOWN;
	p->range = 0;
	p->wrong = false;
	return &made;
}

static void *
on_integer(const redisReadTask *task, long long value)
{
	(void)task;
	(void)value;
	return &made;
}

static void *
on_nil(const redisReadTask *task)
{
	(void)task;
	return &made;
}

static struct reply
reply_to(const struct peer *p)
{
	if (p->wrong)
		return (struct reply){ .type = REPLY_TEXT, .text = "-ERR wrong value\r\n" };
	switch (p->verb) {
	case PING:
		return (struct reply){ .type = REPLY_TEXT, .text = "+PONG\r\n" };
	case SET:
	case MSET:
	case AUTH:
	case SELECT:
		return (struct reply){ .type = REPLY_TEXT, .text = "+OK\r\n" };
	case GET:
		return (struct reply){ .type = REPLY_VALUE, .key = p->key };
	case RPUSH:
	case DEL:
		return (struct reply){ .type = REPLY_TEXT, .text = ":1\r\n" };
	case LRANGE:
		return (struct reply){ .type = REPLY_LIST, .n = (uint32_t)p->range };
	default:
		return (struct reply){ .type = REPLY_TEXT, .text = "-ERR unknown command\r\n" };
	}
}

/* ---- replies ---- */

static void
value_put(const struct redb_server *s, uint64_t key, struct redb_gather *g)
{
	redb_gather_copy(g, s->head, strlen(s->head));
	redb_gather_add(g, redb_value(s->conf.values, key), s->conf.values->size);
	redb_gather_copy(g, "\r\n", 2);
}

static void
reply_put(const struct redb_server *s, const struct reply *r, struct redb_gather *g)
{
	char head[16];
	uint32_t i;
	int n;

	if (r->type == REPLY_TEXT) {
		redb_gather_copy(g, r->text, strlen(r->text));
	} else if (r->type == REPLY_VALUE) {
		value_put(s, r->key, g);
	} else {
		n = snprintf(head, sizeof(head), "*%u\r\n", r->n);
		redb_gather_copy(g, head, (size_t)n);
		for (i = 0; i < r->n && !g->full; i++)
			value_put(s, i, g);
	}
}

static size_t
reply_len(const struct redb_server *s, const struct reply *r)
{
	const size_t value = strlen(s->head) + s->conf.values->size + 2;

	if (r->type == REPLY_TEXT)
		return strlen(r->text);
	if (r->type == REPLY_VALUE)
		return value;
	return (size_t)snprintf(NULL, 0, "*%u\r\n", r->n) + r->n * value;
}

static void
peer_end(struct peer *p, bool drain)
{
	struct redb_server *s = p->server;

	p->conn.t->close(&p->conn, drain);
	redisReaderFree(p->reader);
	p->reader = NULL;
	TAILQ_REMOVE(&s->peers, p, link);
	TAILQ_INSERT_TAIL(&s->spare, p, link);
}

/* @return 0; -EAGAIN: the connection has no room now; other negative: it has ended */
static int
send_some(struct peer *p)
{
	struct redb_server *s = p->server;
	struct redb_gather g;
	uint32_t i;
	ssize_t n;
	size_t len;

	redb_gather_begin(&g, s->out, p->sent);
	for (i = 0; i < p->nb && !g.full; i++)
		reply_put(s, &p->ring[(p->head + i) % REPLIES], &g);
	n = p->conn.t->writev(&p->conn, g.iov, g.n);
	if (n < 0)
		return (int)n;
	p->sent += (size_t)n;
	while (p->nb > 0 && p->sent >= (len = reply_len(s, &p->ring[p->head]))) {
		p->sent -= len;
		p->head = (p->head + 1) % REPLIES;
		p->nb--;
	}
	return (size_t)n == g.bytes ? 0 : -EAGAIN;
}

/*
 * Answer the complete commands in the reader. @return 0; -EAGAIN: call again when the
 * connection is writable; other negative: it has ended
 */
static int
answer(struct peer *p)
{
	void *command = &made;
	int ret = 0;

	while (ret == 0 && command != NULL) {
		command = NULL;
		if (p->nb < REPLIES && redisReaderGetReply(p->reader, &command) != REDIS_OK)
			return -EPROTO;
		if (command != NULL)
			p->ring[(p->head + p->nb++) % REPLIES] = reply_to(p);
		if (p->nb == REPLIES || command == NULL) {
			while (ret == 0 && p->nb > 0) {
				ret = send_some(p);
				command = &made;
			}
		}
	}
	return ret;
}

static int
receive_some(struct peer *p)
{
	const void *data;
	ssize_t n = p->conn.t->borrow(&p->conn, &data);

	if (n <= 0)
		return n == 0 ? -ESHUTDOWN : (int)n;
	if (redisReaderFeed(p->reader, data, (size_t)n) != REDIS_OK ||
	    p->reader->len - p->reader->pos > COMMAND_MAX)
		return -EPROTO;
	p->conn.t->give_back(&p->conn, (size_t)n);
	return 0;
}

static void
on_ready(struct redb_conn *conn, uint32_t ready)
{
	struct peer *p = (struct peer *)conn;
	int i, ret = 0;

	/* First send replies that wait, and answer commands that were received before. */
	if ((ready & REDB_WRITABLE) != 0)
		ret = answer(p);
	if ((ready & (REDB_READABLE | REDB_ENDED)) != 0) {
		for (i = 0; i < READS_MAX && ret == 0; i++)
			ret = receive_some(p);
		if (ret == 0 || ret == -EAGAIN)
			ret = answer(p);
	}
	if (ret == 0 || ret == -EAGAIN)
		redb_conn_want(conn, p->nb > 0 ? REDB_WRITABLE : REDB_READABLE);
	else
		peer_end(p, false);
}

/* ---- clients that connect ---- */

static redisReader *
reader_create(struct peer *p)
{
	static redisReplyObjectFunctions functions = {
		.createString = on_string,
		.createArray = on_array,
		.createInteger = on_integer,
		.createNil = on_nil,
	};
	redisReader *r = redisReaderCreateWithFunctions(&functions);

	if (r == NULL)
		return NULL;
	r->privdata = p;
	redb_reader_keep(r, p->server->conf.values->size);
	return r;
}

static struct redb_conn *
peer_room(struct redb_port *port)
{
	struct redb_server *s = port->arg;
	struct peer *p = TAILQ_FIRST(&s->spare);

	if (p == NULL && s->nb < s->conf.clients) {
		p = calloc(1, sizeof(*p));
		if (p == NULL)
			return NULL;
		p->server = s;
		p->conn = (struct redb_conn){ .port = port, .on_ready = on_ready, .fd = -1 };
		TAILQ_INSERT_TAIL(&s->spare, p, link);
		s->nb++;
	}
	return p == NULL ? NULL : &p->conn;
}

static void
peer_begin(struct redb_port *port, struct redb_conn *conn)
{
	struct redb_server *s = port->arg;
	struct peer *p = (struct peer *)conn;

	p->head = p->nb = 0;
	p->sent = 0;
	p->reader = reader_create(p);
	if (p->reader == NULL) {
		conn->t->close(conn, false);
		return;
	}
	TAILQ_REMOVE(&s->spare, p, link);
	TAILQ_INSERT_TAIL(&s->peers, p, link);
	redb_conn_want(conn, REDB_READABLE);
}

/* ---- the server ---- */

static int
look(void *arg, uint64_t now)
{
	(void)arg;
	(void)now;
	return 0;
}

static void
unlisten(struct redb_server *s)
{
	if (s->port.listening < 0)
		return;
	leat_fd_del(&s->port.fd);
	(void)close(s->port.listening);
	s->port.listening = -1;
}

/* Close the listener and all peers when the reactor stops. */
static int
quiesce(void *arg, char *what, size_t len)
{
	struct redb_server *s = arg;

	(void)what;
	(void)len;
	unlisten(s);
	while (!TAILQ_EMPTY(&s->peers))
		peer_end(TAILQ_FIRST(&s->peers), true);
	return 0;
}

static int
open_net(struct redb_server *s, struct leat_reactor *r)
{
	const uint64_t window = s->conf.window != 0 ? s->conf.window : LEAT_STREAM_RX_DEFAULT;
	const struct leat_stream_net_conf conf = {
		.dev = s->conf.dev,
		.name = "redis-bench-server",
		.max_streams = s->conf.clients,
		.rx_size = (uint32_t)window,
		.mem_max = (window + LEAT_STREAM_TX_DEFAULT + 4096) * s->conf.clients,
	};

	s->port.net = leat_stream_net_open(r, &conf);
	return s->port.net == NULL ? -rte_errno : 0;
}

static int
server_open(struct redb_server *s, struct leat_reactor *r, const struct redb_addr *a, char *addr,
	    size_t len)
{
	s->out = malloc(REDB_GATHER_BUF);
	s->port.buf = malloc(REDB_READ_MAX);
	if (s->out == NULL || s->port.buf == NULL)
		return leat_err(ENOMEM, "listen at %s: out of memory", a->text);
	/* Added before the net's poller, so that quiesce() closes the streams first. */
	s->looker = leat_reactor_poller_add(r, "redis-bench-server", look, s, LOOK_US);
	if (s->looker == NULL)
		return -rte_errno;
	(void)leat_poller_quiesce_set(s->looker, quiesce);
	if (a->transport == &redb_stream && open_net(s, r) < 0)
		return -rte_errno;
	return a->transport->listen(&s->port, a, addr, len);
}

struct redb_server *
redb_server_open(struct leat_reactor *r, const struct redb_server_conf *conf,
		 const struct redb_addr *a, char *addr, size_t len)
{
	struct redb_server *s = calloc(1, sizeof(*s));
	int ret;

	if (s == NULL) {
		leat_err(ENOMEM, "listen at %s: out of memory", a->text);
		return NULL;
	}
	s->conf = *conf;
	s->port = (struct redb_port){
		.reactor = r, .listening = -1, .room = peer_room, .accept = peer_begin, .arg = s
	};
	TAILQ_INIT(&s->peers);
	TAILQ_INIT(&s->spare);
	snprintf(s->head, sizeof(s->head), "$%" PRIu64 "\r\n", conf->values->size);
	ret = server_open(s, r, a, addr, len);
	if (ret == 0)
		return s;
	if (s->looker != NULL)
		(void)leat_poller_remove(s->looker);
	redb_server_close(s);
	rte_errno = -ret;
	return NULL;
}

void
redb_server_close(struct redb_server *s)
{
	struct peer *p;

	if (s == NULL)
		return;
	if (s->port.net != NULL)
		(void)leat_stream_net_close(s->port.net);
	while ((p = TAILQ_FIRST(&s->spare)) != NULL) {
		TAILQ_REMOVE(&s->spare, p, link);
		free(p);
	}
	free(s->port.buf);
	free(s->out);
	free(s);
}
