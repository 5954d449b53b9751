/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEPS_WATCH_H
#define STEPS_WATCH_H

/*
 * Find the victim's steps that others can see: those that change the memory it shares with the
 * survivor, and system calls. Kills at any point between two such steps leave the same state
 * behind.
 *
 * That memory is: the lanes and boards of the survivor and of the victim, which the survivor has
 * mapped; and the beginning of the region that the victim may access directly. It is compared with
 * a copy, which is renewed after each turn of the survivor.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Renew the copy: from now on the present contents count as unchanged. mem, len: memory to watch
 * besides that of the endpoints.
 */
void steps_watch_renew(const void *mem, size_t len);
/* @return whether the memory has changed since the last call; the copy is renewed */
bool steps_watch_changed(void);
void steps_watch_end(void);
/* Is the victim's next step a system call? */
bool steps_watch_call(pid_t pid, uint64_t at);

#endif /* STEPS_WATCH_H */
