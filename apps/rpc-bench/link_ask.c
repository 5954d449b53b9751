/* SPDX-License-Identifier: BSD-3-Clause */

/* Calls to other processes. */

#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_rpc_task.h>
#include <leat_scope.h>

#include "../common/cursor.h"
#include "bench.h"

#define WATCH_US RB_US
/* Pause before a call that was refused for lack of room is sent again, us. */
#define BUSY_US 1000
/* Time for the answers to BYE, us: half of what a reactor that stops leaves its tasks. */
#define BYE_US (RB_US / 2)

static uint64_t
in(uint64_t us)
{
	return leat_time_add(leat_now(), leat_us_to_cycles(us));
}

/* Describe in b->why a call that failed or was refused. @return -ECANCELED, or another negative */
static int
refused(struct rb_link_peer *p, int ret, const void *resp, const char *what)
{
	struct rb_bench *b = p->link->bench;
	struct cursor c = cursor_of(resp, RB_TEXT);
	char text[RB_TEXT], who[LEAT_ADDR_MAX + 16];

	if (ret == -ECANCELED)
		return ret;
	if (b->world.pair)
		snprintf(who, sizeof(who), "%s", b->o.addr);
	else
		snprintf(who, sizeof(who), "rank %u", p->rank);
	get_str(&c, text, sizeof(text));
	if (ret >= 0 || ret == -EPROTONOSUPPORT || ret == -ENOSYS)
		return rb_fail(b, EPROTO,
			       "%s: the other side is not a leat-rpc-bench of this version", who);
	if (text[0] != '\0')
		return rb_fail(b, -ret, "%s refuses: %s", who, text);
	if (p->left || p->ended)
		return rb_fail(b, -ret, "%s is gone: %s", who, p->why);
	return rb_fail(b, -ret, "%s did not answer the %s: %s", who, what, strerror(-ret));
}

int
rb_link_hello(struct rb_link_peer *p)
{
	struct rb_bench *b = p->link->bench;
	struct rb_hello h = { .rank = b->world.rank,
			      .nb_ranks = b->world.nb_ranks,
			      .card = rb_world_self(&b->world)->card,
			      .plan = b->plan };
	uint8_t buf[RB_HELLO_MAX], resp[RB_WELCOME_MAX] = "";
	int len = rb_hello_put(&h, buf, sizeof(buf));
	int ret;

	if (len < 0)
		return rb_fail(b, -len, "the plan is too long to be told");
	ret = leat_rpc_call(p->session, RB_WIRE_HELLO, buf, (uint32_t)len, resp, sizeof(resp),
			    in(b->o.timeout_us));
	if (ret >= 0 && rb_welcome_get(resp, (size_t)ret, &b->world.ranks[p->rank].card) == 0)
		return 0;
	return refused(p, ret, resp, "greeting");
}

int
rb_link_nodes(struct rb_link_peer *p)
{
	struct rb_bench *b = p->link->bench;
	struct rb_rank *r = &b->world.ranks[p->rank];
	uint8_t resp[RB_NODES_MAX] = "";
	struct rb_nodes n;
	int ret;

	ret = leat_rpc_call(p->session, RB_WIRE_NODES, NULL, 0, resp, sizeof(resp),
			    in(b->o.timeout_us));
	if (ret < 0 || rb_nodes_get(resp, (size_t)ret, &n) < 0 || n.nb_lcores != r->card.nb_lcores)
		return refused(p, ret, resp, "question for its lcores");
	r->token = n.token;
	memcpy(r->port, n.port, sizeof(r->port));
	return 0;
}

int
rb_link_meet(struct rb_link_peer *p, enum rb_meet meet, const struct rb_result *result,
	     uint8_t *lost)
{
	uint8_t *buf = malloc(RB_MEET_MAX);
	struct cursor c = cursor_of(buf, RB_MEET_MAX);
	int ret, len = 0;

	if (buf == NULL)
		return -ENOMEM;
	put(&c, meet, 1);
	if (result != NULL)
		len = rb_result_put(result, c.p, c.left);
	do {
		ret = len < 0 ? len
			      : leat_rpc_call(p->session, RB_WIRE_MEET, buf, 1 + (uint32_t)len,
					      lost, RB_LOST_LEN, LEAT_RPC_NO_DEADLINE);
		/* -EBUSY: the leader has no room, since many processes send results at once. */
	} while (ret == -EBUSY && leat_task_sleep(BUSY_US) == 0 && p->session != NULL);
	free(buf);
	if (ret < 0)
		return ret;
	return ret == RB_LOST_LEN ? 0 : -EPROTO;
}

static int
watch(void *arg)
{
	struct rb_link_peer *p = arg;
	struct rb_link *l = p->link;
	uint8_t mine[8], there[8];
	char why[RB_TEXT];
	struct cursor c;
	int ret = 0;

	while (ret >= 0 && p->session != NULL) {
		c = cursor_of(mine, sizeof(mine));
		put(&c, rb_live(l->bench), 8);
		ret = leat_rpc_call(p->session, RB_WIRE_PING, mine, 8, there, 8,
				    in(l->bench->o.timeout_us));
		if (ret == 8) {
			c = cursor_of(there, sizeof(there));
			p->live = get(&c, 8);
			ret = leat_task_sleep(WATCH_US);
		} else if (ret == -ETIMEDOUT) {
			snprintf(why, sizeof(why), "it has not answered for %.0f s (--timeout)",
				 (double)l->bench->o.timeout_us / (double)RB_US);
			rb_link_drop(p, ret, why);
		}
	}
	l->nb_watching--;
	return 0;
}

int
rb_link_watch(struct rb_link_peer *p)
{
	struct leat_task *task = leat_task_spawn(leat_tasks_self(), "watch", watch, p);

	if (task == NULL)
		return -rte_errno;
	p->watcher = leat_task_ref_make(task);
	p->link->nb_watching++;
	return leat_task_detach(task);
}

void
rb_link_unwatch(struct rb_link_peer *p)
{
	struct leat_task *task = leat_task_ref_get(&p->watcher);

	if (task != NULL)
		(void)leat_task_cancel(task);
}

void
rb_link_bye(struct rb_link *l, const char *why)
{
	struct leat_rpc_req *reqs = calloc(l->nb_peers, sizeof(*reqs));
	struct leat_rpc_req **list = calloc(l->nb_peers, sizeof(*list));
	char text[RB_TEXT];
	struct cursor c = cursor_of(text, sizeof(text));
	uint16_t n = 0;
	uint32_t i;

	put_str(&c, why, sizeof(text));
	for (i = 0; reqs != NULL && list != NULL && i < l->nb_peers; i++) {
		if (!l->peers[i].up || l->peers[i].session == NULL)
			continue;
		reqs[n] = (struct leat_rpc_req){ .session = l->peers[i].session,
						 .type = RB_WIRE_BYE,
						 .buf = text,
						 .len = sizeof(text),
						 .deadline = in(BYE_US) };
		list[n] = &reqs[n];
		n++;
	}
	/*
	 * Wait for the answers: a message that a process has not received when the connection ends
	 * is lost. A process that does not answer in time reports the end of the connection.
	 */
	if (n > 0)
		(void)leat_rpc_call_many(list, n);
	free(list);
	free(reqs);
}
