/* SPDX-License-Identifier: BSD-3-Clause */

#include "leave_cases.c"
