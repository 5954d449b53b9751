/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Files below the root. A path may be missing, empty, huge, binary, or a device or a pipe. So reads
 * are bounded, opening never blocks, and where a number is expected any other text is refused.
 */

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "doctor.h"

#define CAP_DAC_OVERRIDE 1

static int __rte_format_printf(3, 0)
	make_path(const struct dr *d, char *path, const char *fmt, va_list ap)
{
	size_t n = strlen(d->root);
	int len;

	if (n >= DR_PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(path, d->root, n);
	len = vsnprintf(path + n, DR_PATH_MAX - n, fmt, ap);
	return len < 0 || (size_t)len >= DR_PATH_MAX - n ? -ENAMETOOLONG : 0;
}

static int
read_path(const char *path, char *buf, size_t len)
{
	/* Opening a pipe must not block; a terminal must not become the controlling terminal. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	size_t n = 0;
	ssize_t got;
	int ret = 0;

	buf[0] = '\0';
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		ret = -EINVAL;
	while (ret == 0 && n < len - 1) {
		got = read(fd, buf + n, len - 1 - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			ret = -errno;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	(void)close(fd);
	buf[ret == 0 ? n : 0] = '\0';
	n = strlen(buf);
	while (n > 0 && isspace((unsigned char)buf[n - 1]))
		buf[--n] = '\0';
	return ret < 0 ? ret : (int)n;
}

int
dr_read(const struct dr *d, char *buf, size_t len, const char *fmt, ...)
{
	char path[DR_PATH_MAX];
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = make_path(d, path, fmt, ap);
	va_end(ap);
	buf[0] = '\0';
	return ret < 0 ? ret : read_path(path, buf, len);
}

bool
dr_read_u64(const struct dr *d, uint64_t *v, const char *fmt, ...)
{
	char path[DR_PATH_MAX], text[64], *end;
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = make_path(d, path, fmt, ap);
	va_end(ap);
	if (ret < 0 || read_path(path, text, sizeof(text)) <= 0 || !isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*v = strtoull(text, &end, 0);
	return errno == 0 && *end == '\0';
}

bool
dr_exists(const struct dr *d, const char *fmt, ...)
{
	char path[DR_PATH_MAX];
	struct stat st;
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = make_path(d, path, fmt, ap);
	va_end(ap);
	return ret == 0 && stat(path, &st) == 0;
}

/* Get the effective id of a line "real effective saved file-system". */
static bool
effective_id(const char *status, const char *key, uint64_t *id)
{
	char val[128];

	return dr_field(status, key, val, sizeof(val)) && sscanf(val, "%*u %" SCNu64, id) == 1;
}

static bool
in_group(const char *status, uint64_t gid)
{
	char groups[1024], *word, *save = NULL;
	uint64_t id;

	if (effective_id(status, "Gid", &id) && id == gid)
		return true;
	if (!dr_field(status, "Groups", groups, sizeof(groups)))
		return false;
	for (word = strtok_r(groups, " \t", &save); word != NULL;
	     word = strtok_r(NULL, " \t", &save)) {
		if (strtoull(word, NULL, 10) == gid)
			return true;
	}
	return false;
}

/*
 * Does the file's mode permit this user to read and write it? The user's ids come from
 * /proc/self/status below the root: with --root, from the copy.
 */
static bool
mode_permits(const struct dr *d, const struct stat *st)
{
	char status[8192];
	uint64_t uid;

	if (dr_cap(d, CAP_DAC_OVERRIDE))
		return true;
	if (dr_read(d, status, sizeof(status), "/proc/self/status") < 0 ||
	    !effective_id(status, "Uid", &uid))
		return false;
	if (uid == st->st_uid)
		return (st->st_mode & 0600) == 0600;
	if (in_group(status, st->st_gid))
		return (st->st_mode & 0060) == 0060;
	return (st->st_mode & 0006) == 0006;
}

int
dr_access(const struct dr *d, const char *fmt, ...)
{
	char path[DR_PATH_MAX];
	struct stat st;
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = make_path(d, path, fmt, ap);
	va_end(ap);
	if (ret < 0 || stat(path, &st) != 0)
		return -ENOENT;
	if (d->root[0] != '\0')
		return mode_permits(d, &st) ? 0 : -EACCES;
	return faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) == 0 ? 0 : -EACCES;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

unsigned int
dr_list(const struct dr *d, struct dr_names *n, const char *fmt, ...)
{
	char path[DR_PATH_MAX];
	const struct dirent *e;
	va_list ap;
	DIR *dir;
	int ret;

	n->nb = 0;
	va_start(ap, fmt);
	ret = make_path(d, path, fmt, ap);
	va_end(ap);
	dir = ret < 0 ? NULL : opendir(path);
	if (dir == NULL)
		return 0;
	/* cppcheck-suppress readdirCalled ; no other thread uses this directory stream */
	while (n->nb < DR_NAMES_MAX && (e = readdir(dir)) != NULL) {
		size_t len = strlen(e->d_name);

		if (e->d_name[0] != '.' && len < DR_NAME_LEN)
			memcpy(n->name[n->nb++], e->d_name, len + 1);
	}
	(void)closedir(dir);
	qsort(n->name, n->nb, sizeof(n->name[0]), by_name);
	return n->nb;
}

bool
dr_space(const struct dr *d, uint64_t *size, uint64_t *available, const char *path)
{
	char full[DR_PATH_MAX];
	struct statvfs v;
	int n = snprintf(full, sizeof(full), "%s%s", d->root, path);

	if (n < 0 || (size_t)n >= sizeof(full) || statvfs(full, &v) != 0)
		return false;
	*size = (uint64_t)v.f_blocks * v.f_frsize;
	*available = (uint64_t)v.f_bavail * v.f_frsize;
	return true;
}

bool
dr_field(const char *text, const char *key, char *val, size_t len)
{
	size_t n = strlen(key), m;
	const char *line, *next;

	for (line = text; line != NULL; line = next) {
		next = strchr(line, '\n');
		if (next != NULL)
			next++;
		if (strncmp(line, key, n) != 0 || strchr(": \t", line[n]) == NULL || line[n] == 0)
			continue;
		line += n;
		line += strspn(line, ": \t");
		m = RTE_MIN(strcspn(line, "\n"), len - 1);
		memcpy(val, line, m);
		val[m] = '\0';
		return true;
	}
	return false;
}

bool
dr_word(const char *text, const char *word)
{
	size_t n = strlen(word), m;

	while (*(text += strspn(text, " \t\n")) != '\0') {
		m = strcspn(text, " \t\n");
		if (m == n && memcmp(text, word, n) == 0)
			return true;
		text += m;
	}
	return false;
}

bool
dr_boot_option(const struct dr *d, const char *key, char *val, size_t len)
{
	char text[16384];
	const char *p = text;
	size_t n = strlen(key), m;
	bool found = false;

	if (dr_read(d, text, sizeof(text), "/proc/cmdline") < 0)
		return false;
	/* If the option is given more than once the last one counts. */
	while (*(p += strspn(p, " \t\n")) != '\0') {
		m = strcspn(p, " \t\n");
		if (m >= n && memcmp(p, key, n) == 0 && (m == n || p[n] == '=')) {
			found = true;
			(void)snprintf(val, len, "%.*s", m == n ? 0 : (int)(m - n - 1),
				       p + n + (m > n));
		}
		p += m;
	}
	return found;
}

unsigned int
dr_list_count(const char *list)
{
	unsigned long from, to;
	uint64_t n = 0;
	char *end;

	for (;;) {
		if (!isdigit((unsigned char)*list))
			return 0;
		from = to = strtoul(list, &end, 10);
		if (*end == '-') {
			if (!isdigit((unsigned char)end[1]))
				return 0;
			to = strtoul(end + 1, &end, 10);
		}
		if (to < from || to > 1 << 20)
			return 0;
		n += to - from + 1;
		if (*end == '\0')
			return n > 1 << 20 ? 0 : (unsigned int)n;
		if (*end != ',')
			return 0;
		list = end + 1;
	}
}

bool
dr_plain(const char *name)
{
	/* a command would read a leading dash as an option; a dot may begin "..", the parent */
	if (*name == '\0' || *name == '-' || *name == '.')
		return false;
	for (; *name != '\0'; name++) {
		if (!(*name >= 'a' && *name <= 'z') && !(*name >= 'A' && *name <= 'Z') &&
		    !(*name >= '0' && *name <= '9') && strchr("_-.:@", *name) == NULL)
			return false;
	}
	return true;
}

bool
dr_cap(const struct dr *d, unsigned int cap)
{
	char status[8192], val[64];

	return dr_read(d, status, sizeof(status), "/proc/self/status") > 0 &&
	       dr_field(status, "CapEff", val, sizeof(val)) &&
	       (strtoull(val, NULL, 16) >> cap & 1) != 0;
}

bool
dr_module(const struct dr *d, const char *name)
{
	return dr_exists(d, "/sys/module/%s", name);
}

bool
dr_modules_possible(const struct dr *d)
{
	return dr_exists(d, "/proc/modules");
}

const char *
dr_bytes(char *buf, size_t len, uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	double v = (double)bytes;
	unsigned int u = 0;

	while (v >= 1024 && u + 1 < RTE_DIM(units)) {
		v /= 1024;
		u++;
	}
	(void)snprintf(buf, len, v == (double)(uint64_t)v ? "%.0f %s" : "%.1f %s", v, units[u]);
	return buf;
}
