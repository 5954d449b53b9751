/* SPDX-License-Identifier: BSD-3-Clause */

/* Ranges of IPv4 and IPv6 addresses. An IPv4-mapped IPv6 address counts as the IPv4 address. */

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../common/num.h"
#include "gw_pvt.h"

static bool
same_bits(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	const unsigned int bytes = bits / 8, rest = bits % 8;

	if (memcmp(a, b, bytes) != 0)
		return false;
	return rest == 0 || (a[bytes] ^ b[bytes]) >> (8 - rest) == 0;
}

/* Are all bits after the mask 0? */
static bool
is_network(const struct gw_cidr *c, unsigned int max)
{
	unsigned int i;

	for (i = c->bits; i < max; i++) {
		if ((c->addr[i / 8] & (0x80 >> i % 8)) != 0)
			return false;
	}
	return true;
}

int
gw_cidr_parse(const char *text, struct gw_cidr *cidr)
{
	const size_t len = strcspn(text, "/");
	unsigned int max = 32;
	char host[INET6_ADDRSTRLEN];
	uint64_t bits;

	memset(cidr, 0, sizeof(*cidr));
	if (len == 0 || len >= sizeof(host))
		return leat_err(EINVAL, "'%s' is not an address or a range (10.0.0.0/8)", text);
	memcpy(host, text, len);
	host[len] = '\0';
	cidr->family = AF_INET;
	if (inet_pton(AF_INET, host, cidr->addr) != 1) {
		max = 128;
		cidr->family = AF_INET6;
		if (inet_pton(AF_INET6, host, cidr->addr) != 1)
			return leat_err(EINVAL, "'%s' is not an address or a range (10.0.0.0/8)",
					text);
	}
	bits = max;
	if (text[len] == '/' && num_parse_count(text + len + 1, max, &bits) < 0)
		return leat_err(EINVAL, "'%s': after '/' a number of bits up to %u is needed", text,
				max);
	cidr->bits = (uint8_t)bits;
	if (!is_network(cidr, max))
		return leat_err(EINVAL, "'%s': bits are set after the first %u", text, cidr->bits);
	return 0;
}

bool
gw_cidr_has(const struct gw_cidr *cidr, uint32_t n, const struct sockaddr *sa)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;
	const struct sockaddr_in *in = (const struct sockaddr_in *)sa;
	uint8_t family = (uint8_t)sa->sa_family;
	const uint8_t *addr;
	uint32_t i;

	if (family == AF_INET) {
		addr = (const uint8_t *)&in->sin_addr;
	} else if (family != AF_INET6) {
		return false;
	} else if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
		family = AF_INET;
		addr = in6->sin6_addr.s6_addr + 12;
	} else {
		addr = in6->sin6_addr.s6_addr;
	}
	for (i = 0; i < n; i++) {
		if (cidr[i].family == family && same_bits(cidr[i].addr, addr, cidr[i].bits))
			return true;
	}
	return false;
}
