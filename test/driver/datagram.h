/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef CT_DATAGRAM_H
#define CT_DATAGRAM_H

/*
 * For the tests of datagram endpoints. The promises are the same, but what is sent may be lost, doubled or
 * overtaken: so the tests hold the sender to its ops, and the receiver to what came. Each datagram tells in its
 * first word which one it is (CT_SELF), so whatever came must be whole.
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

/* What was sent twice, or late, and met no receive is gone when the other side has polled. */
static inline void
settle(struct ct_side *to)
{
	unsigned int i;

	for (i = 0; i < 3; i++) {
		ct_pump();
		(void)ct_state(to);
	}
}

/* One datagram for one receive; sent again if it does not come. The receive's outcome is in res. */
static inline void
one(struct ct_side *from, struct ct_side *to, const struct ct_spec *s, const struct ct_spec *r,
    struct ct_result *res)
{
	unsigned int i;
	int rx;

	settle(to);
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
