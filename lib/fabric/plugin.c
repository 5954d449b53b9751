/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Finding driver plugins. Three places, in this order; of a driver found twice the first one stays:
 *
 *  1. what the user names with -d (EAL opens those too; opening a library twice is harmless);
 *  2. the installed directory: beside libleat.so, so that an installation can be moved, or else as
 *     configured;
 *  3. run from a build tree: the tree's drivers/ directory. A build tree is recognised by meson's own
 *     directory beside lib/.
 *
 * As EAL does, files in directories that everybody may write to are refused.
 */

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fabric_pvt.h"

#define PLUGIN_PREFIX "libleat_driver_"

static bool
is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool
dir_is_safe(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return false;
	if ((st.st_mode & S_IWOTH) != 0) {
		LEAT_LOG(ERR, fabric,
			 "plugins in %s are not loaded: anybody may write there (chmod o-w)", path);
		return false;
	}
	return true;
}

static void
load_file(const char *path)
{
	/* Never closed: its driver stays registered for the life of the process. */
	if (dlopen(path, RTLD_NOW) == NULL)
		LEAT_LOG(ERR, fabric,
			 "plugin %s can't be loaded: %s (built for another driver ABI than %d?)",
			 path, dlerror(), LEAT_DRIVER_ABI);
}

static int
is_plugin(const struct dirent *e)
{
	size_t len = strlen(e->d_name);

	return strncmp(e->d_name, PLUGIN_PREFIX, strlen(PLUGIN_PREFIX)) == 0 && len > 3 &&
	       strcmp(e->d_name + len - 3, ".so") == 0;
}

static void
load_dir(const char *dir)
{
	struct dirent **list;
	char path[PATH_MAX];
	int i, n;

	if (!is_dir(dir) || !dir_is_safe(dir))
		return;
	n = scandir(dir, &list, is_plugin, alphasort);
	if (n < 0) {
		LEAT_LOG(WARNING, fabric, "plugin directory %s: %s", dir, strerror(errno));
		return;
	}
	for (i = 0; i < n; i++) {
		if (snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name) < (int)sizeof(path))
			load_file(path);
		free(list[i]);
	}
	free(list);
}

static void
load_named(const char *path)
{
	char copy[PATH_MAX];
	char *slash;

	if (is_dir(path)) {
		load_dir(path);
		return;
	}
	if (snprintf(copy, sizeof(copy), "%s", path) >= (int)sizeof(copy))
		return;
	slash = strrchr(copy, '/');
	if (slash != NULL && slash != copy) {
		*slash = '\0';
		if (!dir_is_safe(copy))
			return;
	}
	/* A library of somebody else's is EAL's to load. */
	if (strstr(path, PLUGIN_PREFIX) != NULL)
		load_file(path);
}

static void
load_from_args(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "-d") == 0 && i + 1 < argc)
			load_named(argv[++i]);
		else if (strncmp(argv[i], "-d", 2) == 0 && argv[i][2] != '\0')
			load_named(argv[i] + 2);
	}
}

/* Directory of libleat.so itself, without the last slash. */
static bool
own_dir(char *dir, size_t len)
{
	Dl_info info;
	char *real, *slash;
	bool ok;

	if (dladdr((const void *)(uintptr_t)leat_drivers_load, &info) == 0 ||
	    info.dli_fname == NULL)
		return false;
	real = realpath(info.dli_fname, NULL);
	if (real == NULL)
		return false;
	slash = strrchr(real, '/');
	ok = slash != NULL && slash != real && (size_t)(slash - real) < len;
	if (ok) {
		*slash = '\0';
		snprintf(dir, len, "%s", real);
	}
	free(real);
	return ok;
}

static void
load_build_tree(const char *lib_dir)
{
	struct dirent **list;
	char path[PATH_MAX];
	int i, n;

	if (snprintf(path, sizeof(path), "%s/../meson-private", lib_dir) >= (int)sizeof(path) ||
	    !is_dir(path))
		return;
	/* meson puts plugins into drivers/, as declared there */
	if (snprintf(path, sizeof(path), "%s/../drivers", lib_dir) >= (int)sizeof(path))
		return;
	load_dir(path);
	n = scandir(path, &list, NULL, alphasort);
	for (i = 0; i < n; i++) {
		if (list[i]->d_name[0] != '.' &&
		    snprintf(path, sizeof(path), "%s/../drivers/%s", lib_dir, list[i]->d_name) <
			    (int)sizeof(path))
			load_dir(path);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}

int
leat_drivers_load(int argc, char **argv)
{
	char path[PATH_MAX], lib_dir[PATH_MAX - 64];
	int before;

	load_from_args(argc, argv);
	before = leat_driver_count();
	if (own_dir(lib_dir, sizeof(lib_dir))) {
		snprintf(path, sizeof(path), "%s/leat/drivers-%d", lib_dir, LEAT_DRIVER_ABI);
		load_dir(path);
		load_build_tree(lib_dir);
	}
	if (leat_driver_count() == before)
		load_dir(LEAT_PLUGIN_DIR);
	return leat_driver_count();
}
