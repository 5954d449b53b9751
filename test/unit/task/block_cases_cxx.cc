/* SPDX-License-Identifier: BSD-3-Clause */

#include "block_cases.c"
