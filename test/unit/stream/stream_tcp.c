/* SPDX-License-Identifier: BSD-3-Clause */

#include "stream_pair.h"

const char *const pair_tcp_vdev = PAIR_TCP ",provider=tcp,src=127.0.0.1";
