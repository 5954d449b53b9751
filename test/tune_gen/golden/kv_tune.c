/* Made by leat-tune-gen of the description of kv: change that. */

#include <stddef.h>
#include <stdint.h>

#include "kv_tune.h"

static const struct leat_tune_special specials_batch[] = {
	{ .name = "automatic", .value = INT64_C(0) },
};

static const char *const aliases_batch[] = {
	"burst",
};

static const char *const names_settings_eviction[] = {
	"lru",
	"random",
	"none",
};

static const struct leat_tune_field settings[] = {
	{
		.name = "batch",
		.type = LEAT_TUNE_INTEGER,
		.kind = LEAT_TUNE_U32,
		.c_offset = offsetof(struct kv_tune_settings, batch),
		.c_size = sizeof(((struct kv_tune_settings *)0)->batch),
		.offset = 0,
		.size = 8,
		.unit = "calls",
		.when = LEAT_TUNE_NOW,
		.min = INT64_C(1),
		.max = INT64_C(256),
		.specials = specials_batch,
		.nb_specials = 1,
		.aliases = aliases_batch,
		.nb_aliases = 1,
	},
	{
		.name = "eviction",
		.type = LEAT_TUNE_ENUM,
		.c_offset = offsetof(struct kv_tune_settings, eviction),
		.c_size = sizeof(((struct kv_tune_settings *)0)->eviction),
		.offset = 8,
		.size = 8,
		.when = LEAT_TUNE_NOW,
		.names = names_settings_eviction,
		.nb_names = 3,
	},
	{
		.name = "low_percent",
		.type = LEAT_TUNE_REAL,
		.c_offset = offsetof(struct kv_tune_settings, low_percent),
		.c_size = sizeof(((struct kv_tune_settings *)0)->low_percent),
		.offset = 16,
		.size = 8,
		.unit = "percent",
		.when = LEAT_TUNE_NOW,
		.rmin = 0.0,
		.rmax = 100.0,
		.group = 1,
	},
	{
		.name = "high_percent",
		.type = LEAT_TUNE_REAL,
		.c_offset = offsetof(struct kv_tune_settings, high_percent),
		.c_size = sizeof(((struct kv_tune_settings *)0)->high_percent),
		.offset = 24,
		.size = 8,
		.unit = "percent",
		.when = LEAT_TUNE_NOW,
		.rmin = 0.0,
		.rmax = 100.0,
		.group = 1,
	},
	{
		.name = "entries",
		.type = LEAT_TUNE_INTEGER,
		.kind = LEAT_TUNE_U32,
		.c_offset = offsetof(struct kv_tune_settings, entries),
		.c_size = sizeof(((struct kv_tune_settings *)0)->entries),
		.offset = 32,
		.size = 8,
		.when = LEAT_TUNE_START,
		.min = INT64_C(1024),
		.max = INT64_C(1073741824),
	},
};

static const struct leat_tune_field report[] = {
	{
		.name = "hits",
		.type = LEAT_TUNE_INTEGER,
		.kind = LEAT_TUNE_U64,
		.c_offset = offsetof(struct kv_tune_report, hits),
		.c_size = sizeof(((struct kv_tune_report *)0)->hits),
		.offset = 0,
		.size = 8,
		.unit = "calls",
	},
	{
		.name = "used",
		.type = LEAT_TUNE_INTEGER,
		.kind = LEAT_TUNE_I64,
		.c_offset = offsetof(struct kv_tune_report, used),
		.c_size = sizeof(((struct kv_tune_report *)0)->used),
		.offset = 8,
		.size = 8,
		.unit = "entries",
	},
	{
		.name = "lookup",
		.type = LEAT_TUNE_HISTOGRAM,
		.c_offset = offsetof(struct kv_tune_report, lookup),
		.c_size = sizeof(((struct kv_tune_report *)0)->lookup),
		.offset = 16,
		.size = 912,
		.unit = "ns",
	},
};

static const struct leat_tune_group groups[] = {
	{
		.name = "watermarks",
		.mask = UINT64_C(0xc),
		.rule = "low_percent < high_percent",
		.compare = LEAT_TUNE_LT,
		.left = 2,
		.right = 3,
	},
};

static const struct kv_tune_settings defaults = {
	.batch = UINT32_C(0),
	.eviction = KV_TUNE_EVICTION_LRU,
	.low_percent = 80.0,
	.high_percent = 90.0,
	.entries = UINT32_C(65536),
};

/* C compilers must support no more than 4095 characters; all that are used do. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
static const char json[] =
	"{\"component\":\"kv\",\"title\":\"Tables\",\"help\":\"A table of keys and values.\",\"hash\":\""
	"0x64d7c5154a1a7653\",\"settings\":[{\"name\":\"batch\",\"type\":\"integer\",\"unit\":\"calls\","
	"\"min\":1,\"max\":256,\"special\":{\"automatic\":0},\"default\":0,\"when\":\"now\",\"help\":\"Cal"
	"ls that are looked up together.\",\"aliases\":[\"burst\"],\"group\":null,\"log\":true,\"of"
	"fset\":0,\"bytes\":8},{\"name\":\"eviction\",\"type\":\"enum\",\"values\":[\"lru\",\"random\",\"no"
	"ne\"],\"default\":\"lru\",\"when\":\"now\",\"help\":\"Which key makes room for a new one.\",\""
	"group\":null,\"offset\":8,\"bytes\":8},{\"name\":\"low_percent\",\"type\":\"real\",\"unit\":\"pe"
	"rcent\",\"min\":0.0,\"max\":100.0,\"default\":80.0,\"when\":\"now\",\"help\":\"Eviction ends w"
	"hen the table is filled so far.\",\"group\":\"watermarks\",\"offset\":16,\"bytes\":8},{\"n"
	"ame\":\"high_percent\",\"type\":\"real\",\"unit\":\"percent\",\"min\":0.0,\"max\":100.0,\"defaul"
	"t\":90.0,\"when\":\"now\",\"help\":\"Eviction begins when the table is filled so far.\",\""
	"group\":\"watermarks\",\"offset\":24,\"bytes\":8},{\"name\":\"entries\",\"type\":\"integer\",\"m"
	"in\":1024,\"max\":1073741824,\"default\":65536,\"when\":\"start\",\"help\":\"Keys for which "
	"there is room.\",\"group\":null,\"offset\":32,\"bytes\":8}],\"groups\":[{\"name\":\"watermar"
	"ks\",\"settings\":[\"low_percent\",\"high_percent\"],\"rule\":\"low_percent < high_percent"
	"\",\"help\":\"Where eviction ends and begins.\"}],\"reports\":[{\"name\":\"hits\",\"kind\":\"c"
	"ounter\",\"type\":\"integer\",\"unit\":\"calls\",\"aggregate\":\"sum\",\"help\":\"Calls whose ke"
	"y was found.\",\"offset\":0,\"bytes\":8},{\"name\":\"used\",\"kind\":\"gauge\",\"type\":\"intege"
	"r\",\"unit\":\"entries\",\"aggregate\":\"sum\",\"help\":\"Keys in the table.\",\"offset\":8,\"by"
	"tes\":8},{\"name\":\"lookup\",\"kind\":\"histogram\",\"type\":\"histogram\",\"unit\":\"ns\",\"aggr"
	"egate\":\"sum\",\"help\":\"Time from a call to its answer.\",\"offset\":16,\"bytes\":912}]}";
#pragma GCC diagnostic pop

const struct leat_tune_schema kv_tune_schema = {
	.name = "kv",
	.hash = UINT64_C(0x64d7c5154a1a7653),
	.json = json,
	.json_len = sizeof(json) - 1,
	.nb_settings = 5,
	.settings = settings,
	.defaults = &defaults,
	.settings_c_size = sizeof(struct kv_tune_settings),
	.settings_size = 40,
	.nb_reports = 3,
	.reports = report,
	.reports_c_size = sizeof(struct kv_tune_report),
	.reports_size = 928,
	.nb_groups = 1,
	.groups = groups,
};

__attribute__((constructor)) static void
kv_tune_register(void)
{
	leat_tune_schema_register(&kv_tune_schema);
}
