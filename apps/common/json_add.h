/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef JSON_ADD_H
#define JSON_ADD_H

/*
 * Adding values to JSON objects of json-c. Object and value may be NULL, which is what json-c
 * returns when out of memory: then the value is freed and the call returns false. So callers build
 * a whole tree, join the results with &=, and check them once before they print.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

/* Add v to o, which then owns it; on failure v is freed. @return false: out of memory */
static inline bool
add(struct json_object *o, const char *key, struct json_object *v)
{
	if (o != NULL && v != NULL && json_object_object_add(o, key, v) == 0)
		return true;
	(void)json_object_put(v);
	return false;
}

/* Append v to a list, which then owns it; on failure v is freed. @return false: out of memory */
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

	/* none of the reported values is more precise than a millionth */
	snprintf(text, sizeof(text), "%.6f", v);
	return add(o, key, json_object_new_double_s(v, text));
}

static inline bool
add_bool(struct json_object *o, const char *key, bool v)
{
	return add(o, key, json_object_new_boolean(v));
}

/*
 * Print o to stdout and free it. ok false: o is incomplete, and is only freed.
 * @return 0, -ENOMEM (also if ok is false), -EIO
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
