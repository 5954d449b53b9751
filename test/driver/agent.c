/* SPDX-License-Identifier: BSD-3-Clause */

#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <leat_error.h>
#include <leat_time.h>

#include "agent.h"
#include "pattern.h"

static uint64_t
rss_kib(void)
{
	unsigned long long total = 0, resident = 0;
	FILE *f;

	(void)malloc_trim(0); /* free memory that malloc kept would hide growth */
	f = fopen("/proc/self/statm", "r");
	if (f == NULL)
		return 0;
	if (fscanf(f, "%llu %llu", &total, &resident) != 2)
		resident = 0;
	fclose(f);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static uint64_t
open_files(void)
{
	uint64_t n = 0;
	int fd;

	for (fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int
do_connect(struct ct_node *n, const struct ct_req *req)
{
	struct leat_conn_params p = {
		.priv = req->priv,
		.priv_len = req->priv_len,
		.timeout_us = req->arg[0],
		.user = (void *)(uintptr_t)req->arg[1],
	};

	return leat_ep_connect(n->ep, req->addr, &p);
}

static int
do_accept(struct ct_node *n, const struct ct_req *req)
{
	struct leat_conn_params p = { .priv = req->priv, .priv_len = req->priv_len };

	return leat_ep_accept(n->ep, (uint16_t)req->arg[0], &p);
}

static int
do_cancel(struct ct_node *n, const struct ct_req *req, struct ct_rep *rep)
{
	uint32_t i;
	int ret;

	for (i = 0; i < n->nb_fresh; i++) {
		struct ct_slot *s = &n->slots[i];

		if (s->where != CT_POSTED || s->stream != req->arg[0] || s->idx < req->arg[1] ||
		    s->idx >= req->arg[2])
			continue;
		ret = leat_op_cancel(n->ep, &s->op);
		if (ret == 0)
			rep->val[0]++;
		else if (ret == -EOPNOTSUPP)
			rep->val[1]++;
		else
			rep->val[2]++;
		rep->err = ret;
	}
	return rep->err;
}

static int
do_region(struct ct_node *n, const struct ct_req *req, struct ct_rep *rep)
{
	uint64_t id = req->arg[0], off = req->arg[1];
	struct ct_region *r;
	int64_t bad;

	if (id >= n->nb_regions)
		return -EINVAL;
	r = &n->regions[id];
	if (off > r->len)
		return -EINVAL;
	switch (req->cmd) {
	case CT_MR_CHECK:
		bad = ct_verify(r->mem + off, req->arg[2], req->arg[3], req->arg[4]);
		rep->val[0] = (uint64_t)bad;
		if (bad < 0 && ct_region_guards(r) >= 0)
			return -EFAULT;
		return bad < 0 ? 0 : -EBADMSG;
	case CT_MR_FILL:
		ct_fill(r->mem + off, req->arg[2], req->arg[3], req->arg[4]);
		return 0;
	case CT_MR_PEEK:
		rep->val[0] = __atomic_load_n((uint64_t *)(void *)(r->mem + off), __ATOMIC_ACQUIRE);
		return 0;
	case CT_MR_POKE:
		__atomic_store_n((uint64_t *)(void *)(r->mem + off), req->arg[2], __ATOMIC_RELEASE);
		return 0;
	default:
		if (r->mr == NULL)
			return -EINVAL;
		bad = leat_mr_deregister(r->mr);
		if (bad == 0)
			r->mr = NULL;
		return (int)bad;
	}
}

static int
do_region_new(struct ct_node *n, const struct ct_req *req, struct ct_rep *rep)
{
	uint32_t access = (uint32_t)req->arg[1];
	int id = ct_region_make(n, req->arg[0], access, req->arg[2]), ret;

	if (id < 0 || (access & LEAT_MR_REMOTE_ALL) == 0)
		return id;
	ret = leat_mr_rkey(n->regions[id].mr, n->regions[id].mem, req->arg[0], &rep->rkey);
	return ret < 0 ? ret : id;
}

/* Carry out a request that needs an open endpoint and is answered at once. */
static int
do_now(struct ct_node *n, const struct ct_req *req, struct ct_rep *rep)
{
	int ret;

	switch (req->cmd) {
	case CT_LISTEN:
		ret = leat_ep_listen(n->ep, req->addr);
		return ret < 0 ? ret : leat_ep_listen_addr(n->ep, rep->addr, sizeof(rep->addr));
	case CT_CONNECT:
		return do_connect(n, req);
	case CT_POLICY:
		n->policy = (enum ct_policy)req->arg[0];
		n->priv_len = req->priv_len;
		memcpy(n->priv, req->priv, RTE_MIN((size_t)req->priv_len, sizeof(n->priv)));
		return 0;
	case CT_ACCEPT:
		return do_accept(n, req);
	case CT_REJECT:
		ret = leat_ep_reject(n->ep, (uint16_t)req->arg[0]);
		if (ret == 0)
			n->peer_seen[req->arg[0]] = 0;
		return ret;
	case CT_COUNTS:
		memcpy(rep->val, n->ev_count, sizeof(n->ev_count));
		return 0;
	case CT_PEER_STATE:
		return (int)leat_ep_peer_state(n->ep, (uint16_t)req->arg[0]);
	case CT_DISCONNECT:
		return leat_ep_disconnect(n->ep, (uint16_t)req->arg[0]);
	case CT_STREAM:
		return ct_stream_start(n, &req->spec);
	case CT_RESULT:
		if (req->arg[0] >= n->nb_streams)
			return -EINVAL;
		rep->res = n->streams[req->arg[0]].res;
		return 0;
	case CT_TRIM:
		if (req->arg[0] >= n->nb_streams)
			return -EINVAL;
		n->streams[req->arg[0]].spec.count = n->streams[req->arg[0]].made;
		return (int)n->streams[req->arg[0]].made;
	case CT_CANCEL:
		return do_cancel(n, req, rep);
	case CT_MR:
		return do_region_new(n, req, rep);
	case CT_MR_CHECK:
	case CT_MR_FILL:
	case CT_MR_PEEK:
	case CT_MR_POKE:
	case CT_MR_DEREG:
		return do_region(n, req, rep);
	case CT_FREEZE:
		n->frozen = req->arg[0] != 0;
		return 0;
	case CT_SHUTDOWN:
		ret = leat_ep_shutdown(n->ep, req->arg[0]);
		n->shut = n->shut || ret == 0;
		return ret;
	case CT_DESTROY:
		return ct_node_destroy(n);
	case CT_CLOSE:
		return ct_node_close(n, req->arg[0]);
	case CT_STATE:
		rep->val[0] = leat_ep_inflight(n->ep);
		rep->val[1] = n->nb_posted;
		return 0;
	default:
		return -ENOSYS;
	}
}

/* Has the event that a request waits for happened? Then rep is filled in. */
static bool
is_answered(struct ct_agent *a, const struct ct_req *req, struct ct_rep *rep)
{
	struct ct_node *n = &a->node[req->node];
	struct ct_logged *l;
	struct ct_stream *s;

	if (n->ep == NULL) {
		rep->err = -ENODEV;
		return true;
	}
	switch (req->cmd) {
	case CT_WAIT:
		if (req->arg[0] >= n->nb_streams) {
			rep->err = -EINVAL;
			return true;
		}
		s = &n->streams[req->arg[0]];
		rep->res = s->res;
		return ((s->spec.check & CT_CASLOOP) != 0 ? s->res.ok : s->res.done) >= req->arg[1];
	case CT_EVENT:
		l = ct_node_event_find(n, (unsigned int)req->arg[0], (uint16_t)req->arg[1]);
		if (l == NULL)
			return false;
		l->taken = true;
		rep->ev = l->ev;
		return true;
	default: /* CT_FINISH */
		n->frozen = false;
		if (!n->shut) {
			if (!ct_region_free_all(n, true))
				return false;
			rep->err = leat_ep_shutdown(n->ep, req->arg[0]);
			n->shut = true;
			if (rep->err < 0)
				return true;
		}
		if (!n->shutdown_done || n->nb_posted > 0)
			return false;
		rep->err = ct_node_destroy(n);
		return true;
	}
}

const char *
ct_agent_fault(const struct ct_agent *a)
{
	unsigned int i;

	for (i = 0; i < CT_NODES; i++)
		if (a->node[i].fault[0] != '\0')
			return a->node[i].fault;
	return NULL;
}

static void
finish(struct ct_agent *a, struct ct_rep *rep)
{
	const char *fault = ct_agent_fault(a);

	if (rep->err < 0)
		snprintf(rep->text, sizeof(rep->text), "%.220s", leat_err_msg());
	if (fault != NULL && rep->fault[0] == '\0')
		snprintf(rep->fault, sizeof(rep->fault), "%s", fault);
}

static void
dump(struct ct_agent *a, struct ct_rep *rep)
{
	unsigned int i;
	size_t pos = 0;

	for (i = 0; i < CT_NODES && pos < sizeof(rep->dump); i++) {
		ct_node_dump(&a->node[i], rep->dump + pos, sizeof(rep->dump) - pos);
		pos += strlen(rep->dump + pos);
	}
}

/*
 * Close all endpoints. A fault that is found only on closing goes into the answer, and so still
 * fails the test.
 */
static void
reset(struct ct_agent *a, struct ct_rep *rep)
{
	unsigned int i;

	for (i = 0; i < CT_NODES; i++) {
		struct ct_node *n = &a->node[i];

		n->frozen = false;
		(void)ct_node_close(n, 200 * 1000);
		if (rep->fault[0] == '\0')
			memcpy(rep->fault, n->fault, sizeof(rep->fault));
		memset(n, 0, sizeof(*n));
	}
	a->waiting = false;
	a->opened = 0;
}

bool
ct_agent_exec(struct ct_agent *a, const struct ct_req *req, struct ct_rep *rep)
{
	struct ct_node *n = &a->node[req->node % CT_NODES];
	struct ct_conf conf;
	uint64_t timeout;
	char name[64];

	memset(rep, 0, sizeof(*rep));
	switch (req->cmd) {
	case CT_PING:
		break;
	case CT_OPEN:
		if (n->ep != NULL) {
			rep->err = -EBUSY;
			break;
		}
		conf = req->conf;
		if (conf.ops == 0)
			conf.ops = a->ops;
		/*
		 * The fault device derives its faults from the endpoint's name: each seed gives
		 * different faults.
		 */
		snprintf(name, sizeof(name), "ct%" PRIu64 ".%" PRIu64 ".%u", req->arg[0], a->role,
			 a->opened++);
		rep->err = ct_node_open(n, a->dev, &conf, name,
					ct_mix((req->arg[0] ^ a->role) + req->node));
		break;
	case CT_WAIT:
	case CT_EVENT:
	case CT_FINISH:
		if (is_answered(a, req, rep))
			break;
		a->req = *req;
		a->waiting = true;
		timeout = req->arg[2] != 0 ? req->arg[2] : a->default_timeout_us;
		if (req->cmd == CT_FINISH)
			timeout = a->default_timeout_us + req->arg[0];
		a->wait_until = leat_now() + leat_us_to_cycles(timeout);
		return false;
	case CT_DUMP:
		dump(a, rep);
		break;
	case CT_RESET:
		reset(a, rep);
		break;
	case CT_EXIT:
		reset(a, rep);
		a->quit = true;
		break;
	default:
		rep->err = n->ep == NULL && req->cmd != CT_STATE ? -ENODEV : 0;
		if (n->ep != NULL)
			rep->err = do_now(n, req, rep);
		if (req->cmd == CT_STATE) {
			rep->val[2] = rss_kib();
			rep->val[3] = open_files();
		}
		break;
	}
	finish(a, rep);
	return true;
}

bool
ct_agent_idle(const struct ct_agent *a)
{
	unsigned int i;

	for (i = 0; i < CT_NODES; i++)
		if (a->node[i].ep != NULL)
			return false;
	return true;
}

bool
ct_agent_step(struct ct_agent *a, struct ct_rep *rep, bool *answered)
{
	bool worked = false;
	unsigned int i;

	*answered = false;
	for (i = 0; i < CT_NODES; i++)
		worked |= ct_node_step(&a->node[i]);
	if (!a->waiting)
		return worked;
	memset(rep, 0, sizeof(*rep));
	if (!is_answered(a, &a->req, rep)) {
		/* A broken promise is reported at once, not when the time is up. */
		if (ct_agent_fault(a) == NULL && leat_now() < a->wait_until)
			return worked;
		rep->err = -ETIMEDOUT;
	}
	a->waiting = false;
	finish(a, rep);
	*answered = true;
	return true;
}
