/* SPDX-License-Identifier: BSD-3-Clause */

/* The names of ops, for errors and logs. */

#include "leat_op.h"

const char *
leat_op_type_name(unsigned int type)
{
	static const char *const names[LEAT_OP_TYPES] = {
		[LEAT_OP_SEND] = "send",	 [LEAT_OP_RECV] = "recv",
		[LEAT_OP_TSEND] = "tsend",	 [LEAT_OP_TRECV] = "trecv",
		[LEAT_OP_WRITE] = "write",	 [LEAT_OP_WRITE_IMM] = "write_imm",
		[LEAT_OP_READ] = "read",	 [LEAT_OP_FETCH_ADD] = "fetch_add",
		[LEAT_OP_CMP_SWAP] = "cmp_swap",
	};

	return type < LEAT_OP_TYPES ? names[type] : "?";
}
