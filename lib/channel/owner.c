/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Liveness of participants. Only a participant that is certainly dead counts as dead.
 *
 * Where the block is in a file, a living participant holds the lock on its slot's byte (lock.c).
 * The caller's memory has no file, so there a participant is identified by its process: pid and
 * start time, because pids are reused. That works only among processes for which both mean the
 * same: those of one pid namespace and one time namespace, whose /proc is that pid namespace's.
 * Other processes are refused when they attach, and all of this is checked once more before a
 * participant counts as dead.
 *
 * The word `owner` in the slot says whether the lock or the process identifies the participant. It
 * is the participant's whole identity, so a slot is taken in one instruction. The word of a dead
 * owner never comes again:
 *
 *     locked      1 (1) | 0 (9) | generation of the slot (32) | pid (22)
 *     by pid      0 (1) | generation (8) | start time (33) | pid (22)
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lock.h"

#define START_BITS 33
#define START_MASK ((UINT64_C(1) << START_BITS) - 1)
#define OWNER_LOCKED (UINT64_C(1) << 63)
#define GENERATION_MASK 255

/* Read the start of a file, size - 1 bytes at most, as a string. @return bytes, or -1 */
static ssize_t
read_text(const char *path, char *text, size_t size)
{
	ssize_t len;
	int fd;

	do
		fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd < 0 && errno == EINTR);
	if (fd < 0)
		return -1;
	do
		len = read(fd, text, size - 1);
	while (len < 0 && errno == EINTR);
	close(fd);
	if (len >= 0)
		text[len] = '\0';
	return len;
}

/*
 * Get state, threads and start time of a process from its first thread's file: for a process's own
 * /proc/PID/stat qemu-user invents a start time that other processes don't see.
 * @return false: it can't be read
 */
static bool
read_stat(pid_t pid, char *state, unsigned long *threads, unsigned long long *start)
{
	char path[64], text[1024], *p;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)pid);
	if (read_text(path, text, sizeof(text)) <= 0)
		return false;
	/*
	 * "1 (comm) S ...": comm may hold any character, so start at the last ')'. Read the fields
	 * 3, 20 and 22 of proc(5).
	 */
	p = strrchr(text, ')');
	return p != NULL &&
	       sscanf(p + 1,
		      " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %lu %*d "
		      "%llu",
		      state, threads, start) == 3;
}

/*
 * Is /proc that of this process's pid namespace? If so, NSpid in the status of this process is one
 * pid, getpid(). The /proc of an outer namespace shows one pid for each level; the /proc of an
 * unrelated namespace does not show this process at all.
 */
static bool
proc_is_ours(void)
{
	char text[4096], *p, *end;
	ssize_t len;
	long pid;

	if (read_text("/proc/self/status", text, sizeof(text)) > 0) {
		p = strstr(text, "\nNSpid:");
		if (p != NULL) {
			pid = strtol(p + 7, &end, 10);
			return pid == (long)getpid() && *end == '\n';
		}
	}
	/* No NSpid: an old kernel, or so many groups that the line lies beyond the buffer. */
	len = readlink("/proc/self", text, sizeof(text) - 1);
	if (len <= 0)
		return false;
	text[len] = '\0';
	return strtol(text, &end, 10) == (long)getpid() && *end == '\0';
}

struct chan_ns
chan_ns_self(void)
{
	struct chan_ns ns = { 0 };
	struct stat st;

	if (!proc_is_ours() || stat("/proc/self/ns/pid", &st) != 0)
		return ns;
	ns.pid = (uint64_t)st.st_ino;
	if (stat("/proc/self/ns/time", &st) == 0)
		ns.time = (uint64_t)st.st_ino;
	else if (errno != ENOENT)
		ns.pid = 0;
	return ns;
}

bool
chan_ns_same(struct chan_ns a, struct chan_ns b)
{
	return a.pid != 0 && a.pid == b.pid && a.time == b.time;
}

static uint64_t
next_generation(struct leat_channel *ch, uint32_t slot)
{
	return atomic_fetch_add_explicit(&ch->block->slots[slot].generation, 1,
					 memory_order_relaxed) +
	       1u;
}

uint64_t
chan_owner_locked(struct leat_channel *ch, uint32_t slot)
{
	return OWNER_LOCKED | next_generation(ch, slot) << OWNER_PID_BITS |
	       ((uint64_t)getpid() & OWNER_PID_MASK);
}

uint64_t
chan_owner_by_pid(struct leat_channel *ch, uint32_t slot, uint64_t start)
{
	return (next_generation(ch, slot) & GENERATION_MASK) << (OWNER_PID_BITS + START_BITS) |
	       (start & START_MASK) << OWNER_PID_BITS | ((uint64_t)getpid() & OWNER_PID_MASK);
}

int
chan_start_self(uint64_t *start)
{
	unsigned long long ticks;
	unsigned long threads;
	char state;

	if (!read_stat(getpid(), &state, &threads, &ticks))
		return -ENOENT;
	*start = ticks;
	return 0;
}

/*
 * Describe the process of a participant with a lock, for processes that can't query the lock, and
 * for leat_channel_inspect().
 */
void
chan_owner_describe(struct leat_channel *ch)
{
	struct chan_slot *s = &ch->block->slots[ch->slot];
	struct chan_ns ns = chan_ns_self();
	uint64_t start = 0;

	if (chan_start_self(&start) != 0)
		ns.pid = 0;
	atomic_store_explicit(&s->start, start, memory_order_relaxed);
	atomic_store_explicit(&s->pid_ns, ns.pid, memory_order_relaxed);
	atomic_store_explicit(&s->time_ns, ns.time, memory_order_relaxed);
	/* release: publishes the other fields; pairs with described() */
	atomic_store_explicit(&s->described, ch->owner, memory_order_release);
}

/*
 * Get the description of its process that the owner has stored.
 * @return false: the owner died before it stored one, or the slot has another owner by now
 */
static bool
described(const struct leat_channel *ch, uint32_t slot, uint64_t owner, uint64_t *start,
	  struct chan_ns *ns)
{
	const struct chan_slot *s = &ch->block->slots[slot];

	/* acquire: pairs with chan_owner_describe() */
	if (atomic_load_explicit(&s->described, memory_order_acquire) != owner)
		return false;
	*start = atomic_load_explicit(&s->start, memory_order_relaxed);
	ns->pid = atomic_load_explicit(&s->pid_ns, memory_order_relaxed);
	ns->time = atomic_load_explicit(&s->time_ns, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&s->owner, memory_order_relaxed) == owner;
}

uint64_t
chan_owner_start(const struct leat_channel *ch, uint32_t slot, uint64_t owner)
{
	struct chan_ns ns;
	uint64_t start;

	if (described(ch, slot, owner, &start, &ns))
		return start;
	return (owner & OWNER_LOCKED) != 0 ? 0 : owner >> OWNER_PID_BITS & START_MASK;
}

static bool
process_lives(pid_t pid, uint64_t start)
{
	unsigned long long ticks;
	unsigned long threads;
	char state;

	if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH))
		return false;
	/* /proc may hide the process: then assume that it still runs. */
	if (!read_stat(pid, &state, &threads, &ticks))
		return true;
	if ((ticks & START_MASK) != (start & START_MASK))
		return false;
	/*
	 * A zombie: it has ended, but its parent has not waited for it. If it has other threads,
	 * only the first one has ended.
	 */
	return !((state == 'Z' || state == 'X' || state == 'x') && threads <= 1);
}

bool
chan_alive(const struct leat_channel *ch, uint32_t slot, uint64_t owner)
{
	struct chan_ns ns = { .pid = ch->block->pid_ns, .time = ch->block->time_ns };
	uint64_t start = owner >> OWNER_PID_BITS & START_MASK;
	int held;

	if ((owner & OWNER_LOCKED) != 0) {
		held = chan_lock_is_held(ch, slot);
		if (held >= 0)
			return held != 0;
		if (!described(ch, slot, owner, &start, &ns))
			return true;
	}
	/* The owner is certainly dead only if its pid and start time mean the same here. */
	return process_lives((pid_t)(owner & OWNER_PID_MASK), start) ||
	       !chan_ns_same(chan_ns_self(), ns);
}
