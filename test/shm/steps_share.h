/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STEPS_SHARE_H
#define STEPS_SHARE_H

/*
 * The survivor takes back memory that the victim reaches with share=1.
 *
 *     the victim is killed       the region is deregistered at once, or when the death was told:
 *                                -EBUSY only before that
 *     the victim is stopped      the region is deregistered, or the victim disconnected. From the
 *                                moment when that is done, nothing of the memory changes, and a
 *                                message whose send came back is whole or not there, though its
 *                                buffer is overwritten
 */

#include "steps.h"

/* Does the victim execute its op itself, on the survivor's region? */
bool steps_share_direct(const struct steps_scenario *sc);

/*
 * Of a killed victim: deregisters the region, within a few turns.
 * @return whether the victim was in it
 */
bool steps_share_deregister(struct steps_living *l);

/* Of a stopped victim: begins to take the memory back. */
void steps_share_take(const struct steps_scenario *sc, struct steps_living *l,
		      struct steps_notes *n, bool region);
/* Goes on with it, in each turn. @return whether it is done */
bool steps_share_turn(struct steps_living *l);
/* The victim is through and dead: has anything changed since it was done? */
void steps_share_taken(const struct steps_living *l);
/* Before the next victim. */
void steps_share_reset(struct steps_living *l);

#endif /* STEPS_SHARE_H */
