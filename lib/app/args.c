/* SPDX-License-Identifier: BSD-3-Clause */

/* Split the arguments into leat_init()'s and the program's own: see leat_app_run(). */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>

#include "app_pvt.h"

#define VDEV "--vdev"
#define FABRIC "fabric_"

/* Check whether argv[i], perhaps with argv[i + 1], names a leat device. */
static bool
names_device(char **argv, int i, int end)
{
	size_t len = strlen(VDEV);

	if (strncmp(argv[i], VDEV, len) != 0)
		return false;
	if (argv[i][len] == '=')
		return strncmp(argv[i] + len + 1, FABRIC, strlen(FABRIC)) == 0;
	return argv[i][len] == '\0' && i + 1 < end &&
	       strncmp(argv[i + 1], FABRIC, strlen(FABRIC)) == 0;
}

static int
vdev_add(struct app_args *a, const char *device)
{
	size_t size = strlen(VDEV "=") + strlen(device) + 1;

	a->vdev = malloc(size);
	if (a->vdev == NULL)
		return -ENOMEM;
	snprintf(a->vdev, size, VDEV "=%s", device);
	a->init[a->nb_init++] = a->vdev;
	return 0;
}

/* Check whether arg is one of the program's own options that may stand in front of "--". */
static bool
is_front(const struct leat_app *app, const char *arg)
{
	const char *const *front;

	if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)
		return true;
	for (front = app->front; front != NULL && *front != NULL; front++) {
		if (strcmp(arg, *front) == 0)
			return true;
	}
	return false;
}

static int
split(struct app_args *a, int argc, char **argv, const struct leat_app *app)
{
	const char *device = app->device == NULL ? APP_DEVICE : app->device;
	bool named = device[0] == '\0';
	int i, end;

	for (end = 1; end < argc && strcmp(argv[end], "--") != 0; end++)
		named = named || names_device(argv, end, argc);
	a->init[a->nb_init++] = argv[0];
	a->own[a->nb_own++] = a->name;
	for (i = 1; i < end; i++) {
		if (is_front(app, argv[i]))
			a->own[a->nb_own++] = argv[i];
		else
			a->init[a->nb_init++] = argv[i];
	}
	for (i = end + 1; i < argc; i++)
		a->own[a->nb_own++] = argv[i];
	return named ? 0 : vdev_add(a, device);
}

int
app_args_split(struct app_args *a, int argc, char **argv, const struct leat_app *app)
{
	const char *name = app->name, *slash;

	memset(a, 0, sizeof(*a));
	if (name == NULL) {
		slash = strrchr(argv[0], '/');
		name = slash == NULL ? argv[0] : slash + 1;
	}
	a->name = strdup(name);
	/* Room for argv, the default device and the NULL. */
	a->init = calloc((size_t)argc + 2, sizeof(*a->init));
	a->own = calloc((size_t)argc + 1, sizeof(*a->own));
	if (a->name == NULL || a->init == NULL || a->own == NULL || split(a, argc, argv, app) < 0)
		return leat_err(ENOMEM, "arguments: out of memory");
	return 0;
}

void
app_args_free(struct app_args *a)
{
	free(a->vdev);
	free(a->own);
	free(a->init);
	free(a->name);
}
