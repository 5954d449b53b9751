/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_APP_H
#define LEAT_APP_H

/**
 * @file
 * What every program does around its work: start, lcores, signals, stop.
 *
 * @code
 *	static int
 *	start(void *arg)
 *	{
 *		... a task on each lcore: create endpoints, talk ...
 *		return 0;
 *	}
 *
 *	int
 *	main(int argc, char **argv)
 *	{
 *		const struct leat_app app = { .name = "hello", .start = start };
 *
 *		return leat_app_run(argc, argv, &app);
 *	}
 * @endcode
 *
 * A program's life:
 *
 *     main lcore                        each other lcore
 *       parse()
 *       leat_init()
 *       begin()
 *       reactor, tasks                    reactor, tasks
 *       start() as a task                 start() as a task
 *         ... until all have returned, leat_app_stop(), or SIGINT or SIGTERM ...
 *       stop, at most stop_us             stop, at most stop_us
 *       tasks and reactors destroyed
 *       end()
 *       leat_cleanup()
 *
 * Thread rules: leat_app_run() on the main thread, once. Others say it.
 */

#include <leat_common.h>
#include <leat_reactor.h>
#include <leat_task.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * leat_app.parse, leat_app.begin: all is said or done (`--help`, a list); the program ends, with 0
 * or the code of leat_app_stop().
 */
#define LEAT_APP_DONE 1

/**
 * leat_app.start: this lcore goes on, by callbacks and other tasks, until the program is stopped.
 */
#define LEAT_APP_STAY 1

/** Exit codes of leat_app_run(). */
enum leat_app_exit {
	LEAT_APP_OK = 0, /**< ended in order, on a signal too */
	LEAT_APP_FAILED, /**< something failed, or did not come to rest in time */
	LEAT_APP_USAGE,	 /**< wrong arguments: the program's own, EAL's, or of a device */
};

/** A program. Zeroed means all defaults. */
struct leat_app {
	const char *name; /**< for messages; NULL: argv[0] without its directory */
	/**
	 * Device that is opened if the command line names none of leat's; NULL: "fabric_ring0";
	 * "": none. With arguments, as in `--vdev`.
	 */
	const char *device;
	/**
	 * The program's own arguments, as a usage line names them: "server|client ADDRESS". Then
	 * `-h` and `--help` print usage, and how to name lcores and devices, on stderr, and the
	 * program ends with 0; without parse() they always do. A usage line follows what parse()
	 * says is wrong. NULL: a parse() sees to all that itself.
	 */
	const char *usage;
	/**
	 * Read the program's own arguments, those behind "--"; argv[0] is the program's name.
	 * Without usage `-h` and `--help` in front of "--" are passed, too. Before anything is
	 * started. NULL: the program has none, and any is an error.
	 * @return 0; LEAT_APP_DONE; negative: wrong, and it said why on stderr
	 */
	int (*parse)(int argc, char **argv, void *arg);
	/**
	 * Options of the program's own, without values, that may also stand in front of "--", as
	 * `--help` may: they are passed to parse() before those behind it. Ends with NULL; NULL:
	 * none.
	 */
	const char *const *front;
	/**
	 * On the main thread, when the devices are open and there is no reactor yet: what all
	 * lcores share, or what needs none. NULL: nothing.
	 * @return 0; LEAT_APP_DONE; a negative errno, with leat_err_msg(): failed
	 */
	int (*begin)(void *arg);
	/**
	 * The program's work, as a task on each lcore; see leat_app_index().
	 * @return 0: this lcore is done, the program ends when all are; LEAT_APP_STAY; a negative
	 *   errno, with leat_err_msg(): failed, the program stops
	 */
	leat_task_fn start;
	/**
	 * On the main thread, when start() ran and all reactors are gone: close endpoints, print
	 * results. Not called when something did not come to rest. NULL: nothing.
	 */
	void (*end)(void *arg);
	/**
	 * In the handler of SIGINT and SIGTERM, before the program is stopped: for loops that wait
	 * for nothing a stop could end. From parse() on; async-signal-safe. NULL: nothing.
	 */
	void (*on_signal)(int sig);
	void *arg;	  /**< of these functions */
	uint64_t stop_us; /**< what has not come to rest then is named in the log; 0: 1 s */
	const struct leat_reactor_conf *reactor; /**< NULL: defaults; the name is ignored */
	const struct leat_tasks_conf *tasks;	 /**< NULL: defaults */
};

/**
 * Run a program, from its arguments to its end.
 *
 * argv are EAL's arguments, with `--vdev=fabric_*` for leat's devices, then "--" and the program's
 * own. Errors are logged (leat.app) and make the exit code. The first SIGINT or SIGTERM stops the
 * program in order, also while EAL starts: then there is no begin() and no start(). A second one,
 * of either kind, ends it at once; while a driver is loaded or opens a device both wait. What the
 * two did before is restored at the end.
 *
 * @return
 *   enum leat_app_exit, or the code of leat_app_stop(), for main() to return.
 */
LEAT_API int leat_app_run(int argc, char **argv, const struct leat_app *app);

/**
 * Stop the program: all reactors, with its deadline. Any thread; async-signal-safe; any number of
 * times.
 *
 * @param code
 *   Exit code; the first that is not 0 counts.
 */
LEAT_API void leat_app_stop(int code);

/** Number of lcores with a reactor. Any thread, from start to end. */
LEAT_API unsigned int leat_app_count(void);

/**
 * Number of the calling lcore, 0 (the main one) to leat_app_count() - 1; -1 on any other thread.
 */
LEAT_API int leat_app_index(void);

/** Reactor of the lcore with that number, for leat_reactor_call(); NULL: none. Any thread. */
LEAT_API struct leat_reactor *leat_app_reactor(unsigned int index);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_APP_H */
