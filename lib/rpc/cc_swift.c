/* SPDX-License-Identifier: BSD-3-Clause */

/* Swift, see leat_rpc_cc.h. The names of its constants are the paper's. */

#include <assert.h>
#include <math.h>
#include <string.h>

#include "leat_rpc_cc.h"

#define BASE_TARGET_NS 25000.0f
/* Flow scaling, added to the target: FS_RANGE_NS at window FS_MIN_CWND, 0 from FS_MAX_CWND on. */
#define FS_RANGE_NS 75000.0f
#define FS_MIN_CWND 0.1f
#define FS_MAX_CWND 50.0f
#define AI 1.0f	     /* additive increase, packets per round trip */
#define BETA 0.8f    /* a decrease takes away BETA * (rtt - target) / rtt of the window */
#define MAX_MDF 0.5f /* largest part of the window that one decrease takes away */
#define MIN_CWND 0.01f
#define MAX_CWND 1024.0f
#define START_CWND 16.0f

struct swift {
	uint64_t decreased_ns; /* time of the last decrease, ns since the session came up */
};

static_assert(sizeof(struct swift) <= sizeof(((struct leat_rpc_cc_state *)0)->priv), "has room");

static struct swift *
swift_of(struct leat_rpc_cc_state *st)
{
	return (struct swift *)st->priv;
}

static float
clamp(float v, float min, float max)
{
	return v < min ? min : v > max ? max : v;
}

/*
 * Return the base target plus the flow scaling: alpha / sqrt(window) + beta, where alpha and beta
 * are such that the scaling is FS_RANGE_NS at FS_MIN_CWND and 0 at FS_MAX_CWND.
 */
static float
target_ns(float window)
{
	const float min = 1 / sqrtf(FS_MAX_CWND), max = 1 / sqrtf(FS_MIN_CWND);

	return BASE_TARGET_NS + clamp((1 / sqrtf(window) - min) / (max - min), 0, 1) * FS_RANGE_NS;
}

static void
swift_start(struct leat_rpc_cc_state *st)
{
	st->window = START_CWND;
}

/* Multiply the window by factor, at most once per round trip. */
static void
decrease(struct leat_rpc_cc_state *st, float factor, uint64_t now_ns)
{
	if (now_ns - swift_of(st)->decreased_ns < st->rtt_ns)
		return;
	swift_of(st)->decreased_ns = now_ns;
	st->window = clamp(st->window * factor, MIN_CWND, MAX_CWND);
}

static void
swift_acked(struct leat_rpc_cc_state *st, uint64_t rtt_ns, uint32_t packets, uint64_t now_ns)
{
	const float rtt = (float)rtt_ns, target = target_ns(st->window);
	float more = AI * (float)packets;

	if (rtt_ns == 0)
		return;
	if (rtt < target) {
		if (st->window >= 1)
			more /= st->window;
		st->window = clamp(st->window + more, MIN_CWND, MAX_CWND);
	} else {
		decrease(st, 1 - clamp(BETA * (rtt - target) / rtt, 0, MAX_MDF), now_ns);
	}
}

static void
swift_lost(struct leat_rpc_cc_state *st, uint64_t now_ns)
{
	decrease(st, 1 - MAX_MDF, now_ns);
}

const struct leat_rpc_cc leat_rpc_cc_swift = {
	.name = "swift",
	.start = swift_start,
	.acked = swift_acked,
	.lost = swift_lost,
};
