/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Long messages, --long: requests and responses of several packets among smaller ones. They are a
 * separate kind, so that the buffers of small calls stay close together, and so that the latencies
 * of long calls are reported separately.
 */

#include "op.h"

const struct rb_op rb_op_long = {
	.name = "long",
	.prepare = rb_answered_prepare,
	.handle = rb_answered_handle,
	.finish = rb_answered_finish,
};
