/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * leat-shm-steps KILLS[:SCENARIO] SEED EAL-ARGUMENTS
 *
 * In each scenario, or the named one, victims are killed after k instructions (steps): about KILLS
 * values of k are spread over all of the scenario, and as many lie right after steps whose effect
 * the survivor can see (steps_watch.h); SEED chooses them. KILLS 0: every k. After each kill
 *
 *     - the victim's end is reported within a few turns, and every op to it has completed, once
 *     - messages from and to the victim arrive whole, in order and once; those it published arrive
 *     - the bystander's connection goes on
 *     - descriptors, mappings of shared memory and the directory are as before
 *
 * One victim in STOP_EVERY is only stopped at step k. Meanwhile the bystander's connection goes on;
 * then the victim runs to its second mark, and the same checks are made. First of all the checks
 * themselves are tested: each must fail when its fault is made on purpose.
 *
 * An argument dir=TMP of the device is replaced by a directory that this program makes. The program
 * executes itself again with LD_BIND_NOW, so that no step is in the dynamic linker, and with a
 * glibc tunable that keeps memcpy() from using "rep movsb", in which each byte is a step.
 */

#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <rte_common.h>

#include <leat_error.h>

#include "stepper.h"
#include "steps_left.h"
#include "steps_message.h"
#include "steps_share.h"
#include "steps_trace.h"
#include "steps_watch.h"
#include "steps_zygote.h"

/* Turns of the survivor within which the victim's end must be reported. */
#define TURNS_TO_KNOW 100
/* Time within which a sleeping survivor must wake; a loaded machine may give it no CPU for long. */
#define TOLD_MS 5000
/* Messages that the bystander must exchange after a kill, and while the victim is stopped. */
#define MESSAGES_AFTER 2
#define MESSAGES_MEANWHILE 20
/* One in this many victims is stopped instead of killed. */
#define STOP_EVERY 8
/* Heap growth, bytes, allowed over all kills of a scenario, for example for buffers of libc. */
#define HEAP_SLACK 1024
#define ARGS 64
/* Victims that are started in advance. */
#define ADVANCE 8
/* First bytes of the region, in which changes count as visible: the counter and some data. */
#define WATCHED (STEPS_DATA + 64)
#define TUNABLES                                                                                   \
	"glibc.cpu.x86_rep_movsb_threshold=0x7fffffff:"                                            \
	"glibc.cpu.x86_rep_stosb_threshold=0x7fffffff:"                                            \
	"glibc.malloc.tcache_count=0"

/* Faults that are made on purpose. */
enum fault {
	NO_FAULT,
	FAULT_TORN,
	FAULT_LOST,
	FAULT_DOUBLED,
	FAULT_HALF_WRITTEN,
	FAULT_UNTOLD,
	FAULT_DESCRIPTOR,
	FAULT_MAPPING,
	FAULT_NAME,
	FAULT_BUSY,
	FAULT_LATE,
};

/* says: words of the text with which the check fails */
static const struct {
	enum fault fault;
	const char *name, *scenario, *says;
} faults[] = {
	{ FAULT_TORN, "a torn message", "post a buffered send", "torn" },
	{ FAULT_LOST, "a lost message", "post a burst of sends", "lost" },
	{ FAULT_DOUBLED, "a doubled message", "post a burst of sends", "doubled" },
	{ FAULT_HALF_WRITTEN, "half a write", "write", "torn" },
	{ FAULT_UNTOLD, "an end that is not told", "post a small send", "does not end" },
	{ FAULT_DESCRIPTOR, "a leaked descriptor", "connect", "descriptors" },
	{ FAULT_MAPPING, "leaked memory", "connect", "shared memory" },
	{ FAULT_NAME, "a name that is left", "listen", "names" },
	{ FAULT_TORN, "a torn message from shared memory", "send from shared memory", "torn" },
	{ FAULT_HALF_WRITTEN, "half a word in a shared region", "write to a shared region",
	  "torn" },
	{ FAULT_BUSY, "a shared region that stays busy", "write 64 KiB to a shared region",
	  "stays busy" },
	{ FAULT_LATE, "a write to a region that was taken back", "write 64 KiB to a shared region",
	  "was changed" },
	{ FAULT_DESCRIPTOR, "a leaked descriptor of shared memory", "connect and share",
	  "descriptors" },
	{ FAULT_MAPPING, "leaked shared memory", "connect and share", "shared memory" },
};

static struct steps_living living;
static struct steps_notes *notes;
static struct leat_dev *device;
static enum fault fault;
static char **eal_argv;
static int eal_argc;
static char made[] = "/tmp/leat-steps-XXXXXX";
static const char *directory;	 /* the device's; NULL: sockets have abstract names */
static struct steps_trace trace; /* steps of the scenario's victim */
static bool share;		 /* share=1: victims have an EAL of their own */
static unsigned int nb_kills;
static unsigned int nb_busy; /* victims killed while they accessed the region */
static unsigned int missed;  /* victims that reached their second mark before step k */
static unsigned int number;  /* number of the last TAP line */

/* ---- the victim ---- */

static void
start_eal(void)
{
	char *argv[ARGS];
	cpu_set_t cpus;

	/* EAL changes the order of its arguments: pass a copy. */
	CHECK(eal_argc < ARGS, "too many arguments");
	memcpy(argv, eal_argv, ((size_t)eal_argc + 1) * sizeof(*argv));
	/* EAL pins this thread to one CPU, the same in all concurrent tests: undo that. */
	CHECK(sched_getaffinity(0, sizeof(cpus), &cpus) == 0, "affinity: %s", strerror(errno));
	CHECK(leat_init(eal_argc, argv) >= 0, "leat_init: %s", leat_err_msg());
	CHECK(sched_setaffinity(0, sizeof(cpus), &cpus) == 0, "affinity: %s", strerror(errno));
	device = leat_dev_get(0);
	CHECK(device != NULL, "no device");
}

/* Listen at the name that a killed listener left, and close, which removes the name. */
static void
take_over_name(void)
{
	const struct leat_ep_conf conf = { .max_peers = 1 };
	struct leat_ep *ep = leat_ep_create(device, &conf);

	CHECK(ep != NULL && leat_ep_listen(ep, STEPS_ADDR) == 0, "listen again: %s",
	      leat_err_msg());
	CHECK(leat_ep_close(ep, 1000000, NULL, NULL) == 0, "close: %s", leat_err_msg());
}

static void
victim(const struct steps_scenario *sc)
{
	static struct steps_victim v;

	CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "prctl: %s", strerror(errno));
	steps_victim_open(&v, device, notes);
	steps_prepare(sc, &v, notes->addr);
	if (fault == FAULT_TORN)
		v.buf[100] ^= 1;
	else if (fault == FAULT_LOST)
		v.op[3] = v.op[4];
	else if (fault == FAULT_DOUBLED)
		v.op[4] = v.op[3];
	CHECK(stepper_here(true), "this process may not be traced");
	steps_act(sc, &v, notes->addr);
	(void)stepper_here(false);
	_exit(0);
}

/* Run the victim, which is a fork of the zygote. */
static void
victim_with_eal(void)
{
	victim(&steps_scenarios[notes->nr]);
}

/* Start leat. Map the notes before the zygote is forked, so that its forks share them. */
static void
start_leat(void)
{
	notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	CHECK(notes != MAP_FAILED, "notes: %s", strerror(errno));
	if (share)
		steps_zygote_start(fault == NO_FAULT ? ADVANCE : 1, start_eal, victim_with_eal);
	start_eal();
}

static pid_t
fork_victim(const struct steps_scenario *sc)
{
	pid_t pid;
	int fd;

	if (share)
		return steps_zygote_victim();
	CHECK(fflush(stdout) == 0, "stdout: %s", strerror(errno));
	pid = fork();
	CHECK(pid >= 0, "fork: %s", strerror(errno));
	if (pid == 0) {
		/* Close the survivor's descriptors, above all its sockets. */
		for (fd = 3; fd < 1024; fd++)
			(void)close(fd);
		victim(sc);
	}
	return pid;
}

static void
turn_for_events(void)
{
	steps_turn(&living, true);
	(void)sched_yield();
}

static pid_t
start(const struct steps_scenario *sc)
{
	const uint64_t counter = STEPS_COUNTER;
	pid_t pid;

	steps_peer_reset(&living);
	memset(notes, 0, offsetof(struct steps_notes, memory));
	steps_fill(notes->memory + STEPS_DATA, STEPS_MEMORY - STEPS_DATA, STEPS_OLD);
	memcpy(notes->memory, &counter, sizeof(counter));
	notes->nr = (unsigned int)(sc - steps_scenarios);
	memcpy(notes->addr, living.addr, sizeof(notes->addr));
	pid = fork_victim(sc);
	STEPS_UNTIL(turn_for_events(), stepper_reached(pid),
		    "the victim does not come to its mark");
	return pid;
}

/* ---- a scenario ---- */

/* Run one turn of the survivor, then let the victim have the CPU. */
static void
turn_beside(const struct steps_scenario *sc)
{
	steps_beside(sc, &living, notes);
	(void)sched_yield();
}

/*
 * Let the victim run, and drive the survivor, until the victim stops. As in stepper.h, signals from
 * outside are not delivered to the victim. @return true: it is at the breakpoint; false: it is at
 * its second mark
 */
static bool
run_to_break(pid_t pid, const struct steps_scenario *sc)
{
	int st, got = 0;

	do {
		CHECK(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0, "PTRACE_CONT: %s",
		      strerror(errno));
		STEPS_UNTIL(turn_beside(sc), (got = waitpid(pid, &st, WNOHANG)) != 0,
			    "the victim does not go on");
		CHECK(got == pid, "waitpid: %s", strerror(errno));
	} while (stepper_why(st) != STEPPER_MARK && stepper_why(st) != SIGTRAP);
	return stepper_why(st) == SIGTRAP;
}

/* Let the victim execute k steps. @return false: it reached its second mark before step k */
static bool
step(pid_t pid, const struct steps_scenario *sc, unsigned int k)
{
	/* The survivor runs a turn every pace steps; pace depends on k, so these steps vary. */
	const unsigned int pace = 32 + k % 64;
	unsigned int i = 0, n;

	if (k >= trace.nb)
		return run_to_break(pid, sc);
	if (trace.at != NULL && trace.anchor[k] > 0 &&
	    steps_trace_break(pid, trace.at[trace.anchor[k]])) {
		i = trace.anchor[k];
		for (n = 0; n <= trace.passed[i]; n++) {
			if (!run_to_break(pid, sc))
				return false;
		}
		CHECK(steps_trace_break(pid, 0), "breakpoint: %s", strerror(errno));
	}
	for (; i < k; i++) {
		if (!stepper_step(pid))
			return false;
		if (i % pace == pace - 1)
			steps_beside(sc, &living, notes);
	}
	return true;
}

/* The victim is dead: wait until its connection has ended and all ops to it have completed. */
static void
wait_parted(const struct steps_scenario *sc)
{
	unsigned int turns;

	for (turns = 0; turns < TURNS_TO_KNOW; turns++) {
		/* End the connect to the dead victim, which would be retried for a while. */
		if (turns == TURNS_TO_KNOW / 4 && sc->call == STEPS_ACCEPT &&
		    leat_ep_peer_state(living.s.ep, living.v.id) == LEAT_PEER_CONNECTING)
			CHECK(leat_ep_disconnect(living.s.ep, living.v.id) == 0, "give up: %s",
			      leat_err_msg());
		/* Wait some turns: a connect request of the victim may still be on its way. */
		if (turns > TURNS_TO_KNOW / 10 && steps_peer_gone(&living))
			return;
		steps_turn(&living, true);
	}
	CHECK(false, "the victim's connection does not end: %u up, %u ended", living.v.ups,
	      living.v.ends);
}

static void
inject_fault(void)
{
	void *mem;
	int fd;

	switch (fault) {
	case FAULT_HALF_WRITTEN:
		living.memory[STEPS_DATA + 50] ^= 0xff;
		break;
	case FAULT_DESCRIPTOR:
		CHECK(dup(STDERR_FILENO) >= 0, "dup: %s", strerror(errno));
		break;
	case FAULT_MAPPING:
		fd = memfd_create("leat-shm", MFD_CLOEXEC);
		CHECK(fd >= 0 && ftruncate(fd, 4096) == 0, "memory: %s", strerror(errno));
		mem = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		CHECK(mem != MAP_FAILED, "memory: %s", strerror(errno));
		CHECK(close(fd) == 0, "close: %s", strerror(errno));
		break;
	default:
		break;
	}
}

/* Check the survivor after the victim's end. @return whether the victim's action took effect */
static bool
check_after(const struct steps_scenario *sc, const struct steps_left *before)
{
	/* true: deregister the region before the victim's end is reported; false: after that. */
	const bool early = nb_kills++ % 4 != 3;

	if (early && living.mr != NULL && steps_share_direct(sc))
		nb_busy += steps_share_deregister(&living);
	wait_parted(sc);
	if (living.mr != NULL && steps_share_direct(sc))
		nb_busy += steps_share_deregister(&living);
	inject_fault();
	steps_bystander_moves(&living, MESSAGES_AFTER);
	if ((sc->call == STEPS_LISTEN || sc->call == STEPS_ACCEPT) && fault != FAULT_NAME)
		take_over_name();
	steps_left_compare(before, directory);
	return steps_check(sc, &living, notes);
}

static pid_t
start_to_mark(const struct steps_scenario *sc)
{
	pid_t pid = start(sc);

	/* Wait for the victim's connection, except in the scenarios about connecting. */
	if (sc->call != STEPS_LISTEN && sc->call != STEPS_CONNECT && sc->call != STEPS_ACCEPT)
		STEPS_UNTIL(steps_turn(&living, true), living.v.state == STEPS_UP,
			    "the victim's connection is not up");
	steps_meanwhile(sc, &living);
	return pid;
}

static bool
kill_after(const struct steps_scenario *sc, unsigned int k, const struct steps_left *before)
{
	pid_t pid = start_to_mark(sc);

	missed += !step(pid, sc, k) && k < trace.nb;
	if (living.asleep)
		CHECK(atomic_load(&notes->posted) == 0 || steps_woken(&living, 0),
		      "lost: a sleeper is not woken by what was posted");
	if (fault != FAULT_UNTOLD && fault != FAULT_BUSY)
		stepper_kill(pid);
	if (living.asleep) {
		CHECK(steps_woken(&living, TOLD_MS),
		      "a sleeper is not woken by the death of a peer");
		steps_wake(&living);
	}
	return check_after(sc, before);
}

/* While the victim is stopped at step k, the survivor takes memory back: see steps_share.h. */
static void
take_after(const struct steps_scenario *sc, unsigned int k, bool region,
	   const struct steps_left *before)
{
	pid_t pid = start_to_mark(sc);

	missed += !step(pid, sc, k);
	steps_share_take(sc, &living, notes, region);
	steps_bystander_moves(&living, MESSAGES_MEANWHILE);
	if (atomic_load(&notes->through) == 0)
		CHECK(!run_to_break(pid, sc), "a breakpoint that is none");
	CHECK(atomic_load(&notes->through) != 0, "a victim that was stopped is not through");
	STEPS_UNTIL(steps_turn(&living, true), steps_share_turn(&living),
		    "the memory that a stopped victim reached does not come back");
	stepper_kill(pid);
	(void)check_after(sc, before);
	living.memory[STEPS_DATA] ^= fault == FAULT_LATE;
	steps_share_taken(&living);
}

/* Stop the victim at step k for a while, then let it run to its second mark. */
static void
stop_after(const struct steps_scenario *sc, unsigned int k, const struct steps_left *before)
{
	pid_t pid = start_to_mark(sc);
	unsigned int ends;

	if (step(pid, sc, k)) {
		if (living.asleep)
			steps_wake(&living);
		ends = living.v.ends + living.v.failed;
		steps_bystander_moves(&living, MESSAGES_MEANWHILE);
		CHECK(living.v.ends + living.v.failed == ends || sc->call >= STEPS_DISCONNECT,
		      "the connection of a stopped process ended");
		CHECK(!run_to_break(pid, sc), "a breakpoint that is none");
	}
	CHECK(atomic_load(&notes->through) != 0, "a victim that was stopped is not through");
	if (living.asleep)
		steps_wake(&living);
	stepper_kill(pid);
	CHECK(check_after(sc, before),
	      "lost: a victim that was stopped is through, without effect");
}

/* Record the steps of one victim, up to its second mark, in trace. */
static void
record(const struct steps_scenario *sc, const struct steps_left *before)
{
	pid_t pid = start_to_mark(sc);
	bool more = true, call;

	steps_trace_free(&trace);
	steps_watch_renew(living.memory, WATCHED);
	while (more) {
		call = steps_watch_call(pid, steps_trace_add(&trace, pid));
		more = stepper_step(pid);
		if (steps_watch_changed() || call)
			steps_trace_seen(&trace);
		if (trace.nb % 64 == 0) {
			steps_beside(sc, &living, notes);
			steps_watch_renew(living.memory, WATCHED);
		}
	}
	steps_watch_end();
	steps_trace_end(&trace);
	if (living.asleep)
		steps_wake(&living);
	stepper_kill(pid);
	CHECK(check_after(sc, before), "lost: the victim is through, without effect");
}

struct tally {
	unsigned int victims, effect[2], stops;
	uint64_t seed;
};

/* Kill a victim after k steps, but stop one in STOP_EVERY; after a stop, if every, kill another. */
static void
end_after(const struct steps_scenario *sc, unsigned int k, const struct steps_left *before,
	  struct tally *t, bool every)
{
	const bool stop = (t->victims++ + t->seed) % STOP_EVERY == STOP_EVERY / 2;

	if (stop) {
		if (sc->share && sc->call <= STEPS_SURVIVOR_POSTS)
			take_after(sc, k, t->stops % 2 == 0, before);
		else
			stop_after(sc, k, before);
		t->stops++;
	}
	if (!stop || every)
		t->effect[kill_after(sc, k, before)]++;
}

static void
report(const struct steps_scenario *sc, const struct tally *t, size_t heap, uint64_t began)
{
	CHECK(heap <= HEAP_SLACK, "%zu bytes of heap more after %u victims", heap, t->victims);
	CHECK(t->effect[0] > 0 && t->effect[1] > 0, "%s: %u kills before it took effect, %u after",
	      sc->name, t->effect[0], t->effect[1]);
	/* Most steps of these victims copy to the region: some must be killed while they do. */
	CHECK(nb_busy > 0 || !steps_share_direct(sc) || sc->size != STEPS_SHARED,
	      "%s: no victim was killed in the region", sc->name);
	printf("ok %u - %s\n", ++number, sc->name);
	printf("# %u steps, %u of them seen by others; %u kills before it took effect, %u after, "
	       "%u through; %u stops; %u times busy; %" PRIu64 " ms\n",
	       trace.nb, trace.nb_seen, t->effect[0], t->effect[1], missed, t->stops, nb_busy,
	       leat_cycles_to_ns(leat_now() - began) / 1000000);
	CHECK(fflush(stdout) == 0, "stdout: %s", strerror(errno));
}

/* kills: number spread over all steps, and as many after visible steps; 0: kill at every step */
static void
run(const struct steps_scenario *sc, unsigned int kills, uint64_t seed)
{
	const struct steps_left before = steps_left_count(directory);
	struct tally t = { .seed = seed };
	const uint64_t began = leat_now();
	unsigned int k, stride;
	size_t heap, more;

	record(sc, &before);
	missed = nb_busy = 0;
	t.effect[kill_after(sc, 0, &before)]++;
	t.effect[kill_after(sc, UINT32_MAX, &before)]++;
	heap = mallinfo2().uordblks;
	stride = kills == 0 ? 1 : trace.nb / kills + 1;
	for (k = (unsigned int)(seed % stride); k < trace.nb; k += stride)
		end_after(sc, k, &before, &t, kills == 0);
	stride = kills == 0 ? trace.nb_seen + 1 : trace.nb_seen / kills + 1;
	for (k = (unsigned int)(seed % stride); kills > 0 && k < trace.nb_seen; k += stride)
		end_after(sc, trace.seen[k] + 1, &before, &t, false);
	/* In its first visible steps the victim announces that it enters the region: stop there. */
	for (k = 0; steps_share_direct(sc) && k < RTE_MIN(trace.nb_seen, 2u); k++) {
		take_after(sc, trace.seen[k], true, &before);
		take_after(sc, trace.seen[k], false, &before);
		take_after(sc, trace.seen[k] + 1, k == 0, &before);
	}
	more = mallinfo2().uordblks;
	report(sc, &t, more > heap ? more - heap : 0, began);
}

/* ---- tests of the checks ---- */

static void
make_fault(const struct steps_scenario *sc, enum fault f)
{
	struct steps_left before;

	fault = f;
	start_leat();
	steps_living_open(&living, device, 1);
	before = steps_left_count(directory);
	if (f == FAULT_BUSY || f == FAULT_LATE) {
		fault = NO_FAULT;
		record(sc, &before);
		fault = f;
	}
	if (f == FAULT_LATE)
		take_after(sc, trace.nb / 2, true, &before);
	else
		(void)kill_after(sc, f == FAULT_BUSY ? trace.nb / 2 : UINT32_MAX, &before);
}

/* Fork a process that makes fault f: it must fail with the text of the check for f. */
static void
must_fail(unsigned int f, const struct steps_scenario *sc)
{
	int says[2], st;
	char text[512];
	ssize_t len;
	pid_t pid;

	CHECK(pipe(says) == 0 && fflush(stdout) == 0, "pipe: %s", strerror(errno));
	pid = fork();
	CHECK(pid >= 0, "fork: %s", strerror(errno));
	if (pid == 0) {
		CHECK(dup2(says[1], 2) == 2, "dup2: %s", strerror(errno));
		make_fault(sc, faults[f].fault);
		_exit(0);
	}
	CHECK(close(says[1]) == 0, "close: %s", strerror(errno));
	for (len = 0; (size_t)len < sizeof(text) - 1;) {
		ssize_t ret = read(says[0], text + len, sizeof(text) - 1 - (size_t)len);

		if (ret <= 0)
			break;
		len += ret;
	}
	text[len] = '\0';
	CHECK(close(says[0]) == 0, "close: %s", strerror(errno));
	CHECK(waitpid(pid, &st, 0) == pid, "waitpid: %s", strerror(errno));
	CHECK(WIFEXITED(st) && WEXITSTATUS(st) == 1 && strstr(text, faults[f].says) != NULL,
	      "%s is not found: status %#x, \"%s\"", faults[f].name, (unsigned int)st, text);
	printf("ok %u - %s is found\n", ++number, faults[f].name);
}

/* ---- the program ---- */

static void
start_again(char **argv)
{
	if (getenv("LD_BIND_NOW") != NULL)
		return;
	CHECK(setenv("LD_BIND_NOW", "1", 1) == 0 && setenv("GLIBC_TUNABLES", TUNABLES, 1) == 0,
	      "environment: %s", strerror(errno));
	(void)execv("/proc/self/exe", argv);
	CHECK(false, "exec: %s", strerror(errno));
}

/* Read the device's arguments dir=, segment= and share=. */
static void
read_arguments(int argc, char **argv)
{
	static char arg[512];
	uint64_t segment = 512u << 10;
	const char *at;
	int i;

	for (i = 0; i < argc; i++) {
		at = strstr(argv[i], "segment=");
		if (at != NULL)
			segment = strtoull(at + strlen("segment="), NULL, 0);
		share = share || strstr(argv[i], "share=1") != NULL;
		at = strstr(argv[i], "dir=TMP");
		if (at == NULL)
			continue;
		directory = mkdtemp(made);
		CHECK(directory != NULL, "%s: %s", made, strerror(errno));
		snprintf(arg, sizeof(arg), "%.*sdir=%s%s", (int)(at - argv[i]), argv[i], directory,
			 at + strlen("dir=TMP"));
		argv[i] = arg;
	}
	steps_set_segment(segment);
	eal_argc = argc;
	eal_argv = argv;
}

static void
run_all(unsigned int kills, uint64_t seed, const char *only)
{
	unsigned int i;

	steps_living_open(&living, device, seed);
	steps_bystander_moves(&living, MESSAGES_MEANWHILE);
	for (i = 0; i < steps_nb_scenarios; i++) {
		if (steps_scenarios[i].share != share ||
		    (only != NULL && strcmp(only, steps_scenarios[i].name) != 0))
			continue;
		if (steps_scenarios[i].asleep && !steps_can_wait(device))
			printf("ok %u - %s # SKIP no wait object\n", ++number,
			       steps_scenarios[i].name);
		else
			run(&steps_scenarios[i], kills, seed);
	}
	steps_living_close(&living);
	if (share)
		steps_zygote_end();
}

static void
check_checks(void)
{
	const struct steps_scenario *sc;
	unsigned int f;

	for (f = 0; f < RTE_DIM(faults); f++) {
		sc = steps_scenario_find(faults[f].scenario);
		CHECK(sc != NULL, "no scenario %s", faults[f].scenario);
		if (sc->share == share && (faults[f].fault != FAULT_NAME || directory != NULL))
			must_fail(f, sc);
	}
}

int
main(int argc, char **argv)
{
	static char no_tune[] = "--no-tune";
	const char *only = NULL;
	unsigned int kills;
	char *end;
	uint64_t seed;

	CHECK(argc > 3, "usage: leat-shm-steps KILLS[:SCENARIO] SEED EAL-ARGUMENTS");
	start_again(argv);
	if (!stepper_works()) {
		printf("1..0 # SKIP no child can be run step by step here\n");
		return 0;
	}
	kills = (unsigned int)strtoul(argv[1], &end, 0);
	if (*end == ':')
		only = end + 1;
	seed = strtoull(argv[2], NULL, 0);
	/* Disable tune: if its thread holds a lock during a fork, the child waits for ever. */
	argv[1] = argv[0];
	argv[2] = no_tune;
	read_arguments(argc - 1, argv + 1);
	if (only == NULL)
		check_checks();
	start_leat();
	/* Remove a name that a fault left in the directory. */
	if (only == NULL && directory != NULL)
		take_over_name();
	run_all(kills, seed, only);
	printf("1..%u\n", number);
	CHECK(leat_cleanup() == 0, "%s", leat_err_msg());
	CHECK(directory == NULL || rmdir(directory) == 0, "%s: %s", directory, strerror(errno));
	return 0;
}
