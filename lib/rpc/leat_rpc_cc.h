/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_RPC_CC_H
#define LEAT_RPC_CC_H

/**
 * @file
 * Congestion control of sessions over datagram endpoints: how many packets may be on the way.
 *
 * A session has none, unless leat_rpc_session_conf.cc names one; then credits alone bound it, and
 * nothing is measured or computed for it. One is a constant with functions; its state is in the
 * session:
 *
 *     start       once, when the session comes up
 *     acked       packets have arrived there, and how long that took: may raise or lower the window
 *     lost        packets were lost: may lower it
 *
 *     on the way < window           packets go
 *     window < 1                    one packet at a time, and 1 / window round trips between two
 *
 * Thread rules: all is called on the thread of the endpoint, from within leat_rpc_process() and
 * leat_rpc_poll(). It must not wait.
 */

#include <stdint.h>

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a congestion control keeps per session. */
struct leat_rpc_cc_state {
	float window; /**< out: packets that may be on the way; more than credits changes nothing */
	uint64_t rtt_ns;  /**< smoothed round trip, ns; 0: not known yet. Kept by the library */
	uint64_t priv[6]; /**< its own, zeroed before start */
};

/** A congestion control. */
struct leat_rpc_cc {
	const char *name; /**< for people */
	void (*start)(struct leat_rpc_cc_state *st);
	/**
	 * @param rtt_ns round trip of the last of these packets, without the time that the other
	 *   side kept the acknowledgement back; 0: it could not be measured
	 * @param packets how many
	 * @param now_ns a clock of the session's own
	 */
	void (*acked)(struct leat_rpc_cc_state *st, uint64_t rtt_ns, uint32_t packets,
		      uint64_t now_ns);
	void (*lost)(struct leat_rpc_cc_state *st, uint64_t now_ns);
};

/**
 * Swift: a window that follows the round trip, up while that is below a target, down in proportion
 * to how much it is above, once per round trip. The target grows as the window shrinks, so that
 * flows which share a bottleneck come to equal shares. Target for a large window: 25 us, up to
 * 100 us for one of a tenth of a packet.
 *
 * Source: G. Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
 * Datacenter", SIGCOMM 2020; without the scaling by hops, as a datagram does not tell them.
 */
LEAT_API extern const struct leat_rpc_cc leat_rpc_cc_swift;

#ifdef __cplusplus
}
#endif

#endif /* LEAT_RPC_CC_H */
