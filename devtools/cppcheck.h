/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Replaces the system's headers, which cppcheck does not read: defines the macros without which it
 * can't parse the code that uses them. devtools/lint includes this file before all others.
 */

#ifndef CPPCHECK_H
#define CPPCHECK_H

#define PRId8 "d"
#define PRId16 "d"
#define PRId32 "d"
#define PRId64 "ld"
#define PRIi64 "ld"
#define PRIu8 "u"
#define PRIu16 "u"
#define PRIu32 "u"
#define PRIu64 "lu"
#define PRIx8 "x"
#define PRIx16 "x"
#define PRIx32 "x"
#define PRIx64 "lx"
#define PRIX64 "lX"
#define PRIuPTR "lu"
#define PRIxPTR "lx"
#define SCNu32 "u"
#define SCNu64 "lu"
#define SCNx64 "lx"

#define __rte_aligned(a)
#define __rte_always_inline inline
#define __rte_cache_aligned
#define __rte_cold
#define __rte_format_printf(a, b)
#define __rte_hot
#define __rte_noinline
#define __rte_noreturn
#define __rte_packed
#define __rte_unused
#define RTE_CACHE_GUARD
#define RTE_STD_C11

#define likely(x) (x)
#define unlikely(x) (x)
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define RTE_DIM(a) (sizeof(a) / sizeof((a)[0]))
#define RTE_MAX(a, b) ((a) > (b) ? (a) : (b))
#define RTE_MIN(a, b) ((a) < (b) ? (a) : (b))
#define RTE_SET_USED(x) (void)(x)
#define RTE_STR_(x) #x
#define RTE_STR(x) RTE_STR_(x)
#define RTE_INIT(f) static void f(void)
#define RTE_FINI(f) static void f(void)
#define RTE_PER_LCORE(v) v
#define RTE_LCORE_FOREACH(i) for (i = 0; i < 128; i++)
#define RTE_LCORE_FOREACH_WORKER(i) for (i = 0; i < 128; i++)
#define RTE_LOG_REGISTER(var, name, level) int var;

#define RTE_FMT(fmt, ...) fmt "%.0s", __VA_ARGS__ ""
#define RTE_FMT_HEAD(fmt, ...) fmt
#define RTE_FMT_TAIL(fmt, ...) __VA_ARGS__

#define TAILQ_HEAD(name, type)                                                                     \
	struct name {                                                                              \
		struct type *tqh_first, **tqh_last;                                                \
	}
#define TAILQ_ENTRY(type)                                                                          \
	struct {                                                                                   \
		struct type *tqe_next, **tqe_prev;                                                 \
	}
#define TAILQ_HEAD_INITIALIZER(head)                                                               \
	{                                                                                          \
		NULL, &(head).tqh_first                                                            \
	}
#define LIST_HEAD(name, type)                                                                      \
	struct name {                                                                              \
		struct type *lh_first;                                                             \
	}
#define LIST_ENTRY(type)                                                                           \
	struct {                                                                                   \
		struct type *le_next, **le_prev;                                                   \
	}
#define LIST_HEAD_INITIALIZER(head)                                                                \
	{                                                                                          \
		NULL                                                                               \
	}
#define LIST_FOREACH(var, head, field)                                                             \
	for ((var) = (head)->lh_first; (var); (var) = (var)->field.le_next)
#define STAILQ_HEAD(name, type)                                                                    \
	struct name {                                                                              \
		struct type *stqh_first, **stqh_last;                                              \
	}
#define STAILQ_ENTRY(type)                                                                         \
	struct {                                                                                   \
		struct type *stqe_next;                                                            \
	}
#define TAILQ_FOREACH(var, head, field)                                                            \
	for ((var) = (head)->tqh_first; (var); (var) = (var)->field.tqe_next)

#endif /* CPPCHECK_H */
