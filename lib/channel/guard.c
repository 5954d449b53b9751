/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Files that can shrink. POSIX shared memory can't be sealed, as a memfd can: another process with
 * write access may truncate it while it is mapped, and an access to a page beyond the end gets
 * SIGBUS. Accesses can't be made safe beforehand, so the signal is caught, as libwayland does for
 * its clients' buffers: the handler replaces the whole mapping with anonymous memory, and stores
 * impossible positions there. The CPU repeats the instruction, and this call or the next one finds
 * that the block is corrupt: -EPROTO.
 *
 *     SIGBUS at an address of a guarded mapping     mapping replaced; the call goes on
 *     any other SIGBUS                              the handler that was installed before, or the
 *                                                   default: death
 *
 * The handler allocates nothing and takes no lock: the mappings are in a table that only grows.
 * POSIX does not list mmap() as async-signal-safe, but on Linux it is just a system call.
 */

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "map.h"

#define CHUNK 64

/* A guarded mapping. start is stored last, and cleared first. */
struct entry {
	_Atomic bool used;
	_Atomic uintptr_t start; /* 0: none */
	_Atomic uintptr_t end;
	struct chan_map *_Atomic map;
};

struct chunk {
	struct entry entries[CHUNK];
	struct chunk *_Atomic next;
};

/* Maximum number of handlers in old_handlers: those that this library replaced, the latest last. */
#define OLD_HANDLERS 8

static struct chunk table;
static _Atomic bool off;
static atomic_flag installing = ATOMIC_FLAG_INIT;
static struct sigaction old_handlers[OLD_HANDLERS];
static _Atomic int nb_old_handlers;

/*
 * A handler that was installed after ours may call ours as its predecessor. If ours was then
 * installed on top of it once more, ours is called twice for the same signal: the second call must
 * pass the signal to the next older handler in old_handlers. Such a nested call has the same signal
 * context and a deeper stack; after a longjmp() out of a handler only one of these two conditions
 * holds.
 */
static __thread struct {
	void *context;
	uintptr_t at;
	int level;
} entered __attribute__((tls_model("initial-exec")));

static bool
replace(uintptr_t at)
{
	uintptr_t start, end;
	struct chan_block *b;
	struct chan_map *map;
	struct chunk *c;
	unsigned int i;

	for (c = &table; c != NULL; c = atomic_load_explicit(&c->next, memory_order_acquire)) {
		for (i = 0; i < CHUNK; i++) {
			/* acquire: pairs with chan_guard() */
			start = atomic_load_explicit(&c->entries[i].start, memory_order_acquire);
			end = atomic_load_explicit(&c->entries[i].end, memory_order_relaxed);
			if (start == 0 || at < start || at >= end)
				continue;
			map = atomic_load_explicit(&c->entries[i].map, memory_order_relaxed);
			/* Another thread has replaced the mapping. */
			if (atomic_load_explicit(&map->truncated, memory_order_acquire))
				return true;
			b = mmap((void *)start, end - start, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			if (b == MAP_FAILED)
				return false;
			/* Odd positions are never valid: the next check of them fails. */
			atomic_store_explicit(&b->write, 1, memory_order_relaxed);
			atomic_store_explicit(&b->read, 1, memory_order_relaxed);
			atomic_store_explicit(&b->free, 1, memory_order_relaxed);
			atomic_store_explicit(&map->truncated, true, memory_order_release);
			return true;
		}
	}
	return false;
}

/* Pass the signal to the handler of this nesting level, or take the default action. */
static void
pass_on(int sig, siginfo_t *info, void *context, int level)
{
	struct sigaction sa = { .sa_handler = SIG_DFL }, dfl = { .sa_handler = SIG_DFL };
	int i = atomic_load_explicit(&nb_old_handlers, memory_order_acquire) - 1 - level;

	if (i >= 0)
		sa = old_handlers[i];
	if (i >= 0 && (sa.sa_flags & (int)SA_RESETHAND) != 0)
		old_handlers[i] = dfl;
	if ((sa.sa_flags & SA_SIGINFO) != 0) {
		sa.sa_sigaction(sig, info, context);
		return;
	}
	if (sa.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (sa.sa_handler != SIG_DFL && sa.sa_handler != SIG_IGN) {
		sa.sa_handler(sig);
		return;
	}
	/* A fault repeats by itself; a signal that a process sent is raised again. */
	if (sigaction(sig, &dfl, NULL) == 0 && info->si_code <= 0)
		(void)raise(sig);
}

static void
on_sigbus(int sig, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)__builtin_frame_address(0);
	bool again = context == entered.context && at < entered.at;
	int saved = errno;

	entered.level = again ? entered.level + 1 : 0;
	entered.context = context;
	entered.at = at;
	if (info->si_code != BUS_ADRERR || !replace((uintptr_t)info->si_addr))
		pass_on(sig, info, context, entered.level);
	errno = saved;
}

/* Install the handler, also on top of a handler that was installed since the last time. */
static int
install(void)
{
	struct sigaction sa = { .sa_sigaction = on_sigbus }, was;
	int n = atomic_load_explicit(&nb_old_handlers, memory_order_relaxed), ret = 0;

	/* Another thread is installing the handler right now. */
	if (atomic_flag_test_and_set(&installing))
		return 0;
	if (sigaction(SIGBUS, NULL, &was) != 0) {
		ret = chan_err(errno, "channel: the handler of SIGBUS: %m");
	} else if ((was.sa_flags & SA_SIGINFO) == 0 || was.sa_sigaction != on_sigbus) {
		/* If the table is full, replace its last entry. */
		n = n < OLD_HANDLERS ? n : OLD_HANDLERS - 1;
		old_handlers[n] = was;
		/* release: pairs with pass_on() */
		atomic_store_explicit(&nb_old_handlers, n + 1, memory_order_release);
		sa.sa_mask = was.sa_mask;
		sa.sa_flags = SA_SIGINFO | SA_ONSTACK | (was.sa_flags & (SA_NODEFER | SA_RESTART));
		if (sigaction(SIGBUS, &sa, NULL) != 0)
			ret = chan_err(errno, "channel: the handler of SIGBUS: %m");
	}
	atomic_flag_clear(&installing);
	return ret;
}

int
leat_channel_guard(bool on)
{
	if (!on && atomic_load(&nb_old_handlers) > 0)
		return chan_err(EBUSY, "channel: SIGBUS is guarded already");
	atomic_store(&off, !on);
	return 0;
}

static struct entry *
entry_new(void)
{
	struct chunk *c, *next, *none;
	unsigned int i;
	bool used;

	for (c = &table;; c = next) {
		for (i = 0; i < CHUNK; i++) {
			used = false;
			if (atomic_compare_exchange_strong(&c->entries[i].used, &used, true))
				return &c->entries[i];
		}
		next = atomic_load_explicit(&c->next, memory_order_acquire);
		if (next != NULL)
			continue;
		next = calloc(1, sizeof(*next));
		if (next == NULL)
			return NULL;
		none = NULL;
		if (!atomic_compare_exchange_strong(&c->next, &none, next)) {
			free(next);
			next = none;
		}
	}
}

int
chan_guard(struct chan_map *map, void *mem)
{
	struct entry *e;
	int ret;

	if (atomic_load(&off))
		return 0;
	ret = install();
	if (ret != 0)
		return ret;
	e = entry_new();
	if (e == NULL)
		return chan_err(ENOMEM, "channel: can't allocate a table of mappings");
	atomic_store_explicit(&e->map, map, memory_order_relaxed);
	atomic_store_explicit(&e->end, (uintptr_t)mem + map->bytes, memory_order_relaxed);
	/* release: publishes the other fields; pairs with replace() */
	atomic_store_explicit(&e->start, (uintptr_t)mem, memory_order_release);
	map->guard = e;
	return 0;
}

void
chan_unguard(struct chan_map *map)
{
	struct entry *e = map->guard;

	if (e == NULL)
		return;
	map->guard = NULL;
	atomic_store(&e->start, 0);
	atomic_store(&e->used, false);
}
