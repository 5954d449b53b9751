/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RANKS_H
#define RANKS_H

/*
 * The --rank... options of programs that run as several processes, for getopt_long():
 *
 *     static const struct option long_options[] = { ..., RANKS_LONG_OPTIONS, { 0 } };
 *
 *     while ((opt = getopt_long(...)) != -1) {
 *             ret = ranks_option(&conf, opt, optarg);      -ENOENT: another option
 *             ...
 *     }
 *     rv = leat_rendezvous_open(&conf);
 */

#include <getopt.h>

#include <leat_rendezvous.h>

enum {
	RANKS_OPT_DIR = 0x7200,
	RANKS_OPT_LIST,
	RANKS_OPT_RANK,
	RANKS_OPT_RANKS,
	RANKS_OPT_JOB,
	RANKS_OPT_TIMEOUT,
	RANKS_OPT_HOW,
};

/* clang-format off */
#define RANKS_LONG_OPTIONS                                                                         \
	{ "rank", required_argument, NULL, RANKS_OPT_RANK },                                       \
	{ "ranks", required_argument, NULL, RANKS_OPT_RANKS },                                     \
	{ "ranks-dir", required_argument, NULL, RANKS_OPT_DIR },                                   \
	{ "ranks-list", required_argument, NULL, RANKS_OPT_LIST },                                 \
	{ "ranks-job", required_argument, NULL, RANKS_OPT_JOB },                                   \
	{ "ranks-timeout", required_argument, NULL, RANKS_OPT_TIMEOUT },                           \
	{ "ranks-how", required_argument, NULL, RANKS_OPT_HOW }

/* For --help. */
#define RANKS_HELP                                                                                 \
"Processes (give none of these under mpirun or srun --mpi=pmix):\n"                                \
"  --ranks-dir DIR    the processes meet through files in DIR, which all of them\n"                \
"                     see; it is created if it does not exist\n"                                   \
"  --ranks-list LIST  addresses of all processes, host:port,host:port,..., that\n"                 \
"                     of rank 0 first\n"                                                           \
"  --rank R           rank of this process, 0 to N - 1 (default: what mpirun or\n"                 \
"                     srun says)\n"                                                                \
"  --ranks N          number of processes (default: what mpirun or srun says;\n"                   \
"                     with a list its length)\n"                                                   \
"  --ranks-job NAME   name of this run, if several runs use DIR at a time\n"                       \
"                     (default: leat)\n"                                                           \
"  --ranks-timeout S  seconds to wait for the other processes (default: 30)\n"                     \
"  --ranks-how HOW    auto (default), pmix, file, list or alone; fails if HOW is\n"                \
"                     not possible\n"
/* clang-format on */

/*
 * Store the value of an option in conf; val must outlive conf.
 * @return 0; -ENOENT: opt is none of RANKS_OPT_*; -EINVAL with leat_err(), such as "--rank: 'x' is
 * not a number"
 */
int ranks_option(struct leat_rendezvous_conf *conf, int opt, const char *val);

#endif /* RANKS_H */
