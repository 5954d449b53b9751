/* SPDX-License-Identifier: BSD-3-Clause */

/* The ways "list" and "alone", in which processes exchange nothing. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous_pvt.h"

/* Store each address of the list as a value of its rank, as if that rank had published it. */
static int
list_open(struct leat_rendezvous *rv, uint64_t until)
{
	const char *at = rv->list;
	struct record_value v = { .key = LEAT_RENDEZVOUS_ADDR,
				  .key_len = sizeof(LEAT_RENDEZVOUS_ADDR) - 1 };
	struct rendezvous_peer *p;
	uint32_t r;

	(void)until;
	for (r = 0; r < rv->size; r++) {
		p = &rv->peers[r];
		v.data = (const uint8_t *)at;
		v.len = (uint16_t)strcspn(at, ",");
		at += v.len + (size_t)1;
		p->state_len = record_state_build(rv->buf, &v, 1);
		p->state = malloc(p->state_len);
		if (p->state == NULL)
			return leat_err(ENOMEM, "rendezvous: no memory for a list of %" PRIu32,
					rv->size);
		memcpy(p->state, rv->buf, p->state_len);
	}
	return 0;
}

static int
list_fence(struct leat_rendezvous *rv, uint64_t until)
{
	(void)rv;
	(void)until;
	return leat_err(ENOTSUP, "rendezvous: fence: processes that only have a list of addresses "
				 "can't wait for each other");
}

static int
alone_open(struct leat_rendezvous *rv, uint64_t until)
{
	(void)rv;
	(void)until;
	return 0;
}

static int
alone_fence(struct leat_rendezvous *rv, uint64_t until)
{
	(void)rv;
	(void)until;
	return 0;
}

static void
nothing_to_close(struct leat_rendezvous *rv)
{
	(void)rv;
}

const struct rendezvous_way rendezvous_list = {
	.name = "list",
	.open = list_open,
	.fence = list_fence,
	.close = nothing_to_close,
};

const struct rendezvous_way rendezvous_alone = {
	.name = "alone",
	.open = alone_open,
	.fence = alone_fence,
	.close = nothing_to_close,
};
