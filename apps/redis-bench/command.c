/* SPDX-License-Identifier: BSD-3-Clause */

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis.h>

#include "command.h"

/* ---- arguments with marks (command.h) ---- */

/* Find the next mark in s, "__rand_int__" or "__data__". @return NULL: none */
static const char *
mark_find(const struct redb_command *c, const char *s, enum redb_piece_type *type, size_t *len)
{
	const char *key = strstr(s, REDB_KEY_MARK), *value = strstr(s, REDB_VALUE_MARK);

	if (c->keys == 0)
		return NULL;
	if (key != NULL && (value == NULL || key < value)) {
		*type = REDB_PIECE_KEY;
		*len = strlen(REDB_KEY_MARK);
		return key;
	}
	*type = REDB_PIECE_VALUE;
	*len = strlen(REDB_VALUE_MARK);
	return value;
}

/* Return the length of an argument once its marks are replaced; add their number to *marks. */
static uint64_t
arg_len(const struct redb_command *c, const char *arg, uint64_t value_size, uint32_t *marks)
{
	uint64_t len = strlen(arg);
	enum redb_piece_type type;
	size_t mark_len;

	while ((arg = mark_find(c, arg, &type, &mark_len)) != NULL) {
		len += (type == REDB_PIECE_KEY ? REDB_KEY_DIGITS : value_size) - mark_len;
		arg += mark_len;
		(*marks)++;
	}
	return len;
}

/* ---- pieces ---- */

static void
piece_add(struct redb_command *c, enum redb_piece_type type, const char *text, size_t len)
{
	uint32_t slot = 0;

	c->bytes += len;
	if (type == REDB_PIECE_TEXT && c->nb_pieces > 0 &&
	    c->pieces[c->nb_pieces - 1].type == REDB_PIECE_TEXT) {
		c->pieces[c->nb_pieces - 1].len += len;
		return;
	}
	if (type == REDB_PIECE_KEY)
		slot = c->nb_slots++;
	else if (type == REDB_PIECE_VALUE)
		slot = c->nb_slots > 0 ? c->nb_slots - 1 : 0;
	c->pieces[c->nb_pieces++] =
		(struct redb_piece){ .type = type, .slot = slot, .text = text, .len = len };
}

/*
 * Cut an argument into pieces. text is the formatted argument (format()): the text between the
 * marks of arg is copied to it. @return the end of the formatted argument
 */
static char *
arg_cut(struct redb_command *c, const char *arg, char *text, uint64_t value_size)
{
	enum redb_piece_type type;
	const char *mark;
	size_t len;

	while ((mark = mark_find(c, arg, &type, &len)) != NULL) {
		size_t before = (size_t)(mark - arg);
		size_t room = type == REDB_PIECE_KEY ? REDB_KEY_DIGITS : value_size;

		memcpy(text, arg, before);
		if (before > 0)
			piece_add(c, REDB_PIECE_TEXT, text, before);
		piece_add(c, type, text + before, room);
		text += before + room;
		arg = mark + len;
	}
	len = strlen(arg);
	memcpy(text, arg, len);
	if (len > 0)
		piece_add(c, REDB_PIECE_TEXT, text, len);
	return text + len;
}

/* Move the pieces of text together, without the bytes that stand for keys and values. */
static int
compact(struct redb_command *c)
{
	size_t len = 0;
	char *text, *p;
	uint32_t i;

	for (i = 0; i < c->nb_pieces; i++)
		len += c->pieces[i].type == REDB_PIECE_TEXT ? c->pieces[i].len : 0;
	text = malloc(len);
	if (text == NULL)
		return -ENOMEM;
	for (i = 0, p = text; i < c->nb_pieces; i++) {
		struct redb_piece *piece = &c->pieces[i];

		if (piece->type != REDB_PIECE_TEXT) {
			piece->text = NULL;
			continue;
		}
		memcpy(p, piece->text, piece->len);
		piece->text = p;
		p += piece->len;
	}
	c->text = text;
	return 0;
}

/*
 * Find the arguments in the command as hiredis has formatted it, and cut them into pieces:
 *
 *     *2\r\n$3\r\nGET\r\n$17\r\nleat:............\r\n
 */
static int
cut(struct redb_command *c, char *formatted, size_t len, int argc, const char *const *argv,
    uint64_t value_size)
{
	char *p = formatted, *end = formatted + len, *next;
	int i;

	for (i = 0; i <= argc; i++) {
		/* the line with the number of arguments, or with the length of one */
		next = memchr(p, '\n', (size_t)(end - p));
		if (next == NULL)
			return -EINVAL;
		piece_add(c, REDB_PIECE_TEXT, p, (size_t)(next + 1 - p));
		p = next + 1;
		if (i == 0)
			continue;
		p = arg_cut(c, argv[i - 1], p, value_size);
		piece_add(c, REDB_PIECE_TEXT, p, 2);
		p += 2;
	}
	return p == end ? compact(c) : -EINVAL;
}

/*
 * Let hiredis format argv. lens: the arguments' lengths once their marks are replaced. An argument
 * of another length is replaced by that many bytes of one blank buffer: arg_cut() fills them in.
 */
static int
format(char **out, int argc, const char *const *argv, const size_t *lens, size_t longest)
{
	const char **args = calloc((size_t)argc, sizeof(*args));
	char *blank = calloc(1, longest + 1);
	int i, ret = -ENOMEM;

	*out = NULL;
	for (i = 0; args != NULL && blank != NULL && i < argc; i++)
		args[i] = strlen(argv[i]) == lens[i] ? argv[i] : blank;
	if (args != NULL && blank != NULL)
		ret = redisFormatCommandArgv(out, argc, args, lens);
	free(args);
	free(blank);
	return ret < 0 ? -ENOMEM : ret;
}

static int
create(struct redb_command *c, int argc, const char *const *argv, size_t *lens, uint64_t value_size)
{
	uint64_t total = 32;
	uint32_t marks = 0;
	size_t longest = 0;
	char *formatted;
	int i, ret;

	for (i = 0; i < argc; i++) {
		lens[i] = arg_len(c, argv[i], value_size, &marks);
		longest = lens[i] > longest ? lens[i] : longest;
		total += lens[i] + 32;
	}
	if (total > INT_MAX)
		return -E2BIG;
	c->pieces = calloc(2 * (size_t)marks + 1, sizeof(*c->pieces));
	if (c->pieces == NULL)
		return -ENOMEM;
	ret = format(&formatted, argc, argv, lens, longest);
	if (ret < 0)
		return ret;
	ret = cut(c, formatted, (size_t)ret, argc, argv, value_size);
	redisFreeCommand(formatted);
	return ret;
}

int
redb_command_create(struct redb_command *c, int argc, const char *const *argv, uint64_t value_size,
		    uint64_t keys)
{
	size_t *lens = calloc((size_t)argc, sizeof(*lens));
	int ret;

	*c = (struct redb_command){ .name = argv[0], .keys = keys };
	if (lens == NULL)
		return -ENOMEM;
	ret = create(c, argc, argv, lens, value_size);
	free(lens);
	if (ret < 0)
		redb_command_free(c);
	return ret;
}

void
redb_command_free(struct redb_command *c)
{
	free(c->text);
	free(c->pieces);
	*c = (struct redb_command){ 0 };
}

/* ---- a request ---- */

static void
key_put(struct redb_gather *g, uint64_t key)
{
	char digits[REDB_KEY_DIGITS];
	int i;

	for (i = REDB_KEY_DIGITS - 1; i >= 0; i--) {
		digits[i] = (char)('0' + key % 10);
		key /= 10;
	}
	redb_gather_copy(g, digits, sizeof(digits));
}

void
redb_command_put(const struct redb_command *c, const struct redb_values *v, uint64_t base,
		 struct redb_gather *g)
{
	const struct redb_piece *p = c->pieces, *end = p + c->nb_pieces;

	for (; p < end; p++) {
		if (p->type == REDB_PIECE_TEXT)
			redb_gather_add(g, p->text, p->len);
		else if (p->type == REDB_PIECE_KEY)
			key_put(g, redb_command_key(c, base, p->slot));
		else
			redb_gather_add(g, redb_value(v, redb_command_key(c, base, p->slot)),
					v->size);
	}
}

/* ---- commands of tests ---- */

#define KEY REDB_KEY_PREFIX REDB_KEY_MARK
#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static const char *const ping[] = { "PING" };
static const char *const set[] = { "SET", KEY, REDB_VALUE_MARK };
static const char *const get[] = { "GET", KEY };
static const char *const del[] = { "DEL", REDB_LIST };
static const char *const rpush[] = { "RPUSH", REDB_LIST, REDB_VALUE_MARK };

static int
mset(struct redb_command *c, const struct redb_plan *plan)
{
	const char *argv[1 + 2 * REDB_MSET_KEYS] = { "MSET" };
	int i;

	for (i = 0; i < REDB_MSET_KEYS; i++) {
		argv[1 + 2 * i] = KEY;
		argv[2 + 2 * i] = REDB_VALUE_MARK;
	}
	return redb_command_create(c, COUNT(argv), argv, plan->data, plan->keys);
}

static int
lrange(struct redb_command *c, const struct redb_plan *plan)
{
	char last[16];
	const char *argv[] = { "LRANGE", REDB_LIST, "0", last };

	snprintf(last, sizeof(last), "%u", plan->range - 1);
	return redb_command_create(c, COUNT(argv), argv, plan->data, plan->keys);
}

int
redb_command_of(struct redb_command *c, enum redb_kind kind, const struct redb_plan *plan)
{
	static const enum redb_expect expect[REDB_KINDS] = {
		[REDB_PING] = REDB_EXPECT_PONG,	  [REDB_SET] = REDB_EXPECT_OK,
		[REDB_GET] = REDB_EXPECT_VALUE,	  [REDB_MSET] = REDB_EXPECT_OK,
		[REDB_LRANGE] = REDB_EXPECT_LIST, [REDB_COMMAND] = REDB_EXPECT_ANY,
	};
	int ret;

	switch (kind) {
	case REDB_PING:
		ret = redb_command_create(c, COUNT(ping), ping, plan->data, plan->keys);
		break;
	case REDB_SET:
		ret = redb_command_create(c, COUNT(set), set, plan->data, plan->keys);
		break;
	case REDB_GET:
		ret = redb_command_create(c, COUNT(get), get, plan->data, plan->keys);
		break;
	case REDB_MSET:
		ret = mset(c, plan);
		break;
	case REDB_LRANGE:
		ret = lrange(c, plan);
		break;
	default:
		ret = redb_command_create(c, plan->argc, (const char *const *)plan->argv,
					  plan->data, plan->keys);
		break;
	}
	if (ret == 0)
		c->expect = expect[kind];
	return ret;
}

int
redb_command_clear(struct redb_command *c)
{
	int ret = redb_command_create(c, COUNT(del), del, 0, 0);

	c->expect = REDB_EXPECT_INTEGER;
	return ret;
}

int
redb_command_fill(struct redb_command *c, enum redb_kind kind, const struct redb_plan *plan,
		  uint64_t *requests)
{
	int ret;

	if (kind == REDB_GET) {
		*requests = plan->keys;
		ret = redb_command_create(c, COUNT(set), set, plan->data, plan->keys);
		c->expect = REDB_EXPECT_OK;
	} else if (kind == REDB_LRANGE) {
		*requests = plan->range;
		ret = redb_command_create(c, COUNT(rpush), rpush, plan->data, plan->keys);
		c->expect = REDB_EXPECT_INTEGER;
	} else {
		return -ENOENT;
	}
	c->in_order = true;
	return ret;
}
