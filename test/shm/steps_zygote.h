/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEPS_ZYGOTE_H
#define STEPS_ZYGOTE_H

/*
 * Victims that have EAL memory of their own. A fork of the survivor would inherit the survivor's
 * EAL. So a third process, the zygote, is forked before the survivor starts EAL, and victims are
 * forks of the zygote:
 *
 *     survivor -- fork --> zygote                                 (no EAL)
 *     survivor: leat_init()
 *     survivor -- "one more" --> zygote -- fork --> helper -- fork --> victim: leat_init(), ...
 *
 * The helper ends at once, and the victim becomes a child of the survivor (PR_SET_CHILD_SUBREAPER),
 * which traces it and waits for it. All victims have the same addresses, as forks of one process.
 *
 * EAL sleeps for half a second when it starts, to measure the clock. So some victims are started in
 * advance; each waits for a signal.
 */

#include <sys/types.h>

/*
 * Start the zygote, and some victims. Each calls prepare(), waits until it is chosen, and calls
 * run(), which does not return.
 */
void steps_zygote_start(unsigned int victims, void (*prepare)(void), void (*run)(void));
/* Let the victim that waits longest run. @return its pid; it is a child of this process */
pid_t steps_zygote_victim(void);
/* End the zygote, and the victims that were not needed. */
void steps_zygote_end(void);

#endif /* STEPS_ZYGOTE_H */
