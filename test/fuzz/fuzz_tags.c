/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The parsers of the tag layer, fed with arbitrary bytes. Building an accepted message again must
 * give the same bytes; a hello may be followed by the caller's data, or by padding.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tags_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool ok)
{
	if (!ok)
		abort();
}

static void
segment(const uint8_t *data, size_t size)
{
	uint8_t out[TAGS_HDR_MAX];
	uint32_t hdr_len;
	struct tags_hdr h;

	if (tags_hdr_parse(data, size, &h) != NULL)
		return;
	hdr_len = tags_hdr_len(h.flags);
	check(size >= hdr_len);
	check(h.kind >= TAGS_EAGER && h.kind <= TAGS_BYE);
	check(tags_kind_class(h.kind) <= TAGS_CLASSES);
	if (h.kind == TAGS_EAGER)
		check(h.total == size - hdr_len);
	if (h.kind == TAGS_FIRST)
		check(h.total > size - hdr_len && size > hdr_len);
	tags_hdr_build(out, &h);
	check(memcmp(out, data, hdr_len) == 0);
}

static void
hello(const uint8_t *data, size_t size)
{
	uint8_t out[TAGS_HELLO_LEN];
	struct tags_hello h;

	if (tags_hello_parse(data, size, &h) != NULL)
		return;
	check(size >= TAGS_HELLO_LEN && h.priv_len <= size - TAGS_HELLO_LEN);
	check(h.segment >= TAGS_SEGMENT_MIN);
	tags_hello_build(out, &h);
	check(memcmp(out, data, TAGS_HELLO_LEN) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	segment(data, size);
	hello(data, size);
	return 0;
}
