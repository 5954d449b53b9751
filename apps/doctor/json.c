/* SPDX-License-Identifier: BSD-3-Clause */

/* --json. leat-doctor(1) describes the fields. */

#include <string.h>

#include <leat_version.h>

#include "../common/json_add.h"
#include "doctor.h"

#define DR_JSON_VERSION 1

static struct json_object *
finding(const struct dr_finding *f)
{
	struct json_object *o = json_object_new_object();
	const char *id = f->check->id;
	bool ok;

	ok = add_str(o, "check", id);
	ok &= add(o, "group", json_object_new_string_len(id, (int)strcspn(id, ".")));
	ok &= add_str(o, "severity", dr_severity_name(f->severity));
	ok &= add_str(o, "subject", f->subject);
	ok &= add_str(o, "seen", f->seen);
	ok &= add_str(o, "means", f->means);
	ok &= add_str(o, "mend", f->mend);
	if (ok)
		return o;
	(void)json_object_put(o);
	return NULL;
}

int
dr_json(const struct dr *d)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array(),
			   *summary = json_object_new_object();
	unsigned int i;
	bool ok;

	ok = add_str(o, "schema", DR_NAME);
	ok &= add(o, "version", json_object_new_int(DR_JSON_VERSION));
	ok &= add_str(o, "leat", LEAT_VERSION);
	for (i = 0; i < d->nb; i++)
		ok &= append(list, finding(&d->findings[i]));
	ok &= add(o, "findings", list);
	for (i = 0; i < DR_SEVERITIES; i++)
		ok &= add(summary, dr_severity_name((enum dr_severity)i),
			  json_object_new_int64(d->count[i]));
	ok &= add(summary, "left_out", json_object_new_int64(d->left_out));
	ok &= add(o, "summary", summary);
	ok &= add(o, "exit", json_object_new_int(dr_exit_code(d)));
	return json_print(o, ok);
}

int
dr_json_list(void)
{
	struct json_object *list = json_object_new_array(), *o;
	const struct dr_group *g;
	const struct dr_check *c;
	bool ok = true;

	for (g = dr_groups; g->name != NULL; g++) {
		for (c = g->checks; c->id != NULL; c++) {
			o = json_object_new_object();
			ok &= add_str(o, "check", c->id);
			ok &= add_str(o, "group", g->name);
			ok &= add_str(o, "about", c->about);
			ok &= append(list, o);
		}
	}
	return json_print(list, ok);
}
