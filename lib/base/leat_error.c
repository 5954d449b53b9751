/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "leat_error.h"

static __thread char err_msg[LEAT_ERR_MSG_MAX + 1];

int
leat_err(int err, const char *fmt, ...)
{
	/* Format into a buffer first: an argument may be err_msg itself. */
	char msg[sizeof(err_msg)];
	va_list ap;
	int len;

	if (err == 0 || err == INT_MIN)
		err = EINVAL;
	else if (err < 0)
		err = -err;

	va_start(ap, fmt);
	len = vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);

	if (len < 0)
		snprintf(err_msg, sizeof(err_msg), "error %d (its message can't be formatted)",
			 err);
	else
		memcpy(err_msg, msg, strlen(msg) + 1);

	rte_errno = err;
	return -err;
}

const char *
leat_err_msg(void)
{
	return err_msg;
}
