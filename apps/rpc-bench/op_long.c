/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Long messages, --long: requests and responses of several packets among smaller ones. They are a
 * kind of their own so that their buffers do not pull those of small calls apart, and their
 * latencies are told apart.
 */

#include "op.h"

const struct rb_op rb_op_long = {
	.name = "long",
	.prepare = rb_answered_prepare,
	.handle = rb_answered_handle,
	.finish = rb_answered_finish,
};
