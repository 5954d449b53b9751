/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The channel's sleep and wake: no wake-up is lost, and nothing is left that a later one would trip over.
 *
 *     spin -a channel_wake.pml && gcc -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m100000
 *
 * Two wait for frames; two others commit one each and wake. One that waits may be killed anywhere. A processor
 * may let a load overtake the store before it: each of those who commit has a buffer for one store, which
 * comes into memory at any later moment, but not after a full fence or an instruction that is one. (Who waits
 * stores its bit by such an instruction.)
 *
 * What stands for what (lib/channel/wait.c):
 *
 *     here                    there
 *     frames                  marks that are COMMITTED
 *     buffer[]                the mark, stored, not yet seen by others
 *     who, seq                struct chan_wait
 *     asleep[]                in the futex: the kernel compares seq, and puts to sleep, in one step
 *     writer                  publish() or release_last(), chan_notify(), chan_wake()
 *     reader                  sleep_notified()
 *
 * Nobody looks at the clock here: one lost wake-up is a standstill.
 *
 * -D of one of these breaks the model; test/model/run sees to it that this is found:
 *
 *     BREAK_FENCE     no fence between the store and the look at who waits          standstill
 *     BREAK_RECHECK   who announced himself does not look again                     standstill
 *     BREAK_LATE      seq is read after the bit was set                             standstill
 *     BREAK_ONE       one is woken, not all whose bits were taken                   standstill
 *     BREAK_QUIET     seq is not changed                                            standstill
 *     BREAK_LEAK      who goes leaves its bit behind                                rule 1
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

/* Memory takes what was stored. */
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
		/* The dead one's bit goes with the next wake-up. */
		assert(killed[me] || (who & BIT(me)) == 0)	/* rule 1: who goes leaves nothing */
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
	/* One of them, or none. */
	if
	:: killed[0] = true
	:: skip
	fi;
	(left == 0)
}
