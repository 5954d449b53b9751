/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DOCTOR_H
#define DOCTOR_H

/*
 * leat-doctor: declarations that its files share.
 *
 *     main.c      arguments, which checks run, exit code
 *     read.c      reads files below the root: bounded, and trusting nothing in them
 *     find.c      findings: how checks report
 *     text.c      the table; json.c --json
 *     mem.c cpu.c kernel.c rdma.c rdma_port.c efa.c fabric.c   the checks, by group
 *
 * A check reads files, and reports one finding or more:
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
 * dr_found(), dr_means() and dr_mend() make all text printable. Names that become part of a command
 * must be dr_plain(), so that no user pastes into a shell what a file contained.
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

/*
 * Memory that leat_init() takes if there are no hugepages, bytes. The same amount in free hugepages
 * is enough for a start.
 */
#define DR_MEMORY (UINT64_C(512) << 20)

enum dr_severity { DR_OK, DR_INFO, DR_WARNING, DR_ERROR, DR_SEVERITIES };

enum {
	DR_EXIT_OK = 0, /* no finding above the severity info */
	DR_EXIT_WARNING = 1,
	DR_EXIT_ERROR = 2,
	DR_EXIT_USAGE = 3,
	DR_EXIT_INTERNAL = 4,
};

/* A command that adds words to the kernel's command line on Debian and its derivatives. */
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
	char subject[DR_NAME_LEN]; /* what was checked, such as a device; may be "" */
	char seen[DR_TEXT];
	char means[DR_TEXT];
	char mend[DR_TEXT]; /* command that mends it; may be "" */
};

struct dr {
	const char *root; /* "" for this machine */
	bool verbose;
	char **plugins; /* argv for leat_driver_load() */
	int nb_plugins;
	const struct dr_check *check; /* the check that runs */
	struct dr_finding *findings;
	unsigned int nb, left_out;	   /* findings stored; findings left out for lack of room */
	unsigned int count[DR_SEVERITIES]; /* findings, with those left out */
	struct dr_finding spare;	   /* what dr_found() returns for a finding left out */
};

/* The names in a directory, sorted. */
struct dr_names {
	unsigned int nb;
	char name[DR_NAMES_MAX][DR_NAME_LEN];
};

/* The groups, in the order in which they run; ends with a NULL name. */
extern const struct dr_group dr_groups[];
extern const struct dr_check dr_mem_checks[], dr_cpu_checks[], dr_kernel_checks[], dr_rdma_checks[],
	dr_efa_checks[], dr_fabric_checks[], dr_leat_checks[];

/* ---- find.c ---- */

/* Copy text: bytes that are not printable ASCII become \xNN, and text that does not fit is cut. */
void dr_printable(char *out, size_t len, const char *in);
/* Add a finding of the running check; subject may be "". @return the finding, never NULL */
struct dr_finding *dr_found(struct dr *d, enum dr_severity severity, const char *subject,
			    const char *fmt, ...) __rte_format_printf(4, 5);
void dr_means(struct dr_finding *f, const char *fmt, ...) __rte_format_printf(2, 3);
void dr_mend(struct dr_finding *f, const char *fmt, ...) __rte_format_printf(2, 3);
/* Add a finding that `what` is unknown: the file is missing, or can't be understood. */
void dr_report_unknown(struct dr *d, const char *subject, const char *what, const char *path);
const char *dr_severity_name(enum dr_severity severity);
/* Sort the findings by severity, the worst last; those of equal severity keep their order. */
void dr_sort(struct dr *d);
int dr_exit_code(const struct dr *d);

/* ---- read.c: paths begin with a slash and are below the root ---- */

/*
 * Read the text of a regular file: at most len - 1 bytes, up to the first NUL, without trailing
 * white space. @return the length of the text, or a negative errno; then buf is ""
 */
int dr_read(const struct dr *d, char *buf, size_t len, const char *fmt, ...)
	__rte_format_printf(4, 5);
/* Read a number from a file with no other content. @return false: no such file, or no number */
bool dr_read_u64(const struct dr *d, uint64_t *v, const char *fmt, ...) __rte_format_printf(3, 4);
bool dr_exists(const struct dr *d, const char *fmt, ...) __rte_format_printf(2, 3);
/* May this user read and write the file? @return 0, -ENOENT, -EACCES */
int dr_access(const struct dr *d, const char *fmt, ...) __rte_format_printf(2, 3);
/* List a directory without hidden files. @return the number of names; 0: none, or no directory */
unsigned int dr_list(const struct dr *d, struct dr_names *n, const char *fmt, ...)
	__rte_format_printf(3, 4);
/* Get the size of the file system at path, and its free space, in bytes. */
bool dr_space(const struct dr *d, uint64_t *size, uint64_t *available, const char *path);

/* Find the line "key: value" or "key value" in text; val gets the rest of the line. */
bool dr_field(const char *text, const char *key, char *val, size_t len);
/* Does text, words separated by white space, contain this word? */
bool dr_word(const char *text, const char *word);
/* Find key=value, or key alone (then val is ""), on the kernel's command line. */
bool dr_boot_option(const struct dr *d, const char *key, char *val, size_t len);
/* Return the number of CPUs or nodes in a list such as "0-3,8"; 0: it is malformed. */
unsigned int dr_list_count(const char *list);
/* Is the name safe as a word of a shell command, and on a terminal? */
bool dr_plain(const char *name);
/* Does this process have the capability? */
bool dr_cap(const struct dr *d, unsigned int cap);
/* Is the kernel module loaded, or built in? */
bool dr_module(const struct dr *d, const char *name);
/* Can this kernel load modules at all? */
bool dr_modules_possible(const struct dr *d);
/* Write a number of bytes as "512 MiB". @return buf */
const char *dr_bytes(char *buf, size_t len, uint64_t bytes);

/* ---- functions of one group of checks that other groups call ---- */

bool dr_rdma_present(const struct dr *d);
bool dr_efa_present(const struct dr *d);
/* rdma_port.c: checks of ports, in the group rdma */
void dr_rdma_ports(struct dr *d);
void dr_rdma_gids(struct dr *d);
void dr_rdma_mtu(struct dr *d);

/* Can this program's libfabric use a provider? If not, why not? */
enum dr_provider { DR_NO_LIBFABRIC, DR_NOT_BUILT_IN, DR_NOT_USABLE, DR_USABLE };
enum dr_provider dr_provider(const char *name);

/* ---- main.c, text.c, json.c ---- */

void dr_msg(const char *fmt, ...) __rte_format_printf(1, 2);
/* Each prints to stdout. @return 0 or a negative errno */
int dr_text(const struct dr *d);
int dr_json(const struct dr *d);
int dr_json_list(void);
int dr_text_list(void);

#endif /* DOCTOR_H */
