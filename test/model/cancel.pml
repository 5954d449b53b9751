/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Cancel: which tasks get the signal, how often, and whether the cancel or a completion wins.
 *
 *     spin -a cancel.pml && gcc -DSAFETY -o pan pan.c && ./pan -m100000
 *
 * One task waits for a scope of two branches; one of these may wait for a scope of its own, of two
 * more branches. Each branch posts operations, cancels and ends, in any order. Pollers, and another
 * lcore, end operations at any moment. The parent before it waits, or other code on the reactor's
 * thread between any two tasks (the outsider), cancels a scope or a task.
 *
 *     0 parent ---- scope 0 --+-- 1 ---- scope 1 --+-- 3
 *         |                   |                    `-- 4
 *         |                   `-- 2        ^
 *         v                                |
 *     leat_scope_cancel()                 5 outsider: leat_scope_cancel(), leat_task_cancel()
 *
 * The model's names, and those of lib/task:
 *
 *     model                       lib/task
 *     flag[t], signals[t]         TASK_CANCELLED of a task; signals is the checker's
 *     op[t], kind[t]              struct task_wait of a task, and its type
 *     kind LOCAL                  an operation of this thread: timer, event, other resources that
 *                                 answer LEAT_CANCEL_FREED: their cancel takes the operation back
 *     kind REMOTE                 call to another lcore (call.c): the side that changes the state
 *                                 first, CALL_POSTED to CALL_TAKEN or to CALL_DROPPED, wins; the
 *                                 call ends when that lcore has released it. RUNNING and CANCELLED
 *                                 in the model
 *     kind HARD                   no cancel, or LEAT_CANCEL_LATE
 *     kind SCOPE                  leat_scope_wait()
 *     promised[t]                 resource_wait.promised
 *     cancelled[s], outer[s]      leat_scope.cancelled, .outer
 *     live[s]                     leat_scope.nb_live
 *     cpu                         the reactor: one task runs at a time, until it waits; or a
 *                                 timer, a poller, a message: the outsider
 *     inline scope_open           leat_scope_init(), or the first leat_scope_branch() after
 *                                 leat_scope_wait()
 *     inline deliver              scope_signal()
 *     inline walk, descend        scope_walk(), whose loop is unrolled here to the depth there is
 *     inline cancel               leat_scope_cancel_siblings()
 *     inline call_off             leat_scope_cancel()
 *     inline cancel_task          leat_task_cancel()
 *     inline post, park           task_may_wait(), task_park()
 *     inline finish               task_wake()
 *
 * A step of a task ends before each access to memory that another lcore changes, so the checker
 * puts the other lcore's steps between any two of them.
 *
 * -D of one of these breaks the model; test/model/run checks that the named property is then
 * violated:
 *
 *     BREAK_TWICE    the flag is not checked before the signal is given         rule 2
 *     BREAK_LOST     a branch that waits in an operation does not get the flag  rule 2
 *     BREAK_MISSED   only branches that wait in an operation get the signal     rule 2
 *     BREAK_EXIST    the descent does not mark the child scope                  rule 5
 *     BREAK_FIRST    it is not checked whether the scope was cancelled          rule 5
 *     BREAK_SHALLOW  no descent                                                 rule 6
 *     BREAK_CALLER   the caller gets the signal like the other branches         rule 6
 *     BREAK_REUSE    a scope that has ended keeps its outcome                   rule 6
 *     BREAK_PARENT   the task that waits gets the signal as well                rule 6
 *     BREAK_RACE     the state is read, then written                            rule 8
 *     BREAK_END      cancel ends an operation that another lcore has            rule 8
 *     BREAK_ALONE    leat_task_cancel() does not descend                        rule 12
 *     BREAK_SPARED   a scope that a branch has cancelled is skipped             rule 12
 *     BREAK_WAITER   leat_scope_cancel() cancels the task that waits as well    rule 12
 *     BREAK_SILENT   the wait does not report that the scope was cancelled      rule 12
 */

#define PARENT 0
#define OUTSIDER 5
#define TASKS 5
#define SCOPES 2
#define NOBODY 255

#ifndef OPS
#define OPS 1 /* operations of a branch, at most */
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef OUTSIDE
#define OUTSIDE 1 /* cancels by the outsider, at most */
#endif

mtype = { NONE, POSTED, CANCELLED, RUNNING, ENDED };	/* op */
mtype = { LOCAL, REMOTE, HARD, SCOPE };			/* kind */
mtype = { OWN, ECANCELED };				/* result */

byte cpu = NOBODY;
bool alive[TASKS];
bool flag[TASKS];
byte signals[TASKS];
mtype op[TASKS] = NONE;
mtype kind[TASKS] = LOCAL;
mtype result[TASKS] = OWN;
byte live[SCOPES];
bool open[SCOPES];
bool cancelled[SCOPES];
bool outer[SCOPES];

/* State of the checker, not of lib/task. */
bool promised[TASKS];	/* cancel answered: the operation will end as cancelled */
bool held[TASKS];	/* the other lcore is running the operation */
byte ends[TASKS];	/* how often the current operation ended */
bool delivered[SCOPES]; /* a cancel returned 0 */
bool from_above[SCOPES]; /* the task that waits was cancelled while this was open */
bool called_off[SCOPES]; /* leat_scope_cancel() returned 0 */
byte outside;		/* cancels by the outsider so far */
bool waits_has;		/* the task that waits had the signal when its scope was called off */

#define SCOPE_OF(t) ((t) >= 3 -> 1 : 0)
#define SCOPE_BELOW(t) (t)

/* Rule 8: an operation ends once, and as cancel promised. */
inline finish(t, r)
{
	result[t] = r;
	ends[t]++;
	assert(ends[t] == 1);					/* rule 8: ends once */
	assert(!held[t]);					/* rule 8: no other lcore has it */
	assert(!promised[t] || result[t] == ECANCELED);		/* rule 8: the cancel has won */
	op[t] = ENDED
}

/* Give the signal, and cancel the operation; one that the other lcore has goes on. */
inline deliver(t)
{
	d_step {
		if
#ifdef BREAK_TWICE
		:: alive[t] ->
#else
		:: alive[t] && !flag[t] ->
#endif
#ifdef BREAK_LOST
			flag[t] = (op[t] != POSTED);
#else
			flag[t] = true;
#endif
			signals[t]++;
			assert(signals[t] == 1);		/* rule 2: never twice */
			if
			:: op[t] == POSTED && kind[t] == LOCAL ->
				promised[t] = true;
				finish(t, ECANCELED)
			:: else
			fi
		:: else
		fi
	};
#ifdef BREAK_RACE
	if
	:: op[t] == POSTED && kind[t] == REMOTE ->
		skip; /* the other lcore may take it here */
		op[t] = CANCELLED;
		promised[t] = true
	:: else
	fi;
#else
	d_step { /* compare and exchange */
		if
		:: op[t] == POSTED && kind[t] == REMOTE ->
			op[t] = CANCELLED;
			promised[t] = true
		:: else
		fi
	};
#endif
#ifdef BREAK_END
	d_step {
		if
		:: op[t] == CANCELLED -> finish(t, ECANCELED)
		:: else
		fi
	}
#endif
}

/* Scope 1, as the operation of branch 1. */
inline descend()
{
	if
	:: open[1] ->
		/* A scope that a branch has cancelled: only that branch has no signal yet. */
		d_step {
			if
			:: cancelled[1]
			:: else ->
#ifndef BREAK_EXIST
				cancelled[1] = true;
#endif
				outer[1] = true
			fi
		};
		deliver(3);
		deliver(4)
	:: else
	fi
}

#ifdef BREAK_CALLER
#define SPARED(t, me) false
#else
#define SPARED(t, me) ((t) == (me))
#endif

#ifdef BREAK_MISSED
#define LEFT_OUT(t) (op[t] != POSTED)
#else
#define LEFT_OUT(t) false
#endif

inline walk(me)
{
	if
	:: SCOPE_OF(me) == 0 ->
		if
		:: SPARED(1, me) || LEFT_OUT(1)
		:: else ->
			deliver(1);
#ifndef BREAK_SHALLOW
			descend()
#endif
		fi;
		if
		:: SPARED(2, me) || LEFT_OUT(2)
		:: else -> deliver(2)
		fi
	:: else ->
		if
		:: SPARED(3, me) || LEFT_OUT(3)
		:: else -> deliver(3)
		fi;
		if
		:: SPARED(4, me) || LEFT_OUT(4)
		:: else -> deliver(4)
		fi
	fi;
#ifdef BREAK_PARENT
	if
	:: SCOPE_OF(me) == 0 -> deliver(PARENT)
	:: else -> deliver(1)
	fi
#endif
}

/* Each living branch has the signal, except the caller, which has it only if it had it before. */
inline check_walk(me, had)
{
	d_step {
		if
		:: SCOPE_OF(me) == 0 ->
			assert(me == 1 || !alive[1] || signals[1] == 1); /* rule 2: never lost */
			assert(me == 2 || !alive[2] || signals[2] == 1); /* rule 2: never lost */
			assert(me == 1 || !open[1] || !alive[3] || signals[3] > 0); /* rule 6 */
			assert(me == 1 || !open[1] || !alive[4] || signals[4] > 0); /* rule 6 */
			assert(signals[PARENT] == 0 || from_above[0])	/* rule 6: not the parent */
		:: else ->
			assert(me == 3 || !alive[3] || signals[3] == 1); /* rule 2: never lost */
			assert(me == 4 || !alive[4] || signals[4] == 1); /* rule 2: never lost */
			assert(signals[1] == 0 || from_above[1])	/* rule 6: not the parent */
		fi;
		assert(flag[me] == had)				/* rule 6: not the caller */
	}
}

inline cancel(me)
{
	if
#ifndef BREAK_FIRST
	:: d_step {
		cancelled[SCOPE_OF(me)] ->
		/* rule 5: -EEXIST has a reason */
		assert(delivered[SCOPE_OF(me)] || from_above[SCOPE_OF(me)])
	   }
	:: d_step {
		!cancelled[SCOPE_OF(me)] ->
#else
	:: d_step {
		true ->
#endif
		assert(!delivered[SCOPE_OF(me)]);		/* rule 5: one of them gets 0 */
		assert(!from_above[SCOPE_OF(me)]);		/* rule 5: none after one above */
		had = flag[me];
		cancelled[SCOPE_OF(me)] = true;
		delivered[SCOPE_OF(me)] = true;
		if
		:: SCOPE_OF(me) == 0 && me != 1 && open[1] -> from_above[1] = true
		:: else
		fi
	   };
	   walk(me);
	   check_walk(me, had);
	   had = false
	fi
}

/* leat_scope_cancel() of a scope that has branches, and that a task waits or will wait for. */
inline call_off(s)
{
	d_step {
		waits_has = flag[s];
		if
		:: cancelled[s]
		:: else ->
			assert(!delivered[s] && !from_above[s]);	/* rule 5: none before it */
			cancelled[s] = true;
#ifndef BREAK_SILENT
			outer[s] = true;
#endif
			called_off[s] = true;
			delivered[s] = true
		fi;
		if
		:: s == 0 && open[1] -> from_above[1] = true
		:: else
		fi;
		outside++
	};
#ifdef BREAK_SPARED
	if
	:: !called_off[s]
	:: else ->
#endif
	if
	:: s == 0 ->
		deliver(1);
		descend();
		deliver(2)
	:: else ->
		deliver(3);
		deliver(4)
	fi;
#ifdef BREAK_SPARED
	fi;
#endif
#ifdef BREAK_WAITER
	flag[s] = true;
#endif
	d_step {
		assert(flag[s] == waits_has);		/* rule 12: not the task that waits */
		waits_has = false;
		if
		:: s == 0 ->
			assert(!alive[1] || signals[1] == 1);	/* rule 12: each of them */
			assert(!alive[2] || signals[2] == 1)	/* rule 12: each of them */
		:: else
		fi;
		if
		:: s == 1 || open[1] ->
			assert(!alive[3] || signals[3] == 1);	/* rule 12: each of them */
			assert(!alive[4] || signals[4] == 1)	/* rule 12: each of them */
		:: else
		fi
	}
}

/* leat_task_cancel() of a task that runs or waits. */
inline cancel_task(t)
{
	if
	:: flag[t] -> outside++ /* -EEXIST */
	:: else ->
		d_step {
			outside++;
			if
			:: t == PARENT -> from_above[0] = true
			:: else
			fi;
			if
			:: t <= 1 && open[1] -> from_above[1] = true
			:: else
			fi
		};
		if
		:: t == PARENT ->
			d_step {
				flag[PARENT] = true;
				signals[PARENT]++;
				assert(signals[PARENT] == 1);		/* rule 2: never twice */
				if
				:: cancelled[0]
				:: else ->
					cancelled[0] = true;
					outer[0] = true
				fi
			};
			deliver(1);
			descend();
			deliver(2)
		:: t == 1 ->
			deliver(1);
#ifndef BREAK_ALONE
			descend()
#endif
		:: else -> deliver(t)
		fi;
		d_step {
			assert(!alive[t] || signals[t] == 1);		/* rule 2: never lost */
			if
			:: t == PARENT ->
				assert(!alive[1] || signals[1] == 1);	/* rule 12: descends */
				assert(!alive[2] || signals[2] == 1)	/* rule 12: descends */
			:: else
			fi;
			if
			:: t <= 1 && open[1] ->
				assert(!alive[3] || signals[3] == 1);	/* rule 12: descends */
				assert(!alive[4] || signals[4] == 1)	/* rule 12: descends */
			:: else
			fi
		}
	fi
}

/* Give up the reactor until the operation has ended. */
inline park(me)
{
	d_step {
		op[me] == ENDED && cpu == NOBODY ->
		cpu = me;
		/* The wait for a scope reports the cancel or the end, whichever came first. */
		if
		:: kind[me] == SCOPE && called_off[SCOPE_BELOW(me)] ->
			assert(result[me] == ECANCELED)		/* rule 12 */
		:: kind[me] == SCOPE && !called_off[SCOPE_BELOW(me)] &&
		   !from_above[SCOPE_BELOW(me)] ->
			assert(result[me] == OWN)		/* rule 6: not by a branch */
		:: else
		fi;
		/* Reset, so that there are fewer states. */
		op[me] = NONE;
		kind[me] = LOCAL;
		result[me] = OWN;
		promised[me] = false;
		ends[me] = 0;
		if
		:: me <= 1 ->
			open[me] = false;
			called_off[me] = false
		:: else
		fi
	}
}

inline post(me, k)
{
	if
	:: flag[me] /* rule 4: refused, nothing is started */
	:: d_step {
		!flag[me] ->
		assert(signals[me] == 0); /* rule 2: never lost, later posts */
		kind[me] = k;
		held[me] = (k == REMOTE);
		op[me] = POSTED;
		cpu = NOBODY
	   };
	   park(me)
	fi
}

inline scope_open(s, a, b)
{
#ifndef BREAK_REUSE
	cancelled[s] = false;
	outer[s] = false;
#endif
	assert(!cancelled[s] && !outer[s]);			/* rule 6: starts clean */
	delivered[s] = false;
	called_off[s] = false;
	from_above[s] = false;
	flag[a] = false;
	flag[b] = false;
	signals[a] = 0;
	signals[b] = 0;
	alive[a] = true;
	alive[b] = true;
	live[s] = 2
}

inline run_scope(me, a, b)
{
	d_step {
		scope_open(SCOPE_BELOW(me), a, b);
		kind[me] = SCOPE;
		op[me] = POSTED;
		open[SCOPE_BELOW(me)] = true
	};
	atomic {
		run branch(a);
		run branch(b)
	};
	if
	:: me == PARENT && outside < OUTSIDE -> call_off(0)
	:: true
	fi;
	cpu = NOBODY;
	park(me)
}

#define DONE(t, s) (live[s] == 0 && SCOPE_OF(t) == s)

proctype branch(byte me)
{
	byte posts = 0;
	bool had = false;
	bool asked = false;

	d_step { cpu == NOBODY -> cpu = me };
	do
	:: posts < OPS -> posts++; post(me, LOCAL)
	:: posts < OPS -> posts++; post(me, REMOTE)
	:: posts < OPS -> posts++; post(me, HARD)
	/* The wait for a scope is an operation of its branch. */
	:: me == 1 && posts < OPS ->
		posts++;
		if
		:: flag[me]
		:: !flag[me] ->
			assert(signals[me] == 0); /* rule 2: never lost, later posts */
			run_scope(me, 3, 4);
			assert(!alive[3] && !alive[4])
		fi
	:: !asked -> asked = true; cancel(me)
	:: break
	od;
	skip; /* no jump leads into a d_step */
	d_step {
		alive[me] = false;
		flag[me] = false;
		signals[me] = 0;
		live[SCOPE_OF(me)]--;
		/* The last branch ends the wait. */
		if
		:: DONE(me, 0) && outer[0] -> finish(PARENT, ECANCELED)
		:: DONE(me, 0) && !outer[0] -> finish(PARENT, OWN)
		:: DONE(me, 1) && outer[1] -> finish(1, ECANCELED)
		:: DONE(me, 1) && !outer[1] -> finish(1, OWN)
		:: else
		fi;
		cpu = NOBODY
	}
}

#define HERE(t) (cpu == NOBODY && op[t] == POSTED && (kind[t] == LOCAL || kind[t] == HARD))
#define THERE(t) (op[t] == POSTED && kind[t] == REMOTE)

/* The reactor's pollers and timers: on the same thread, between two tasks. */
active proctype poller()
{
end:
	do
	:: d_step { HERE(1) -> finish(1, OWN) }
	:: d_step { HERE(2) -> finish(2, OWN) }
	:: d_step { HERE(3) -> finish(3, OWN) }
	:: d_step { HERE(4) -> finish(4, OWN) }
	od
}

#define MAY_CANCEL (cpu == NOBODY && outside < OUTSIDE)
#define MAY_CALL_OFF(s) (MAY_CANCEL && open[s] && live[s] > 0)

/* Timers, pollers, messages, and tasks of no scope here, on the same thread. */
active proctype outsider()
{
end:
	do
	:: d_step { MAY_CALL_OFF(0) -> cpu = OUTSIDER };
	   call_off(0);
	   cpu = NOBODY
	:: d_step { MAY_CALL_OFF(1) -> cpu = OUTSIDER };
	   call_off(1);
	   cpu = NOBODY
	:: d_step { MAY_CALL_OFF(0) -> cpu = OUTSIDER };
	   cancel_task(PARENT);
	   cpu = NOBODY
	:: d_step { MAY_CANCEL && alive[1] -> cpu = OUTSIDER };
	   cancel_task(1);
	   cpu = NOBODY
	:: d_step { MAY_CANCEL && alive[2] -> cpu = OUTSIDER };
	   cancel_task(2);
	   cpu = NOBODY
	:: d_step { MAY_CANCEL && alive[3] -> cpu = OUTSIDER };
	   cancel_task(3);
	   cpu = NOBODY
	od
}

inline let_go(t, r)
{
	d_step {
		held[t] = false;
		finish(t, r)
	}
}

/* Another lcore: it takes a call, runs it, and releases it, independent of the cpu. */
active proctype lcore()
{
	byte t;

end:
	do
	/* Compare and exchange; then the call runs. */
	:: d_step { THERE(1) -> t = 1; op[1] = RUNNING }; let_go(t, OWN)
	:: d_step { THERE(2) -> t = 2; op[2] = RUNNING }; let_go(t, OWN)
	:: d_step { THERE(3) -> t = 3; op[3] = RUNNING }; let_go(t, OWN)
	:: d_step { THERE(4) -> t = 4; op[4] = RUNNING }; let_go(t, OWN)
	/* The lcore finds a call that was cancelled before it began. */
	:: op[1] == CANCELLED -> let_go(1, ECANCELED)
	:: op[2] == CANCELLED -> let_go(2, ECANCELED)
	:: op[3] == CANCELLED -> let_go(3, ECANCELED)
	:: op[4] == CANCELLED -> let_go(4, ECANCELED)
	od
}

/* The parent: cancel in a retry loop. Each round starts clean, until it is cancelled itself. */
init
{
	byte round = 0;

	cpu = PARENT;
	do
	:: round < ROUNDS && !flag[PARENT] ->
		round++;
		run_scope(PARENT, 1, 2);
		assert(flag[PARENT] == from_above[0]);		/* rule 6: not the parent */
		assert(!alive[1] && !alive[2])
	:: else -> break
	od
}
