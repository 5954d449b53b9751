/* SPDX-License-Identifier: BSD-3-Clause */

/* Code of doc/guide/app.md: a whole program. */

/* clang-format off */

#include <stdio.h>

#include <leat_app.h>

static int
start(void *arg)
{
	(void)arg;
	printf("lcore %d of %u\n", leat_app_index(), leat_app_count());
	return 0; /* this lcore is done; LEAT_APP_STAY: it goes on by callbacks */
}

int
main(int argc, char **argv)
{
	const struct leat_app app = { .start = start };

	return leat_app_run(argc, argv, &app);
}
