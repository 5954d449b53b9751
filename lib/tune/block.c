/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The file of measurements, and its heap: chunks of a power of two bytes, with a list of free
 * chunks for each size. The lists are in memory of the process, so that no data read from the file
 * is trusted.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "tune_protocol.h"
#include "tune_pvt.h"

#define HEAD_SIZE 4096U
/*
 * Bytes by which the file grows. They are allocated before use: a write to a mapped page for which
 * the file system has no room would raise SIGBUS.
 */
#define GROW (UINT64_C(256) << 10)
#define CLASS_MIN 8U /* smallest chunk: 2^8 = 256 bytes */
#define CLASSES 10U  /* sizes of chunks: 256 bytes to 128 KiB */

struct free_place {
	struct free_place *next;
	uint32_t offset;
};

struct schema_place {
	struct schema_place *next;
	const struct leat_tune_schema *schema;
	uint32_t offset;
};

static struct {
	int fd;
	int dirfd;
	char name[64];
	uint8_t *map;
	uint64_t end;  /* bytes of the file in use */
	uint64_t room; /* bytes allocated by the file system */
	struct free_place *free[CLASSES];
	struct schema_place *schemas;
} block = { .fd = -1 };

struct tune_block_head *
tune_block_head(void)
{
	return (struct tune_block_head *)block.map;
}

void *
tune_block_at(uint32_t offset)
{
	return block.map + offset;
}

/* Grow the file to at least end bytes. @return 0; -EFBIG: that is too large; others: no room */
static int
grow_to(uint64_t end)
{
	uint64_t room = RTE_ALIGN_CEIL(end, GROW);
	int err;

	if (end <= block.room)
		return 0;
	if (room > TUNE_BLOCK_MAX)
		return -EFBIG;
	do
		err = posix_fallocate(block.fd, (off_t)block.room, (off_t)(room - block.room));
	while (err == EINTR);
	if (err == 0)
		block.room = room;
	return -err;
}

static unsigned int
class_of(uint32_t size)
{
	unsigned int bits = size <= 1 ? 0 : 32 - (unsigned int)__builtin_clz(size - 1);

	return bits <= CLASS_MIN ? 0 : bits - CLASS_MIN;
}

uint32_t
tune_block_alloc(uint32_t size)
{
	unsigned int class = class_of(size);
	uint32_t whole, offset;
	struct free_place *f;

	if (class >= CLASSES)
		return 0;
	whole = 1U << (class + CLASS_MIN);
	f = block.free[class];
	if (f != NULL) {
		block.free[class] = f->next;
		offset = f->offset;
		free(f);
	} else {
		if (grow_to(block.end + whole) < 0)
			return 0;
		offset = (uint32_t)block.end;
		block.end += whole;
		__atomic_store_n(&tune_block_head()->bytes, block.end, __ATOMIC_RELAXED);
	}
	memset(block.map + offset, 0, whole);
	return offset;
}

void
tune_block_free(uint32_t offset, uint32_t size)
{
	struct free_place *f = malloc(sizeof(*f));

	/* Without memory for the list entry the chunk stays unused until tune_block_destroy(). */
	if (f == NULL)
		return;
	f->offset = offset;
	f->next = block.free[class_of(size)];
	block.free[class_of(size)] = f;
}

uint32_t
tune_block_schema(const struct leat_tune_schema *schema)
{
	struct tune_block_schema head = { .hash = schema->hash, .len = schema->json_len };
	struct schema_place *p;

	for (p = block.schemas; p != NULL; p = p->next) {
		if (p->schema == schema)
			return p->offset;
	}
	p = malloc(sizeof(*p));
	if (p == NULL)
		return 0;
	p->offset = tune_block_alloc((uint32_t)sizeof(head) + schema->json_len);
	if (p->offset == 0) {
		free(p);
		return 0;
	}
	p->schema = schema;
	p->next = block.schemas;
	block.schemas = p;
	memcpy(block.map + p->offset, &head, sizeof(head));
	memcpy(block.map + p->offset + sizeof(head), schema->json, schema->json_len);
	return p->offset;
}

static void
head_init(const char *program, uint64_t instance)
{
	struct tune_block_head *h = tune_block_head();
	uint32_t offset = HEAD_SIZE;

	h->version = TUNE_BLOCK_VERSION;
	h->head_size = HEAD_SIZE;
	h->protocol = TUNE_PROTOCOL_HASH;
	h->instance = instance;
	h->pid = (uint32_t)getpid();
	h->uid = (uint32_t)geteuid();
	h->start_ns = tune_real();
	h->heartbeat_ns = tune_now();
	h->interval_ns = TUNE_INTERVAL_IDLE_NS;
	h->slots = TUNE_SLOTS;
	h->slot_offset = offset;
	offset += TUNE_SLOTS * (uint32_t)sizeof(struct tune_block_slot);
	h->changes = TUNE_HISTORY;
	h->change_offset = offset;
	h->change_size = sizeof(struct tune_block_change);
	offset += TUNE_HISTORY * h->change_size;
	h->leases = TUNE_LEASES;
	h->lease_offset = offset;
	h->lease_size = sizeof(struct tune_block_lease);
	offset += TUNE_LEASES * h->lease_size;
	block.end = RTE_ALIGN_CEIL(offset, 1U << CLASS_MIN);
	h->bytes = block.end;
	snprintf(h->program, sizeof(h->program), "%s", program);
	__atomic_store_n(&h->magic, TUNE_BLOCK_MAGIC, __ATOMIC_RELEASE);
}

#define FIXED_SIZE                                                                                 \
	(HEAD_SIZE + TUNE_SLOTS * sizeof(struct tune_block_slot) +                                 \
	 TUNE_HISTORY * sizeof(struct tune_block_change) +                                         \
	 TUNE_LEASES * sizeof(struct tune_block_lease))

static int
file_map(void)
{
	int ret = grow_to(FIXED_SIZE);
	void *map;

	if (ret < 0)
		return leat_err(-ret, "tune: allocate %zu bytes in its directory: %s",
				(size_t)FIXED_SIZE, strerror(-ret));
	map = mmap(NULL, TUNE_BLOCK_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		   block.fd, 0);
	if (map == MAP_FAILED)
		return leat_err(errno, "tune: mmap: %s", strerror(errno));
	block.map = map;
	/* A child of fork() that had the mapping would keep the lock. Core dumps don't need it. */
	(void)madvise(map, TUNE_BLOCK_MAX, MADV_DONTFORK);
	(void)madvise(map, TUNE_BLOCK_MAX, MADV_DONTDUMP);
	return 0;
}

static int
file_lock(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(block.fd, F_OFD_SETLK, &lock) != 0)
		return leat_err(errno, "tune: lock: %s", strerror(errno));
	return 0;
}

static int
file_name(int dirfd, uint64_t instance)
{
	char proc[32];

	snprintf(block.name, sizeof(block.name), "%d-%016llx.block", (int)getpid(),
		 (unsigned long long)instance);
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", block.fd);
	if (linkat(AT_FDCWD, proc, dirfd, block.name, AT_SYMLINK_FOLLOW) != 0) {
		block.name[0] = '\0';
		return leat_err(errno, "tune: name the file of measurements: %s", strerror(errno));
	}
	return 0;
}

int
tune_block_create(int dirfd, const char *program, char *name, size_t len)
{
	uint64_t instance;
	int ret;

	if (getrandom(&instance, sizeof(instance), 0) != sizeof(instance))
		return leat_err(errno, "tune: getrandom: %s", strerror(errno));
	block.dirfd = dirfd;
	block.room = 0;
	block.name[0] = '\0';
	/* Name the file only when it is locked: an unlocked file counts as a dead process's. */
	block.fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (block.fd < 0)
		return leat_err(errno, "tune: create the file of measurements: %s",
				strerror(errno));
	ret = file_map();
	if (ret == 0) {
		head_init(program, instance);
		ret = file_lock();
	}
	if (ret == 0)
		ret = file_name(dirfd, instance);
	if (ret < 0) {
		tune_block_destroy();
		return ret;
	}
	snprintf(name, len, "%d-%016llx", (int)getpid(), (unsigned long long)instance);
	return 0;
}

void
tune_block_forked(void)
{
	if (block.fd >= 0)
		(void)close(block.fd);
	block.fd = -1;
	block.map = NULL;
	block.name[0] = '\0';
}

void
tune_block_destroy(void)
{
	struct schema_place *s;
	struct free_place *f;
	unsigned int i;

	if (block.name[0] != '\0')
		(void)unlinkat(block.dirfd, block.name, 0);
	block.name[0] = '\0';
	if (block.map != NULL)
		(void)munmap(block.map, TUNE_BLOCK_MAX);
	block.map = NULL;
	if (block.fd >= 0)
		(void)close(block.fd);
	block.fd = -1;
	while ((s = block.schemas) != NULL) {
		block.schemas = s->next;
		free(s);
	}
	for (i = 0; i < CLASSES; i++) {
		while ((f = block.free[i]) != NULL) {
			block.free[i] = f->next;
			free(f);
		}
	}
}
