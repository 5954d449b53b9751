/* SPDX-License-Identifier: BSD-3-Clause */

/* The survivor takes back memory that a victim accesses: see steps_share.h. */

#include <errno.h>

#include <leat_error.h>

#include "leat_cmocka.h"
#include "steps_message.h"
#include "steps_share.h"

/* Turns within which the region of a killed victim must be free. */
#define TURNS_TO_FREE 100

static struct {
	enum { NOTHING, REGION, CONNECTION } what;
	bool done;
	uint8_t memory[STEPS_MEMORY]; /* copy of the region when it was taken back */
} taken;

bool
steps_share_direct(const struct steps_scenario *sc)
{
	return sc->share && sc->call == STEPS_VICTIM_POSTS && !steps_is_send(sc->type) &&
	       sc->type != LEAT_OP_WRITE_IMM;
}

/* @return whether the region belongs to this process alone again */
static bool
deregister(struct steps_living *l)
{
	const int ret = leat_mr_deregister(l->mr);

	CHECK(ret == 0 || ret == -EBUSY, "deregister: %s", leat_err_msg());
	CHECK(ret == 0 || l->v.state != STEPS_NONE,
	      "the region is busy after the victim's end was told");
	if (ret == 0)
		l->mr = NULL;
	return ret == 0;
}

bool
steps_share_deregister(struct steps_living *l)
{
	unsigned int turns = 0;

	while (!deregister(l)) {
		CHECK(++turns < TURNS_TO_FREE, "the region of a killed victim stays busy");
		steps_turn(l, true);
	}
	return turns > 0;
}

void
steps_share_take(const struct steps_scenario *sc, struct steps_living *l, struct steps_notes *n,
		 bool region)
{
	/* The victim's ops may fail from now on. */
	atomic_store(&n->taken, 1);
	taken.what = region && steps_share_direct(sc) ? REGION : CONNECTION;
	if (taken.what == CONNECTION && l->v.state != STEPS_NONE)
		CHECK(leat_ep_disconnect(l->s.ep, l->v.id) == 0, "disconnect: %s", leat_err_msg());
	(void)steps_share_turn(l);
}

bool
steps_share_turn(struct steps_living *l)
{
	if (taken.what == NOTHING || taken.done)
		return taken.what != NOTHING;
	taken.done = taken.what == REGION ? deregister(l) : steps_peer_gone(l);
	if (taken.done) {
		memcpy(taken.memory, l->memory, STEPS_MEMORY);
		/* The survivor's send buffers are its own again too: overwrite them. */
		memset(l->v.buf, 0xee, STEPS_MEMORY);
	}
	return taken.done;
}

void
steps_share_taken(const struct steps_living *l)
{
	CHECK(taken.done, "the memory that a stopped victim reached does not come back");
	CHECK(memcmp(taken.memory, l->memory, STEPS_MEMORY) == 0,
	      "the region was changed after it was taken back");
}

void
steps_share_reset(struct steps_living *l)
{
	taken.what = NOTHING;
	taken.done = false;
	if (l->mr == NULL)
		l->mr = steps_region(l->s.ep, l->memory, &l->key);
}
