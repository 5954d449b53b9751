/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Send lines, blocks or arguments as frames.
 *
 *     stdin ---> buf ---> the channel
 *
 * For lines, buf has room for the largest frame and a byte more: a line that fills buf is too long.
 */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"

struct sender {
	const struct ct_options *o;
	struct leat_channel *ch;
	uint64_t sent, dropped, empty; /* numbers of frames; empty: empty lines, not sent */
	uint64_t line;		       /* number of the current line, from 1 */
	char *buf;
	size_t cap, start, have; /* size of buf; offset and length of the data in it, bytes */
};

/* Print why a frame was not sent, and return the exit code. err: the library's positive errno */
static int
refused(const struct sender *s, int err)
{
	switch (err) {
	case ESHUTDOWN:
		ct_msg("%s is terminated: nothing can be sent any more", s->o->name);
		return CT_EXIT_ENDED;
	case EAGAIN:
	case ETIMEDOUT:
		ct_msg("%s is full, and no reader makes room%s", s->o->name,
		       err == ETIMEDOUT ? " in time" : " (--full chooses what to do then)");
		return CT_EXIT_TIMEOUT;
	default:
		return ct_failed(s->o, err);
	}
}

/*
 * Wait for room, in slices: signals would not end a wait in leat_channel_send().
 * @return as leat_channel_wait_room()
 */
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
	/* Another writer may use the room first: then wait again, but not beyond the same end. */
	end = ct_end(o->timeout_ns);
	do {
		ret = wait ? await_room(s, (uint32_t)len, end) : 0;
		if (ret == 0)
			ret = leat_channel_send(s->ch, o->type, o->hash, data, (uint32_t)len);
	} while (wait && ret == -EAGAIN && ct_slice(end) > 0 && ct_stopped() == 0);
	/* A reader holds the oldest frame, so drop the new frame instead. */
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

/* Read more of stdin into the buffer. @return 1; 0: end of file; or a negative errno */
static int
read_more(struct sender *s)
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

/*
 * Find the next frame in the buffer. *len: bytes of the frame; *skip: of the frame and its end
 * of line.
 * @return false: read more first
 */
static bool
next_frame(const struct sender *s, bool last, size_t *len, size_t *skip)
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
	/* A full buffer without an end of line: send_one() says that the line is too long. */
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
		ret = read_more(s);
		while (ret >= 0 && code == CT_EXIT_OK && next_frame(s, ret == 0, &len, &skip)) {
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
		return ct_stdout_failed();
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
