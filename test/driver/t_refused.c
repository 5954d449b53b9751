/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Promise 5, calls: a call that can't be carried out is refused at once, with an errno and a text
 * that names device and cause.
 */

#include "ct.h"

static void
names(const char *text, const char *word, const char *what)
{
	CT_CHECK(strstr(text, word) != NULL, "the message for %s does not name '%s': \"%s\"", what,
		 word, text);
}

static void
create_refused(const struct leat_ep_conf *conf, int want, const char *word, const char *what)
{
	struct leat_ep *ep;

	rte_errno = 0;
	ep = leat_ep_create(ct.dev, conf);
	if (ep != NULL) {
		(void)leat_ep_close(ep, 1000, NULL, NULL);
		CT_FAIL("%s was not refused", what);
	}
	CT_EQ(rte_errno, want, what);
	names(leat_err_msg(), ct.info.name, what);
	if (word != NULL)
		names(leat_err_msg(), word, what);
}

static void
configure(void)
{
	struct leat_dev_info all;
	struct leat_ep_conf c;
	unsigned int type;

	CT_EQ(leat_dev_info_get(ct.dev, &all), 0, "device info");
	for (type = 0; type < LEAT_OP_TYPES; type++) {
		if ((all.ops & LEAT_OP_BIT(type)) != 0)
			continue;
		c = (struct leat_ep_conf){ .type = ct.type, .ops = all.ops | LEAT_OP_BIT(type) };
		create_refused(&c, EOPNOTSUPP, leat_op_type_name(type),
			       "an op that the device can't do");
	}
	c = (struct leat_ep_conf){ .type = ct.type, .ops = LEAT_OP_BIT(LEAT_OP_TYPES) };
	create_refused(&c, EINVAL, NULL, "an op type that does not exist");
	c = (struct leat_ep_conf){ .type = ct.type, .tx_depth = ct.info.tx_depth_max + 1 };
	create_refused(&c, EINVAL, NULL, "a send depth beyond the limit");
	c = (struct leat_ep_conf){ .type = ct.type, .rx_depth = ct.info.rx_depth_max + 1 };
	create_refused(&c, EINVAL, NULL, "a receive depth beyond the limit");
	if (ct.info.max_peers < UINT16_MAX) {
		c = (struct leat_ep_conf){ .type = ct.type,
					   .ops = ct.info.ops,
					   .max_peers = (uint16_t)(ct.info.max_peers + 1) };
		create_refused(&c, EINVAL, NULL, "more peers than the limit");
	}
	if ((ct.info.ep_types & (1u << LEAT_EP_DATAGRAM)) == 0) {
		c = (struct leat_ep_conf){ .type = LEAT_EP_DATAGRAM };
		create_refused(&c, EOPNOTSUPP, NULL, "a datagram endpoint");
	}
	if ((ct.info.ep_types & (1u << LEAT_EP_RELIABLE)) == 0) {
		c = (struct leat_ep_conf){ .type = LEAT_EP_RELIABLE };
		create_refused(&c, EOPNOTSUPP, "LEAT_EP_DATAGRAM", "a reliable endpoint");
	}
	c = (struct leat_ep_conf){ .type = (enum leat_ep_type)9 };
	rte_errno = 0;
	CT_CHECK(leat_ep_create(ct.dev, &c) == NULL, "endpoint type 9 was not refused");
	CT_CHECK(rte_errno == EINVAL || rte_errno == EOPNOTSUPP, "rte_errno %d", rte_errno);
}

/* The limits that the device reports are consistent. */
static void
info(void)
{
	const struct leat_dev_info *i = &ct.info;

	CT_CHECK(i->name[0] != '\0' && i->driver[0] != '\0', "no name");
	CT_CHECK((i->ops & ~LEAT_OP_MASK_ALL) == 0 && i->ops != 0, "ops %x", i->ops);
	CT_CHECK(i->ep_types != 0, "no endpoint types");
	CT_CHECK(i->tx_depth > 0 && i->tx_depth <= i->tx_depth_max, "tx_depth %u of %u",
		 i->tx_depth, i->tx_depth_max);
	CT_CHECK(i->rx_depth > 0 && i->rx_depth <= i->rx_depth_max, "rx_depth %u of %u",
		 i->rx_depth, i->rx_depth_max);
	CT_CHECK(i->max_peers > 0 && i->max_peers <= UINT16_MAX, "max_peers %u", i->max_peers);
	CT_CHECK(i->max_msg > 0 && i->inline_max <= i->max_msg, "inline_max %u", i->inline_max);
	CT_CHECK(i->dead_peer_ms > 0 || ct.type == LEAT_EP_DATAGRAM, "dead_peer_ms 0");
	CT_CHECK(i->imm_size == 4 || i->imm_size == 8 ||
			 ((i->ops & LEAT_OP_BIT(LEAT_OP_WRITE_IMM)) == 0 && !i->send_imm),
		 "imm_size %u", i->imm_size);
}

/* The smallest and the largest endpoint that the device offers can be created and used. */
static void
limits_work(void)
{
	struct ct_conf conf = { .tx_depth = 1, .rx_depth = 1, .max_peers = 1 };
	struct ct_pair p;

	ct_pair_open(&p, &conf, &conf);
	ct_traffic(&p.a, p.pa, &p.b, 50, 0, 5000, 1);
	ct_traffic(&p.b, p.pb, &p.a, 50, 0, 5000, 1);
	ct_pair_close(&p);
	conf = (struct ct_conf){ .tx_depth = ct.info.tx_depth_max,
				 .rx_depth = ct.info.rx_depth_max,
				 .max_peers = (uint16_t)RTE_MIN(ct.info.max_peers, 4096u) };
	ct_pair_open(&p, &conf, &conf);
	ct_pair_works(&p);
	ct_pair_close(&p);
}

static void
regions(void)
{
	struct ct_side a = ct_near(0);
	struct leat_rkey rk;
	struct ct_node *n;
	struct leat_mr *mr;
	char *mem = malloc(8192);

	CT_CHECK(mem != NULL, "no memory");
	ct_open(&a, NULL);
	n = ct_node(&a);
	rte_errno = 0;
	CT_CHECK(leat_mr_register(n->ep, mem, 0, LEAT_MR_LOCAL) == NULL && rte_errno == EINVAL,
		 "a region of 0 B: rte_errno %d", rte_errno);
	rte_errno = 0;
	CT_CHECK(leat_mr_register(n->ep, NULL, 100, LEAT_MR_LOCAL) == NULL && rte_errno == EINVAL,
		 "a region at NULL: rte_errno %d", rte_errno);
	rte_errno = 0;
	CT_CHECK(leat_mr_register(n->ep, mem, 100, 0x80) == NULL && rte_errno == EINVAL,
		 "an unknown right: rte_errno %d", rte_errno);
	mr = leat_mr_register(n->ep, mem, 8192, LEAT_MR_LOCAL);
	CT_CHECK(mr != NULL, "register: %s", leat_err_msg());
	CT_EQ(leat_mr_rkey(mr, mem, 100, &rk), -EACCES, "rkey of a local region");
	CT_EQ(leat_mr_deregister(mr), 0, "deregister");
	if ((ct.info.ops & R) != 0) {
		mr = leat_mr_register(n->ep, mem + 1000, 5000, LEAT_MR_REMOTE_READ);
		CT_CHECK(mr != NULL, "register: %s", leat_err_msg());
		CT_EQ(leat_mr_rkey(mr, mem + 1000, 5000, &rk), 0, "rkey of the whole");
		CT_EQ(leat_mr_rkey(mr, mem + 999, 1, &rk), -ERANGE, "rkey one byte before");
		CT_EQ(leat_mr_rkey(mr, mem + 1000, 5001, &rk), -ERANGE, "rkey one byte beyond");
		CT_EQ(leat_mr_rkey(mr, mem + 6000, SIZE_MAX - 10, &rk), -ERANGE, "rkey that wraps");
		CT_EQ(leat_mr_deregister(mr), 0, "deregister");
	}
	rte_errno = 0;
	CT_CHECK(leat_ep_mempool_mr(n->ep, NULL) == NULL && rte_errno == ENOENT,
		 "mempool that was not named: rte_errno %d", rte_errno);
	ct_finish(&a);
	free(mem);
}

/* As many regions as a program may have, each with its key: all work, and all can be released. */
static void
many_regions(void)
{
	enum { N = 500, LEN = 4096 };
	const unsigned int n_max = RTE_MAX(ct_scaled(N), 50u);
	static struct leat_mr *mr[N];
	struct ct_pair p;
	struct ct_node *n;
	struct leat_rkey rk;
	uint8_t *mem = malloc((size_t)N * LEN);
	unsigned int i, made;

	CT_CHECK(mem != NULL, "no memory");
	ct_pair_open(&p, NULL, NULL);
	n = ct_node(&p.a);
	for (made = 0; made < n_max; made++) {
		ct_fill(mem + (size_t)made * LEN, LEN, made, 0);
		rte_errno = 0;
		mr[made] =
			leat_mr_register(n->ep, mem + (size_t)made * LEN, LEN, LEAT_MR_REMOTE_READ);
		if (mr[made] == NULL)
			break;
	}
	CT_CHECK(made == n_max || rte_errno == ENOSPC || rte_errno == ENOMEM,
		 "region %u: rte_errno %d: %s", made, rte_errno, leat_err_msg());
	CT_CHECK(made >= 16, "only %u regions", made);
	for (i = 0; i < made; i += 37) {
		struct ct_spec s = {
			.type = LEAT_OP_READ, .peer = p.pb, .size = LEN, .seed = i, .check = CT_DATA
		};

		CT_EQ(leat_mr_rkey(mr[i], mem + (size_t)i * LEN, LEN, &rk), 0, "rkey");
		s.raddr = rk.addr;
		s.rkey = rk.key;
		CT_EQ(ct_one(&p.b, &s, NULL), 0, "read");
	}
	for (i = 0; i < made; i++)
		CT_EQ(leat_mr_deregister(mr[i]), 0, "deregister");
	ct_pair_close(&p);
	free(mem);
}

const struct ct_test ct_tests_refused[] = {
	{ .name = "errors.device_info", .fn = info, .types = CT_ANY_TYPE },
	{ .name = "errors.configure", .fn = configure, .types = CT_ANY_TYPE },
	{ .name = "errors.limits_work", .fn = limits_work, .ops = SR },
	{ .name = "errors.regions", .fn = regions, .types = CT_ANY_TYPE },
	{ .name = "errors.many_regions", .fn = many_regions, .ops = R },
	{ .name = NULL },
};
