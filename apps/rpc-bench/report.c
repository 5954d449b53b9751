/* SPDX-License-Identifier: BSD-3-Clause */

/* Tables on stdout. */

#include <string.h>
#include <unistd.h>

#include <leat_histogram.h>
#include <leat_version.h>

#include "bench.h"
#include "op.h"

#define RULE                                                                                       \
	"----------------------------------------------------------------------------------------" \
	"---\n"
/* If the run has more lcores, show a row per rank instead of one per lcore. */
#define LCORES_SHOWN 64u

/* ---- head ---- */

static void
print_plan(const struct rb_bench *b)
{
	const struct rb_plan *p = &b->plan;
	char req[128], resp[128];
	int k;

	printf(RULE "leat-rpc-bench %s: %u tasks, batches of %u%s\n", LEAT_VERSION, p->tasks,
	       p->batch, p->check ? ", every byte is verified" : "");
	if (p->rate_mhz != 0)
		printf(" rate    open loop, %.6g calls/s wanted\n", (double)p->rate_mhz / 1000);
	for (k = 0; k < RB_KINDS; k++) {
		if (p->percent[k] == 0)
			continue;
		rb_sizes_print(&p->req[k], req, sizeof(req));
		rb_sizes_print(&p->resp[k], resp, sizeof(resp));
		printf(" %-7s %s B%s%s%s", rb_ops[k]->name, req, rb_ops[k]->oneway ? "" : " and ",
		       rb_ops[k]->oneway ? "" : resp, rb_ops[k]->oneway ? "" : " B back");
		if (p->percent[k] < 100)
			printf(", %u %% of the batches", p->percent[k]);
		printf("\n");
	}
}

static void
print_cpus(const struct rb_card *c)
{
	uint16_t i;

	printf("%u lcore%s, CPU%s ", c->nb_lcores, c->nb_lcores > 1 ? "s" : "",
	       c->nb_lcores > 1 ? "s" : "");
	for (i = 0; i < c->nb_lcores; i++) {
		printf("%s%u%s", i > 0 ? "," : "", c->lcore[i].cpu,
		       c->lcore[i].nb_cpus > 1 ? "+" : "");
	}
}

static void
print_card(const struct rb_bench *b, const char *who, const char *addr, const struct rb_card *c)
{
	printf(" %-7s %s%s%s (driver %s%s%s%s%s), %s, ", who, addr, addr[0] != '\0' ? ": " : "",
	       c->dev, c->driver, c->provider[0] != '\0' ? ", provider " : "", c->provider,
	       c->interface[0] != '\0' ? ", interface " : "", c->interface,
	       rb_type_name(b->plan.type));
	print_cpus(c);
	printf("\n");
}

static void
print_ranks(const struct rb_bench *b)
{
	char name[16], addr[96];
	uint16_t i;

	for (i = 0; i < b->world.nb_ranks; i++) {
		const struct rb_card *c = &b->world.ranks[i].card;

		snprintf(name, sizeof(name), "rank %u", i);
		snprintf(addr, sizeof(addr), "%s, pid %u", c->name, c->pid);
		print_card(b, name, addr, c);
	}
}

static const char *
idle_why(const struct rb_bench *b)
{
	if (b->o.idle != LEAT_IDLE_AUTO)
		return "as asked for";
	return b->crowded ? "lcores may share CPUs" : "each lcore has a CPU of its own";
}

static void
warn(const struct rb_bench *b)
{
	const struct rb_card *c = &rb_world_self(&b->world)->card;
	unsigned int run = cpu_runnable(), cpus = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
	bool floats = false;
	uint16_t i;

	for (i = 0; i < c->nb_lcores; i++) {
		floats = floats || c->lcore[i].nb_cpus > 1;
		if (cpu_saves_power(c->lcore[i].cpu))
			rb_msg("warning: CPU %u runs with the governor 'powersave'; 'performance' "
			       "gives steadier numbers",
			       c->lcore[i].cpu);
	}
	if (floats)
		rb_msg("warning: not pinned: an lcore may run on several CPUs (EAL's -l pins)");
	else if (b->crowded)
		rb_msg("warning: lcores share CPUs: the numbers are those of the scheduler (EAL's "
		       "-l chooses)");
	if (run > cpus)
		rb_msg("warning: the machine is busy: %u threads want to run on %u CPUs", run,
		       cpus);
}

void
rb_report_head(const struct rb_bench *b)
{
	const struct leat_rpc_stats *st = &b->rpc;

	if (b->o.role == RB_LISTEN || rb_world_leader(&b->world) != b->world.rank)
		return;
	warn(b);
	if (b->o.json)
		return;
	print_plan(b);
	if (b->world.pair || b->world.nb_ranks == 1)
		print_card(b, "here", "", &rb_world_self(&b->world)->card);
	if (b->world.pair)
		print_card(b, "there", b->o.addr, &b->world.ranks[0].card);
	else if (b->world.nb_ranks > 1)
		print_ranks(b);
	printf(" rpc     each lcore %u session%s, %u credits, %u slots, %.1f MiB; %u B fit a "
	       "packet%s\n",
	       st->max_sessions, st->max_sessions > 1 ? "s" : "", st->credits, st->slots,
	       (double)st->memory / 1048576, b->small,
	       b->plan.swift ? "; congestion control swift" : "");
	printf(" idle    %s (%s)\n" RULE, leat_idle_policy_name(b->idle), idle_why(b));
	(void)fflush(stdout);
}

/* ---- rows ---- */

static void
print_row(const char *who, int cpu, const struct rb_tally *t)
{
	const double s = (double)t->elapsed_ns / 1e9;
	char at[16] = "";

	if (cpu >= 0)
		snprintf(at, sizeof(at), "%d", cpu);
	printf("%8s %4s %12" PRIu64 " %8.3f %10.6f %9.2f %9.2f %12" PRIu64 "\n", who, at,
	       rb_tally_calls(t), s, rb_tally_rate(t),
	       s > 0 ? (double)(t->bytes_out + t->bytes_in) / s / 1e6 : 0, rb_tally_coalesced(t),
	       t->served);
}

static void
print_rank(const struct rb_bench *b, uint16_t rank, bool each)
{
	const struct rb_rank *r = &b->world.ranks[rank];
	struct rb_tally sum = { .others = -1 };
	char who[16];
	uint16_t i;

	for (i = 0; r->result != NULL && i < r->result->nb_lcores; i++) {
		snprintf(who, sizeof(who), "%u.%u", rank, i);
		if (each)
			print_row(who, r->card.lcore[i].cpu, &r->result->lcore[i]);
		rb_tally_add(&sum, &r->result->lcore[i]);
	}
	snprintf(who, sizeof(who), "%u", rank);
	if (!each && r->result != NULL)
		print_row(who, -1, &sum);
}

static void
print_rows(const struct rb_bench *b, const struct rb_tally *sum)
{
	uint32_t lcores = 0;
	uint16_t i;

	for (i = 0; i < b->world.nb_ranks; i++)
		lcores += b->world.ranks[i].card.nb_lcores;
	printf("%8s %4s %12s %8s %10s %9s %9s %12s\n", lcores <= LCORES_SHOWN ? "lcore" : "rank",
	       lcores <= LCORES_SHOWN ? "CPU" : "", "calls", "seconds", "Mcalls/s", "MB/s",
	       "items/pkt", "served");
	for (i = 0; i < b->world.nb_ranks; i++)
		print_rank(b, i, lcores <= LCORES_SHOWN);
	print_row("total", -1, sum);
}

/* ---- latency ---- */

struct leat_histogram *
rb_latency(const struct rb_bench *b, int kind)
{
	struct leat_histogram *h = leat_histogram_create();
	uint16_t i;

	for (i = 0; h != NULL && i < b->world.nb_ranks; i++) {
		if (b->world.ranks[i].result != NULL)
			leat_histogram_merge(h, b->world.ranks[i].result->hist[kind]);
	}
	return h;
}

static void
print_latency(const char *name, const struct leat_histogram *h)
{
	printf("%8s %12" PRIu64 " %9.3f %9.3f %9.3f %9.3f %9.3f %10.3f %9.3f\n", name,
	       leat_histogram_count(h), (double)leat_histogram_min(h) / 1e3,
	       (double)leat_histogram_percentile(h, 50) / 1e3, leat_histogram_mean(h) / 1e3,
	       (double)leat_histogram_percentile(h, 90) / 1e3,
	       (double)leat_histogram_percentile(h, 99) / 1e3,
	       (double)leat_histogram_percentile(h, 99.9) / 1e3,
	       (double)leat_histogram_max(h) / 1e3);
}

static int
print_latencies(const struct rb_bench *b)
{
	struct leat_histogram *h;
	int k;

	if (b->plan.rate_mhz != 0)
		printf(" latency of a batch of %u, from the moment it was due\n", b->plan.batch);
	else
		printf(" latency of a batch of %u%s\n", b->plan.batch,
		       b->plan.batch == 1 ? ", that is of a call" : "");
	printf("%8s %12s %9s %9s %9s %9s %9s %10s %9s\n", "", "batches", "min[us]", "p50[us]",
	       "avg[us]", "p90[us]", "p99[us]", "p99.9[us]", "max[us]");
	for (k = 0; k < RB_KINDS; k++) {
		if (b->plan.percent[k] == 0)
			continue;
		h = rb_latency(b, k);
		if (h == NULL)
			return -ENOMEM;
		print_latency(rb_ops[k]->name, h);
		leat_histogram_free(h);
	}
	return 0;
}

/* ---- counts and warnings ---- */

static void
print_counts(const struct rb_bench *b, const struct rb_tally *t)
{
	printf(" packets %" PRIu64 " sent, %" PRIu64 " of them only for credits\n", t->packets_sent,
	       t->credit_packets);
	if (b->plan.type == LEAT_EP_DATAGRAM)
		printf(" again   %" PRIu64 " packets sent again, %" PRIu64 " probes, %" PRIu64
		       " came twice\n",
		       t->retransmissions, t->probes, t->duplicates);
	if (b->plan.percent[RB_BULK] > 0)
		printf(" bulk    %.6g MB pulled, %.6g MB pushed, %.6g MB of both in messages\n",
		       (double)t->pulled / 1e6, (double)t->pushed / 1e6,
		       (double)t->by_message / 1e6);
	if (b->plan.rate_mhz != 0)
		printf(" rate    %.6g calls/s; %" PRIu64
		       " batches begun late by more than an interval, at most %.3f us\n",
		       rb_tally_rate(t) * 1e6, t->delayed, (double)t->delayed_max_ns / 1e3);
	if (t->unsent > 0)
		printf(" unsent  %" PRIu64
		       " batches were not begun: --rate is too high; they are not in the "
		       "latencies\n",
		       t->unsent);
	if (t->busy > 0)
		printf(" busy    %" PRIu64
		       " times a call was refused for lack of room, and tried again\n",
		       t->busy);
	if (t->expired > 0)
		printf(" expired %" PRIu64 " calls (--deadline); %" PRIu64
		       " responses came later than that\n",
		       t->expired, t->late);
}

static void
print_errors(const struct rb_tally *t)
{
	int i;

	if (t->cut > 0)
		printf(" cut     %" PRIu64 " calls, since their session ended\n", t->cut);
	if (t->lost > 0)
		printf(" LOST    %" PRIu64 " one-way requests\n", t->lost);
	for (i = 0; i < RB_ERRNOS; i++) {
		if (t->errors[i] > 0)
			printf(" status  %" PRIu64 " calls: %s\n", t->errors[i],
			       i == RB_ERRNOS - 1 ? "other" : strerror(i));
	}
	if (t->wrong > 0)
		printf(" WRONG   %" PRIu64 " messages\n", t->wrong);
}

/* Warn on stderr of everything that puts the numbers in doubt. */
static void
complain(const struct rb_bench *b, const struct rb_tally *t)
{
	char text[RB_TEXT];
	uint16_t i;

	if (t->wrong > 0) {
		rb_wrong_print(&t->first, text, sizeof(text));
		rb_msg("%" PRIu64 " messages were wrong; the first: %s", t->wrong, text);
	}
	if (t->failed > 0)
		rb_msg("%" PRIu64 " calls failed", t->failed);
	if (t->lost > 0)
		rb_msg("%" PRIu64 " one-way requests were not handled by the other side", t->lost);
	for (i = 0; i < b->world.nb_ranks; i++) {
		if (b->world.ranks[i].lost && !b->world.pair)
			rb_msg("rank %u ended early: %s", i, b->world.ranks[i].why);
	}
	if (t->others > CPU_BUSY_SHARE * 1000 && !b->crowded)
		rb_msg("warning: others used up to %d %% of an lcore's CPU during the measurement",
		       t->others / 10);
}

/* ---- the whole report ---- */

static int
verdict(const struct rb_bench *b, const struct rb_tally *t)
{
	const bool all = rb_world_alive(&b->world) == b->world.nb_ranks;

	if (!rb_tally_good(t) || b->nb_ended > 0 || (t->cut > 0 && all))
		return RB_EXIT_FAILED;
	return all ? RB_EXIT_OK : RB_EXIT_LOST;
}

static int
print_all(const struct rb_bench *b, const struct rb_tally *sum)
{
	int ret;

	if (!b->ran)
		return 0;
	print_rows(b, sum);
	ret = print_latencies(b);
	print_counts(b, sum);
	print_errors(sum);
	printf("%s" RULE, b->interrupted ? " interrupted\n" : "");
	return ret;
}

static int
report(struct rb_bench *b, const struct rb_tally *sum)
{
	int ret = 0;

	if (rb_world_leader(&b->world) != b->world.rank)
		return 0;
	if (b->o.histogram != NULL && b->ran)
		ret = rb_histogram_write(b);
	if (b->o.json)
		return rb_json(b, sum) < 0 ? -EIO : ret;
	if (print_all(b, sum) < 0)
		ret = -ENOMEM;
	if (fflush(stdout) != 0 || ferror(stdout) != 0) {
		rb_msg("stdout: can't write");
		ret = -EIO;
	}
	return ret;
}

int
rb_report(struct rb_bench *b)
{
	struct rb_tally sum;
	int ret;

	if (b->world.ranks == NULL)
		return b->o.json ? rb_json(b, NULL) : 0;
	rb_world_sum(&b->world, &sum);
	b->verdict = verdict(b, &sum);
	ret = report(b, &sum);
	if (b->ran)
		complain(b, &sum);
	return ret;
}
