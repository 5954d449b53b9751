/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEPS_SHARE_H
#define STEPS_SHARE_H

/*
 * With share=1 the victim accesses memory of the survivor directly. The survivor takes the memory
 * back: it deregisters the region, or disconnects the victim.
 *
 *     the victim is killed       the region is deregistered at once, or after the DISCONNECTED
 *                                event: -EBUSY is allowed only before this event
 *     the victim is stopped      the region is deregistered, or the victim disconnected. When that
 *                                has succeeded, the region must not change any more. A message
 *                                whose send has completed arrives whole or not at all, though the
 *                                survivor then overwrites the send's buffer
 */

#include "steps.h"

/* Does the victim execute its op itself, on the survivor's region? */
bool steps_share_direct(const struct steps_scenario *sc);

/*
 * For a killed victim: deregister the region, which must succeed within a few turns. @return
 * whether it was busy at first: the victim was killed while it accessed the region
 */
bool steps_share_deregister(struct steps_living *l);

/* For a stopped victim: begin to take the memory back. */
void steps_share_take(const struct steps_scenario *sc, struct steps_living *l,
		      struct steps_notes *n, bool region);
/* Try to finish taking the memory back; called in each turn. @return whether it is done */
bool steps_share_turn(struct steps_living *l);
/*
 * The victim has passed its second mark and is dead: nothing may have changed since the memory was
 * taken back.
 */
void steps_share_taken(const struct steps_living *l);
/* Prepare for the next victim. */
void steps_share_reset(struct steps_living *l);

#endif /* STEPS_SHARE_H */
