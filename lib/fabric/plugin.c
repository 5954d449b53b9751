/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Find driver plugins in these places, in this order. If a driver is found twice, the first stays:
 *
 *  1. the plugins and directories that the user names with -d: leat's plugins are loaded here and
 *     not passed to EAL; other libraries are EAL's;
 *  2. the directory beside libleat.so, so that an installation can be moved;
 *  3. for a build tree: its drivers/ directory. A build tree is recognised by meson-private/, which
 *     meson creates beside lib/;
 *  4. if places 2 and 3 have added no driver: the directory set when leat was configured.
 *
 * Nothing is loaded from a directory that any user may write to; EAL has the same rule.
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
			 "plugins in %s are not loaded: any user may write there (chmod o-w)",
			 path);
		return false;
	}
	return true;
}

static int
load_file(const char *path)
{
	/* No dlclose(): the driver stays registered for the life of the process. */
	if (dlopen(path, RTLD_NOW) != NULL)
		return 0;
	return leat_err(EINVAL, "plugin %s: %s (does the file exist? is its driver ABI %d?)", path,
			dlerror(), LEAT_DRIVER_ABI);
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
			if (load_file(path) < 0) {
				LEAT_LOG(ERR, fabric, "%s", leat_err_msg());
				leat_driver_failed(list[i]->d_name, leat_err_msg());
			}
		free(list[i]);
	}
	free(list);
}

bool
leat_plugin_is_ours(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strncmp(slash == NULL ? path : slash + 1, PLUGIN_PREFIX, strlen(PLUGIN_PREFIX)) == 0;
}

static int
load_named(const char *path)
{
	if (is_dir(path)) {
		load_dir(path);
		return 0;
	}
	/* A file that the user names is trusted, whatever the rights of its directory. */
	return leat_plugin_is_ours(path) ? load_file(path) : 0;
}

static int
load_from_args(int argc, char **argv)
{
	int i, ret = 0;

	for (i = 1; i < argc && strcmp(argv[i], "--") != 0 && ret == 0; i++) {
		if (strcmp(argv[i], "-d") == 0 && i + 1 < argc)
			ret = load_named(argv[++i]);
		else if (strncmp(argv[i], "-d", 2) == 0 && argv[i][2] != '\0')
			ret = load_named(argv[i] + 2);
	}
	return ret;
}

/* Find the directory of libleat.so itself, without the last slash. */
static bool
own_dir(char *dir, size_t len)
{
	Dl_info info;
	char *real, *slash;
	bool ok;

	if (dladdr((const void *)(uintptr_t)leat_driver_load, &info) == 0 || info.dli_fname == NULL)
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
	/* meson builds the plugins in drivers/ or a directory below it. */
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
leat_driver_load(int argc, char **argv)
{
	char path[PATH_MAX], lib_dir[PATH_MAX - 64];
	int before, ret;

	ret = load_from_args(argc, argv);
	if (ret < 0)
		return ret;
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
