/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The smallest leat program: start, say which version this is, stop.
 *
 *	make && ./hello
 *	./hello --vdev=fabric_ring0
 */

#include <stdio.h>

#include <leat_dev.h>
#include <leat_error.h>
#include <leat_version.h>

int
main(int argc, char **argv)
{
	/* EAL's arguments, with --vdev=fabric_* for leat's devices; what is behind "--" is ours. */
	if (leat_init(argc, argv) < 0) {
		fprintf(stderr, "hello: %s\n", leat_err_msg());
		return 1;
	}

	printf("leat %s\n", leat_version());

	if (leat_cleanup() != 0) {
		fprintf(stderr, "hello: %s\n", leat_err_msg());
		return 1;
	}
	return 0;
}
