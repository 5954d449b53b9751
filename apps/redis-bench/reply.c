/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Check replies. hiredis' reader calls a function here for each part of a reply; the function
 * checks the bytes in the reader's buffer, and creates no reply object.
 */

#include <ctype.h>
#include <string.h>

#include "bench.h"

/* Callbacks of hiredis' reader return &made for a reply object: NULL would mean an error. */
static char made;

#if HIREDIS_MAJOR >= 1
typedef size_t count_t;
#else
typedef int count_t;
#endif

static inline struct redb_client *
client_of(const redisReadTask *task)
{
	return task->privdata;
}

/*
 * Return the reply that the command expects. If no request is under way, any reply is accepted
 * here, and take_reply() reports it.
 */
static inline enum redb_expect
expect_of(const struct redb_client *c)
{
	return c->nb_sent > 0 ? c->command->expect : REDB_EXPECT_ANY;
}

/* Keep the first error. It is printed on a terminal: replace characters that are not printable. */
static void
error(struct redb_client *c, const char *str, size_t len)
{
	char *text = c->worker->tally.first_error;
	size_t i;

	c->reply_error = true;
	if (text[0] != '\0')
		return;
	text[0] = '-';
	for (i = 1; i < REDB_TEXT - 1 && i <= len; i++)
		text[i] = isascii(str[i - 1]) && isprint(str[i - 1]) ? str[i - 1] : '?';
	text[i] = '\0';
}

/* Note a wrong reply. @return where to describe it; NULL: an earlier wrong reply is described */
static char *
wrong(struct redb_client *c)
{
	char *text = c->worker->tally.first_wrong;

	c->reply_wrong = true;
	return text[0] == '\0' ? text : NULL;
}

static void
unexpected(struct redb_client *c, const char *what)
{
	char *text = wrong(c);

	if (text != NULL)
		snprintf(text, REDB_TEXT, "%s was answered with %s", c->command->name, what);
}

static void
check_value(struct redb_client *c, uint64_t key, bool of_list, const char *str, size_t len)
{
	const struct redb_values *v = &c->worker->bench->values;
	const uint64_t at = redb_value_differs(v, key, str, len);
	char name[64], *text;

	if (likely(at == UINT64_MAX))
		return;
	text = wrong(c);
	if (text == NULL)
		return;
	snprintf(name, sizeof(name),
		 of_list ? REDB_LIST " element %" PRIu64 : REDB_KEY_PREFIX "%012" PRIu64, key);
	if (at < len && at < v->size)
		snprintf(text, REDB_TEXT, "%s: byte %" PRIu64 " of %zu is 0x%02x instead of 0x%02x",
			 name, at, len, (uint8_t)str[at], redb_value(v, key)[at]);
	else
		snprintf(text, REDB_TEXT, "%s: %zu bytes instead of %" PRIu64, name, len, v->size);
}

static void
string(struct redb_client *c, const redisReadTask *task, const char *str, size_t len)
{
	const bool top = task->parent == NULL, verify = c->worker->bench->o.plan.verify;
	const uint64_t base = c->ring[c->head].base;

	switch (expect_of(c)) {
	case REDB_EXPECT_ANY:
		break;
	case REDB_EXPECT_VALUE:
		if (!top || task->type != REDIS_REPLY_STRING)
			unexpected(c, "something that is no value");
		else if (verify)
			check_value(c, redb_command_key(c->command, base, 0), false, str, len);
		break;
	case REDB_EXPECT_LIST:
		if (top || task->type != REDIS_REPLY_STRING)
			unexpected(c, "something that is no list");
		else if (verify)
			check_value(c, (uint64_t)task->idx, true, str, len);
		break;
	default:
		unexpected(c, "a string");
		break;
	}
}

static void
status(struct redb_client *c, const redisReadTask *task, const char *str, size_t len)
{
	const enum redb_expect expect = expect_of(c);
	const char *want = expect == REDB_EXPECT_PONG ? "PONG" : "OK";

	if (expect == REDB_EXPECT_ANY)
		return;
	if (task->parent != NULL || (expect != REDB_EXPECT_PONG && expect != REDB_EXPECT_OK) ||
	    len != strlen(want) || memcmp(str, want, len) != 0)
		unexpected(c, "another status");
}

static void *
on_string(const redisReadTask *task, char *str, size_t len)
{
	struct redb_client *c = client_of(task);

	if (task->type == REDIS_REPLY_ERROR)
		error(c, str, len);
	else if (task->type == REDIS_REPLY_STATUS)
		status(c, task, str, len);
	else
		string(c, task, str, len);
	return &made;
}

static void *
on_array(const redisReadTask *task, count_t elements)
{
	struct redb_client *c = client_of(task);
	const enum redb_expect expect = expect_of(c);

	if (expect == REDB_EXPECT_LIST && task->parent == NULL) {
		if ((uint64_t)elements != c->worker->bench->o.plan.range)
			unexpected(c, "a list of another length");
	} else if (expect != REDB_EXPECT_ANY) {
		unexpected(c, "a list");
	}
	return &made;
}

static void *
on_integer(const redisReadTask *task, long long value)
{
	struct redb_client *c = client_of(task);
	const enum redb_expect expect = expect_of(c);

	(void)value;
	if (expect != REDB_EXPECT_ANY && expect != REDB_EXPECT_INTEGER)
		unexpected(c, "a number");
	return &made;
}

static void *
on_nil(const redisReadTask *task)
{
	struct redb_client *c = client_of(task);
	const enum redb_expect expect = expect_of(c);
	char *text;

	c->reply_nil = true;
	if (expect == REDB_EXPECT_VALUE && c->worker->bench->o.plan.verify) {
		text = wrong(c);
		if (text != NULL)
			snprintf(text, REDB_TEXT, REDB_KEY_PREFIX "%012" PRIu64 ": no such key",
				 redb_command_key(c->command, c->ring[c->head].base, 0));
	} else if (expect != REDB_EXPECT_ANY && expect != REDB_EXPECT_VALUE) {
		unexpected(c, "nil");
	}
	return &made;
}

redisReader *
redb_reader_create(struct redb_client *c)
{
	/* No freeObject: no reply object is created. */
	static redisReplyObjectFunctions functions = {
		.createString = on_string,
		.createArray = on_array,
		.createInteger = on_integer,
		.createNil = on_nil,
	};
	redisReader *r = redisReaderCreateWithFunctions(&functions);

	if (r != NULL)
		r->privdata = c;
	return r;
}
