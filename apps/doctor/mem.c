/* SPDX-License-Identifier: BSD-3-Clause */

/* The checks of memory: hugepages, locked memory, shared memory, and file descriptors. */

#include <stdlib.h>
#include <string.h>

#include "doctor.h"

#define HUGE "/sys/kernel/mm/hugepages"
#define LIMITS "/proc/self/limits"
#define MOUNTS "/proc/mounts"
#define CAP_IPC_LOCK 14
/* Minimum of lockable memory, bytes: the queues of a device need about as much. */
#define MEMLOCK_MIN (UINT64_C(64) << 20)
#define SHM_MIN (UINT64_C(64) << 20)
#define FILES_MIN 4096

/* Return the kB in "hugepages-2048kB"; 0: the name is not of that form. */
static uint64_t
page_kb(const char *name)
{
	static const char prefix[] = "hugepages-";
	unsigned long long kb;
	char *end;

	if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
		return 0;
	kb = strtoull(name + sizeof(prefix) - 1, &end, 10);
	/* The largest hugepages are of 16 GiB. The limit also keeps sums from overflowing. */
	return strcmp(end, "kB") == 0 && kb <= 64 << 20 ? kb : 0;
}

/* Read a number of pages of kb KiB. @return false: unreadable, or the pages exceed 2^50 bytes */
static bool
page_count(const struct dr *d, uint64_t *n, uint64_t kb, const char *dir, const char *what)
{
	return dr_read_u64(d, n, "%s/hugepages-%" PRIu64 "kB/%s", dir, kb, what) &&
	       *n <= (UINT64_C(1) << 40) / kb;
}

/* Set the command that adds as many hugepages to a directory as DR_MEMORY needs. */
static void
mend_pages(struct dr_finding *f, const char *dir, uint64_t kb)
{
	uint64_t more = (DR_MEMORY + (kb << 10) - 1) / (kb << 10);

	dr_mend(f,
		"f=%s/hugepages-%" PRIu64 "kB/nr_hugepages; echo $(($(cat $f) + %" PRIu64 ")) > $f",
		dir, kb, more);
}

static void
hugepages(struct dr *d)
{
	uint64_t kb, nr, nr_free, all = 0, all_free = 0, least = 0;
	char seen[DR_TEXT] = "", a[32], b[32];
	struct dr_names sizes;
	struct dr_finding *f;
	size_t pos = 0;
	unsigned int i;

	(void)dr_list(d, &sizes, HUGE);
	for (i = 0; i < sizes.nb; i++) {
		kb = page_kb(sizes.name[i]);
		if (kb == 0)
			continue;
		if (!page_count(d, &nr, kb, HUGE, "nr_hugepages") ||
		    !page_count(d, &nr_free, kb, HUGE, "free_hugepages")) {
			dr_report_unknown(d, dr_bytes(a, sizeof(a), kb << 10), "number of pages",
					  HUGE);
			continue;
		}
		least = least == 0 ? kb : RTE_MIN(least, kb);
		all += nr * (kb << 10);
		all_free += nr_free * (kb << 10);
		if (nr > 0 && pos < sizeof(seen))
			pos += (size_t)snprintf(seen + pos, sizeof(seen) - pos,
						"%s%" PRIu64 " of %" PRIu64 " pages of %s free",
						pos > 0 ? ", " : "", nr_free, nr,
						dr_bytes(a, sizeof(a), kb << 10));
	}
	if (least == 0) {
		f = dr_found(d, DR_WARNING, "", "none that this kernel tells of in " HUGE);
		dr_means(f, "leat runs with --no-huge -m 512: slower, in small pages");
		dr_mend(f, "grep HUGETLBFS /boot/config-$(uname -r)   # boot a kernel that has =y");
		return;
	}
	if (all_free >= DR_MEMORY) {
		f = dr_found(d, DR_OK, "", "%s", seen);
		dr_means(f, "leat uses them");
		return;
	}
	f = dr_found(d, all_free == 0 ? DR_WARNING : DR_INFO, "", "%s",
		     all == 0 ? "none reserved" : seen);
	if (all == 0)
		dr_means(f,
			 "leat starts with --no-huge -m 512: more TLB misses, slower registration");
	else if (all_free == 0)
		dr_means(f, "all %s are taken by other programs: leat starts with --no-huge",
			 dr_bytes(a, sizeof(a), all));
	else
		dr_means(f, "%s are enough for small pools; %s is a good start",
			 dr_bytes(a, sizeof(a), all_free), dr_bytes(b, sizeof(b), DR_MEMORY));
	mend_pages(f, HUGE, least);
}

/* Return the free bytes in a node's hugepages. *least: its smallest hugepage size, kB; 0: none */
static uint64_t
node_free(const struct dr *d, const char *dir, uint64_t *least)
{
	struct dr_names sizes;
	uint64_t kb, n, sum = 0;
	unsigned int i;

	*least = 0;
	(void)dr_list(d, &sizes, "%s", dir);
	for (i = 0; i < sizes.nb; i++) {
		kb = page_kb(sizes.name[i]);
		if (kb == 0 || !page_count(d, &n, kb, dir, "free_hugepages"))
			continue;
		*least = *least == 0 ? kb : RTE_MIN(*least, kb);
		sum += n * (kb << 10);
	}
	return sum;
}

#define NODES "/sys/devices/system/node"

static void
numa_hugepages(struct dr *d)
{
	uint64_t bytes, least, all = 0;
	struct dr_names nodes;
	struct dr_finding *f;
	char dir[160], a[32];
	unsigned int i, nb = 0;

	(void)dr_list(d, &nodes, NODES);
	for (i = 0; i < nodes.nb; i++) {
		if (strncmp(nodes.name[i], "node", 4) != 0 || !dr_plain(nodes.name[i]))
			continue;
		snprintf(dir, sizeof(dir), NODES "/%s/hugepages", nodes.name[i]);
		all += node_free(d, dir, &least);
		memmove(nodes.name[nb++], nodes.name[i], DR_NAME_LEN);
	}
	if (nb < 2) {
		f = dr_found(d, DR_OK, "", "%u NUMA node%s", nb, nb == 1 ? "" : "s known");
		dr_means(f, "nothing to divide");
		return;
	}
	for (i = 0; i < nb; i++) {
		snprintf(dir, sizeof(dir), NODES "/%s/hugepages", nodes.name[i]);
		bytes = node_free(d, dir, &least);
		/* If no node has free hugepages, the check mem.hugepages reports that. */
		f = dr_found(d, bytes == 0 && all > 0 ? DR_WARNING : DR_OK, nodes.name[i],
			     "%s free in hugepages", dr_bytes(a, sizeof(a), bytes));
		dr_means(f, bytes == 0 ? "lcores of this node get memory of another one, or none"
				       : "lcores of this node have memory of their own");
		if (f->severity != DR_OK && least > 0)
			mend_pages(f, dir, least);
		else if (f->severity != DR_OK)
			dr_mend(f,
				"numactl --hardware   # a node without memory? then run elsewhere");
	}
}

static void
hugetlbfs(struct dr *d)
{
	char text[65536], *line, *save = NULL, where[256], type[64];
	struct dr_finding *f;

	if (dr_read(d, text, sizeof(text), MOUNTS) < 0) {
		dr_report_unknown(d, "", "mounts", MOUNTS);
		return;
	}
	for (line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		if (sscanf(line, "%*255s %255s %63s", where, type) != 2 ||
		    strcmp(type, "hugetlbfs") != 0)
			continue;
		f = dr_found(d, DR_OK, where, "mounted");
		dr_means(f, "EAL can share hugepages between processes");
		return;
	}
	f = dr_found(d, DR_INFO, "", "not mounted");
	dr_means(f, "leat does without (--in-memory); only EAL's multi-process mode needs it");
	dr_mend(f, "mkdir -p /dev/hugepages && mount -t hugetlbfs nodev /dev/hugepages");
}

static void
thp(struct dr *d)
{
	static const char path[] = "/sys/kernel/mm/transparent_hugepage/enabled";
	struct dr_finding *f;
	char text[128];

	if (dr_read(d, text, sizeof(text), path) <= 0) {
		f = dr_found(d, DR_OK, "", "no transparent hugepages in this kernel");
		dr_means(f, "nothing moves pages behind leat's back");
	} else if (strstr(text, "[always]") != NULL) {
		f = dr_found(d, DR_INFO, "", "%s", text);
		dr_means(f,
			 "khugepaged may stall a loop while it moves pages that are no hugepages");
		dr_mend(f, "echo madvise > %s", path);
	} else if (strchr(text, '[') != NULL) {
		f = dr_found(d, DR_OK, "", "%s", text);
		dr_means(f, "nothing moves pages behind leat's back");
	} else {
		dr_report_unknown(d, "", "transparent hugepages", path);
	}
}

/* Get a soft limit of this process; "unlimited" becomes UINT64_MAX. */
static bool
limit(const struct dr *d, const char *name, uint64_t *soft)
{
	char text[8192], val[128];

	if (dr_read(d, text, sizeof(text), LIMITS) < 0 || !dr_field(text, name, val, sizeof(val)))
		return false;
	if (strncmp(val, "unlimited", 9) == 0) {
		*soft = UINT64_MAX;
		return true;
	}
	return sscanf(val, "%" SCNu64, soft) == 1;
}

static void
memlock(struct dr *d)
{
	bool device = dr_rdma_present(d) || dr_efa_present(d);
	struct dr_finding *f;
	char a[32], b[32];
	uint64_t soft;

	if (!limit(d, "Max locked memory", &soft)) {
		dr_report_unknown(d, "", "limit", LIMITS);
	} else if (soft == UINT64_MAX) {
		f = dr_found(d, DR_OK, "", "unlimited");
		dr_means(f, "any amount of memory can be registered");
	} else if (soft >= DR_MEMORY) {
		f = dr_found(d, DR_OK, "", "%s", dr_bytes(a, sizeof(a), soft));
		dr_means(f, "enough for the memory that leat starts with");
	} else if (dr_cap(d, CAP_IPC_LOCK)) {
		f = dr_found(d, DR_OK, "", "%s, but this user has CAP_IPC_LOCK",
			     dr_bytes(a, sizeof(a), soft));
		dr_means(f, "the limit does not count for it; it does for others");
	} else {
		f = dr_found(d,
			     !device		  ? DR_INFO
			     : soft < MEMLOCK_MIN ? DR_ERROR
						  : DR_WARNING,
			     "", "%s", dr_bytes(a, sizeof(a), soft));
		dr_means(f,
			 device ? "registering %s of memory with a device fails with ENOMEM"
				: "no device here needs it; one would, for %s",
			 dr_bytes(b, sizeof(b), DR_MEMORY));
		dr_mend(f, "echo '* - memlock unlimited' > /etc/security/limits.d/leat.conf   "
			   "# then log in anew; of a service: LimitMEMLOCK=infinity");
	}
}

static void
files(struct dr *d)
{
	struct dr_finding *f;
	uint64_t soft;

	if (!limit(d, "Max open files", &soft)) {
		dr_report_unknown(d, "", "limit", LIMITS);
		return;
	}
	if (soft == UINT64_MAX)
		f = dr_found(d, DR_OK, "", "unlimited");
	else
		f = dr_found(d, soft < FILES_MIN ? DR_INFO : DR_OK, "", "%" PRIu64, soft);
	if (soft >= FILES_MIN) {
		dr_means(f, "enough for thousands of peers");
		return;
	}
	dr_means(f, "each peer takes a descriptor or two, each endpoint some");
	dr_mend(f, "ulimit -n 65536");
}

static void
shm(struct dr *d)
{
	uint64_t size, available;
	struct dr_finding *f;
	char a[32], b[32];

	if (!dr_space(d, &size, &available, "/dev/shm")) {
		f = dr_found(d, DR_WARNING, "", "/dev/shm is not there");
		dr_means(f, "libfabric's shm provider can't be used; fabric_shm0 can");
		dr_mend(f, "mkdir -p /dev/shm && mount -t tmpfs -o mode=1777 shm /dev/shm");
		return;
	}
	f = dr_found(d, available < SHM_MIN ? DR_WARNING : DR_OK, "", "%s of %s free",
		     dr_bytes(a, sizeof(a), available), dr_bytes(b, sizeof(b), size));
	if (available >= SHM_MIN) {
		dr_means(f, "enough for libfabric's shm provider");
		return;
	}
	dr_means(f, "with libfabric's shm an endpoint may end with SIGBUS when it is full");
	dr_mend(f, "mount -o remount,size=1G /dev/shm");
}

const struct dr_check dr_mem_checks[] = {
	{ "mem.hugepages", "hugepages reserved and free, by size", hugepages },
	{ "mem.numa", "free hugepages on each NUMA node", numa_hugepages },
	{ "mem.hugetlbfs", "where hugetlbfs is mounted", hugetlbfs },
	{ "mem.thp", "transparent hugepages", thp },
	{ "mem.memlock", "how much memory may be locked, as registering does", memlock },
	{ "mem.files", "how many files may be open", files },
	{ "mem.shm", "room in /dev/shm, for libfabric's shm", shm },
	{ NULL, NULL, NULL },
};
