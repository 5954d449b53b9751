/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Lines, blocks or arguments as frames.
 *
 *     stdin ---> buf: a frame at most, and one byte that shows that there is more ---> the channel
 */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"

struct sender {
	const struct ct_options *o;
	struct leat_channel *ch;
	uint64_t sent, dropped, empty;
	uint64_t line;
	char *buf;
	size_t cap, start, have;
};

/* Negative errno of the library, in words. */
static int
refused(const struct sender *s, int err)
{
	switch (err) {
	case ESHUTDOWN:
		ct_msg("%s is terminated: nothing can be sent any more", s->o->name);
		return CT_EXIT_ENDED;
	case EAGAIN:
	case ETIMEDOUT:
		ct_msg("%s is full, and nobody makes room%s", s->o->name,
		       err == ETIMEDOUT ? " in time" : " (--full says what to do then)");
		return CT_EXIT_TIMEOUT;
	default:
		return ct_failed(s->o, err);
	}
}

/* Waits here and not in leat_channel_send(): signals end this. @return as leat_channel_wait_room() */
static int
await_room(struct sender *s, uint32_t len, uint64_t end)
{
	uint64_t ns;
	int ret;

	do {
		ns = ct_slice(end);
		ret = leat_channel_wait_room(s->ch, len, ns);
	} while (ret == -ETIMEDOUT && ns > 0 && ct_stopped() == 0);
	return ret;
}

static int
send_one(struct sender *s, const char *data, size_t len)
{
	const struct ct_options *o = s->o;
	bool wait = o->opts.full == LEAT_CHANNEL_FULL_WAIT;
	uint64_t end;
	int ret;

	if (len == 0) {
		s->empty++;
		return CT_EXIT_OK;
	}
	if (len > leat_channel_max(s->ch)) {
		ct_msg("line %" PRIu64 " has more than the %u bytes that a frame of %s can have "
		       "(create --size, or send --block)",
		       s->line, leat_channel_max(s->ch), o->name);
		return CT_EXIT_FAILED;
	}
	/*
	 * Other writers may have been faster: then there is no room again, and no more time than
	 * before.
	 */
	end = ct_end(o->timeout_ns);
	do {
		ret = wait ? await_room(s, (uint32_t)len, end) : 0;
		if (ret == 0)
			ret = leat_channel_send(s->ch, o->type, o->hash, data, (uint32_t)len);
	} while (wait && ret == -EAGAIN && ct_slice(end) > 0 && ct_stopped() == 0);
	/* The oldest can't be thrown away while a reader has it in its hands: then it is this one. */
	if (ret == -EAGAIN && o->opts.full == LEAT_CHANNEL_FULL_DROP_OLDEST)
		ret = LEAT_CHANNEL_DROPPED;
	if (ret < 0)
		return ct_stopped() != 0 ? CT_EXIT_FAILED : refused(s, -ret);
	if (ret == LEAT_CHANNEL_DROPPED)
		s->dropped++;
	else
		s->sent++;
	return CT_EXIT_OK;
}

/* More of stdin into the buffer. 1; 0: that was all; -errno */
static int
more(struct sender *s)
{
	ssize_t n;
	int ret;

	ret = ct_poll(STDIN_FILENO, POLLIN, LEAT_CHANNEL_FOREVER);
	if (ret < 0)
		return ret;
	memmove(s->buf, s->buf + s->start, s->have);
	s->start = 0;
	n = read(STDIN_FILENO, s->buf + s->have, s->cap - s->have);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 1 : -errno;
	s->have += (size_t)n;
	return n > 0;
}

/* The next frame of the buffer. @return false: there must be more */
static bool
next(const struct sender *s, bool last, size_t *len, size_t *skip)
{
	const char *from = s->buf + s->start, *end;
	size_t block = s->o->block;

	if (block > 0) {
		*len = *skip = s->have < block ? s->have : block;
		return *len == block || (last && *len > 0);
	}
	end = memchr(from, s->o->null ? '\0' : '\n', s->have);
	*len = end != NULL ? (size_t)(end - from) : s->have;
	*skip = *len + (end != NULL);
	/* Full without an end: it is too long, as will be said. */
	return end != NULL || s->have == s->cap || (last && s->have > 0);
}

static int
send_stdin(struct sender *s)
{
	int ret, code = CT_EXIT_OK;
	size_t len, skip;

	s->cap = s->o->block > 0 ? s->o->block : (size_t)leat_channel_max(s->ch) + 1;
	s->buf = malloc(s->cap);
	if (s->buf == NULL) {
		ct_msg("out of memory");
		return CT_EXIT_FAILED;
	}
	do {
		ret = more(s);
		while (ret >= 0 && code == CT_EXIT_OK && next(s, ret == 0, &len, &skip)) {
			s->line++;
			code = send_one(s, s->buf + s->start, len);
			s->start += skip;
			s->have -= skip;
		}
	} while (ret > 0 && code == CT_EXIT_OK);
	free(s->buf);
	if (ret < 0) {
		if (ret != -EINTR)
			ct_msg("stdin: can't read: %s", strerror(-ret));
		return CT_EXIT_FAILED;
	}
	return code;
}

static int
send_texts(struct sender *s)
{
	int i, code = CT_EXIT_OK;

	for (i = 0; i < s->o->nb_texts && code == CT_EXIT_OK; i++) {
		s->line++;
		code = send_one(s, s->o->texts[i], strlen(s->o->texts[i]));
	}
	return code;
}

static int
report(const struct sender *s)
{
	if (s->empty > 0)
		ct_msg("empty lines left out: %" PRIu64 "; a frame has a byte at least", s->empty);
	if (s->dropped > 0)
		ct_msg("%" PRIu64 " of %" PRIu64 " frames were dropped: there was no room",
		       s->dropped, s->sent + s->dropped);
	if (s->o->json && ct_json_sent(s->o, s->sent, s->dropped, s->empty) < 0)
		return ct_unwritten();
	return CT_EXIT_OK;
}

int
ct_send(const struct ct_options *o)
{
	struct sender s = { .o = o };
	struct ct_options open = *o;
	int ret, code;

	if (o->opts.full == LEAT_CHANNEL_FULL_WAIT)
		open.opts.full = LEAT_CHANNEL_FULL_FAIL; /* see await_room() */
	s.ch = ct_open(&open);
	if (s.ch == NULL)
		return CT_EXIT_FAILED;
	if (o->block > leat_channel_max(s.ch)) {
		ct_msg("--block: %u is more than the %u bytes that a frame of %s can have",
		       o->block, leat_channel_max(s.ch), o->name);
		code = CT_EXIT_USAGE;
	} else {
		code = o->nb_texts > 0 ? send_texts(&s) : send_stdin(&s);
	}
	if (code == CT_EXIT_OK && o->terminate) {
		ret = leat_channel_terminate(s.ch);
		if (ret < 0)
			code = ct_failed(o, -ret);
	}
	leat_channel_close(s.ch);
	ret = report(&s);
	return code != CT_EXIT_OK ? code : ret;
}
