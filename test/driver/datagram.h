/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef CT_DATAGRAM_H
#define CT_DATAGRAM_H

/*
 * Helpers for the tests of datagram endpoints. These make the same promises as reliable ones,
 * except that datagrams can be lost, duplicated or reordered: the tests require that every op of
 * the sender completes, and that every datagram that arrives is whole. The first word of each
 * datagram identifies it (CT_SELF).
 */

#include "ct.h"

#define MS 1000

static inline struct ct_spec
recv_of(uint32_t count)
{
	return (struct ct_spec){ .type = LEAT_OP_RECV,
				 .peer = LEAT_PEER_ANY,
				 .count = count,
				 .bufsize = ct.info.max_msg,
				 .check = CT_SELF };
}

static inline struct ct_spec
send_of(uint16_t peer, uint32_t count, uint64_t seed)
{
	return (struct ct_spec){ .type = LEAT_OP_SEND,
				 .peer = peer,
				 .count = count,
				 .size = 8,
				 .size_max = ct.info.max_msg,
				 .seed = seed };
}

/*
 * Let the far side poll for a while, with no receive posted, so that it drops duplicate and late
 * datagrams.
 */
static inline void
drop_late_datagrams(struct ct_side *to)
{
	unsigned int i;

	for (i = 0; i < 3; i++) {
		ct_pump();
		(void)ct_state(to);
	}
}

/*
 * Send one datagram for one receive, and again if it does not arrive. res: the outcome of the
 * receive.
 */
static inline void
send_until_received(struct ct_side *from, struct ct_side *to, const struct ct_spec *s,
		    const struct ct_spec *r, struct ct_result *res)
{
	unsigned int i;
	int rx;

	drop_late_datagrams(to);
	rx = ct_stream(to, r);
	ct_wait_posted(to, rx, 1);
	for (i = 0; i < 40; i++) {
		ct_wait_ok(from, ct_stream(from, s), 1);
		if (ct_try_wait(to, rx, 1, 500 * ct.slow, res))
			return;
	}
	CT_FAIL("%s: a datagram of %" PRIu64 " B was sent %u times and never came", to->what,
		s->size, i);
}

#define CT_DATAGRAM_TEST(nm, function, ...)                                                        \
	{                                                                                          \
		.name = "datagram." nm, .fn = function, .ops = SR, .types = CT_DATAGRAM,           \
		##__VA_ARGS__                                                                      \
	}

#endif /* CT_DATAGRAM_H */
