/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdio.h>
#include <stdlib.h>

#include <leat_error.h>

#include "property.h"

static uint8_t *block; /* all memory of the buffers; it begins with the random bytes */
static size_t block_len;
static uint8_t *big[BIG_BUFFERS], *big_all;
static unsigned int nb_big;
/* NULL: small buffers are allocated one by one */
static uint8_t *small_all, **spare;
static size_t nb_small, nb_spare;

void
memory_make(size_t nb)
{
	struct leat_dev *dev = leat_dev_get(leat_dev_count() - 1);
	struct leat_dev_info info;
	size_t i;

	if (dev == NULL || leat_dev_info_get(dev, &info) < 0) {
		fprintf(stderr, "no device: --vdev=...\n");
		exit(1);
	}
	nb_small = nb;
	block_len = MAX_SIZE + OFFSETS + (size_t)BIG_BUFFERS * MAX_SIZE;
	/* Small buffers: one for each receive, and one for each that asks memory_alloc(). */
	block = malloc(block_len + (info.mr_local ? 2 * nb_small * SMALL : 0));
	spare = calloc(nb_small, sizeof(*spare));
	if (block == NULL || spare == NULL) {
		fprintf(stderr, "no memory\n");
		exit(1);
	}
	for (i = 0; i < (MAX_SIZE + OFFSETS) / 8; i++)
		((uint64_t *)(void *)block)[i] = hash(i);
	big_all = block + MAX_SIZE + OFFSETS;
	for (nb_big = 0; nb_big < BIG_BUFFERS; nb_big++)
		big[nb_big] = big_all + (size_t)nb_big * MAX_SIZE;
	if (!info.mr_local)
		return;
	small_all = block + block_len;
	block_len += 2 * nb_small * SMALL;
	for (nb_spare = 0; nb_spare < nb_small; nb_spare++)
		spare[nb_spare] = small_all + (nb_small + nb_spare) * SMALL;
}

void
memory_free(void)
{
	free(spare);
	free(block);
}

struct leat_mr *
memory_register(struct leat_ep *ep)
{
	return leat_mr_register(ep, block, block_len, 0);
}

uint8_t *
memory_bytes(uint64_t offset)
{
	return block + offset;
}

uint8_t *
memory_small(size_t i)
{
	return small_all != NULL ? small_all + i * SMALL : malloc(SMALL);
}

void
memory_small_put(uint8_t *buf)
{
	if (small_all == NULL)
		free(buf);
}

void *
memory_alloc(void *arg, uint64_t len, struct leat_mr **mr)
{
	const struct side *side = arg;

	*mr = side->mr;
	if (len > SMALL)
		return nb_big > 0 ? big[--nb_big] : NULL;
	if (small_all != NULL)
		return nb_spare > 0 ? spare[--nb_spare] : NULL;
	return malloc(len);
}

void
memory_put(uint8_t *buf)
{
	if (buf >= big_all && buf < big_all + (size_t)BIG_BUFFERS * MAX_SIZE)
		big[nb_big++] = buf;
	else if (small_all != NULL)
		spare[nb_spare++] = buf;
	else
		free(buf);
}

unsigned int
memory_nb_big(void)
{
	return nb_big;
}
