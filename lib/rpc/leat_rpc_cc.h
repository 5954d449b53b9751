/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_RPC_CC_H
#define LEAT_RPC_CC_H

/**
 * @file
 * Congestion control of sessions over datagram endpoints: how many packets may be on the way.
 *
 * A session has no congestion control unless leat_rpc_session_conf.cc names one. Without it credits
 * alone bound the packets on the way, and nothing is computed for it. A congestion control is a
 * constant structure of functions; its state is in the session:
 *
 *     start       once, when the session comes up
 *     acked       the peer has received packets, after this round trip: may raise or lower the
 *                 window
 *     lost        packets were lost: may lower the window
 *
 *     packets on the way < window   further packets are sent
 *     window < 1                    one packet at a time, 1 / window round trips between packets
 *
 * Thread rules: all functions are called on the thread of the endpoint, from leat_rpc_process() and
 * leat_rpc_poll(). They must not wait.
 */

#include <stdint.h>

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** State of a congestion control in one session. */
struct leat_rpc_cc_state {
	/**
	 * out: packets that may be on the way; values above the credits have no effect. 0 and less:
	 * one packet at a time, leat_rpc_conf.silence_us apart. For values between 0 and 1 the
	 * pause after a packet is at most that long, too.
	 */
	float window;
	uint64_t rtt_ns;  /**< smoothed round trip, ns, set by the library; 0: not known yet */
	uint64_t priv[6]; /**< the congestion control's own, zeroed before start */
};

/** A congestion control. */
struct leat_rpc_cc {
	const char *name; /**< for logs */
	/** Set the first window of a session. */
	void (*start)(struct leat_rpc_cc_state *st);
	/**
	 * Adapt the window to packets that the other side acknowledged.
	 * @param rtt_ns round trip of the last of these packets, without the time for which the
	 *   other side held the acknowledgement back; 0: it could not be measured
	 * @param packets number of packets acknowledged
	 * @param now_ns nanoseconds since the session came up
	 */
	void (*acked)(struct leat_rpc_cc_state *st, uint64_t rtt_ns, uint32_t packets,
		      uint64_t now_ns);
	/**
	 * Adapt the window to the loss of packets, which the library sends again. NULL: losses have
	 * no effect.
	 * @param now_ns nanoseconds since the session came up
	 */
	void (*lost)(struct leat_rpc_cc_state *st, uint64_t now_ns);
};

/**
 * Swift: a window that follows the round trip. The window grows while the round trip is below a
 * target; above the target it shrinks in proportion to the excess, once per round trip. The target
 * grows as the window shrinks, so that flows which share a bottleneck converge to equal shares. The
 * target is 25 us for a large window, and up to 100 us for a window of a tenth of a packet.
 *
 * Source: G. Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
 * Datacenter", SIGCOMM 2020; without the scaling by hops, since a datagram does not carry their
 * number.
 */
LEAT_API extern const struct leat_rpc_cc leat_rpc_cc_swift;

#ifdef __cplusplus
}
#endif

#endif /* LEAT_RPC_CC_H */
