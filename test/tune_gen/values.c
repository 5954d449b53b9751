/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The C side of test_agree.py: it reads a line, and writes a line.
 *
 *     s HEX            settings of every.toml       0 HEX, then each value as text, after a tab
 *     t NAME TEXT      a value as text              0 HEX
 *     r NUMBER...      a report, field by field     0 HEX
 *     m NUMBER HEX     a message of the protocol    0 HEX PAYLOAD
 *     j -              the schema                   JSON
 *
 * HEX of an answer is packed by the C code. For refused bytes or text the answer is the errno
 * alone, negative.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "every_tune.h"
#include "tune_protocol.h"
#include "tune_schema.h"

#define BYTES_MAX 4096

static const struct leat_tune_schema *const schema = &every_tune_schema;

static void
print_hex(const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t i;

	putchar(' ');
	for (i = 0; i < len; i++)
		printf("%02x", p[i]);
}

/* Return the bytes in an allocation of their exact length: a sanitizer sees a read after them. */
static uint8_t *
scan_hex(const char *text, size_t *len)
{
	unsigned int byte;
	uint8_t *data;
	size_t i;

	*len = strlen(text) / 2;
	data = malloc(*len > 0 ? *len : 1);
	if (data == NULL)
		exit(1);
	for (i = 0; i < *len; i++) {
		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			exit(1);
		data[i] = (uint8_t)byte;
	}
	return data;
}

static void
settings(const char *hex)
{
	struct every_tune_settings s;
	uint8_t buf[BYTES_MAX];
	char text[64];
	uint8_t *data;
	size_t len;
	unsigned int i;
	int ret;

	memcpy(&s, schema->defaults, sizeof(s));
	data = scan_hex(hex, &len);
	ret = leat_tune_unpack(schema, data, len, (UINT64_C(1) << schema->nb_settings) - 1, &s);
	free(data);
	printf("%d", ret);
	if (ret == 0) {
		leat_tune_pack(schema, true, &s, buf);
		print_hex(buf, schema->settings_size);
		for (i = 0; i < schema->nb_settings; i++) {
			leat_tune_format(schema, i, &s, text, sizeof(text));
			printf("\t%s", text);
		}
	}
}

static void
text(char *args)
{
	struct every_tune_settings s;
	char *value = strchr(args, ' ');
	uint8_t buf[BYTES_MAX];
	int ret;

	if (value == NULL)
		exit(1);
	*value++ = '\0';
	memcpy(&s, schema->defaults, sizeof(s));
	ret = leat_tune_setting_find(schema, args);
	if (ret >= 0)
		ret = leat_tune_parse(schema, (unsigned int)ret, value, &s);
	printf("%d", ret);
	if (ret == 0) {
		leat_tune_pack(schema, true, &s, buf);
		print_hex(buf, schema->settings_size);
	}
}

static uint64_t
next_number(char **args)
{
	char *word = strsep(args, " ");

	if (word == NULL)
		exit(1);
	return word[0] == '-' ? (uint64_t)strtoll(word, NULL, 10) : strtoull(word, NULL, 10);
}

static void
report(char *args)
{
	struct every_tune_report r;
	uint8_t buf[BYTES_MAX];
	unsigned int i;
	uint8_t *peer;
	char *word;
	size_t len;

	memset(&r, 0, sizeof(r));
	r.turns = next_number(&args);
	r.busy_ns = next_number(&args);
	r.depth = (int64_t)next_number(&args);
	r.load = tune_bits_to_real(next_number(&args));
	r.up = next_number(&args) == 1;
	r.policy = (uint32_t)next_number(&args);
	word = strsep(&args, " ");
	if (word == NULL)
		exit(1);
	peer = scan_hex(word, &len);
	memcpy(r.peer, peer, len < sizeof(r.peer) ? len : sizeof(r.peer) - 1);
	free(peer);
	r.latency.count = next_number(&args);
	r.latency.sum = next_number(&args);
	for (i = 0; i < LEAT_TUNE_BUCKETS; i++)
		r.latency.bucket[i] = next_number(&args);
	leat_tune_pack(schema, false, &r, buf);
	putchar('0');
	print_hex(buf, schema->reports_size);
}

#define MESSAGE(name, ...)                                                                         \
	{                                                                                          \
		struct tune_msg_##name m;                                                          \
                                                                                                   \
		ret = tune_msg_##name##_unpack(&m, data, len __VA_ARGS__);                         \
		if (ret == 0)                                                                      \
			size = tune_msg_##name##_pack(&m, buf, sizeof(buf));                       \
		break;                                                                             \
	}

static void
message(const char *args)
{
	const void *payload = NULL;
	size_t len, payload_len = 0;
	uint8_t buf[BYTES_MAX];
	uint8_t *data;
	char *hex;
	unsigned long number = strtoul(args, &hex, 10);
	int ret = -1, size = 0;

	data = scan_hex(hex + 1, &len);
	switch (number) {
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
	default:
		exit(1);
	}
	printf("%d", ret);
	if (ret == 0) {
		print_hex(buf, (size_t)size);
		print_hex(payload, payload_len);
	}
	free(data);
}

int
main(void)
{
	static char line[4 * BYTES_MAX];

	printf("%016" PRIx64 " %016" PRIx64 " %zu %zu\n", schema->hash, TUNE_PROTOCOL_HASH,
	       sizeof(struct every_tune_settings), sizeof(struct every_tune_report));
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '\0' || line[1] != ' ')
			return 1;
		switch (line[0]) {
		case 's':
			settings(line + 2);
			break;
		case 't':
			text(line + 2);
			break;
		case 'r':
			report(line + 2);
			break;
		case 'm':
			message(line + 2);
			break;
		case 'j':
			printf("%s", schema->json);
			break;
		default:
			return 1;
		}
		putchar('\n');
		fflush(stdout);
	}
	return 0;
}
