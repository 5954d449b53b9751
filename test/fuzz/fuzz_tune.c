/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The parsers of bytes from agents: messages of the protocol, settings in them, and values as text,
 * as settings files have them. Packing or printing an accepted value must give what was parsed.
 *
 *     byte 0     0: a mask of 8 bytes, then settings of every.toml
 *                1: the number of a setting, then its value as text
 *                else: a message of the protocol
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <leat_error.h>
#include <leat_le.h>

#include "every_tune.h"
#include "tune_protocol.h"
#include "tune_schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES_MAX 1024

static const struct leat_tune_schema *const schema = &every_tune_schema;

static void
check(bool ok)
{
	if (!ok)
		abort();
}

/* ---- functions of the library's other files ---- */

int
leat_err(int err, const char *fmt, ...)
{
	static char text[512];
	va_list ap;

	/* Format the message, so that a sanitizer sees its arguments read. */
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return -err;
}

void
leat_tune_schema_register(const struct leat_tune_schema *registered)
{
	check(registered == schema);
}

/* ---- the parsers under test ---- */

/* The settings must be unchanged. */
static void
check_default(const struct every_tune_settings *s)
{
	uint8_t is[BYTES_MAX], was[BYTES_MAX];

	leat_tune_pack(schema, true, s, is);
	leat_tune_pack(schema, true, schema->defaults, was);
	check(memcmp(is, was, schema->settings_size) == 0);
}

static void
settings(const uint8_t *data, size_t size)
{
	const struct leat_tune_field *f;
	struct every_tune_settings s;
	uint8_t buf[BYTES_MAX];
	uint64_t mask;
	uint32_t i;

	if (size < 8)
		return;
	mask = leat_get_le64(data);
	data += 8;
	memcpy(&s, schema->defaults, sizeof(s));
	if (leat_tune_unpack(schema, data, size - 8, mask, &s) < 0) {
		check_default(&s);
		return;
	}
	leat_tune_pack(schema, true, &s, buf);
	for (i = 0; i < schema->nb_settings; i++) {
		f = &schema->settings[i];
		if ((mask >> i & 1) != 0)
			check(memcmp(buf + f->offset, data + f->offset, f->size) == 0);
	}
}

static void
text(const uint8_t *data, size_t size)
{
	struct every_tune_settings s, again;
	char in[BYTES_MAX], out[BYTES_MAX];
	unsigned int setting;

	if (size == 0 || size > sizeof(in))
		return;
	setting = data[0] % (schema->nb_settings + 1);
	memcpy(in, data + 1, size - 1);
	in[size - 1] = '\0';
	memcpy(&s, schema->defaults, sizeof(s));
	memcpy(&again, schema->defaults, sizeof(again));
	if (leat_tune_parse(schema, setting, in, &s) < 0) {
		check_default(&s);
		return;
	}
	check(leat_tune_format(schema, setting, &s, out, sizeof(out)) < (int)sizeof(out));
	check(leat_tune_parse(schema, setting, out, &again) == 0);
	check(tune_value_get(&schema->settings[setting], &s) ==
	      tune_value_get(&schema->settings[setting], &again));
}

#define MESSAGE(name, ...)                                                                         \
	{                                                                                          \
		struct tune_msg_##name m;                                                          \
                                                                                                   \
		if (tune_msg_##name##_unpack(&m, data, size __VA_ARGS__) < 0)                      \
			return;                                                                    \
		len = tune_msg_##name##_pack(&m, buf, sizeof(buf));                                \
		break;                                                                             \
	}

static void
message(uint8_t which, const uint8_t *data, size_t size)
{
	static const enum tune_msg numbers[] = { TUNE_MSG_HELLO,   TUNE_MSG_WATCH,
						 TUNE_MSG_SET,	   TUNE_MSG_RELEASE,
						 TUNE_MSG_WELCOME, TUNE_MSG_ANSWER,
						 TUNE_MSG_SAMPLE };
	const void *payload = data + size;
	size_t payload_len = 0;
	uint8_t buf[BYTES_MAX];
	int len = 0;

	switch (numbers[which % RTE_DIM(numbers)]) {
	case TUNE_MSG_HELLO:
		MESSAGE(hello, )
	case TUNE_MSG_WATCH:
		MESSAGE(watch, )
	case TUNE_MSG_SET:
		MESSAGE(set, , &payload, &payload_len)
	case TUNE_MSG_RELEASE:
		MESSAGE(release, )
	case TUNE_MSG_WELCOME:
		MESSAGE(welcome, )
	case TUNE_MSG_ANSWER:
		MESSAGE(answer, , &payload, &payload_len)
	case TUNE_MSG_SAMPLE:
		MESSAGE(sample, , &payload, &payload_len)
	}
	check(len > 0 && (size_t)len + payload_len == size);
	check((const uint8_t *)payload + payload_len == data + size);
	check(memcmp(buf, data, (size_t)len) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] == 0)
		settings(data + 1, size - 1);
	else if (data[0] == 1)
		text(data + 1, size - 1);
	else
		message((uint8_t)(data[0] - 2), data + 1, size - 1);
	return 0;
}
