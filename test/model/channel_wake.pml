/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The channel's sleep and wake: no wake-up is lost, and no bit is left behind that would disturb a
 * later one.
 *
 *     spin -a channel_wake.pml && gcc -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m100000
 *
 * Two readers wait for frames; two writers commit one each and wake the readers. A reader may be
 * killed at any step. A processor may let a load overtake the store before it: each writer has a
 * buffer for one store, which reaches memory at any later moment, but not after a full fence or an
 * instruction that includes one. (A reader stores its bit by such an instruction.)
 *
 * The model's names, and those of lib/channel/wait.c:
 *
 *     model                   lib/channel
 *     frames                  marks that are COMMITTED
 *     buffer[]                the mark, stored, not yet seen by others
 *     who, seq                struct chan_wait
 *     asleep[]                in the futex: the kernel compares seq, and puts to sleep, in one step
 *     writer                  publish() or release_last(), chan_notify(), chan_wake()
 *     reader                  sleep_notified()
 *
 * No sleep ends by the clock here: one lost wake-up is a standstill.
 *
 * -D of one of these breaks the model; test/model/run checks that the property is then violated:
 *
 *     BREAK_FENCE    no fence between the store and the load of the waiters' bits  standstill
 *     BREAK_RECHECK  a reader that has set its bit does not look again             standstill
 *     BREAK_LATE     seq is read after the bit was set                             standstill
 *     BREAK_ONE      one reader is woken, not all whose bits were taken            standstill
 *     BREAK_QUIET    seq is not changed                                            standstill
 *     BREAK_LEAK     a reader that leaves does not clear its bit                   rule 1
 */

#define READERS 2
#define WRITERS 2

byte frames;
bool buffer[WRITERS];
byte who;
byte seq;
bool asleep[READERS];
bool killed[READERS];
byte left = READERS;

#define BIT(r) (1 << (r))

proctype writer(byte me)
{
	byte bits;

	buffer[me] = true;
#ifndef BREAK_FENCE
	(!buffer[me]);
#endif
	if
	:: who == 0 -> goto end
	:: else
	fi;
	atomic { bits = who; who = 0 };
	if
	:: bits == 0 -> goto end
	:: else
	fi;
#ifndef BREAK_QUIET
	seq++;
#endif
	atomic {
#ifdef BREAK_ONE
		if
		:: asleep[0] -> asleep[0] = false
		:: !asleep[0] -> asleep[1] = false
		fi
#else
		asleep[0] = false;
		asleep[1] = false
#endif
	};
end:
	skip
}

/* The store reaches memory. */
proctype memory(byte w)
{
	atomic { buffer[w] -> buffer[w] = false; frames++ }
}

proctype reader(byte me)
{
	byte s;
	bool got;

	{
		s = 0;
again:
		/* ready() */
		atomic {
			if
			:: frames > 0 -> frames--; goto end
			:: else
			fi
		};
#ifdef BREAK_LATE
		who = who | BIT(me);
		s = seq;
#else
		s = seq;
		who = who | BIT(me);
#endif
#ifndef BREAK_RECHECK
		if
		:: frames > 0 -> got = true
		:: else -> got = false
		fi;
#endif
		if
		:: got
		:: else ->
			atomic {
				if
				:: seq == s -> asleep[me] = true
				:: else
				fi
			};
			(!asleep[me])
		fi;
#ifndef BREAK_LEAK
		who = who & (255 - BIT(me));
#endif
		goto again;
end:
		skip
	} unless { killed[me] };
	atomic {
		asleep[me] = false;
		left--;
		/* The next wake-up clears a dead reader's bit. */
		assert(killed[me] || (who & BIT(me)) == 0)	/* rule 1: no bit is left */
	}
}

init
{
	atomic {
		run memory(0);
		run memory(1);
		run writer(0);
		run writer(1);
		run reader(0);
		run reader(1)
	};
	/* Kill one reader, or none. */
	if
	:: killed[0] = true
	:: skip
	fi;
	(left == 0)
}
