/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The end of a channel, and room that a third participant makes.
 *
 *     spin -a -DCONF_END channel_end.pml && gcc -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m100000
 *
 *     CONF_END      one reader holds the last frame, and consumes it, gives it back, or is killed
 *                   with it; another participant terminates the channel; two more readers take
 *                   frames that come back, until the end
 *     CONF_OLDEST   a writer waits for room of one granule; another writer needs one, and throws
 *                   away a frame of two
 *
 * The model's names, and those of lib/channel:
 *
 *     model                   lib/channel
 *     state, owner            the mark of the frame, which is behind read
 *     end                     the END is at read
 *     known, ended            at_end(): ended of the handle; its value in sleep_notified()
 *     data_who, room_who      struct chan_wait data and room
 *     fresh[]                 seq: only whether it is still as a reader found it
 *     asleep[]                in the futex: the kernel compares seq, and puts to sleep, in one step
 *     inline look             chan_ready(), at_end(), look_behind()
 *     inline wake_*           chan_wake(); inline notify_*: chan_notify()
 *     holder                  leat_channel_consume(), leat_channel_give_back()
 *     reader                  leat_channel_wait(), sleep_notified(), leat_channel_recover()
 *     dropper                 chan_drop_oldest()
 *
 * The clock ends no sleep here, except that of a reader that waits for a dead one. Stores are seen
 * at once: channel_wake.pml is about those that are not.
 *
 * The rules:
 *
 *     1   a reader is told that all is read only when no other participant holds a frame
 *     2   a frame is consumed once
 *
 * -D of one of these breaks the model; test/model/run checks that the named property is then
 * violated:
 *
 *     BREAK_EARLY   CONF_END     a frame that another reader holds counts as read        rule 1
 *     BREAK_TWICE   CONF_END     a frame of a living reader is taken for a dead one's    rule 2
 *     BREAK_BOTH    CONF_END     a reader at the end sets its bit in the data word only  standstill
 *     BREAK_CHAIN   CONF_END     room does not wake readers with bits in both words      standstill
 *     BREAK_BACK    CONF_END     a frame is given back and no reader is woken            standstill
 *     BREAK_TURN    CONF_END     the end comes after the bits are set: it is missed      standstill
 *     BREAK_OLDEST  CONF_OLDEST  the oldest frame is dropped and no writer is woken      standstill
 */

#define HOLDER 0 /* the holder's slot; those of the others follow */
#define SLOTS 3
#define BIT(r) (1 << (r))

#define READING 0
#define RETURNED 1
#define DONE 2

byte state = READING;
byte owner = HOLDER;
byte room;
bool end;
bool killed;
byte data_who, room_who;
bool fresh[SLOTS]; /* seq is as this reader read it */
bool asleep[SLOTS];
byte left = 2;

/*
 * All bits are taken out in one step. always: the end has come, and seq changes whether there are
 * bits or not.
 */
inline wake_data(always)
{
	atomic { bits = data_who; data_who = 0 };
	if
	:: bits != 0 || always ->
		/* The kernel compares seq when a reader falls asleep: one step. */
		atomic { fresh[1] = false; fresh[2] = false; asleep[1] = false; asleep[2] = false }
	:: else
	fi;
	bits = 0
}

#ifdef CONF_END
inline wake_room(always)
{
	atomic { bits = room_who; room_who = 0 };
	/* No writer sleeps here. */
#ifndef BREAK_CHAIN
	if
	:: (bits & data_who) != 0 -> wake_data(false)
	:: else
	fi;
#endif
	bits = 0
}

inline notify_room()
{
	if
	:: room_who != 0 -> wake_room(false)
	:: else
	fi
}

inline notify_data()
{
	if
	:: data_who != 0 -> wake_data(false)
	:: else
	fi
}

proctype holder()
{
	byte bits;

	if
	:: atomic {
		state == READING && owner == HOLDER ->
		state = DONE
	};
		notify_room()
	:: atomic {
		state == READING && owner == HOLDER ->
		state = RETURNED
	};
#ifndef BREAK_BACK
		notify_data()
#endif
	:: killed = true
#ifdef BREAK_TWICE
	:: else
#endif
	fi
}

proctype terminator()
{
	byte bits;

	end = true;
	wake_data(true);
	wake_room(true)
}

#define A_FRAME 1
#define ALL_READ 2

/* found: what the reader has to do; 0: nothing yet */
inline look()
{
	found = 0;
	if
	:: end -> known = true
	:: else
	fi;
	atomic {
		if
		:: state == RETURNED -> found = A_FRAME
		:: known && state == DONE -> found = ALL_READ
#ifdef BREAK_EARLY
		:: known && state == READING -> found = ALL_READ
#endif
		:: else
		fi
	}
}

proctype reader(byte me)
{
	byte bits;
	bool known, ended;
	byte found;

again:
	look();
	atomic {
		if
		:: found == A_FRAME && state == RETURNED ->
			state = READING; owner = me; goto consume
		:: found == A_FRAME && state != RETURNED -> goto again
		:: found == ALL_READ ->
			assert(state == DONE); /* rule 1: no frame is held */
			goto out
		:: found == 0
		fi
	};
	/* sleep_notified() */
	atomic { ended = known; fresh[me] = true };
	data_who = data_who | BIT(me);
#ifndef BREAK_BOTH
	if
	:: ended -> room_who = room_who | BIT(me)
	:: else
	fi;
#endif
	look();
	atomic {
		if
#ifdef BREAK_TURN
		:: found == 0 && fresh[me] -> asleep[me] = true
#else
		:: found == 0 && ended == known && fresh[me] -> asleep[me] = true
#endif
		:: else
		fi
	};
	/* check_ms passes at some time: the reader then finds the dead one. */
	(!asleep[me] || (killed && state == READING && owner == HOLDER));
	atomic {
		asleep[me] = false;
		if
		:: ended -> room_who = room_who & (255 - BIT(me))
		:: else
		fi
	};
	atomic {
		data_who = data_who & (255 - BIT(me)); ended = false;
		found = 0; fresh[me] = false
	};
	/* leat_channel_recover() */
	atomic {
		if
#ifdef BREAK_TWICE
		:: state == READING && owner != me -> state = RETURNED
#else
		:: state == READING && owner == HOLDER && killed -> state = RETURNED
#endif
		:: else -> goto again
		fi
	};
	notify_data();
	goto again;
consume:
	atomic {
		assert(state == READING && owner == me);		/* rule 2: once */
		state = DONE
	};
	notify_room();
	goto again;
out:
	left--
}

init
{
	atomic {
		run holder();
		run terminator();
		run reader(1);
		run reader(2)
	};
	(left == 0)
}
#endif

#ifdef CONF_OLDEST
inline wake_room()
{
	atomic { bits = room_who; room_who = 0 };
	if
	:: bits != 0 ->
		fresh[1] = false;
		asleep[1] = false;
		/* No reader waits at the end here. */
		if
		:: (bits & data_who) != 0 -> assert(false)
		:: else
		fi
	:: else
	fi;
	bits = 0
}

proctype dropper()
{
	byte bits;

	room = 2;
#ifndef BREAK_OLDEST
	if
	:: room_who != 0 -> wake_room()
	:: else
	fi;
#endif
	/* Its own frame. */
	room--;
	left--
}

proctype waiter(byte me)
{
	bool found;

again:
	if
	:: room > 0 -> goto out
	:: else
	fi;
	fresh[me] = true;
	room_who = room_who | BIT(me);
	found = room > 0;
	atomic {
		if
		:: !found && fresh[me] -> asleep[me] = true
		:: else
		fi
	};
	(!asleep[me]);
	room_who = room_who & (255 - BIT(me));
	goto again;
out:
	left--
}

init
{
	atomic { run dropper(); run waiter(1) };
	(left == 0)
}
#endif
