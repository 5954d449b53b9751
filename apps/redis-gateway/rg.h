/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef RG_H
#define RG_H

/*
 * The program: opens the legs of the command line, spread over the lcores.
 *
 *     main.c       start, legs, end
 *     options.c    the command line
 *     help.c       --help
 *     report.c     --stats
 */

#include <stdio.h>

#include <leat_app.h>

#include "gateway.h"

#define RG_NAME "leat-redis-gateway"
#define RG_LEGS_MAX 64
#define RG_ALLOW_MAX 256

struct rg_options {
	struct gw_conf leg[RG_LEGS_MAX]; /* after parsing, each includes the values of `all` */
	unsigned int nb_legs;
	struct gw_cidr allow[RG_ALLOW_MAX];
	uint32_t nb_allow;
	struct gw_conf all; /* values that all legs share */
	uint64_t drain_us;
	uint64_t stats_us; /* interval of --stats; 0: no statistics */
	enum leat_idle_policy idle;
	bool json, list_drivers, list_devices, version, help;
};

struct rg {
	int argc;
	char **argv;
	struct rg_options o;
	struct gw *gw[RG_LEGS_MAX]; /* NULL: not open */
	struct leat_timer stats[RG_LEGS_MAX];
};

/* options.c */
int rg_options_parse(struct rg_options *o, int argc, char **argv);
bool rg_option_known(const char *arg);

/* help.c */
void rg_help(FILE *f);

/* main.c */
void rg_msg(const char *fmt, ...) __rte_format_printf(1, 2);

/* report.c */
/* Print a line about a leg on stdout. @return 0 or a negative errno */
int rg_report(struct gw *gw, bool json);

#endif /* RG_H */
