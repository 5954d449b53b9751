/* SPDX-License-Identifier: BSD-3-Clause */

/* Code of doc/guide/rendezvous.md: one process, which meets itself. EAL is not needed. */

/* clang-format off */

#include <stdio.h>
#include <string.h>

#include <leat_rendezvous.h>

#include "snippets.h"

static int
meet(struct leat_rendezvous *rv, const char *my_addr)
{
	char addr[LEAT_RENDEZVOUS_VALUE_MAX];
	uint32_t r;
	int ret;

	/* Only when the endpoint listens: others connect as soon as they know the address. */
	ret = leat_rendezvous_put(rv, LEAT_RENDEZVOUS_ADDR, my_addr, strlen(my_addr));
	if (ret == 0)
		ret = leat_rendezvous_fence(rv, 0);
	for (r = 0; r < leat_rendezvous_size(rv) && ret >= 0; r++) {
		ret = leat_rendezvous_get(rv, r, LEAT_RENDEZVOUS_ADDR, addr, sizeof(addr));
		if (ret >= 0 && r != leat_rendezvous_rank(rv))
			printf("rank %u is at %.*s\n", r, ret, addr);
	}
	return ret < 0 ? ret : 0;
}

int
main(void)
{
	struct leat_rendezvous_conf conf = { };
	struct leat_rendezvous *rv;
	char addr[8];

	/* Alone, even if a launcher has started this test. */
	conf.how = LEAT_RENDEZVOUS_ALONE;
	rv = leat_rendezvous_open(&conf);
	CHECK(rv != NULL);
	CHECK(meet(rv, "here:1") == 0);
	CHECK(leat_rendezvous_get(rv, 0, LEAT_RENDEZVOUS_ADDR, addr, sizeof(addr)) == 6);
	CHECK(memcmp(addr, "here:1", 6) == 0);
	leat_rendezvous_close(rv);
	printf("done\n");
	return 0;
}
