/* SPDX-License-Identifier: BSD-3-Clause */

/* A libpmix.so.2 that lacks most of the functions that leat uses. */

#define EXPORT __attribute__((visibility("default")))

EXPORT const char *PMIx_Get_version(void);
EXPORT const char *
PMIx_Get_version(void)
{
	return "lacking 1.0";
}
