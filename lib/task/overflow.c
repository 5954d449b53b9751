/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Reports of stack overflows, with the name of the task.
 *
 *     task touches its guard --> SIGSEGV --> on_fault(), on the thread's signal stack:
 *                                              find the task whose guard is at si_addr
 *                                              write one line to stderr
 *                                              call the previous handler: the application's, a
 *                                              sanitizer's, or the default, which ends the process
 *
 * The handler takes no lock, allocates nothing, and calls write(2) only. It finds stacks and
 * control blocks through task_registry, an entry of which is cleared before the tasks' memory is
 * unmapped.
 *
 * A thread that runs tasks needs a signal stack, since the task's stack is used up. It gets one
 * when it runs the first task, unless it has one. The signal stack is freed when the thread ends.
 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <leat_log.h>

#include "task_pvt.h"

#define SIGNAL_STACK (64 * 1024)

/* Protected by task_lock. Only on_fault() reads "before" without the lock. */
static unsigned int users;
static bool installed;
static struct sigaction before;

static pthread_key_t stack_key;
static bool stack_key_made;
static __thread bool thread_ready __attribute__((tls_model("initial-exec")));

/* A line of text, composed byte by byte: the C library's formatting is not signal-safe. */
struct line {
	char text[256];
	size_t len;
};

static void
add(struct line *l, const char *s)
{
	while (*s != '\0' && l->len < sizeof(l->text) - 1)
		l->text[l->len++] = *s++;
}

static void
add_num(struct line *l, uint64_t n, unsigned int base)
{
	char digits[24];
	size_t i = sizeof(digits);

	digits[--i] = '\0';
	do {
		digits[--i] = "0123456789abcdef"[n % base];
		n /= base;
	} while (n > 0);
	add(l, &digits[i]);
}

/* Add a name. Another thread may be writing it, so there may be no terminator. */
static void
add_name(struct line *l, const char *name)
{
	size_t i;

	/* A signal handler can't look up the name of the task's function. */
	if (name[0] == '\0')
		add(l, TASK_UNNAMED);
	for (i = 0; i < LEAT_TASK_NAME_MAX && name[i] != '\0' && l->len < sizeof(l->text) - 1; i++)
		l->text[l->len++] = name[i];
}

static void
report(const struct leat_tasks *ts, const struct leat_task *t, uintptr_t addr)
{
	struct line l = { .len = 0 };
	ssize_t ignored;

	add(&l, "leat/task: stack overflow in task ");
	add_name(&l, t->name);
	add(&l, " (");
	add_num(&l, t->id, 10);
	add(&l, ") of ");
	add(&l, leat_reactor_name(ts->reactor));
	if (addr != 0) {
		add(&l, ": it touched 0x");
		add_num(&l, addr, 16);
		add(&l, " below its ");
	} else {
		add(&l, ": it wrote below its ");
	}
	add_num(&l, task_stack_size(&ts->stacks) / 1024, 10);
	add(&l, " KiB; see leat_tasks_conf.stack_size\n");
	ignored = write(STDERR_FILENO, l.text, l.len);
	(void)ignored;
}

static void
find(uintptr_t addr)
{
	unsigned int i;
	uint32_t stack;
	bool guard;

	for (i = 0; i < LEAT_REACTOR_MAX; i++) {
		const struct leat_tasks *ts = __atomic_load_n(&task_registry[i], __ATOMIC_ACQUIRE);

		if (ts == NULL || !task_stacks_find(&ts->stacks, addr, &stack, &guard) || !guard ||
		    stack >= RLX_LOAD(ts->nb_stacks))
			continue;
		report(ts, &ts->blocks[stack], addr);
		return;
	}
}

static void
on_fault(int sig, siginfo_t *info, void *context)
{
	int err = errno;

	if (info->si_code > 0)
		find((uintptr_t)info->si_addr);
	if (before.sa_flags & SA_SIGINFO) {
		before.sa_sigaction(sig, info, context);
	} else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
		before.sa_handler(sig);
	} else {
		/*
		 * The instruction faults again, now without a handler: so the core dump shows the
		 * place of the fault, and not this function.
		 */
		(void)signal(sig, SIG_DFL);
		if (info->si_code <= 0)
			(void)raise(sig);
	}
	errno = err;
}

void
task_canary_check(struct leat_tasks *ts, const struct leat_task *t)
{
	if (likely(task_stack_intact(&ts->stacks, t->index)))
		return;
	/* The stack below was overwritten. End the process, as a guard page would have done. */
	report(ts, t, 0);
	(void)raise(SIGSEGV);
}

static void
stack_free(void *mem)
{
	stack_t now, off = { .ss_flags = SS_DISABLE };

	if (sigaltstack(NULL, &now) == 0 && now.ss_sp == mem)
		(void)sigaltstack(&off, NULL);
	(void)munmap(mem, SIGNAL_STACK);
}

static void
thread_prepare(void)
{
	stack_t now, ours = { .ss_size = SIGNAL_STACK };

	thread_ready = true;
	if (sigaltstack(NULL, &now) < 0 || !(now.ss_flags & SS_DISABLE))
		return;
	ours.ss_sp = mmap(NULL, SIGNAL_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	if (ours.ss_sp == MAP_FAILED) {
		LEAT_LOG(WARNING, task, "no memory for a signal stack: overflows are not named");
		return;
	}
	if (!stack_key_made || pthread_setspecific(stack_key, ours.ss_sp) != 0 ||
	    sigaltstack(&ours, NULL) < 0) {
		if (stack_key_made)
			(void)pthread_setspecific(stack_key, NULL);
		(void)munmap(ours.ss_sp, SIGNAL_STACK);
		LEAT_LOG(WARNING, task, "no signal stack: overflows are not named");
	}
}

void
task_overflow_thread(void)
{
	if (unlikely(!thread_ready))
		thread_prepare();
}

void
task_overflow_add(void)
{
	struct sigaction act = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	if (!stack_key_made)
		stack_key_made = pthread_key_create(&stack_key, stack_free) == 0;
	if (users++ > 0 || installed)
		return;
	(void)sigemptyset(&act.sa_mask);
	installed = sigaction(SIGSEGV, &act, &before) == 0;
	if (!installed)
		LEAT_LOG(WARNING, task, "SIGSEGV: %s: overflows are not named", strerror(errno));
}

void
task_overflow_del(void)
{
	struct sigaction now;

	/* Keep a handler that was installed later: it may call this one. */
	if (--users == 0 && sigaction(SIGSEGV, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
	    now.sa_sigaction == on_fault)
		installed = sigaction(SIGSEGV, &before, NULL) < 0;
}
