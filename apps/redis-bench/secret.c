/* SPDX-License-Identifier: BSD-3-Clause */

/* --auth-file: a password that is neither in the arguments nor in the environment. */

#include <string.h>

#include "redb.h"

int
redb_secret_read(const char *path, char *secret, size_t len)
{
	const bool is_stdin = strcmp(path, "-") == 0;
	FILE *f = is_stdin ? stdin : fopen(path, "re");
	int ret = 0;

	if (f == NULL) {
		ret = -errno;
		redb_msg("--auth-file %s: %s", path, strerror(errno));
		return ret;
	}
	errno = 0;
	if (fgets(secret, (int)len, f) == NULL)
		secret[0] = '\0';
	if (ferror(f)) {
		ret = errno != 0 ? -errno : -EIO;
		redb_msg("--auth-file %s: %s", path, strerror(-ret));
	} else if (strcspn(secret, "\r\n") == 0) {
		ret = -EINVAL;
		redb_msg("--auth-file %s: its first line is empty", path);
	} else if (strlen(secret) == len - 1 && secret[len - 2] != '\n') {
		ret = -E2BIG;
		redb_msg("--auth-file %s: its first line is longer than %zu bytes", path, len - 2);
	}
	secret[strcspn(secret, "\r\n")] = '\0';
	if (!is_stdin)
		(void)fclose(f);
	return ret;
}
