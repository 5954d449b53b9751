/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TUNE_DRIVE_H
#define TUNE_DRIVE_H

/*
 * Changes and reports of objects, requested by the test in the place of the control thread: the
 * test decides what an agent requests, and when the owner serves it.
 *
 *     tune_ask(r->tune, "spin_us", "10", NULL)    as an agent's change arrives
 *     leat_reactor_turn(r)                        the owner serves the change
 *     tune_answer(r->tune)                        0, or the errno of the refusal; tune_text() has
 *                                                 its text
 *
 * No control thread may run: start leat with --no-tune.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_common.h>

#include <leat_tune.h>

#include "leat_cmocka.h"
#include "tune_pvt.h"

static inline struct tune_object *
tune_private(struct leat_tune_object *object)
{
	assert_non_null(object);
	return container_of(object, struct tune_object, pub);
}

/*
 * Request a change: pairs of names and values, ended by NULL. @return 0, or the errno that the
 * agent gets at once
 */
static inline int
tune_ask(struct leat_tune_object *object, ...)
{
	struct tune_object *o = tune_private(object);
	const struct leat_tune_schema *schema = o->conf.schema;
	const char *name, *value;
	va_list ap;
	int ret = 0;

	memcpy(o->change_want, o->current, schema->settings_c_size);
	o->change_mask = 0;
	va_start(ap, object);
	while (ret == 0 && (name = va_arg(ap, const char *)) != NULL) {
		int i = leat_tune_setting_find(schema, name);

		value = va_arg(ap, const char *);
		assert_true(i >= 0);
		ret = leat_tune_parse(schema, (unsigned int)i, value, o->change_want);
		o->change_mask |= UINT64_C(1) << i;
	}
	va_end(ap);
	if (ret == 0)
		ret = leat_tune_check(schema, o->change_want, o->change_mask, false);
	if (ret < 0)
		return ret;
	o->change_done = 0;
	__atomic_fetch_or(&o->pub.pending, TUNE_PENDING_APPLY, __ATOMIC_RELEASE);
	return 0;
}

/* @return the answer to the change; the owner must have served it */
static inline int
tune_answer(struct leat_tune_object *object)
{
	struct tune_object *o = tune_private(object);

	assert_int_equal(o->change_done, 1);
	if (o->change_status == 0) {
		void *old = o->current;

		o->current = o->change_want;
		o->change_want = old;
	}
	return o->change_status;
}

static inline const char *
tune_text(struct leat_tune_object *object)
{
	return tune_private(object)->change_text;
}

/* @return the settings as agents see them */
static inline const void *
tune_current(struct leat_tune_object *object)
{
	return tune_private(object)->current;
}

static inline void
tune_report(struct leat_tune_object *object, void *report)
{
	const struct tune_object *o = tune_private(object);

	memset(report, 0, o->conf.schema->reports_c_size);
	o->conf.report(o->conf.arg, report);
}

/*
 * Read row i of the object's rows, as for an agent.
 * @return what leat_tune_conf.row returns; if not 1, *name is ""
 */
static inline int
tune_row(struct leat_tune_object *object, uint32_t i, char *name, void *report)
{
	const struct tune_object *o = tune_private(object);
	struct leat_tune_row row = { .report = report };
	int ret;

	memset(report, 0, o->conf.row_schema->reports_c_size);
	ret = o->conf.row(o->conf.arg, i, &row);
	snprintf(name, LEAT_TUNE_OBJECT_NAME_MAX, "%s", row.name);
	return ret;
}

/* Until tune_file_end(), objects that are created get these settings. */
static inline void
tune_file_begin(const char *text)
{
	char path[] = "/tmp/leat-test-settings-XXXXXX";
	const struct leat_tune_start_conf conf = { .settings = path, .off = true };
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(close(fd), 0);
	/* Stop the session of leat_init(), which has neither agents nor a file. */
	leat_tune_stop();
	assert_int_equal(leat_tune_start(&conf), 0);
	assert_int_equal(unlink(path), 0);
}

static inline void
tune_file_end(void)
{
	leat_tune_stop();
}

#endif /* TUNE_DRIVE_H */
