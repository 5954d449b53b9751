/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Show what a channel does. inspect reads its state once, and changes nothing; attach becomes a
 * participant, and prints a line per interval.
 */

#include <string.h>

#include "channel.h"

const char *const ct_counters[LEAT_CHANNEL_COUNTERS] = {
	[LEAT_CHANNEL_SENT] = "sent",	      [LEAT_CHANNEL_RECEIVED] = "received",
	[LEAT_CHANNEL_FULL] = "full",	      [LEAT_CHANNEL_OVERWRITTEN] = "overwritten",
	[LEAT_CHANNEL_INVALID] = "invalid",   [LEAT_CHANNEL_ABORTED] = "aborted",
	[LEAT_CHANNEL_RETURNED] = "returned", [LEAT_CHANNEL_LOST] = "lost",
};

static int
flushed(void)
{
	return fflush(ct_out) != 0 || ferror(ct_out) ? ct_stdout_failed() : CT_EXIT_OK;
}

static int
written(int ret)
{
	if (ret == -ENOMEM) {
		ct_msg("out of memory");
		return CT_EXIT_FAILED;
	}
	return ret < 0 ? ct_stdout_failed() : CT_EXIT_OK;
}

/* ---- inspect ---- */

static void
print_who(const struct leat_channel_who *w)
{
	fprintf(ct_out,
		"  %4u  %8d  %10u  %-5s  %-7s  %12" PRIu64 "  %12" PRIu64 "  %8" PRIu64 "\n",
		w->slot, w->pid, w->generation, w->alive ? "yes" : "no", w->waiting ? "yes" : "no",
		w->count[LEAT_CHANNEL_SENT], w->count[LEAT_CHANNEL_RECEIVED],
		w->count[LEAT_CHANNEL_FULL]);
}

static int
print_info(const struct ct_options *o, const struct leat_channel_info *i)
{
	unsigned int k;

	fprintf(ct_out,
		"%s%s: buffer %" PRIu64 " bytes, %" PRIu64
		" in all; notify %s; a dead reader's frames: %s\n",
		o->name, i->ended ? " (terminated)" : "", i->size, i->bytes,
		ct_notify_name(i->notify), ct_on_death_name(i->on_death));
	fprintf(ct_out,
		"positions    write %" PRIu64 ", read %" PRIu64 ", free %" PRIu64 ": %" PRIu64
		" bytes in use\n",
		i->write, i->read, i->free, i->write - i->free);
	fprintf(ct_out,
		"frames       reserved %u, committed %u, reading %u, returned %u, done %u, "
		"empty %u\n",
		i->reserved, i->committed, i->reading, i->returned, i->done, i->empty);
	fprintf(ct_out, "counters    ");
	for (k = 0; k < LEAT_CHANNEL_COUNTERS; k++)
		fprintf(ct_out, "%s %s %" PRIu64, k > 0 ? "," : "", ct_counters[k], i->count[k]);
	fprintf(ct_out, "\nparticipants %u of %u\n", i->participants, i->participants_max);
	if (i->participants > 0)
		fprintf(ct_out, "  %4s  %8s  %10s  %-5s  %-7s  %12s  %12s  %8s\n", "slot", "pid",
			"generation", "alive", "waiting", "sent", "received", "full");
	for (k = 0; k < i->participants; k++)
		print_who(&i->who[k]);
	return flushed();
}

int
ct_inspect(const struct ct_options *o)
{
	struct leat_channel_info info;
	int ret;

	ret = leat_channel_inspect_name(o->name, &info);
	if (ret < 0)
		return ct_failed(o, -ret);
	return o->json ? written(ct_json_inspect(o, &info)) : print_info(o, &info);
}

/* ---- attach ---- */

static struct ct_rates
rates_of(const struct leat_channel_info *was, const struct leat_channel_info *is, uint64_t ns)
{
	struct ct_rates r = { .seconds = (double)ns / (double)CT_NS_PER_S };
	unsigned int k;

	/* A counter that decreased has rate 0: it was read at a different moment, or is corrupt. */
	for (k = 0; k < LEAT_CHANNEL_COUNTERS && ns > 0; k++) {
		if (is->count[k] > was->count[k])
			r.count[k] = (double)(is->count[k] - was->count[k]) / r.seconds;
	}
	return r;
}

static int
print_rates(const struct leat_channel_info *i, const struct ct_rates *r)
{
	fprintf(ct_out,
		"%10.0f  %10.0f  %8.0f  %12" PRIu64 "  %8u  %9u  %7u  %8u  %8" PRIu64 "  %8" PRIu64
		"  %12u\n",
		r->count[LEAT_CHANNEL_SENT], r->count[LEAT_CHANNEL_RECEIVED],
		r->count[LEAT_CHANNEL_FULL], i->write - i->free, i->reserved, i->committed,
		i->reading, i->returned, i->count[LEAT_CHANNEL_ABORTED],
		i->count[LEAT_CHANNEL_LOST], i->participants);
	return flushed();
}

static int
print_head(void)
{
	fprintf(ct_out, "%10s  %10s  %8s  %12s  %8s  %9s  %7s  %8s  %8s  %8s  %12s\n", "sent/s",
		"received/s", "full/s", "bytes in use", "reserved", "committed", "reading",
		"returned", "aborted", "lost", "participants");
	return flushed();
}

static int
watch(const struct ct_options *o, struct leat_channel *ch)
{
	struct leat_channel_info was, is;
	uint64_t then = ct_now_ns(), now, lines = 0;
	struct ct_rates rates;
	int ret, code = CT_EXIT_OK;

	ret = leat_channel_inspect(ch, &was);
	if (ret == 0 && !o->json)
		code = print_head();
	is = was;
	while (ret >= 0 && code == CT_EXIT_OK && !is.ended) {
		if (ct_poll(-1, 0, o->interval_ns) < 0)
			return CT_EXIT_OK; /* a signal */
		ret = leat_channel_recover(ch);
		if (ret >= 0)
			ret = leat_channel_inspect(ch, &is);
		if (ret < 0)
			break;
		now = ct_now_ns();
		rates = rates_of(&was, &is, now - then);
		code = o->json ? written(ct_json_attach(&is, &rates)) : print_rates(&is, &rates);
		was = is;
		then = now;
		if (++lines == o->count)
			break;
	}
	return ret < 0 ? ct_failed(o, -ret) : code;
}

int
ct_attach(const struct ct_options *o)
{
	struct leat_channel *ch = ct_open(o);
	int code;

	if (ch == NULL)
		return CT_EXIT_FAILED;
	code = watch(o, ch);
	leat_channel_close(ch);
	return code;
}
