/* SPDX-License-Identifier: BSD-3-Clause */

/* Feed the files of the named directories to a fuzz target, without libFuzzer. */

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 65536

static int
replay_file(const char *dir, const char *name)
{
	static uint8_t buf[INPUT_MAX];
	char path[4096];
	uint8_t *exact;
	size_t len;
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return -1;
	f = fopen(path, "rb");
	if (f == NULL) {
		perror(path);
		return -1;
	}
	len = fread(buf, 1, sizeof(buf), f);
	fclose(f);

	/* The input ends where its allocation ends: the address sanitizer sees a read beyond it. */
	exact = malloc(len + 1);
	if (exact == NULL)
		return -1;
	for (size_t i = 0; i < len; i++)
		exact[i + 1] = buf[i];
	(void)LLVMFuzzerTestOneInput(exact + 1, len);
	free(exact);
	return 0;
}

int
main(int argc, char **argv)
{
	unsigned int files = 0;
	struct dirent **list;
	int i, j, n, failed = 0;

	for (i = 1; i < argc; i++) {
		n = scandir(argv[i], &list, NULL, alphasort);
		if (n < 0) {
			perror(argv[i]);
			return 1;
		}
		for (j = 0; j < n; j++) {
			if (list[j]->d_name[0] != '.') {
				failed |= replay_file(argv[i], list[j]->d_name) != 0;
				files++;
			}
			free(list[j]);
		}
		free(list);
	}
	printf("%u inputs\n", files);
	return failed != 0 || files == 0;
}
