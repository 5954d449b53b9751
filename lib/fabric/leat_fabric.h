/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LEAT_FABRIC_H
#define LEAT_FABRIC_H

/**
 * @file
 * All of the fabric API: devices (leat_dev.h), endpoints (leat_ep.h), ops (leat_op.h), ordered
 * queues (leat_queue.h), memory (leat_mr.h).
 */

#include "leat_dev.h"
#include "leat_ep.h"
#include "leat_mr.h"
#include "leat_op.h"
#include "leat_queue.h"

#endif /* LEAT_FABRIC_H */
