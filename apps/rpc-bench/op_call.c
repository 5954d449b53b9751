/* SPDX-License-Identifier: BSD-3-Clause */

/* Calls of --size and --resp-size, and the table of all kinds. */

#include "op.h"

const struct rb_op rb_op_call = {
	.name = "call",
	.prepare = rb_answered_prepare,
	.handle = rb_answered_handle,
	.finish = rb_answered_finish,
};

const struct rb_op *const rb_ops[RB_KINDS] = {
	[RB_CALL] = &rb_op_call,
	[RB_ONEWAY] = &rb_op_oneway,
	[RB_LONG] = &rb_op_long,
	[RB_BULK] = &rb_op_bulk,
};
