/* SPDX-License-Identifier: BSD-3-Clause */

/* Batches: requests and responses of a task in one block of memory, posted together. */

#include <stdlib.h>

#include "leat_rpc_task.h"
#include "rpc_pvt.h"

#define BYTES_DEFAULT 4096

struct leat_rpc_batch {
	uint16_t max, n;
	uint32_t bytes, used;
	uint32_t max_len; /* length of the request started last, bytes */
	struct leat_rpc_req **list;
	struct leat_rpc_req *reqs;
	uint8_t *mem;
};

struct leat_rpc_batch *
leat_rpc_batch_create(uint16_t max, uint32_t bytes)
{
	struct leat_rpc_batch *b = calloc(1, sizeof(*b));
	uint16_t i;

	if (b == NULL)
		goto no_memory;
	b->max = max != 0 ? max : LEAT_RPC_BATCH_DEFAULT;
	b->bytes = bytes != 0 ? bytes : BYTES_DEFAULT;
	b->reqs = calloc(b->max, sizeof(*b->reqs));
	b->list = calloc(b->max, sizeof(*b->list));
	b->mem = calloc(1, b->bytes);
	if (b->reqs == NULL || b->list == NULL || b->mem == NULL)
		goto no_memory;
	for (i = 0; i < b->max; i++)
		b->list[i] = &b->reqs[i];
	return b;

no_memory:
	leat_rpc_batch_free(b);
	leat_err(ENOMEM, "rpc: no memory for a batch of %u requests with %u B", max, bytes);
	return NULL;
}

void
leat_rpc_batch_free(struct leat_rpc_batch *b)
{
	if (b == NULL)
		return;
	free(b->reqs);
	free(b->list);
	free(b->mem);
	free(b);
}

void
leat_rpc_batch_clear(struct leat_rpc_batch *b)
{
	b->n = 0;
	b->used = 0;
}

void *
leat_rpc_batch_start(struct leat_rpc_batch *b, struct leat_rpc_session *s, uint8_t type,
		     uint32_t max_len, uint32_t room)
{
	const uint64_t req_len = RTE_ALIGN_CEIL((uint64_t)max_len, UINT64_C(8));
	const uint64_t need = req_len + RTE_ALIGN_CEIL((uint64_t)room, UINT64_C(8));
	struct leat_rpc_req *req;
	uint8_t *at;

	if (b->n == b->max || need > b->bytes - b->used) {
		leat_err(ENOSPC, "rpc: a batch has %u of %u requests and %u of %u B", b->n, b->max,
			 b->used, b->bytes);
		return NULL;
	}
	at = b->mem + b->used;
	b->used += (uint32_t)need;
	b->max_len = max_len;
	req = &b->reqs[b->n++];
	req->session = s;
	req->type = type;
	req->flags = 0;
	req->buf = at;
	req->len = max_len;
	req->resp = at + req_len;
	req->room = room;
	req->deadline = 0;
	req->resp_len = 0;
	req->status = -EINPROGRESS;
	return at;
}

void
leat_rpc_batch_freeze(struct leat_rpc_batch *b, uint32_t len)
{
	if (b->n > 0)
		b->reqs[b->n - 1].len = RTE_MIN(len, b->max_len);
}

int
leat_rpc_batch_send(struct leat_rpc_batch *b)
{
	return leat_rpc_call_many(b->list, b->n);
}

uint16_t
leat_rpc_batch_count(const struct leat_rpc_batch *b)
{
	return b->n;
}

const void *
leat_rpc_batch_response(const struct leat_rpc_batch *b, uint16_t i, int *len)
{
	const struct leat_rpc_req *req = &b->reqs[i];
	int status = i < b->n ? req->status : -EINVAL;

	if (len != NULL)
		*len = status < 0 ? status : (int)req->resp_len;
	return status < 0 ? NULL : req->resp;
}
