/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEPS_WATCH_H
#define STEPS_WATCH_H

/*
 * Which of the victim's steps others can see: those that change the memory it shares with the
 * survivor, and system calls. Between two of them a kill leaves the same behind wherever it comes.
 *
 * The memory is what the survivor has mapped of endpoints: its own lanes and board, and the
 * victim's; and the beginning of the region that the victim may reach itself. It is compared with
 * a copy, which is renewed when the survivor itself had a turn.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * From now on changes are looked for: what is there now is no change. mem: a piece of memory
 * besides that of endpoints.
 */
void steps_watch_renew(const void *mem, size_t len);
/* @return whether the memory has changed since; that is the copy from now on */
bool steps_watch_changed(void);
void steps_watch_end(void);
/* Is the victim's next step a system call? */
bool steps_watch_call(pid_t pid, uint64_t at);

#endif /* STEPS_WATCH_H */
