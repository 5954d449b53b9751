/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The way "pmix": fences.
 *
 * A process has reached round k (its k-th fence) if, and only if, its record of round k can be got
 * from PMIx. PMIx's own fence only makes this fast: it copies the records of all processes to each
 * node. It is not reliable:
 *
 *  - The fence has no usable time-out. PMIX_TIMEOUT ends the wait on the node of a process that is
 *    missing; on other nodes the wait never ends (Open MPI 4.1), and some servers have crashed
 *    (openpmix issue 2096). So this process stops waiting at its own time-out, while PMIx's fence
 *    continues.
 *  - Servers count processes without telling them apart: a process in two fences at a time counts
 *    twice, and the fence ends too soon. So before a process begins a fence, it waits for the end
 *    of an earlier one that it had given up; and each process begins as many of PMIx's fences as
 *    there were rounds.
 *  - When a process has died, the fence succeeds, or ends with PMIX_ERR_PARTIAL_SUCCESS, without
 *    that process's record, and on other nodes also without those of the processes on its node.
 *
 * Records that PMIx's fence has not copied to this node are requested one by one from the nodes of
 * their processes: after the fence has ended, or shortly before the time is up.
 *
 *     publish ---- PMIx's fence ----+---------------> records of all: here already
 *                                   |
 *                                   | ended, or nearly out of time
 *                                   +--- ask for those not here ---> all, or ranks missing
 *
 * A key is never used twice, since any server may cache its first value: it is "leat.", the job,
 * the number of rendezvous that this process had opened before, and the round. A record has the
 * values only if they have changed in its round; it names the round in which they last changed,
 * and the record of that round has them.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pmix_pvt.h"

/* Time to ask for records that are missing after PMIx's fence has ended. */
#define GRACE_US UINT64_C(1000000)
/* Shortest time to ask for records, however short the caller's time-out is. */
#define ASK_US UINT64_C(50000)
/* Time-out of PMIx_Finalize(). */
#define CLOSE_US UINT64_C(5000000)

struct rendezvous_pmix {
	struct pmix_hub *hub;
	struct pmix_abi_proc proc;
	uint32_t open; /* number of rendezvous that this process had opened before */
	bool inited;
	struct pmix_op *late;	/* a call that did not return in time; NULL: none */
	uint64_t state_sent;	/* round of the values published last */
	uint64_t fences;	/* number of PMIx's fences begun */
	struct pmix_op *fence;	/* the last of PMIx's fences, until it has ended; NULL: none */
	struct pmix_op **asked; /* PMIx_Get_nb() under way, by rank; NULL: none */
};

/*
 * Number of rendezvous that this process has opened. All processes' first
 * rendezvous form one rendezvous, all second ones the next, and so on.
 */
static uint32_t opened;

static void
key_of_round(const struct leat_rendezvous *rv, uint64_t round, char *key)
{
	const struct rendezvous_pmix *p = rv->priv;

	snprintf(key, PMIX_KEY_MAX, "leat.%s.%" PRIu32 ".%" PRIu64, rv->job, p->open, round);
}

/* Set the only option of a call: key is true. */
static void
set_info(struct pmix_op *op, const char *key)
{
	snprintf(op->info.key, sizeof(op->info.key), "%s", key);
	op->info.value = (struct pmix_abi_value){ .type = PMIX_ABI_BOOL, .data.flag = true };
}

/* ---- calls that wait for the server -------------------------------------------------------- */

/*
 * Free a value of PMIx_Get(). PMIx allocates it with malloc(3), so free(3) works with all releases.
 */
static void
free_value(struct pmix_abi_value *value)
{
	if (value->type == PMIX_ABI_BYTE_OBJECT)
		free(value->data.bo.bytes);
	free(value);
}

static int
call_init(struct pmix_op *op)
{
	const struct pmix_abi *abi = &op->hub->abi;
	struct pmix_abi_value *value = NULL;
	struct pmix_abi_proc all;
	int ret = abi->init(&op->proc, NULL, 0);

	if (ret != PMIX_ABI_SUCCESS)
		return ret;
	op->inited = true;
	all = op->proc;
	all.rank = PMIX_ABI_RANK_WILDCARD;
	ret = abi->get(&all, PMIX_ABI_JOB_SIZE, NULL, 0, &value);
	if (ret != PMIX_ABI_SUCCESS || value == NULL)
		return ret;
	if (value->type == PMIX_ABI_UINT32)
		op->size = value->data.uint32;
	free_value(value);
	return PMIX_ABI_SUCCESS;
}

static int
call_publish(struct pmix_op *op)
{
	struct pmix_abi_value value = {
		.type = PMIX_ABI_BYTE_OBJECT,
		.data.bo = { .bytes = (char *)op->what[0].bytes, .size = op->what[0].len },
	};
	int ret = op->hub->abi.put(PMIX_ABI_GLOBAL, op->what[0].key, &value);

	return ret != PMIX_ABI_SUCCESS ? ret : op->hub->abi.commit();
}

/* Get the records that are on this node already, without asking other nodes. */
static int
call_get_local(struct pmix_op *op)
{
	struct pmix_abi_value *value;
	unsigned int i;

	set_info(op, PMIX_ABI_OPTIONAL);
	for (i = 0; i < op->nb; i++) {
		op->proc.rank = op->what[i].rank;
		value = NULL;
		if (op->hub->abi.get(&op->proc, op->what[i].key, &op->info, 1, &value) !=
			    PMIX_ABI_SUCCESS ||
		    value == NULL)
			continue;
		pmix_bytes_take(&op->what[i], value);
		free_value(value);
	}
	return PMIX_ABI_SUCCESS;
}

static int
call_finalize(struct pmix_op *op)
{
	return op->hub->abi.finalize(NULL, 0);
}

/* Wait until the previous call has returned. @return 0, -ETIMEDOUT or -ECANCELED. */
static int
await_late(struct leat_rendezvous *rv, uint64_t until)
{
	struct rendezvous_pmix *p = rv->priv;
	int ret;

	if (p->late == NULL)
		return 0;
	ret = pmix_op_wait(rv, p->late, until);
	if (ret < 0) {
		rendezvous_note(rv, "PMIx's server has not answered, yet");
		return ret;
	}
	pmix_op_drop(p->late);
	p->late = NULL;
	return 0;
}

/*
 * Make a call on a helper thread; only one is under way at a time. Failures have a message, except
 * -ETIMEDOUT and -ECANCELED. *op becomes NULL if the call has not returned: the call may still use
 * the op.
 */
static int
make_call(struct leat_rendezvous *rv, struct pmix_op **op, const char *what, uint64_t until)
{
	struct rendezvous_pmix *p = rv->priv;
	int ret = await_late(rv, until);

	if (ret < 0) {
		/* The call was not made, and never will be. */
		pmix_op_done(*op, 0, NULL);
		return ret;
	}
	ret = pmix_op_call(rv, *op, until);
	if (ret == -ETIMEDOUT || ret == -ECANCELED) {
		p->late = *op;
		*op = NULL;
		rendezvous_note(rv, "PMIx's server does not answer (%s)", what);
	} else if (ret == 0 && (*op)->status != PMIX_ABI_SUCCESS) {
		ret = leat_err(EIO, "rendezvous (pmix): %s: %s", what,
			       p->hub->abi.error_string((*op)->status));
	}
	return ret;
}

/* ---- open ---------------------------------------------------------------------------------- */

static int
check_size(struct leat_rendezvous *rv, uint32_t size)
{
	const struct rendezvous_pmix *p = rv->priv;

	if (size == 0 || size > LEAT_RENDEZVOUS_RANKS_MAX || p->proc.rank >= size)
		return leat_err(EINVAL,
				"rendezvous (pmix): rank %" PRIu32 " of %" PRIu32
				" (1 to %d are possible)",
				p->proc.rank, size, LEAT_RENDEZVOUS_RANKS_MAX);
	if (rv->size != 0 && rv->size != size)
		return leat_err(EINVAL,
				"rendezvous (pmix): the size was given as %" PRIu32
				", but it is %" PRIu32,
				rv->size, size);
	if (rv->rank != p->proc.rank)
		return leat_err(EINVAL,
				"rendezvous (pmix): PMIX_RANK is %" PRIu32
				", but PMIx says %" PRIu32,
				rv->rank, p->proc.rank);
	rv->size = size;
	return 0;
}

static int
start_pmix(struct leat_rendezvous *rv, uint64_t until)
{
	struct rendezvous_pmix *p = rv->priv;
	struct pmix_op *op = pmix_op_new(p->hub, 0);
	int ret;

	if (op == NULL)
		return -ENOMEM;
	op->call = call_init;
	ret = make_call(rv, &op, "PMIx_Init", until);
	if (op != NULL)
		p->inited = op->inited;
	if (ret == 0) {
		p->proc = op->proc;
		p->proc.nspace[PMIX_ABI_NSPACE_LEN - 1] = '\0';
		ret = check_size(rv, op->size);
	}
	pmix_op_drop(op);
	return ret;
}

static int
pmix_open(struct leat_rendezvous *rv, uint64_t until)
{
	struct rendezvous_pmix *p = calloc(1, sizeof(*p));
	int ret;

	if (p == NULL)
		return leat_err(ENOMEM, "rendezvous (pmix): no memory");
	rv->priv = p;
	/* Relaxed: each thread gets a different number, and nothing else is ordered by it. */
	p->open = __atomic_fetch_add(&opened, 1, __ATOMIC_RELAXED);
	p->hub = pmix_hub_create();
	if (p->hub == NULL)
		return -rte_errno;
	ret = start_pmix(rv, until);
	if (ret == -ECANCELED)
		return leat_err(ECANCELED, "rendezvous (pmix): canceled");
	if (ret == -ETIMEDOUT)
		return leat_err(ETIMEDOUT, "rendezvous (pmix): PMIx's server does not answer: is "
					   "mpirun or slurmstepd alive?");
	if (ret < 0)
		return ret;
	p->asked = calloc(rv->size, sizeof(*p->asked));
	if (p->asked == NULL)
		return leat_err(ENOMEM, "rendezvous (pmix): no memory");
	snprintf(rv->where, sizeof(rv->where), "in %.40s, job %s, by %.14s", p->proc.nspace,
		 rv->job, p->hub->abi.get_version());
	return rendezvous_peers_create(rv);
}

/* ---- records ------------------------------------------------------------------------------- */

static int
publish(struct leat_rendezvous *rv, uint64_t until)
{
	struct rendezvous_pmix *p = rv->priv;
	struct record rec;
	struct pmix_op *op;
	int ret;

	op = pmix_op_new(p->hub, 1);
	if (op == NULL)
		return -ENOMEM;
	rendezvous_record(rv, &rec);
	rec.pid = (uint32_t)getpid();
	if (rec.state_round == p->state_sent) {
		rec.flags &= ~RECORD_STATE;
		rec.state = NULL;
	}
	op->call = call_publish;
	key_of_round(rv, rec.round, op->what[0].key);
	op->what[0].bytes = malloc(RECORD_RANK_MAX);
	if (op->what[0].bytes == NULL) {
		pmix_op_done(op, 0, NULL);
		pmix_op_drop(op);
		return leat_err(ENOMEM, "rendezvous (pmix): no memory");
	}
	op->what[0].len = record_build(op->what[0].bytes, &rec);
	ret = make_call(rv, &op, "PMIx_Commit", until);
	if (ret == 0)
		p->state_sent = rec.state_round;
	pmix_op_drop(op);
	return ret;
}

/* Fill in rank and key of the record of rank r that this process needs next. */
static void
want(const struct leat_rendezvous *rv, uint32_t r, struct pmix_bytes *b)
{
	const struct rendezvous_peer *peer = &rv->peers[r];

	b->rank = r;
	key_of_round(rv, peer->round < rv->round ? rv->round : peer->state_due, b->key);
}

/* Process the record in an answer. @return 0, even if the answer has no valid record; -ENOMEM. */
static int
take(struct leat_rendezvous *rv, const struct pmix_bytes *b)
{
	struct record rec;
	const char *why;
	int ret;

	if (b->bytes == NULL)
		return 0;
	if (record_parse(b->bytes, b->len, &rec, &why) < 0) {
		rendezvous_note(rv, "the record that rank %" PRIu32 " published is not valid: %s",
				b->rank, why);
		return 0;
	}
	ret = rendezvous_take(rv, b->rank, &rec);
	return ret == -EPROTO ? 0 : ret;
}

/* Read the records that PMIx's fence has copied to this node. */
static int
take_local(struct leat_rendezvous *rv, uint64_t until)
{
	struct rendezvous_pmix *p = rv->priv;
	unsigned int i = 0, nb = 0;
	struct pmix_op *op;
	uint32_t r;
	int ret;

	for (r = 0; r < rv->size; r++)
		nb += !rendezvous_peer_arrived(rv, r);
	if (nb == 0)
		return 0;
	op = pmix_op_new(p->hub, nb);
	if (op == NULL)
		return -ENOMEM;
	op->call = call_get_local;
	op->proc = p->proc;
	for (r = 0; r < rv->size; r++) {
		if (!rendezvous_peer_arrived(rv, r))
			want(rv, r, &op->what[i++]);
	}
	ret = make_call(rv, &op, "PMIx_Get", until);
	for (i = 0; i < nb && ret == 0; i++)
		ret = take(rv, &op->what[i]);
	pmix_op_drop(op);
	return ret;
}

/*
 * Start to get the record of rank r that this process needs next, from another node if need be.
 * @return NULL: no memory.
 */
static struct pmix_op *
ask(struct leat_rendezvous *rv, uint32_t r)
{
	struct rendezvous_pmix *p = rv->priv;
	struct pmix_op *op = pmix_op_new(p->hub, 1);
	int status;

	if (op == NULL)
		return NULL;
	op->proc = p->proc;
	op->proc.rank = r;
	want(rv, r, &op->what[0]);
	/*
	 * The callback does not free the value: libpmix does, except in releases 3.2 to 4.2, where
	 * the value leaks. So only records that are not on this node are requested in this way.
	 */
	status = p->hub->abi.get_nb(&op->proc, op->what[0].key, NULL, 0, pmix_on_value, op);
	/* PMIx will not call back: complete the op here. */
	if (status != PMIX_ABI_SUCCESS)
		pmix_op_done(op, status, NULL);
	return op;
}

/*
 * Ask for each missing record, and process the answers that have arrived. Return the number of
 * ranks that have reached this round, or -ENOMEM.
 */
static int
ask_all(struct leat_rendezvous *rv)
{
	struct rendezvous_pmix *p = rv->priv;
	int ret = 0, here = 0;
	uint32_t r;

	for (r = 0; r < rv->size && ret == 0; r++) {
		if (p->asked[r] != NULL && pmix_op_is_done(p->asked[r])) {
			ret = take(rv, &p->asked[r]->what[0]);
			pmix_op_drop(p->asked[r]);
			p->asked[r] = NULL;
		}
		if (rendezvous_peer_arrived(rv, r)) {
			here++;
		} else if (p->asked[r] == NULL && ret == 0) {
			p->asked[r] = ask(rv, r);
			if (p->asked[r] == NULL)
				ret = -ENOMEM;
		}
	}
	return ret < 0 ? ret : here;
}

/* ---- the fence ----------------------------------------------------------------------------- */

static void
begin_fence(struct leat_rendezvous *rv, struct pmix_op *op)
{
	struct rendezvous_pmix *p = rv->priv;
	int status;

	set_info(op, PMIX_ABI_COLLECT_DATA);
	/* NULL: all processes of the namespace. */
	status = p->hub->abi.fence_nb(NULL, 0, &op->info, 1, pmix_on_op, op);
	if (status == PMIX_ABI_OPERATION_SUCCEEDED)
		status = PMIX_ABI_SUCCESS;
	else if (status == PMIX_ABI_SUCCESS)
		return;
	pmix_op_done(op, status, NULL);
}

/*
 * Run as many of PMIx's fences as there were rounds, one after another. @return 0: the fence of
 * this round has ended with *status; -ETIMEDOUT: it has not ended yet; -ECANCELED; -ENOMEM.
 */
static int
run_fences(struct leat_rendezvous *rv, uint64_t until, int *status)
{
	struct rendezvous_pmix *p = rv->priv;
	int ret;

	for (;;) {
		if (p->fence != NULL) {
			ret = pmix_op_wait(rv, p->fence, until);
			if (ret < 0)
				return ret;
			*status = p->fence->status;
			pmix_op_drop(p->fence);
			p->fence = NULL;
		}
		if (p->fences == rv->round)
			return 0;
		p->fence = pmix_op_new(p->hub, 0);
		if (p->fence == NULL)
			return -ENOMEM;
		p->fences++;
		begin_fence(rv, p->fence);
	}
}

/*
 * Get records until all ranks have reached this round. When the time is up, answers that have
 * arrived meanwhile are processed still: on a loaded machine they wait for this process, not it for
 * them.
 */
static int
collect(struct leat_rendezvous *rv, uint64_t until)
{
	struct rendezvous_pmix *p = rv->priv;
	int ret, waited = 0, before = 0;

	rv->pause_us = RENDEZVOUS_PAUSE_MIN_US;
	for (;;) {
		ret = ask_all(rv);
		if (ret < 0 || rendezvous_complete(rv))
			return ret < 0 ? ret : 0;
		if (waited < 0)
			return waited;
		if (ret > before)
			rv->pause_us = RENDEZVOUS_PAUSE_MIN_US;
		before = ret;
		waited = pmix_hub_wait(rv, p->hub, until);
	}
}

static int
pmix_fence(struct leat_rendezvous *rv, uint64_t until)
{
	struct rendezvous_pmix *p = rv->priv;
	uint64_t now = rendezvous_now(), left = until > now ? until - now : 0;
	uint64_t ask_us = RTE_MIN(left / 4, GRACE_US);
	int status = PMIX_ABI_SUCCESS, ret = publish(rv, until);
	bool over = false;

	if (ret < 0)
		return ret;
	ret = run_fences(rv, until != UINT64_MAX ? until - ask_us : until, &status);
	if (ret < 0 && ret != -ETIMEDOUT)
		return ret;
	if (ret == 0 && status != PMIX_ABI_SUCCESS && status != PMIX_ABI_ERR_PARTIAL_SUCCESS) {
		rendezvous_note(rv, "PMIx_Fence: %s", p->hub->abi.error_string(status));
	} else if (ret == 0 && rendezvous_now() + GRACE_US < until) {
		/* The fence has ended: all living processes have reached it. */
		until = rendezvous_now() + GRACE_US;
		over = true;
	}
	/*
	 * Ask for as long as planned, even if this process got no CPU until its time was up: it
	 * would report ranks as missing whose records are there.
	 */
	until = RTE_MAX(until, rendezvous_now() + RTE_MAX(ask_us, ASK_US));
	ret = take_local(rv, until);
	/* Read once more: the records of this round may say that an earlier one has the values. */
	if (ret == 0)
		ret = take_local(rv, until);
	if (ret == 0)
		ret = collect(rv, until);
	return ret == -ETIMEDOUT && over ? -ECONNRESET : ret;
}

/* ---- close --------------------------------------------------------------------------------- */

/*
 * Leave PMIx. A launcher that does not answer must not keep the process from ending. But a cancel,
 * or a limit that has passed, doesn't shorten the wait: mpirun treats a process that ends before
 * PMIx_Finalize() has returned as failed.
 */
static void
finalize(struct leat_rendezvous *rv)
{
	struct rendezvous_pmix *p = rv->priv;
	struct pmix_op *op = pmix_op_new(p->hub, 0);

	if (op == NULL)
		return;
	op->call = call_finalize;
	rv->cancel = NULL;
	rv->limit = UINT64_MAX;
	(void)make_call(rv, &op, "PMIx_Finalize", rendezvous_until(rv, CLOSE_US));
	pmix_op_drop(op);
}

static void
pmix_close(struct leat_rendezvous *rv)
{
	struct rendezvous_pmix *p = rv->priv;
	uint32_t r;

	if (p == NULL)
		return;
	for (r = 0; p->asked != NULL && r < rv->size; r++)
		pmix_op_drop(p->asked[r]);
	pmix_op_drop(p->fence);
	if (p->inited)
		finalize(rv);
	pmix_op_drop(p->late);
	free(p->asked);
	pmix_hub_put(p->hub);
	free(p);
}

const struct rendezvous_way rendezvous_pmix = {
	.name = "pmix",
	.open = pmix_open,
	.fence = pmix_fence,
	.close = pmix_close,
};
