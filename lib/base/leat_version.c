/* SPDX-License-Identifier: BSD-3-Clause */

#include "leat_version.h"

const char *
leat_version(void)
{
	return LEAT_VERSION;
}
