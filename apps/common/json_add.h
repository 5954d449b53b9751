/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef JSON_ADD_H
#define JSON_ADD_H

/*
 * Adding to JSON objects of json-c that may not exist, since there was no memory: then what was to be added is freed.
 * So the results of many may be joined with &=, and looked at once, before the whole is printed.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

/* v is o's from here on, or freed. @return false: no memory */
static inline bool
add(struct json_object *o, const char *key, struct json_object *v)
{
	if (o != NULL && v != NULL && json_object_object_add(o, key, v) == 0)
		return true;
	(void)json_object_put(v);
	return false;
}

/* The same at the end of a list. */
static inline bool
append(struct json_object *list, struct json_object *v)
{
	if (list != NULL && v != NULL && json_object_array_add(list, v) == 0)
		return true;
	(void)json_object_put(v);
	return false;
}

static inline bool
add_str(struct json_object *o, const char *key, const char *v)
{
	return add(o, key, json_object_new_string(v));
}

static inline bool
add_u64(struct json_object *o, const char *key, uint64_t v)
{
	return add(o, key, json_object_new_uint64(v));
}

static inline bool
add_real(struct json_object *o, const char *key, double v)
{
	char text[64];

	/* a millionth is below what any of them is good for */
	snprintf(text, sizeof(text), "%.6f", v);
	return add(o, key, json_object_new_double_s(v, text));
}

static inline bool
add_bool(struct json_object *o, const char *key, bool v)
{
	return add(o, key, json_object_new_boolean(v));
}

/*
 * Prints o to stdout, unless there was no memory for all of it (ok is false), and frees it.
 * @return 0 or a negative errno
 */
static inline int
json_print(struct json_object *o, bool ok)
{
	const char *s = ok ? json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY |
								       JSON_C_TO_STRING_SPACED)
			   : NULL;
	int ret = 0;

	if (s == NULL)
		ret = -ENOMEM;
	else if (printf("%s\n", s) < 0 || fflush(stdout) != 0)
		ret = -EIO;
	(void)json_object_put(o);
	return ret;
}

#endif /* JSON_ADD_H */
