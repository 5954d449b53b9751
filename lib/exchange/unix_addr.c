/* SPDX-License-Identifier: BSD-3-Clause */

/* Addresses of UNIX sockets: parse them, and form their socket addresses. */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exchange_names.h"
#include "leat_error.h"

#define NAME_LEN 64

static const char name_chars[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

void
exchange_unix_port(char name[EXCHANGE_NAME_MAX], unsigned int port)
{
	snprintf(name, EXCHANGE_NAME_MAX, "port-%u", port);
}

int
exchange_unix_parse(const struct leat_exchange *x, const char *addr, bool passive,
		    struct exchange_unix_addr *un)
{
	unsigned long number;
	char port[8];
	size_t len;
	int ret;

	if (addr == NULL || addr[0] == '\0')
		return leat_err(EINVAL, "%s: an address is needed, a name or like localhost:7000",
				x->name);
	if (strlen(addr) > LEAT_EXCHANGE_ADDR_MAX - sizeof(":65535"))
		return leat_err(EINVAL, "%s: address '%.80s...' is too long", x->name, addr);
	un->name[0] = '\0';
	un->has_port = strchr(addr, ':') != NULL;
	if (!un->has_port) {
		len = strlen(addr);
		if (len > NAME_LEN || addr[0] == '.' || strspn(addr, name_chars) != len)
			return leat_err(EINVAL,
					"%s: '%.80s' is no name: 1 to %d letters, digits, '.', "
					"'_', '-', not beginning with '.'; nor host:port",
					x->name, addr, NAME_LEN);
		snprintf(un->name, sizeof(un->name), "name-%s", addr);
		return 0;
	}
	ret = leat_addr_split(addr, true, un->host, sizeof(un->host), port, sizeof(port));
	if (ret != 0)
		return ret;
	number = strtoul(port, NULL, 10);
	if (number == 0 && !passive)
		return leat_err(EINVAL, "port of address '%.80s' is not a number 1..65535", addr);
	if (number != 0)
		exchange_unix_port(un->name, (unsigned int)number);
	return 0;
}

int
exchange_unix_here(const struct leat_exchange *x, const struct exchange_unix_addr *un)
{
	if (!un->has_port || exchange_host_here(un->host))
		return 0;
	return leat_err(
		EHOSTUNREACH,
		"%s: host '%.80s': this device reaches processes of this machine only; write "
		"localhost, this host's name, or an address of it",
		x->name, un->host);
}

int
exchange_unix_sockaddr(const struct leat_exchange *x, const char *name, struct sockaddr_un *sun)
{
	const char *dir = x->names.dir;
	int len;

	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	len = snprintf(sun->sun_path, sizeof(sun->sun_path), "%s/%s", dir, name);
	if (len < 0 || (size_t)len >= sizeof(sun->sun_path))
		return leat_err(ENAMETOOLONG,
				"%s: the path %.110s/%.80s of a UNIX socket has more than %zu "
				"characters; choose a shorter name or directory",
				x->name, dir, name, sizeof(sun->sun_path) - 1);
	len += (int)offsetof(struct sockaddr_un, sun_path);
	/* An abstract name begins with NUL; it is not terminated, its length is passed instead. */
	if (!exchange_names_abstract(&x->names))
		return len + 1;
	sun->sun_path[0] = '\0';
	return len;
}
