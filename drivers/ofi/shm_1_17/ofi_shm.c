/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Provider shm of libfabric 1.17: what the driver adds to make it safe. See the row in
 * ofi_provider.c for what goes wrong without.
 *
 * The key table. Each endpoint has a small file in /dev/shm with the regions that peers may reach.
 * The initiator of a one-sided op looks there first, so that a wrong key or a range out of bounds
 * never gets to the provider:
 *
 *     header | entry 0 | entry 1 | ... entry i: {key, base, len, access},   i = key % ENTRIES
 *
 * One writer, the owner; readers map it read-only. An entry is valid while its key is not 0, and a
 * reader that finds the key unchanged after reading the rest has read one entry.
 *
 * Behind the keys it has one number for each peer of the owner: see ofi_shm_number.h.
 *
 * The address that endpoints exchange is the provider's, a string, followed by the name of the
 * file:
 *
 *     fi_shm://leat-4711-8f3a01c2:0:0 NUL /leat-ofi-4711-8f3b770a-0 NUL
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ofi_shm.h"
#include "ofi_shm_number.h"

#define ENTRIES 1024
#define MAGIC 0x6c6561746f6669ULL /* leatofi */
#define VERSION 3
/* More than there can be peers, and longer than a statement. */
#define STATEMENTS 256
#define STATEMENT 512
#define FILE_PREFIX "/leat-ofi-"

struct key_entry {
	uint64_t key;
	uint64_t base;
	uint64_t len;
	uint64_t access;
};

struct ofi_shm {
	uint64_t magic;
	uint32_t version;
	int32_t pid;
	uint32_t closed; /* the endpoint does nothing any more */
	uint32_t pad[3];
	char name[64];
	struct key_entry key[ENTRIES];
	/*
	 * By peer: of its connections up to this number, sends were given back that the peer may
	 * yet copy.
	 */
	uint32_t ended[OFI_SHM_SLOTS];
	uint8_t statement[STATEMENTS][STATEMENT]; /* see ofi_proof.c */
};

static_assert(OFI_NONCE + 2 + OFI_ADDR_MAX <= STATEMENT, "a statement fits");

static unsigned int next_file;

/* ---- own side ---- */

static struct ofi_shm *
create_file(const struct ofi_ep *e, char *name, size_t len)
{
	unsigned int n = __atomic_fetch_add(&next_file, 1, __ATOMIC_RELAXED);
	struct ofi_shm *t = MAP_FAILED;
	int fd;

	/*
	 * Others may have had our process id and left a file, or have it now in another container.
	 */
	snprintf(name, len, FILE_PREFIX "%d-%08x-%u", (int)getpid(),
		 (unsigned int)(leat_now() * 2654435761u), n);
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		leat_err(errno, "%s: create endpoint: /dev/shm%s: %s", e->dev->name, name,
			 strerror(errno));
		return NULL;
	}
	if (ftruncate(fd, sizeof(*t)) == 0)
		t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (t == MAP_FAILED) {
		leat_err(errno, "%s: create endpoint: /dev/shm%s: %s", e->dev->name, name,
			 strerror(errno));
		(void)shm_unlink(name);
		t = NULL;
	}
	(void)close(fd);
	return t;
}

int
ofi_shm_init(struct ofi_ep *e)
{
	char name[sizeof(e->shm->name)];
	size_t own, more;
	uint16_t i;

	e->shm = create_file(e, name, sizeof(name));
	if (e->shm == NULL)
		return -rte_errno;
	for (i = 0; i < OFI_SHM_SLOTS; i++)
		e->shm->ended[i] = OFI_SHM_NR_START;
	for (i = 0; i < e->ep->nb_peers && i < OFI_SHM_SLOTS; i++)
		e->peers[i].nr = OFI_SHM_NR_START;
	snprintf(e->shm->name, sizeof(e->shm->name), "%s", name);
	e->shm->pid = getpid();
	e->shm->version = VERSION;
	__atomic_store_n(&e->shm->magic, MAGIC, __ATOMIC_RELEASE);

	own = strnlen((char *)e->raw, OFI_ADDR_MAX);
	more = strlen(name) + 1;
	if (own + 1 + more > OFI_ADDR_MAX)
		return leat_err(EIO, "%s: create endpoint: provider address too long",
				e->dev->name);
	e->raw[own] = '\0';
	memcpy(e->raw + own + 1, name, more);
	e->raw_len = (uint16_t)(own + 1 + more);
	e->shm_region = ofi_shm_region_open((char *)e->raw);
	if (e->shm_region == NULL)
		LEAT_LOG(WARNING, driver,
			 "%s: provider shm is not the one this driver knows: killed peers may "
			 "block this endpoint",
			 e->dev->name);
	e->reg = ofi_shm_reg_add(e, (char *)e->raw);
	if (e->reg == NULL)
		return leat_err(ENOMEM, "%s: create endpoint: out of memory", e->dev->name);
	return 0;
}

void
ofi_shm_fini(struct ofi_ep *e)
{
	if (e->reg != NULL)
		(void)ofi_shm_reg_bury(e->reg);
	e->reg = NULL;
	ofi_shm_region_close(e->shm_region);
	e->shm_region = NULL;
	if (e->shm == NULL)
		return;
	__atomic_store_n(&e->shm->closed, 1, __ATOMIC_RELEASE);
	(void)shm_unlink(e->shm->name);
	(void)munmap(e->shm, sizeof(*e->shm));
	e->shm = NULL;
}

int
ofi_shm_key_add(struct ofi_ep *e, uint64_t base, uint64_t len, uint32_t access, uint64_t *key)
{
	struct key_entry *k;
	uint64_t n;
	uint32_t i;

	for (i = 0; i < ENTRIES; i++) {
		k = &e->shm->key[i];
		if (k->key != 0)
			continue;
		n = ofi_mr_next_number(e);
		*key = (n | 1ULL << 63) - n % ENTRIES + i;
		k->base = base;
		k->len = len;
		k->access = access;
		__atomic_store_n(&k->key, *key, __ATOMIC_RELEASE); /* pairs with key_check */
		return 0;
	}
	return leat_err(ENOSPC,
			"%s: register: an endpoint of provider shm has at most %u regions with "
			"rights for peers",
			e->dev->name, ENTRIES);
}

void
ofi_shm_key_del(struct ofi_ep *e, uint64_t key)
{
	struct key_entry *k = &e->shm->key[key % ENTRIES];

	if (key == 0 || k->key != key)
		return; /* a region without rights for peers */
	__atomic_store_n(&k->key, 0, __ATOMIC_RELEASE);
	/* Before the entry is written again: pairs with the fence in key_check. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void
ofi_shm_conn_begin(struct ofi_ep *e, uint16_t peer)
{
	struct ofi_peer *p = &e->peers[peer];
	uint32_t *ended = &e->shm->ended[peer % OFI_SHM_SLOTS];

	p->nr = ofi_shm_nr_next(p->nr);
	__atomic_store_n(ended, ofi_shm_nr_follow(*ended, p->nr), __ATOMIC_RELAXED);
}

void
ofi_shm_give_back(struct ofi_ep *e, uint16_t peer)
{
	__atomic_store_n(&e->shm->ended[peer % OFI_SHM_SLOTS], e->peers[peer].nr, __ATOMIC_RELAXED);
	/*
	 * Before anything that the caller writes to the buffer: pairs with the fence in
	 * ofi_shm_void().
	 */
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

uint8_t *
ofi_shm_statement(const struct ofi_ep *e, uint16_t peer, size_t *size)
{
	*size = STATEMENT;
	return e->shm->statement[peer % STATEMENTS];
}

/* ---- the other side ---- */

bool
ofi_shm_stated(const struct ofi_addr *a, uint64_t place, const uint8_t *want, size_t len)
{
	return place < STATEMENTS && memcmp(a->shm->statement[place], want, len) == 0;
}

static struct ofi_shm *
map_file(const struct ofi_ep *e, const char *name)
{
	struct ofi_shm *t = MAP_FAILED;
	struct stat st;
	int fd, err;

	fd = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0) {
		leat_err(EHOSTUNREACH,
			 "%s: peers of provider shm must be on the same machine and in the "
			 "same /dev/shm, of the same user: /dev/shm%s: %s",
			 e->dev->name, name, strerror(errno));
		return NULL;
	}
	err = EPROTO;
	if (fstat(fd, &st) == 0 && st.st_size == sizeof(*t) && st.st_uid == geteuid()) {
		t = mmap(NULL, sizeof(*t), PROT_READ, MAP_SHARED, fd, 0);
		err = errno;
	}
	(void)close(fd);
	if (t != MAP_FAILED && __atomic_load_n(&t->magic, __ATOMIC_ACQUIRE) == MAGIC &&
	    t->version == VERSION)
		return t;
	if (t != MAP_FAILED) {
		(void)munmap(t, sizeof(*t));
		err = EPROTO;
	}
	leat_err(err, "%s: /dev/shm%s is not a key table", e->dev->name, name);
	return NULL;
}

int
ofi_shm_attach(struct ofi_ep *e, struct ofi_addr *a)
{
	const char *prov = (char *)a->raw, *file;
	size_t n = strnlen(prov, a->len);

	file = prov + n + 1;
	if (n == 0 || n + 2 >= a->len || a->raw[a->len - 1] != '\0' ||
	    strlen(file) != a->len - n - 2u ||
	    strncmp(file, FILE_PREFIX, strlen(FILE_PREFIX)) != 0 || strchr(file + 1, '/') != NULL)
		return leat_err(EPROTO, "%s: malformed address from the other side", e->dev->name);
	a->shm = map_file(e, file);
	if (a->shm == NULL)
		return -rte_errno;
	ofi_shm_region_forget(e->shm_region);
	a->reg = ofi_shm_reg_hold(prov);
	if (a->reg == NULL && a->shm->pid == getpid()) {
		/*
		 * Another thread is closing that endpoint: its file is still there, its memory may
		 * not be. The provider would read it: it never forgets where an endpoint of this
		 * process had its memory.
		 */
		ofi_shm_detach(e, a);
		return leat_err(EHOSTUNREACH, "%s: the endpoint at the other side is being closed",
				e->dev->name);
	}
	if (a->shm->pid != getpid())
		a->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)a->shm->pid, 0);
	if (a->pidfd < 0)
		return 0;
	a->region = ofi_shm_region_open(prov);
	if (a->region != NULL)
		ofi_shm_watch(a->region, e->shm_region, a->pidfd);
	return 0;
}

void
ofi_shm_detach(struct ofi_ep *e, struct ofi_addr *a)
{
	RTE_SET_USED(e);
	(void)ofi_shm_gone(a); /* takes a dead one's files away */
	if (a->region != NULL)
		ofi_shm_unwatch(a->region);
	a->region = NULL;
	if (a->pidfd >= 0)
		(void)close(a->pidfd);
	a->pidfd = -1;
	if (a->shm != NULL)
		(void)munmap(a->shm, sizeof(*a->shm));
	a->shm = NULL;
	if (a->reg != NULL)
		ofi_shm_reg_release(a->reg);
	a->reg = NULL;
}

/* The files of a killed process stay otherwise. */
static void
unlink_files(const struct ofi_addr *a)
{
	const char *prov = (char *)a->raw, *name = strstr(prov, "://");

	if (name != NULL && strncmp(name + 3, "leat-", 5) == 0)
		(void)shm_unlink(name + 3);
	(void)shm_unlink(prov + strlen(prov) + 1);
}

bool
ofi_shm_gone(const struct ofi_addr *a)
{
	struct pollfd p = { .fd = a->pidfd, .events = POLLIN };

	if (a->reg != NULL)
		return ofi_shm_reg_closed(a->reg);
	if (__atomic_load_n(&a->shm->closed, __ATOMIC_ACQUIRE) != 0)
		return true;
	if (a->pidfd < 0 || poll(&p, 1, 0) != 1)
		return false;
	unlink_files(a);
	return true;
}

bool
ofi_shm_void(const struct ofi_addr *a, uint64_t data)
{
	const uint32_t *ended = &a->shm->ended[ofi_shm_data_slot(data)];

	/* After what was copied: pairs with the fence in ofi_shm_give_back(). */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return ofi_shm_nr_ended(__atomic_load_n(ended, __ATOMIC_RELAXED), ofi_shm_data_nr(data));
}

int
ofi_shm_key_check(const struct ofi_addr *a, const struct leat_op *op)
{
	const struct key_entry *k = &a->shm->key[op->rkey % ENTRIES];
	uint64_t base, len, off;
	uint32_t access;

	if (unlikely(op->rkey == 0 || __atomic_load_n(&k->key, __ATOMIC_ACQUIRE) != op->rkey))
		return -EACCES;
	base = k->base;
	len = k->len;
	access = (uint32_t)k->access;
	__atomic_thread_fence(
		__ATOMIC_ACQUIRE); /* pairs with key_del's fence: still the same entry? */
	if (unlikely(__atomic_load_n(&k->key, __ATOMIC_RELAXED) != op->rkey))
		return -EACCES;
	if (unlikely((access & leat_op_right(op->type)) == 0))
		return -EACCES;
	off = op->raddr - base;
	return likely(off <= len && op->size <= len - off) ? 0 : -ERANGE;
}
