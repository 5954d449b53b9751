/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_TUNE_SCHEMA_H
#define LEAT_TUNE_SCHEMA_H

/**
 * @file
 * Schemas: tables in C that leat-tune-gen generates from a description file.
 *
 *     reactor.toml --- leat-tune-gen ---> reactor_tune.h   struct reactor_tune_settings, _report
 *                                         reactor_tune.c   struct leat_tune_schema
 *
 * Settings and measurements travel between a process and its agents as messages, whose format is
 * the same on all machines. For each setting and each measurement a schema has its offset in the C
 * structure and in the message, its type, and its bounds. So one pair of functions packs, unpacks
 * and checks all of them (leat_tune_pack(), leat_tune_unpack()).
 *
 * In a message, fields follow one another in the order of the description, little endian, each a
 * multiple of 8 bytes:
 *
 *     bool, integer, enum    8 bytes, two's complement
 *     real                   8 bytes, IEEE 754
 *     string                 its size rounded up to a multiple of 8, padded with at least one zero
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

/** Maximum number of settings, and of measurements, of a component. */
#define LEAT_TUNE_FIELDS_MAX 64
/** Maximum number of bytes of a message of settings or of measurements. */
#define LEAT_TUNE_MESSAGE_MAX 16384
/** Size of the name of a component or a field, bytes, terminator included. */
#define LEAT_TUNE_NAME_MAX 32
/** Size of the name of an object, bytes, terminator included. */
#define LEAT_TUNE_OBJECT_NAME_MAX 64

/** Types of fields. */
enum leat_tune_type {
	LEAT_TUNE_BOOL = 1, /**< bool */
	LEAT_TUNE_INTEGER,  /**< int32_t, uint32_t, int64_t or uint64_t, see leat_tune_field.kind */
	LEAT_TUNE_REAL,	    /**< double */
	LEAT_TUNE_ENUM,	    /**< uint32_t, index into leat_tune_field.names */
	/** char[] with terminator, UTF-8; settings have no control characters */
	LEAT_TUNE_STRING,
	LEAT_TUNE_HISTOGRAM /**< struct leat_tune_histogram; measurements only */
};

/** C type of an integer. */
enum leat_tune_kind {
	LEAT_TUNE_I64 = 0, /**< int64_t */
	LEAT_TUNE_U64,	   /**< uint64_t */
	LEAT_TUNE_I32,	   /**< int32_t */
	LEAT_TUNE_U32,	   /**< uint32_t */
};

/** When a new value of a setting takes effect. */
enum leat_tune_when {
	LEAT_TUNE_NOW = 0, /**< applied in the housekeeping of the owner's loop */
	LEAT_TUNE_NEXT,	   /**< used by endpoints, connections etc. that are created later */
	LEAT_TUNE_START,   /**< set only by a settings file, at the start of the program */
};

/** A value outside the range that has a meaning of its own. */
struct leat_tune_special {
	const char *name; /**< "automatic" */
	int64_t value;	  /**< value, if the field is an integer */
	double real;	  /**< value, if the field is a real */
};

/** A setting or a measurement. */
struct leat_tune_field {
	const char *name;	  /**< name of the field */
	enum leat_tune_type type; /**< type */
	enum leat_tune_kind kind; /**< C type, if it is an integer */
	enum leat_tune_when when; /**< when a new value takes effect, if it is a setting */
	uint32_t c_offset;	  /**< offset in the C structure, bytes */
	uint32_t c_size;	  /**< size in the C structure, bytes */
	uint32_t offset;	  /**< offset in the message, bytes */
	uint32_t size;		  /**< size in the message, bytes */
	int64_t min,  /**< smallest integer; unsigned 64-bit measurements have no bounds */
		max;  /**< largest integer */
	double rmin,  /**< smallest real */
		rmax; /**< largest real */
	const struct leat_tune_special *specials; /**< special values of a setting */
	const char *const *names;		  /**< names of an enum's values */
	const char *const *aliases;		  /**< former names of a setting */
	const char *unit;			  /**< NULL: none */
	uint32_t nb_specials;			  /**< number of specials */
	uint32_t nb_names;			  /**< number of names */
	uint32_t nb_aliases;			  /**< number of aliases */
	uint32_t group;				  /**< number of the group, from 1; 0: no group */
};

/** Comparison of a group's rule. */
enum leat_tune_compare {
	LEAT_TUNE_LT = 1, /**< less than */
	LEAT_TUNE_LE,	  /**< at most */
	LEAT_TUNE_GT,	  /**< more than */
	LEAT_TUNE_GE,	  /**< at least */
	LEAT_TUNE_EQ,	  /**< equal */
	LEAT_TUNE_NE,	  /**< not equal */
};

/**
 * Settings that are valid only together: a change must name all of them. A rule may relate two of
 * them; it is not applied while one of the two has a special value.
 */
struct leat_tune_group {
	const char *name;		/**< name of the group */
	uint64_t mask;			/**< bit i: setting i is in the group */
	const char *rule;		/**< "sleep_min_us <= sleep_max_us"; NULL: none */
	enum leat_tune_compare compare; /**< comparison of the rule */
	uint32_t left,			/**< index of the setting left of the comparison */
		right;			/**< index of the setting right of the comparison */
};

/** Schema of a component, which is a kind of object. */
struct leat_tune_schema {
	const char *name; /**< name of the component */
	/**
	 * Hash of the layout: names, types and positions of fields, and names of enums. Two schemas
	 * with the same hash can read each other's messages.
	 */
	uint64_t hash;
	const char *json;     /**< the whole description, for agents */
	uint32_t json_len;    /**< length of json, bytes, without the terminator */
	uint32_t nb_settings; /**< number of settings, 0..LEAT_TUNE_FIELDS_MAX */
	uint32_t nb_reports;  /**< number of measurements, 0..LEAT_TUNE_FIELDS_MAX */
	uint32_t nb_groups;   /**< number of groups */
	const struct leat_tune_field *settings; /**< the settings */
	const struct leat_tune_field *reports;	/**< the measurements */
	const struct leat_tune_group *groups;	/**< the groups */
	uint32_t settings_c_size;		/**< size of struct NAME_tune_settings, bytes */
	uint32_t reports_c_size;		/**< size of struct NAME_tune_report, bytes */
	uint32_t settings_size;			/**< size of a message of settings, bytes */
	uint32_t reports_size;			/**< size of a message of measurements, bytes */
	const void *defaults;			/**< struct NAME_tune_settings with the defaults */
};

/** @name Histograms of nanoseconds */
/**@{*/

/** Buckets: four for each power of two, from 32 ns to 8 s. */
#define LEAT_TUNE_BUCKETS 112

/** A histogram. Bucket 0 also counts values below 32 ns, the last bucket values above 8 s. */
struct leat_tune_histogram {
	uint64_t count;			    /**< number of values */
	uint64_t sum;			    /**< sum of the values, ns */
	uint64_t bucket[LEAT_TUNE_BUCKETS]; /**< number of values in each bucket */
};

/** Get the bucket of a value. */
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

/** Get the smallest value of bucket i > 0, ns, which is also the end of bucket i - 1. */
static inline uint64_t
leat_tune_bucket_begin(unsigned int i)
{
	return (uint64_t)(4 + (i & 3)) << ((i >> 2) + 3);
}

/** Add a value. One thread only; others may read meanwhile. */
static inline void
leat_tune_histogram_add(struct leat_tune_histogram *h, uint64_t ns)
{
	uint64_t *b = &h->bucket[leat_tune_bucket(ns)];

	__atomic_store_n(b, *b + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&h->sum, h->sum + ns, __ATOMIC_RELAXED);
	__atomic_store_n(&h->count, h->count + 1, __ATOMIC_RELAXED);
}

/** Copy a histogram that another thread adds to. The copy's count is the sum of its buckets. */
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
 * @param schema
 *   Schema of the object.
 * @param settings
 *   True: struct NAME_tune_settings; false: struct NAME_tune_report.
 * @param from
 *   The structure to read, of the type that settings selects.
 * @param buf
 *   schema->settings_size or ->reports_size bytes.
 */
LEAT_API void leat_tune_pack(const struct leat_tune_schema *schema, bool settings, const void *from,
			     void *buf);

/**
 * Unpack the settings of mask from a message into a C structure. Checks types, ranges, names of
 * enums and terminators, but not groups and rules: see leat_tune_check().
 *
 * @param schema
 *   Schema of the object.
 * @param buf
 *   The message.
 * @param len
 *   Length of the message, bytes. The message may come from an untrusted sender.
 * @param mask
 *   Bit i: unpack setting i.
 * @param[in,out] to
 *   Settings that are not in mask stay unchanged.
 * @return
 *   0; or with leat_err_msg() naming the setting, and nothing written:
 *   - -EPROTO: wrong length, a bit of mask without a setting, or a string without a terminator
 *   - -EINVAL: not a value of the type (2 for a bool)
 *   - -ERANGE: out of range
 */
LEAT_API int leat_tune_unpack(const struct leat_tune_schema *schema, const void *buf, size_t len,
			      uint64_t mask, void *to);

/**
 * Check whether settings may be changed together, while the program runs or at its start.
 *
 * @param schema
 *   Schema of the object.
 * @param want
 *   All settings, the new values included.
 * @param mask
 *   Settings that are to change.
 * @param starting
 *   True: the object is being added, so settings that take effect only at start may change.
 * @return
 *   0; or with leat_err_msg():
 *   - -EPERM: a setting takes effect only at start
 *   - -EINVAL: a setting of a group is missing, or the group's rule does not hold
 */
LEAT_API int leat_tune_check(const struct leat_tune_schema *schema, const void *want, uint64_t mask,
			     bool starting);

/** Find a setting. @return its index; -ENOENT: leat_err_msg() names the nearest */
LEAT_API int leat_tune_setting_find(const struct leat_tune_schema *schema, const char *name);

/**
 * Read a value from text, as in a settings file, into a C structure: "true", "10", "1.5", "yield",
 * the name of a special value.
 *
 * @return 0; -EINVAL, -ERANGE: leat_err_msg() says which values are valid
 */
LEAT_API int leat_tune_parse(const struct leat_tune_schema *schema, unsigned int setting,
			     const char *text, void *to);

/** Write the value of a setting as text. @return as snprintf(3) */
LEAT_API int leat_tune_format(const struct leat_tune_schema *schema, unsigned int setting,
			      const void *settings, char *buf, size_t len);

/** Register a schema, so that settings files may name it. Generated code calls this. */
LEAT_API void leat_tune_schema_register(const struct leat_tune_schema *schema);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_TUNE_SCHEMA_H */
