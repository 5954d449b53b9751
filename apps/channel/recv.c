/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Write frames to stdout. A frame is consumed once it is written. If a write fails, or a signal
 * comes, the frames are given back: another reader, or the next leat-channel recv, gets them. If
 * the channel's memory is cut off meanwhile, what was written may be wrong: this is an error.
 */

#include <string.h>

#include "channel.h"

#define BURST 32

struct receiver {
	const struct ct_options *o;
	struct leat_channel *ch;
	uint64_t received;
};

static int
print_one(const struct ct_options *o, const struct leat_channel_frame *f)
{
	if (o->json)
		return ct_json_frame(f);
	if (fwrite(f->data, 1, f->len, ct_out) != f->len)
		return -EIO;
	if (!o->raw && fputc(o->null ? '\0' : '\n', ct_out) == EOF)
		return -EIO;
	return 0;
}

static int
print_all(struct receiver *r, const struct leat_channel_frame *frames, int n)
{
	int i, ret = 0;

	for (i = 0; i < n && ret == 0 && ct_stopped() == 0; i++)
		ret = print_one(r->o, &frames[i]);
	if (i == n && ret == 0 && fflush(ct_out) == 0) {
		ret = leat_channel_consume(r->ch);
		if (ret < 0)
			return ct_failed(r->o, -ret);
		r->received += (uint64_t)n;
		return CT_EXIT_OK;
	}
	ret = ct_stdout_failed();
	(void)leat_channel_give_back(r->ch);
	return ret;
}

/* Wait for a frame. @return 0; -ETIMEDOUT, also after a signal; or another negative errno */
static int
await_frame(struct receiver *r, uint64_t end)
{
	uint64_t ns;
	int ret;

	do {
		ns = ct_slice(end);
		/* If other readers get every frame first, only the time-out ends the wait. */
		if (ns == 0)
			return -ETIMEDOUT;
		ret = leat_channel_wait(r->ch, ns);
	} while (ret == -ETIMEDOUT && ct_stopped() == 0);
	return ret;
}

/* After a failed wait for a frame: print why, if it is an error, and return the exit code. */
static int
end_code(const struct receiver *r, int err)
{
	const struct ct_options *o = r->o;

	switch (err) {
	case ESHUTDOWN:
		if (o->count == 0)
			return CT_EXIT_OK;
		ct_msg("%s was terminated after %" PRIu64 " of %" PRIu64 " frames", o->name,
		       r->received, o->count);
		return CT_EXIT_ENDED;
	case ETIMEDOUT:
		if (o->count == 0 && !o->follow)
			return CT_EXIT_OK;
		ct_msg("%s: no frame in time, %" PRIu64 " were received", o->name, r->received);
		return CT_EXIT_TIMEOUT;
	default:
		return ct_failed(o, err);
	}
}

static int
receive(struct receiver *r)
{
	struct leat_channel_frame frames[BURST];
	const struct ct_options *o = r->o;
	uint64_t left, end = ct_end(o->timeout_ns);
	int ret, code = CT_EXIT_OK;

	while (code == CT_EXIT_OK && ct_stopped() == 0) {
		left = o->count > 0 ? o->count - r->received : BURST;
		if (left == 0)
			return CT_EXIT_OK;
		ret = leat_channel_peek(r->ch, frames, left < BURST ? (unsigned int)left : BURST);
		if (ret > 0) {
			code = print_all(r, frames, ret);
			end = ct_end(o->timeout_ns);
			continue;
		}
		if (ret == -EAGAIN)
			ret = await_frame(r, end);
		if (ret < 0)
			return ct_stopped() != 0 ? CT_EXIT_OK : end_code(r, -ret);
	}
	return code;
}

int
ct_recv(const struct ct_options *o)
{
	struct receiver r = { .o = o };
	int code;

	r.ch = ct_open(o);
	if (r.ch == NULL)
		return CT_EXIT_FAILED;
	code = receive(&r);
	leat_channel_close(r.ch);
	return code;
}
