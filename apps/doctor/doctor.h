/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DOCTOR_H
#define DOCTOR_H

/*
 * leat-doctor: what its files share.
 *
 *     main.c      arguments, which checks run, exit code
 *     read.c      files below the root: bounded, and nothing of them is trusted
 *     find.c      findings: how checks report
 *     text.c      the table; json.c --json
 *     mem.c cpu.c kernel.c rdma.c rdma_port.c efa.c fabric.c   the checks, by group
 *
 * A check reads, and reports one finding or more:
 *
 *     static void
 *     thp(struct dr *d)
 *     {
 *             char s[64];
 *
 *             if (dr_read(d, s, sizeof(s), "/sys/...") < 0) {
 *                     dr_found(d, DR_INFO, "", "...");
 *                     return;
 *             }
 *             f = dr_found(d, DR_WARNING, subject, what was seen ...);
 *             dr_means(f, what it means for leat);
 *             dr_mend(f, the command that mends it);
 *     }
 *
 * All that it reports is made printable on its way into the finding, in one place. Names that go into
 * a command must be dr_plain(), so that nobody pastes into a shell what a file said.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rte_common.h>

#define DR_NAME "leat-doctor"

#define DR_PATH_MAX 1024
#define DR_NAME_LEN 64
#define DR_NAMES_MAX 1024
#define DR_TEXT 320
#define DR_FINDINGS_MAX 512

/* What leat_init() takes without hugepages; with some it is a good start, too. */
#define DR_MEMORY (UINT64_C(512) << 20)

enum dr_severity { DR_OK, DR_INFO, DR_WARNING, DR_ERROR, DR_SEVERITIES };

enum {
	DR_EXIT_OK = 0, /* nothing above info */
	DR_EXIT_WARNING = 1,
	DR_EXIT_ERROR = 2,
	DR_EXIT_USAGE = 3,
	DR_EXIT_INTERNAL = 4,
};

/* The command that adds to the kernel's command line, as Debian and its kin have it. */
#define DR_BOOT_MEND(words)                                                                        \
	"sed -i 's/^GRUB_CMDLINE_LINUX=\"/&" words " /' /etc/default/grub && update-grub && reboot"

struct dr;

struct dr_check {
	const char *id; /* "group.name" */
	const char *about;
	void (*run)(struct dr *d);
};

struct dr_group {
	const char *name;
	const char *about;
	const struct dr_check *checks; /* ends with a NULL id */
};

struct dr_finding {
	const struct dr_check *check;
	enum dr_severity severity;
	char subject[DR_NAME_LEN]; /* a device, say; may be empty */
	char seen[DR_TEXT];
	char means[DR_TEXT];
	char mend[DR_TEXT]; /* may be empty */
};

struct dr {
	const char *root; /* "" for this machine */
	bool verbose;
	char **plugins; /* argv for leat_driver_load() */
	int nb_plugins;
	const struct dr_check *check; /* that runs */
	struct dr_finding *findings;
	unsigned int nb, left_out;
	unsigned int count[DR_SEVERITIES]; /* with those left out */
	struct dr_finding spare;	   /* takes what is left out */
};

/* Names in a directory, sorted. */
struct dr_names {
	unsigned int nb;
	char name[DR_NAMES_MAX][DR_NAME_LEN];
};

/* The groups, in the order in which they run; ends with a NULL name. */
extern const struct dr_group dr_groups[];
extern const struct dr_check dr_mem_checks[], dr_cpu_checks[], dr_kernel_checks[], dr_rdma_checks[],
	dr_efa_checks[], dr_fabric_checks[], dr_leat_checks[];

/* ---- find.c ---- */

/* Bytes that are not printable ASCII become \xNN; what does not fit is cut. */
void dr_printable(char *out, size_t len, const char *in);
/* Never NULL. subject may be "". */
struct dr_finding *dr_found(struct dr *d, enum dr_severity severity, const char *subject,
			    const char *fmt, ...) __rte_format_printf(4, 5);
void dr_means(struct dr_finding *f, const char *fmt, ...) __rte_format_printf(2, 3);
void dr_mend(struct dr_finding *f, const char *fmt, ...) __rte_format_printf(2, 3);
/* A file that is missing or says nothing that can be understood. */
void dr_untold(struct dr *d, const char *subject, const char *what, const char *path);
const char *dr_severity_name(enum dr_severity severity);
/* By severity, the worst last; among equals in the order in which they were found. */
void dr_sort(struct dr *d);
int dr_exit_code(const struct dr *d);

/* ---- read.c: paths begin with a slash and are below the root ---- */

/*
 * A regular file's text: what fits into len, up to the first NUL, without white space at its end.
 * @return its length or a negative errno; then buf is ""
 */
int dr_read(const struct dr *d, char *buf, size_t len, const char *fmt, ...)
	__rte_format_printf(4, 5);
/* The whole file must be one number. */
bool dr_read_u64(const struct dr *d, uint64_t *v, const char *fmt, ...) __rte_format_printf(3, 4);
bool dr_exists(const struct dr *d, const char *fmt, ...) __rte_format_printf(2, 3);
/* May this user read and write it? @return 0, -ENOENT, -EACCES */
int dr_access(const struct dr *d, const char *fmt, ...) __rte_format_printf(2, 3);
/* Of a directory that is not there nothing. @return how many */
unsigned int dr_list(const struct dr *d, struct dr_names *n, const char *fmt, ...)
	__rte_format_printf(3, 4);
/* Size and free bytes of the file system at path. */
bool dr_space(const struct dr *d, uint64_t *size, uint64_t *available, const char *path);

/* The value of "key: value" or "key value" in text; it ends with its line. */
bool dr_field(const char *text, const char *key, char *val, size_t len);
/* Is word one of the words of text, which white space divides? */
bool dr_word(const char *text, const char *word);
/* The value of key=value (or "" of a mere key) on the kernel's command line. */
bool dr_boot_option(const struct dr *d, const char *key, char *val, size_t len);
/* Number of CPUs or nodes in "0-3,8", 0 if it is malformed. */
unsigned int dr_list_count(const char *list);
/* Nothing in it that a shell or a terminal could take amiss. */
bool dr_plain(const char *name);
bool dr_cap(const struct dr *d, unsigned int cap);
bool dr_module(const struct dr *d, const char *name);
/* Can modules be loaded into this kernel at all? */
bool dr_modules_possible(const struct dr *d);
/* "512 MiB" */
const char *dr_bytes(char *buf, size_t len, uint64_t bytes);

/* ---- what groups know of each other ---- */

bool dr_rdma_present(const struct dr *d);
bool dr_efa_present(const struct dr *d);
/* Checks of ports; rdma_port.c */
void dr_rdma_ports(struct dr *d);
void dr_rdma_gids(struct dr *d);
void dr_rdma_mtu(struct dr *d);

/* What this program's libfabric offers. */
enum dr_provider { DR_NO_LIBFABRIC, DR_NOT_BUILT_IN, DR_NOT_USABLE, DR_USABLE };
enum dr_provider dr_provider(const char *name);

/* ---- main.c, text.c, json.c ---- */

void dr_msg(const char *fmt, ...) __rte_format_printf(1, 2);
/* @return 0 or negative errno */
int dr_text(const struct dr *d);
int dr_json(const struct dr *d);
int dr_json_list(void);
int dr_text_list(void);

#endif /* DOCTOR_H */
