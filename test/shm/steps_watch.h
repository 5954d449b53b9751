/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEPS_WATCH_H
#define STEPS_WATCH_H

/*
 * Find the victim's steps that others can see: those that change the memory it shares with the
 * survivor, and system calls. Kills at any point between two such steps leave the same state
 * behind.
 *
 * The memory is what the survivor has mapped of endpoints: its own lanes and board, and the
 * victim's; and the beginning of the region that the victim may reach itself. It is compared with a
 * copy, which is renewed after each turn of the survivor.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Renew the copy: the memory as it is now counts as unchanged. mem: a piece of memory besides that
 * of endpoints.
 */
void steps_watch_renew(const void *mem, size_t len);
/* @return whether the memory has changed since the last call; the copy is renewed */
bool steps_watch_changed(void);
void steps_watch_end(void);
/* Is the victim's next step a system call? */
bool steps_watch_call(pid_t pid, uint64_t at);

#endif /* STEPS_WATCH_H */
