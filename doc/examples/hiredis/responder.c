/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A Redis server of five commands over leat's streams. hiredis' reader, made for replies, parses
 * commands as well: a command has the format of a reply that is an array of strings.
 *
 *     READABLE: borrow -> reader -> command -> reply to out -> leat_stream_write()
 *                                                 |
 *                       when the stream is full: no further command until out is empty
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rte_common.h>
#include <rte_errno.h>

#include "leat_hiredis.h"
#include "responder.h"

#define KEYS 512
#define VALUE_MAX (16U << 20)
#define OUT_MAX (1U << 20) /* bytes in out above which no further command is executed */

struct entry {
	char *key, *value;
	size_t key_len, len;
};

/* The connection of one client. */
struct session {
	struct leat_stream *stream;
	redisReader *reader;
	char *out; /* replies: len of room bytes are filled, the first sent bytes are written */
	size_t len, sent, room;
};

static struct entry table[KEYS];
static struct leat_stream_net *net;

static void on_ready(struct leat_stream *s, uint32_t ready, void *arg);

/* Append to the replies in out. Returns 0 or -ENOMEM. */
static int
put(struct session *s, const void *data, size_t len)
{
	if (s->room - s->len < len) {
		size_t room = (s->len + len) * 2;
		char *out = (char *)realloc(s->out, room);

		if (out == NULL)
			return -ENOMEM;
		s->out = out;
		s->room = room;
	}
	memcpy(s->out + s->len, data, len);
	s->len += len;
	return 0;
}

static int
put_line(struct session *s, const char *line)
{
	int ret = put(s, line, strlen(line));

	return ret < 0 ? ret : put(s, "\r\n", 2);
}

static int
put_number(struct session *s, char type, long long value)
{
	char line[32];

	snprintf(line, sizeof(line), "%c%lld", type, value);
	return put_line(s, line);
}

static int
put_value(struct session *s, const struct entry *e)
{
	int ret;

	if (e == NULL)
		return put_line(s, "$-1");
	ret = put_number(s, '$', (long long)e->len);
	if (ret == 0)
		ret = put(s, e->value, e->len);
	return ret < 0 ? ret : put(s, "\r\n", 2);
}

/* Find the entry of a key or, with free_one, a free entry for it. Returns NULL if there is none. */
static struct entry *
find(const redisReply *key, bool free_one)
{
	struct entry *e, *unused = NULL;

	for (e = table; e < table + KEYS; e++)
		if (e->key == NULL)
			unused = e;
		else if (e->key_len == key->len && memcmp(e->key, key->str, key->len) == 0)
			return e;
	return free_one ? unused : NULL;
}

static void
erase(struct entry *e)
{
	free(e->key);
	free(e->value);
	memset(e, 0, sizeof(*e));
}

/* Set an entry's key and value; e NULL: the table is full. Returns false if there is no room. */
static bool
store(struct entry *e, const redisReply *key, const char *value, size_t len)
{
	char *k = (char *)malloc(key->len + 1), *v = (char *)malloc(len + 1);

	if (e == NULL || k == NULL || v == NULL || len > VALUE_MAX) {
		free(k);
		free(v);
		return false;
	}
	erase(e);
	memcpy(k, key->str, key->len);
	memcpy(v, value, len);
	e->key = k;
	e->key_len = key->len;
	e->value = v;
	e->value[len] = '\0';
	e->len = len;
	return true;
}

static int
increment(struct session *s, const redisReply *key)
{
	struct entry *e = find(key, true);
	char text[24];
	long long n;

	n = e != NULL && e->key != NULL ? strtoll(e->value, NULL, 10) : 0;
	snprintf(text, sizeof(text), "%lld", ++n);
	return store(e, key, text, strlen(text)) ? put_number(s, ':', n)
						 : put_line(s, "-ERR no room");
}

static bool
is(const redisReply *cmd, const char *name, size_t args)
{
	return cmd->elements == args && strcasecmp(cmd->element[0]->str, name) == 0;
}

/* Execute a command and append its reply. Returns 0; -ENOMEM; -EPROTO: not a command. */
static int
execute(struct session *s, const redisReply *cmd)
{
	struct entry *e;
	size_t i;

	if (cmd->type != REDIS_REPLY_ARRAY || cmd->elements == 0)
		return -EPROTO;
	for (i = 0; i < cmd->elements; i++)
		if (cmd->element[i]->type != REDIS_REPLY_STRING)
			return -EPROTO;
	if (is(cmd, "PING", 1))
		return put_line(s, "+PONG");
	if (is(cmd, "SET", 3))
		return put_line(s, store(find(cmd->element[1], true), cmd->element[1],
					 cmd->element[2]->str, cmd->element[2]->len)
					   ? "+OK"
					   : "-ERR no room");
	if (is(cmd, "GET", 2))
		return put_value(s, find(cmd->element[1], false));
	if (is(cmd, "INCR", 2))
		return increment(s, cmd->element[1]);
	if (is(cmd, "DEL", 2)) {
		e = find(cmd->element[1], false);
		if (e != NULL)
			erase(e);
		return put_number(s, ':', e != NULL);
	}
	return put_line(s, "-ERR unknown command");
}

static void
end(struct session *s)
{
	leat_stream_close(s->stream, 0);
	redisReaderFree(s->reader);
	free(s->out);
	free(s);
}

/* Write the replies in out. Returns 0; 1: the stream is full, some are left; a negative errno. */
static int
flush(struct session *s)
{
	while (s->sent < s->len) {
		ssize_t n = leat_stream_write(s->stream, s->out + s->sent, s->len - s->sent);

		if (n < 0)
			return n == -EAGAIN ? 1 : (int)n;
		s->sent += (size_t)n;
	}
	s->len = s->sent = 0;
	return 0;
}

/* Execute complete commands, until the stream accepts no more replies. Returns as flush(). */
static int
work(struct session *s)
{
	void *cmd = NULL;
	int ret;

	do {
		ret = flush(s);
		while (ret == 0 && s->len < OUT_MAX) {
			if (redisReaderGetReply(s->reader, &cmd) != REDIS_OK)
				return -EPROTO;
			if (cmd == NULL)
				return flush(s);
			ret = execute(s, (const redisReply *)cmd);
			freeReplyObject(cmd);
		}
	} while (ret == 0);
	return ret;
}

static void
on_ready(struct leat_stream *stream, uint32_t ready, void *arg)
{
	struct session *s = (struct session *)arg;
	const void *data;
	int ret = work(s); /* first the commands that arrived earlier */
	ssize_t n;

	(void)ready;
	if (ret == 0) {
		n = leat_stream_borrow(stream, &data);
		if (n > 0 &&
		    (redisReaderFeed(s->reader, (const char *)data, (size_t)n) != REDIS_OK ||
		     leat_stream_give_back(stream, (size_t)n) < 0))
			n = -ENOMEM;
		ret = n > 0 ? work(s) : n == -EAGAIN ? 0 : -EPIPE;
	}
	if (ret < 0)
		end(s);
	else /* read no more commands while replies wait: this slows the client down */
		leat_stream_watch(stream, ret > 0 ? LEAT_STREAM_WRITABLE : LEAT_STREAM_READABLE,
				  on_ready, s);
}

static void
on_accept(struct leat_stream *stream, void *arg)
{
	struct session *s = (struct session *)calloc(1, sizeof(*s));

	(void)arg;
	if (s != NULL)
		s->reader = redisReaderCreate();
	if (s == NULL || s->reader == NULL) {
		free(s);
		leat_stream_close(stream, 0);
		return;
	}
	s->stream = stream;
	leat_stream_watch(stream, LEAT_STREAM_READABLE, on_ready, s);
}

int
responder_open(struct leat_reactor *r, char *addr, size_t len)
{
	struct leat_stream_net_conf conf;
	struct leat_stream_listener listener;
	int ret;

	memset(&conf, 0, sizeof(conf));
	conf.name = "responder";
	net = leat_stream_net_open(r, &conf);
	if (net == NULL)
		return -rte_errno;
	memset(&listener, 0, sizeof(listener));
	listener.accept = on_accept;
	ret = leat_stream_listen(net, "127.0.0.1:0", &listener);
	return ret < 0 ? ret : leat_stream_listen_addr(net, addr, len);
}

int
responder_close(void)
{
	struct entry *e;

	for (e = table; e < table + KEYS; e++)
		erase(e);
	return leat_stream_net_close(net);
}
