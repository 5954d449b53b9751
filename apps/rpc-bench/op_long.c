/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Long messages, --long: requests and responses of several packets among smaller ones. They are a
 * kind of their own, so that the buffers of small calls stay close together, and that their
 * latencies are reported separately.
 */

#include "op.h"

const struct rb_op rb_op_long = {
	.name = "long",
	.prepare = rb_answered_prepare,
	.handle = rb_answered_handle,
	.finish = rb_answered_finish,
};
