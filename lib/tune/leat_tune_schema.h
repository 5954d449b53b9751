/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TUNE_SCHEMA_H
#define LEAT_TUNE_SCHEMA_H

/**
 * @file
 * What leat-tune-gen makes of a description file, as tables in C.
 *
 *     reactor.toml --- leat-tune-gen ---> reactor_tune.h   struct reactor_tune_settings, _report
 *                                         reactor_tune.c   struct leat_tune_schema
 *
 * A schema says of each setting and each measurement where it lies in the C structure and where in
 * the message, its type, and its bounds. So there is one function that checks, packs and unpacks
 * all of them (leat_tune_pack(), leat_tune_unpack()).
 *
 * The message is the same on all machines. Fields follow one another in the order of the
 * description, little endian, each a multiple of 8 bytes:
 *
 *     bool, integer, enum    8 bytes, two's complement
 *     real                   8 bytes, IEEE 754
 *     string                 its size rounded up to 8, filled with zeros, at least one
 *     histogram              count, sum, LEAT_TUNE_BUCKETS buckets, 8 bytes each
 *
 * The format of descriptions: doc/guide/tune-description.md.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <leat_common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Settings, and measurements, of a component at most. */
#define LEAT_TUNE_FIELDS_MAX 64
/** Bytes of a message of settings or of measurements at most. */
#define LEAT_TUNE_MESSAGE_MAX 16384
/** Longest name of a component or a field, with its terminator. */
#define LEAT_TUNE_NAME_MAX 32
/** Longest name of an object, with its terminator. */
#define LEAT_TUNE_OBJECT_NAME_MAX 64

/** Types of fields. */
enum leat_tune_type {
	LEAT_TUNE_BOOL = 1, /**< bool */
	LEAT_TUNE_INTEGER,  /**< int32_t, uint32_t, int64_t or uint64_t, see leat_tune_field.kind */
	LEAT_TUNE_REAL,	    /**< double */
	LEAT_TUNE_ENUM,	    /**< uint32_t, index of a name */
	/** char[] with terminator, UTF-8; of a setting without control characters */
	LEAT_TUNE_STRING,
	LEAT_TUNE_HISTOGRAM /**< struct leat_tune_histogram; measurements only */
};

/** How an integer lies in the C structure. */
enum leat_tune_kind {
	LEAT_TUNE_I64 = 0,
	LEAT_TUNE_U64,
	LEAT_TUNE_I32,
	LEAT_TUNE_U32,
};

/** When a new value of a setting takes effect. */
enum leat_tune_when {
	LEAT_TUNE_NOW = 0, /**< in the housekeeping of its loop */
	LEAT_TUNE_NEXT,	   /**< with the next thing that is made: an endpoint, a connection */
	LEAT_TUNE_START,   /**< only in a settings file at the start of the program */
};

/** A value outside the range that has a meaning of its own. */
struct leat_tune_special {
	const char *name; /**< "automatic" */
	int64_t value;	  /**< of an integer */
	double real;	  /**< of a real */
};

/** A setting or a measurement. */
struct leat_tune_field {
	const char *name;
	enum leat_tune_type type;
	enum leat_tune_kind kind;
	enum leat_tune_when when;
	uint32_t c_offset; /**< in the C structure */
	uint32_t c_size;
	uint32_t offset; /**< in the message */
	uint32_t size;
	int64_t min, max; /**< of an integer; unsigned 64-bit measurements have no bounds */
	double rmin, rmax;
	const struct leat_tune_special *specials;
	const char *const *names;   /**< of an enum */
	const char *const *aliases; /**< former names of a setting */
	const char *unit;	    /**< NULL: none */
	uint32_t nb_specials;
	uint32_t nb_names;
	uint32_t nb_aliases;
	uint32_t group; /**< number of its group, from 1; 0: none */
};

/** Comparison in a rule. */
enum leat_tune_compare {
	LEAT_TUNE_LT = 1,
	LEAT_TUNE_LE,
	LEAT_TUNE_GT,
	LEAT_TUNE_GE,
	LEAT_TUNE_EQ,
	LEAT_TUNE_NE,
};

/**
 * Settings that are valid only together: a change names all of them. With a rule between two of
 * them, which does not hold where one of the two has a special value.
 */
struct leat_tune_group {
	const char *name;
	uint64_t mask;			/**< bit i: setting i */
	const char *rule;		/**< "sleep_min_us <= sleep_max_us"; NULL: none */
	enum leat_tune_compare compare; /**< of the rule */
	uint32_t left, right;		/**< settings */
};

/** A component: a kind of object. */
struct leat_tune_schema {
	const char *name;
	/**
	 * Of the layout: names, types, positions and names of enums. Two schemas with the same hash
	 * read each other's messages.
	 */
	uint64_t hash;
	const char *json; /**< the whole description, for agents */
	uint32_t json_len;
	uint32_t nb_settings;
	uint32_t nb_reports;
	uint32_t nb_groups;
	const struct leat_tune_field *settings;
	const struct leat_tune_field *reports;
	const struct leat_tune_group *groups;
	uint32_t settings_c_size; /**< of the C structures */
	uint32_t reports_c_size;
	uint32_t settings_size; /**< of the messages, bytes */
	uint32_t reports_size;
	const void *defaults; /**< struct NAME_tune_settings */
};

/** @name Histograms of nanoseconds */
/**@{*/

/** Buckets: four for each power of two, from 32 ns to 8 s. */
#define LEAT_TUNE_BUCKETS 112

/** As a measurement. Bucket 0 also has what is below 32 ns, the last one what is above 8 s. */
struct leat_tune_histogram {
	uint64_t count;
	uint64_t sum; /**< ns */
	uint64_t bucket[LEAT_TUNE_BUCKETS];
};

/** The bucket of a value. */
static inline unsigned int
leat_tune_bucket(uint64_t ns)
{
	unsigned int msb, i;

	if (ns < 32)
		return 0;
	msb = 63 - (unsigned int)__builtin_clzll(ns);
	i = ((msb - 5) << 2) + ((unsigned int)(ns >> (msb - 2)) & 3);
	return i < LEAT_TUNE_BUCKETS ? i : LEAT_TUNE_BUCKETS - 1;
}

/** The smallest value of a bucket but the first; of bucket i + 1 it is the end of bucket i, ns. */
static inline uint64_t
leat_tune_bucket_begin(unsigned int i)
{
	return (uint64_t)(4 + (i & 3)) << ((i >> 2) + 3);
}

/** Add a value. One thread; others may read meanwhile. */
static inline void
leat_tune_histogram_add(struct leat_tune_histogram *h, uint64_t ns)
{
	uint64_t *b = &h->bucket[leat_tune_bucket(ns)];

	__atomic_store_n(b, *b + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&h->sum, h->sum + ns, __ATOMIC_RELAXED);
	__atomic_store_n(&h->count, h->count + 1, __ATOMIC_RELAXED);
}

/** Copy a histogram that another thread adds to. Its count is that of the copied buckets. */
static inline void
leat_tune_histogram_read(struct leat_tune_histogram *to, const struct leat_tune_histogram *h)
{
	unsigned int i;

	to->count = 0;
	to->sum = __atomic_load_n(&h->sum, __ATOMIC_RELAXED);
	for (i = 0; i < LEAT_TUNE_BUCKETS; i++) {
		to->bucket[i] = __atomic_load_n(&h->bucket[i], __ATOMIC_RELAXED);
		to->count += to->bucket[i];
	}
}
/**@}*/

/**
 * Write a C structure as a message.
 *
 * @param settings
 *   True: struct NAME_tune_settings; false: struct NAME_tune_report.
 * @param buf
 *   schema->settings_size or ->reports_size bytes.
 */
LEAT_API void leat_tune_pack(const struct leat_tune_schema *schema, bool settings, const void *from,
			     void *buf);

/**
 * Read settings from a message: those of mask, into a C structure that has the others. Types,
 * ranges, names of enums and terminators are checked; groups and rules by leat_tune_check().
 *
 * @param len
 *   Of the message. It may come from anywhere.
 * @return
 *   0; or with leat_err_msg() naming the setting, and nothing written:
 *   - -EPROTO: another length, a bit of mask without a setting, a string without an end
 *   - -EINVAL: not a value of the type (a bool of 2)
 *   - -ERANGE: out of the range
 */
LEAT_API int leat_tune_unpack(const struct leat_tune_schema *schema, const void *buf, size_t len,
			      uint64_t mask, void *to);

/**
 * May these settings be changed together, while the program runs?
 *
 * @param want
 *   All settings, with the new ones.
 * @param mask
 *   Those that are to change.
 * @param starting
 *   The object does not exist yet: settings that take effect only at start may be given.
 * @return
 *   0; or with leat_err_msg():
 *   - -EPERM: one takes effect only at start
 *   - -EINVAL: half of a group, or its rule does not hold
 */
LEAT_API int leat_tune_check(const struct leat_tune_schema *schema, const void *want, uint64_t mask,
			     bool starting);

/** Index of a setting; -ENOENT with leat_err_msg() that names the nearest. */
LEAT_API int leat_tune_setting_find(const struct leat_tune_schema *schema, const char *name);

/**
 * Read a value from text, as a settings file has it, into a C structure: "true", "10", "1.5",
 * "yield", the name of a special value.
 *
 * @return 0; -EINVAL, -ERANGE with leat_err_msg() saying what is wanted
 */
LEAT_API int leat_tune_parse(const struct leat_tune_schema *schema, unsigned int setting,
			     const char *text, void *to);

/** Write the value of a setting as text. @return what snprintf(3) would */
LEAT_API int leat_tune_format(const struct leat_tune_schema *schema, unsigned int setting,
			      const void *settings, char *buf, size_t len);

/** Register a schema, so that a settings file may name it. Called by what leat-tune-gen makes. */
LEAT_API void leat_tune_schema_register(const struct leat_tune_schema *schema);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TUNE_SCHEMA_H */
