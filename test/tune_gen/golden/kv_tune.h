/* Made by leat-tune-gen of the description of kv: change that. */

#ifndef KV_TUNE_H
#define KV_TUNE_H

#include <leat_tune_schema.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Settings by number: the bits of a mask. */
enum kv_tune_setting {
	KV_TUNE_BATCH = 0,
	KV_TUNE_EVICTION,
	KV_TUNE_LOW_PERCENT,
	KV_TUNE_HIGH_PERCENT,
	KV_TUNE_ENTRIES,
	KV_TUNE_NB_SETTINGS
};

/** Values of eviction. */
enum kv_tune_eviction {
	KV_TUNE_EVICTION_LRU = 0,
	KV_TUNE_EVICTION_RANDOM,
	KV_TUNE_EVICTION_NONE,
};

/** Tables: settings. */
struct kv_tune_settings {
	/** Calls that are looked up together. (calls; 1 to 256; 0: automatic) */
	uint32_t batch;
	/** Which key makes room for a new one. (enum kv_tune_eviction) */
	uint32_t eviction;
	/** Eviction ends when the table is filled so far. (percent; 0.0 to 100.0) */
	double low_percent;
	/** Eviction begins when the table is filled so far. (percent; 0.0 to 100.0) */
	double high_percent;
	/** Keys for which there is room. (1024 to 1073741824) */
	uint32_t entries;
};

/** Tables: report. */
struct kv_tune_report {
	/** Calls whose key was found. (calls) */
	uint64_t hits;
	/** Keys in the table. (entries) */
	int64_t used;
	/** Time from a call to its answer. (ns) */
	struct leat_tune_histogram lookup;
};

#ifdef __cplusplus
static_assert
#else
_Static_assert
#endif
	(sizeof(struct kv_tune_settings) <= LEAT_CACHE_LINE, "one_cache_line");

extern const struct leat_tune_schema kv_tune_schema;

#ifdef __cplusplus
}
#endif

#endif /* KV_TUNE_H */
