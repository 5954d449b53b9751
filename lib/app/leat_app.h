/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef LEAT_APP_H
#define LEAT_APP_H

/**
 * @file
 * The frame of every program: start, lcores, signals, stop.
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
 * A program from start to end:
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
 * Thread rules: leat_app_run() on the main thread, once; other functions name their threads.
 */

#include <leat_common.h>
#include <leat_reactor.h>
#include <leat_task.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Result of leat_app.parse and leat_app.begin: the program has done all its work (`--help`, a list)
 * and ends, with 0 or the code of leat_app_stop().
 */
#define LEAT_APP_DONE 1

/**
 * Result of leat_app.start: this lcore continues, with callbacks and other tasks, until the program
 * stops.
 */
#define LEAT_APP_STAY 1

/** Exit codes of leat_app_run(). */
enum leat_app_exit {
	LEAT_APP_OK = 0, /**< ended cleanly, by itself or on a signal */
	LEAT_APP_FAILED, /**< something failed, or did not stop in time */
	LEAT_APP_USAGE,	 /**< wrong arguments: the program's own, EAL's, or a device's */
};

/** A program. Zeroed means all defaults. */
struct leat_app {
	const char *name; /**< program's name, for messages; NULL: argv[0] without its directory */
	/**
	 * Device to open if the command line names no leat device, with arguments as in `--vdev`.
	 * NULL: "fabric_ring0"; "": none.
	 */
	const char *device;
	/**
	 * The program's own arguments, as a usage line shows them: "server|client ADDRESS". If
	 * given, `-h` and `--help` print a usage line, and how to name lcores and devices, on
	 * stderr, and the program ends with 0. When parse() fails, a usage line follows its
	 * message. NULL: parse() prints usage and help itself; but if parse is NULL, too, `-h` and
	 * `--help` work as above.
	 */
	const char *usage;
	/**
	 * Parse the program's own arguments, those after "--"; argv[0] is the program's name. If
	 * usage is NULL, `-h` and `--help` in front of "--" are in argv, too. Called before
	 * anything is started. NULL: the program has no arguments, and any is an error.
	 * @return 0; LEAT_APP_DONE; negative: invalid, and parse() said why on stderr
	 */
	int (*parse)(int argc, char **argv, void *arg);
	/**
	 * The program's own options, without values, that may also stand in front of "--", as
	 * `--help` may. parse() gets them before the arguments after "--". An array that ends with
	 * NULL; NULL: none.
	 */
	const char *const *front;
	/**
	 * Called on the main thread, when the devices are open and there is no reactor yet. Create
	 * objects that all lcores share here, or do work that needs no reactor. NULL: nothing.
	 * @return 0; LEAT_APP_DONE; a negative errno, with leat_err_msg(): failed
	 */
	int (*begin)(void *arg);
	/**
	 * The program's work, as a task on each lcore; see leat_app_index().
	 * @return 0: this lcore is done, and the program ends when all are; LEAT_APP_STAY; a
	 *   negative errno, with leat_err_msg(): failed, and the program stops
	 */
	leat_task_fn start;
	/**
	 * Called on the main thread, when start() has run and all reactors are destroyed: close
	 * endpoints, print results. Not called if something did not stop in time, or if the reactor
	 * of an lcore could not be created, so that start() has run on none. If an lcore could not
	 * be launched, start() has run on some lcores only. NULL: nothing.
	 */
	void (*end)(void *arg);
	/**
	 * Called in the handler of SIGINT and SIGTERM, before the program is stopped, to end loops
	 * that a stop would not end. Can be called as soon as parse() has returned; must be
	 * async-signal-safe. NULL: nothing.
	 */
	void (*on_signal)(int sig);
	void *arg; /**< argument of parse(), begin(), start() and end() */
	/** time that a stop may take, us; after it the log names what still runs; 0: 1 s */
	uint64_t stop_us;
	const struct leat_reactor_conf *reactor; /**< NULL: defaults; the name is ignored */
	const struct leat_tasks_conf *tasks;	 /**< NULL: defaults */
};

/**
 * Run a program, from its arguments to its end.
 *
 * argv holds EAL's arguments, with `--vdev=fabric_*` for leat's devices, then "--" and the
 * program's own. Errors are logged (leat.app) and determine the exit code. The first SIGINT or
 * SIGTERM stops the program cleanly, also while EAL starts: then begin() and start() are not
 * called. A second signal of either kind kills the program at once. While a driver is loaded or
 * opens a device both signals are held back. The previous handlers of both are restored at the end.
 *
 * @return
 *   enum leat_app_exit, or the code of leat_app_stop(), for main() to return.
 */
LEAT_API int leat_app_run(int argc, char **argv, const struct leat_app *app);

/**
 * Stop the program: stop all reactors, which may take leat_app.stop_us. Any thread;
 * async-signal-safe; may be called any number of times.
 *
 * @param code
 *   Exit code; the first that is not 0 counts.
 */
LEAT_API void leat_app_stop(int code);

/** Get the number of lcores with a reactor. Any thread, from start to end. */
LEAT_API unsigned int leat_app_count(void);

/**
 * Get the number of the calling lcore, 0 (the main lcore) to leat_app_count() - 1; -1 on any other
 * thread.
 */
LEAT_API int leat_app_index(void);

/** Get the reactor of an lcore by its index, for leat_reactor_call(); NULL: none. Any thread. */
LEAT_API struct leat_reactor *leat_app_reactor(unsigned int index);

#ifdef __cplusplus
}
#endif

#endif /* LEAT_APP_H */
