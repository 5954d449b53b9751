/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Latency of every n-th op, from post to poll.
 *
 *     off     ep->post = drv_post                  ep->poll = drv_poll
 *     on      ep->post = sampled_post              ep->poll = sampled_poll
 *               reads the clock, drv_post(), then    drv_poll(), then checks the state of the
 *               notes each n-th accepted op          noted ops: IDLE ones are being returned
 *
 * So sampling costs nothing on an endpoint where it is off. A pointer to a noted op stays valid:
 * every poll goes through sampled_poll(), which drops the pointer in the poll that returns the op.
 * Sampling changes no field of an op.
 */

#include <stdlib.h>
#include <string.h>

#include "fabric_pvt.h"

/*
 * Maximum number of ops that are timed at once. A larger number would make each poll check more
 * ops.
 */
#define NOTED_MAX 64

struct ep_sample {
	uint32_t every;
	uint32_t left; /* ops to be accepted before the next noted one */
	uint32_t nb;
	struct {
		const struct leat_op *op;
		uint64_t at;
	} noted[NOTED_MAX];
	struct leat_tune_histogram histogram[LEAT_OP_TYPES];
};

static uint16_t
sampled_post(struct leat_ep *ep, struct leat_op **ops, uint16_t n)
{
	struct ep_sample *s = ep->ctrl->sample;
	uint64_t at = s->left < n ? leat_now() : 0;
	uint16_t accepted = ep->drv_post(ep, ops, n);
	uint32_t i;

	for (i = s->left; i < accepted; i += s->every) {
		if (s->nb == NOTED_MAX)
			continue;
		s->noted[s->nb].op = ops[i];
		s->noted[s->nb++].at = at;
	}
	s->left = i - accepted;
	return accepted;
}

static void
sampled_poll(struct leat_ep *ep)
{
	struct ep_sample *s = ep->ctrl->sample;
	uint64_t now = 0;
	uint32_t i = 0;

	ep->drv_poll(ep);
	while (i < s->nb) {
		const struct leat_op *op = s->noted[i].op;

		if (op->state != LEAT_OP_IDLE) {
			i++;
			continue;
		}
		if (now == 0)
			now = leat_now();
		/* The time of a failed op says nothing about the device's speed. */
		if (op->status == 0)
			leat_tune_histogram_add(&s->histogram[op->type],
						leat_cycles_to_ns(now - s->noted[i].at));
		s->noted[i] = s->noted[--s->nb];
	}
}

int
leat_ep_sample_set(struct leat_ep *ep, uint32_t every)
{
	struct leat_ep_ctrl *c = ep->ctrl;
	struct ep_sample *s = c->sample;

	if (every == 0) {
		ep->sampled = false;
		ep->post = ep->drv_post;
		ep->poll = ep->drv_poll;
		return 0;
	}
	if (c->state == LEAT_EP_SHUT)
		return leat_err(ESHUTDOWN, "%s: measure latency: the endpoint is shut down",
				c->name);
	if (s == NULL) {
		s = calloc(1, sizeof(*s));
		if (s == NULL)
			return leat_err(ENOMEM, "%s: measure latency: out of memory", c->name);
		/* Release: the control thread reads the histograms, see leat_ep_sample_get(). */
		__atomic_store_n(&c->sample, s, __ATOMIC_RELEASE);
	}
	s->every = every;
	if (!ep->sampled) {
		/*
		 * Forget the ops noted before sampling was switched off: they may have come back
		 * since.
		 */
		s->nb = 0;
		s->left = every - 1;
		ep->sampled = true;
		ep->post = sampled_post;
		ep->poll = sampled_poll;
	} else if (s->left >= every) {
		s->left = every - 1;
	}
	return 0;
}

void
leat_ep_sample_get(const struct leat_ep *ep, unsigned int type, struct leat_tune_histogram *to)
{
	/* Acquire: pairs with leat_ep_sample_set(). */
	const struct ep_sample *s = __atomic_load_n(&ep->ctrl->sample, __ATOMIC_ACQUIRE);

	if (s == NULL)
		return;
	leat_tune_histogram_read(to, &s->histogram[type]);
}
