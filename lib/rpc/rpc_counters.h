/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPC_COUNTERS_H
#define RPC_COUNTERS_H

/*
 * Counters that both telemetry and lib/tune report: members of struct leat_rpc_stats, in its order,
 * and of struct rpc_tune_report.
 */
#define RPC_COUNTERS(X)                                                                            \
	X(posted)                                                                                  \
	X(done)                                                                                    \
	X(cancelled)                                                                               \
	X(expired)                                                                                 \
	X(late)                                                                                    \
	X(handled)                                                                                 \
	X(refused)                                                                                 \
	X(busy)                                                                                    \
	X(unwaited)                                                                                \
	X(packets_sent)                                                                            \
	X(packets_received)                                                                        \
	X(items_sent)                                                                              \
	X(credit_packets)                                                                          \
	X(retransmissions)                                                                         \
	X(probes)                                                                                  \
	X(duplicates)                                                                              \
	X(refusals)                                                                                \
	X(retries)                                                                                 \
	X(reconnects)                                                                              \
	X(pulled)                                                                                  \
	X(pushed)                                                                                  \
	X(by_message)

#endif /* RPC_COUNTERS_H */
