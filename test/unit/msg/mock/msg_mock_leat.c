/* SPDX-License-Identifier: BSD-3-Clause */

#include <string.h>

#include "msg_mock.h"

const uint8_t mm_hello[MM_HELLO_LEN] = {
	'L', 'M', 'S', 'G', 4, 0, 2, 0,	 0xab, 0x89, 0x67, 0x45, 0x23, 0x21, 0, 0,   0,
	0,   0,	  0,   1,   0, 0, 0, 64, 0,    0,    0,	   2,	 0,    0,    0, 'h', 'i',
};

uint8_t mm_in[128];

uint64_t
mm_head(uint64_t len, uint32_t credit, uint32_t granted, const char *data)
{
	uint64_t le = rte_cpu_to_le_64(len);

	credit = rte_cpu_to_le_32(credit);
	granted = rte_cpu_to_le_32(granted);
	memcpy(mm_in, &le, 8);
	memcpy(mm_in + 8, &credit, 4);
	memcpy(mm_in + 12, &granted, 4);
	memcpy(mm_in + 16, data, strlen(data) + 1);
	return 16 + strlen(data);
}

uint64_t
mm_base(uint16_t peer)
{
	unsigned int i;

	for (i = 0; i < mock.nb_ops; i++) {
		const struct leat_op *op = mock.ops[i];

		if (op->peer == peer && op->type == LEAT_OP_TRECV && op->tag >> 62 == 1)
			return op->tag & ~(UINT64_C(3) << 62) & ~UINT64_C(0xffff);
	}
	fail_msg("no receive");
	return 0;
}

struct leat_msg_conn *
mm_open_leat(struct mm *mm, uint32_t first_id)
{
	const struct leat_msg_conn_conf conf = { .mode = LEAT_MSG_LEAT, .first_id = first_id };
	struct leat_msg_conn *c = mm_connect(mm, &conf, mm_hello, sizeof(mm_hello));

	assert_int_equal(leat_msg_conn_mode(c), LEAT_MSG_LEAT);
	return c;
}
