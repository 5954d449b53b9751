/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The channel: reserve, publish, claim, set aside, reclaim and recover, with one participant
 * killed, or stopped for good, between any two steps.
 *
 *     spin -a -DCONF_WRITERS channel.pml && gcc -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000000
 *
 * Frames of one and of two granules go through a buffer of two to four. Positions wrap around,
 * frames lie where frames of an earlier lap lay, and empty frames are needed at the buffer's end.
 * A reader takes up to two frames at once; a killed reader has a successor. A participant that is
 * held up by a dead one recovers the frames that the dead one left, several at once.
 *
 *     CONF_WRITERS    two writers, one reader; of one writer the frames are of two granules (large)
 *     CONF_ROUND      the same with frames of one granule, a buffer of two that wraps around, and
 *                     no kill
 *     CONF_READERS    one writer, two readers; a dead reader's successor has the same slot
 *     CONF_LAPS       the same with a buffer of two that wraps around; a reader is killed (large)
 *     CONF_BURSTS     as CONF_WRITERS; one writer's two frames are one burst
 *     CONF_ASIDE      two writers, one reader; room for all frames: one may be set aside (large)
 *     CONF_STALL      the same; a writer stops for good instead of being killed
 *     CONF_DROP       as CONF_READERS; a dead reader's frame is dropped
 *     CONF_OLDEST     as CONF_WRITERS; a writer without room throws the oldest frame away
 *
 * The model's names, and those of lib/channel:
 *
 *     model                    lib/channel
 *     mark[], MK()             the marks: lap, length, owner, deliveries, state
 *     data[]                   payload: which frame lies in the granule
 *     who[]                    the slots' words: 0 free, 1 the first that had it, 2 its successor
 *     DEAD()                   chan_alive()
 *     inline adv               chan_advance()
 *     inline pass              chan_pass()
 *     inline pass_beyond       chan_pass_beyond()
 *     inline recover           chan_recover_slot(), take_over()
 *     inline split_dead        split_dead()
 *     inline put_back          chan_put_back()
 *     writer: retry, room      reserve(), take(), stamp()
 *     writer: walk, walked     chan_reclaim()
 *     writer: (full)           full(), chan_look_at_oldest()
 *     writer: oldest, throw    chan_drop_oldest()
 *     writer: (publish)        mark_inner(), publish()
 *     writer: (late)           publish_aside()
 *     reader: again, next      leat_channel_peek(), claim_next(), look_ahead(), claim()
 *     reader: behind           claim_returned()
 *     reader: stuck, aside     set_aside(), chan_stuck()
 *     reader: nothing          chan_ready(), wait_for()
 *     reader: deliver          leat_channel_consume()
 *
 * The rules:
 *
 *     1   a frame is reserved only at write, and its granules are free
 *     2   free <= read <= write < free + size, and there is no gap between frames
 *     3   a frame that a living participant owns is changed by no other
 *     4   no frame is torn, and none arrives that was not committed
 *     5   no frame arrives twice
 *     6   one writer's frames arrive in its order, except for those that are delivered again
 *     7   each committed frame arrives, or was dropped as the channel documents
 *
 * A step has one access to shared memory, and the actions of its thread until the next access.
 * Where the code polls, the model waits until it would see a change: a channel that is wedged comes
 * to a standstill here. Sleeping is in channel_wake.pml, END in channel_end.pml. Memory is
 * sequentially consistent here (doc/guide/channel.md has the edges; the thread sanitizer checks
 * them).
 *
 * -D of one of these breaks the model; test/model/run checks that the named property is then
 * violated:
 *
 *     BREAK_STALE      CONF_ROUND    write is not read again after the mark              rule 1
 *     BREAK_HELP       CONF_WRITERS  an empty frame at write is passed, write stays      rule 2
 *     BREAK_BLIND      CONF_WRITERS  living participants count as dead                   rule 7
 *     BREAK_SUCCESSOR  CONF_LAPS     the slot is not checked after the mark              rule 3
 *     BREAK_TRIES      CONF_LAPS     deliveries are not counted                          rule 3
 *     BREAK_HASTE      CONF_WRITERS  the mark is COMMITTED from the beginning            rule 4
 *     BREAK_ORDER      CONF_STALL    the returned frames are not checked after the mark  rule 6
 *     BREAK_BEYOND     CONF_READERS  a frame is returned before read is beyond it        rule 7
 *     BREAK_STORE      CONF_ASIDE    commit is a store                                   rule 7
 *     BREAK_SPLIT      CONF_ASIDE    of a claim of two frames only the first goes back   rule 7
 *     BREAK_COUNT      CONF_ASIDE    a dead reader's return is not counted as its own    rule 7
 *     BREAK_AGAIN      CONF_WRITERS  a frame that was set aside during recovery is left  standstill
 *     BREAK_INNER      CONF_BURSTS   the marks inside a burst are not written            standstill
 *     BREAK_WAIT       CONF_STALL    readers wait for a stopped writer                   standstill
 */

#if defined(CONF_READERS) || defined(CONF_DROP) || defined(CONF_LAPS)
#define WRITERS 1
#define READERS 2
#define SIZE(w) 1
#else
#define WRITERS 2
#define READERS 1
#if defined(CONF_ROUND) || defined(CONF_ASIDE) || defined(CONF_STALL)
#define SIZE(w) 1
#else
#define SIZE(w) (1 + (w))
#endif
#endif

#ifdef CONF_LAPS
#define SENDS(w) 3
#endif
#if defined(CONF_LAPS) || defined(CONF_ROUND)
#define N 2
#elif defined(CONF_BURSTS) || defined(CONF_ASIDE) || defined(CONF_STALL)
#define N 4
#else
#define N 3
#endif
#if defined(CONF_READERS) || defined(CONF_DROP)
#define SENDS(w) 2
#endif
#ifdef CONF_ROUND
#define SENDS(w) (1 + 2 * (w))
#endif
#if defined(CONF_WRITERS) || defined(CONF_ASIDE) || defined(CONF_STALL)
#define SENDS(w) (2 - (w))
#endif
#ifdef CONF_OLDEST
#define SENDS(w) 1
#endif
#ifdef CONF_BURSTS
#define SENDS(w) (1 + (w))
#define BURST(w) ((w) == 1)
#else
#define BURST(w) false
#endif

#define SLOTS 4
#define SPARE 3
#define NOBODY 9
#define FRAMES 3 /* of a writer, at most */

#define FREE 0
#define RESERVED 1
#define COMMITTED 2
#define READING 3
#define RETURNED 4
#define DONE 5
#define EMPTY 6
#define ASIDE 7

#define MK(p, l, o, t, s) (((p) / N + 1) * 512 + (l) * 128 + (o) * 32 + (t) * 8 + (s))
#define TO(m, s) ((m) - STATE(m) + (s))
#define STATE(m) ((m) & 7)
#define TRIES(m) (((m) >> 3) & 3)
#define OWNER(m) (((m) >> 5) & 3)
#define LEN(m) (((m) >> 7) & 3)
#define AT(m, p) (((m) >> 9) == (p) / N + 1 && STATE(m) != FREE)

short mark[N];
byte data[N];
byte write, read, free, returned;
byte who[SLOTS];

/* State of the checker, not of the channel. */
bool killed[SLOTS]; /* the first participant of this slot */
byte still = NOBODY; /* slot of the participant that stopped for good */
bool quiet;	    /* no participant will be killed any more */
bool ended[WRITERS];
bool sent[WRITERS * FRAMES];	/* committed */
bool claimed[WRITERS * FRAMES]; /* by a reader */
bool gone[WRITERS * FRAMES];	/* consumed, or dropped as the channel documents */

#define FRAME(w, n) ((w) * FRAMES + (n))
#ifdef BREAK_BLIND
#define DEAD(d) (who[d] == 1)
#else
#define DEAD(d) (who[d] == 1 && killed[d])
#endif
#define ANY_DEAD (DEAD(0) || DEAD(1) || DEAD(2))
#define WRITER_ENDED(w) (ended[w] || killed[w] || still == (w))
#if WRITERS == 2
#define ALL_ENDED (quiet && WRITER_ENDED(0) && WRITER_ENDED(1) && !ANY_DEAD)
#else
#define ALL_ENDED (quiet && WRITER_ENDED(0) && !ANY_DEAD)
#endif

#include "channel_recover.pml"

/* At the step that makes a frame, or a burst, visible. */
inline is_sent()
{
	assert(data[w % N] == FRAME(me, n));
	sent[FRAME(me, n)] = true;
	n++;
	if
	:: BURST(me) -> sent[FRAME(me, n)] = true; n++
	:: else
	fi
}

/* At the step that claims the frame at p. */
inline is_claimed(at)
{
	c = data[(at) % N];
	assert(sent[c]); /* rule 4: nothing that was not committed */
	assert(TRIES(m) > 0 || c % FRAMES == 0 || claimed[c - 1] || gone[c - 1]); /* rule 6 */
	claimed[c] = true;
	c = 0
}

/* At the step that consumes or drops the frame. */
inline is_whole(at, l)
{
	c = data[(at) % N];
	assert(l == 1 || data[(at) % N + 1] == c);		/* rule 4: never torn */
	assert(!gone[c]);					/* rule 5: once */
	gone[c] = true;
	c = 0
}

proctype writer(byte me)
{
	byte n, w, need, free_seen, from, f, r, p, last, c, d, seen_who;
	short m, m2;

	{
		who[me] = 1;
retry:
		atomic {
			f = 0; from = 0; r = 0; p = 0; last = 0; d = 0; seen_who = 0; m = 0; m2 = 0;
			need = 0; w = 0;
			if
			:: n == SENDS(me) -> goto end
			:: else -> w = write
			fi
		};
		atomic {
			m = mark[w % N];
			if
			:: AT(m, w) -> goto help
			:: else
			fi
		};
		atomic {
#ifndef BREAK_STALE
			if
			:: write != w -> goto retry
			:: else
			fi;
#endif
			need = (N - w % N < SIZE(me) -> N - w % N : SIZE(me));
			if
			:: w >= free_seen && w - free_seen + need < N -> goto room
			:: else
			fi
		};
		/* chan_reclaim() */
		atomic { f = free; from = f };
		r = read;
walk:
		atomic {
			m2 = mark[f % N];
			if
			:: !AT(m2, f) -> goto walked
			:: AT(m2, f) && f == r && STATE(m2) != RESERVED && STATE(m2) != COMMITTED
			:: AT(m2, f) && f == r &&
				(STATE(m2) == RESERVED || STATE(m2) == COMMITTED) ->
				goto walked
			:: AT(m2, f) && f != r && (STATE(m2) == DONE || STATE(m2) == EMPTY) ->
				f = f + LEN(m2);
				goto walk
			:: AT(m2, f) && f != r && STATE(m2) != DONE && STATE(m2) != EMPTY ->
				goto walked
			fi
		};
		pass(r, m2);
		atomic {
			r = read;
			if
			:: f != r && (STATE(m2) == DONE || STATE(m2) == EMPTY) ->
				f = f + LEN(m2);
				goto walk
			:: else
			fi
		};
walked:
		if
		:: f != from -> adv(free, from, f - from)
		:: else
		fi;
		atomic {
			r = 0; from = 0; m2 = 0; f = 0;
			free_seen = free;
			if
			:: w >= free_seen && w - free_seen + need < N -> goto room
			:: else
			fi
		};
		/* full(): chan_look_at_oldest(), and wait */
		atomic {
			if
			:: write != w || free != free_seen -> goto retry
			:: AT(mark[free_seen % N], free_seen) &&
			   (STATE(mark[free_seen % N]) == DONE ||
			    STATE(mark[free_seen % N]) == EMPTY) -> goto retry
#ifdef CONF_OLDEST
			:: write == w && free == free_seen -> f = free; goto oldest
#endif
			:: DEAD(0) -> d = 0
			:: DEAD(1) -> d = 1
			:: DEAD(2) -> d = 2
			:: still != NOBODY -> goto end
			fi
		};
		recover();
recovered:
		goto retry;
help:
		adv(write, w, LEN(m));
		goto retry;
room:
		/* take() */
		atomic {
			if
			:: mark[w % N] == m ->
				assert(write == w && !AT(m, w)); /* rule 1 */
				m = MK(w, need, me, 0, TAKEN);
				mark[w % N] = m
			:: else -> goto retry
			fi
		};
		adv(write, w, need);
		if
		:: need == 2 -> mark[w % N + 1] = MK(w, 0, 0, 0, FREE)
		:: else
		fi;
		atomic {
			if
			:: need < SIZE(me) -> goto link
			:: else -> data[w % N] = FRAME(me, n)
			fi
		};
		if
		:: need == 2 -> data[w % N + 1] = FRAME(me, n + BURST(me))
		:: else
		fi;
#ifndef BREAK_INNER
		if
		:: BURST(me) -> mark[w % N + 1] = MK(w, 1, me, 0, COMMITTED)
		:: else
		fi;
#endif
		/* publish() */
		atomic {
			if
#ifdef BREAK_STORE
			:: true ->
#else
			:: mark[w % N] == m ->
#endif
				mark[w % N] = MK(w, (BURST(me) -> 1 : need), me, 0, COMMITTED);
				is_sent();
				goto retry
			:: else ->
				assert(mark[w % N] == TO(m, ASIDE)); /* rule 3 */
				m = TO(m, ASIDE)
			fi
		};
		/* publish_aside(): readers have set the frame aside */
		pass_beyond(w);
		if
		:: BURST(me) -> mark[w % N + 1] = MK(w, 1, me, 0, RETURNED)
		:: else
		fi;
		atomic {
			assert(mark[w % N] == m); /* rule 3: the living keep theirs */
			mark[w % N] = MK(w, (BURST(me) -> 1 : need), me, 0, RETURNED);
			is_sent()
		};
		returned++;
		goto retry;
link:
		atomic {
			assert(mark[w % N] == m || mark[w % N] == TO(m, ASIDE)); /* rule 3 */
			mark[w % N] = TO(m, EMPTY);
			goto retry
		};
#ifdef CONF_OLDEST
oldest:
		atomic {
			m = mark[f % N];
			if
			:: AT(m, f) && STATE(m) == RETURNED -> goto throw
			:: AT(m, f) && (STATE(m) == READING || STATE(m) == ASIDE) -> goto no_oldest
			:: else
			fi
		};
		atomic { f = 0; r = read };
		atomic {
			m = mark[r % N];
			if
			:: !AT(m, r) -> goto no_oldest
			:: AT(m, r) && STATE(m) == RESERVED -> goto no_oldest
			:: AT(m, r) && STATE(m) == COMMITTED -> f = r; goto throw
			:: else
			fi
		};
		pass(r, m);
		goto oldest_again;
throw:
		atomic {
			if
			:: mark[f % N] == m ->
				mark[f % N] = TO(m, DONE);
				assert(sent[data[f % N]] && !gone[data[f % N]]); /* rule 5: once */
				gone[data[f % N]] = true
			:: else -> goto retry
			fi
		};
		if
		:: STATE(m) == COMMITTED -> adv(read, f, LEN(m))
		:: else
		fi;
		goto retry;
no_oldest:
oldest_again:
		goto retry;
#endif
end:
		atomic { ended[me] = true; who[me] = 0 }
	} unless {
		atomic {
			killed[me] || still == me ->
			n = 0; w = 0; need = 0; free_seen = 0; from = 0; f = 0; r = 0; p = 0;
			last = 0; c = 0; d = 0; seen_who = 0; m = 0; m2 = 0
		}
	}
}

proctype reader(byte me)
{
	byte r, p, last, c, seen, joined, d, seen_who, mine = 1;
	short m, m2;

attach:
	{
		who[me] = mine;
again:
		atomic {
			r = 0; p = 0; last = 0; joined = 0; d = 0; seen_who = 0; m = 0; m2 = 0;
			c = returned;
			if
			:: c != seen -> goto behind
			:: else -> c = 0
			fi
		};
next:
		atomic { m = 0; p = 0; joined = 0; r = read };
		atomic {
			m = mark[r % N];
			if
			:: !AT(m, r) -> goto nothing
			:: AT(m, r) && STATE(m) == RESERVED -> goto stuck
			:: AT(m, r) && STATE(m) == COMMITTED
			:: AT(m, r) && STATE(m) != RESERVED && STATE(m) != COMMITTED -> goto over
			fi
		};
		/* look_ahead() */
		atomic {
			if
			:: (r + LEN(m)) % N == 0
			:: (r + LEN(m)) % N != 0 -> m2 = mark[(r + LEN(m)) % N]
			fi;
			if
			:: AT(m2, r + LEN(m)) && STATE(m2) == COMMITTED -> joined = LEN(m2)
			:: else
			fi;
			m2 = 0
		};
#ifndef BREAK_ORDER
		atomic {
			if
			:: returned != seen -> goto again
			:: else
			fi
		};
#endif
		atomic {
			if
			:: mark[r % N] == m ->
				is_claimed(r);
				if
				:: joined != 0 -> is_claimed(r + LEN(m))
				:: else
				fi;
				p = LEN(m);
				m = MK(r, LEN(m) + joined, me, TRIES(m), READING);
				mark[r % N] = m
			:: else -> goto next
			fi
		};
		adv(read, r, LEN(m));
deliver:
		atomic {
			assert(mark[r % N] == m); /* rule 3: the living keep theirs */
			is_whole(r, p);
			if
			:: joined != 0 -> is_whole(r + p, joined)
			:: else
			fi;
			mark[r % N] = TO(m, DONE);
			goto again
		};
over:
		pass(r, m);
		goto next;
behind:
		p = free;
		r = read;
further:
		atomic {
			if
			:: p == r -> seen = c; c = 0; p = 0; goto next
			:: else ->
				assert(p < r); /* rule 2: frames without a gap */
				m = mark[p % N]
			fi;
			if
			:: AT(m, p) && STATE(m) == RETURNED
			:: AT(m, p) && STATE(m) != RETURNED -> p = p + LEN(m); goto further
			:: !AT(m, p) -> m = 0; goto behind
			fi
		};
		atomic {
			if
			:: mark[p % N] == m ->
				r = p;
				is_claimed(r);
				p = LEN(m);
				m = MK(r, LEN(m), me, TRIES(m), READING);
				mark[r % N] = m;
				goto deliver
			:: else -> p = p + LEN(m); goto further
			fi
		};
stuck:
		atomic {
			if
			:: mark[r % N] != m || returned != seen -> goto again
			:: DEAD(0) -> d = 0
			:: DEAD(1) -> d = 1
			:: DEAD(2) -> d = 2
#ifndef BREAK_WAIT
			:: AT(mark[(r + LEN(m)) % N], r + LEN(m)) -> goto aside
#endif
			:: still == OWNER(m) && ALL_ENDED && mark[r % N] == m && returned == seen &&
			   !AT(mark[(r + LEN(m)) % N], r + LEN(m)) -> goto end
			fi;
			goto dead
		};
aside:
		atomic {
			if
			:: mark[r % N] == m -> m = TO(m, ASIDE); mark[r % N] = m
			:: else -> goto again
			fi
		};
		pass(r, m);
		goto again;
nothing:
		atomic {
			if
			:: mark[r % N] != m || read != r || returned != seen -> goto again
			:: DEAD(0) -> d = 0
			:: DEAD(1) -> d = 1
			:: DEAD(2) -> d = 2
			:: ALL_ENDED && mark[r % N] == m && read == r && write == r &&
				returned == seen ->
				goto end
			fi
		};
dead:
		recover();
recovered:
		goto again;
end:
		atomic { who[me] = 0 }
	} unless {
		atomic {
			mine == 1 && killed[me] ->
			r = 0; p = 0; last = 0; c = 0; seen = 0; joined = 0; d = 0; seen_who = 0;
			m = 0; m2 = 0
		};
		atomic {
#if READERS == 1
			me = SPARE;
#else
			who[me] == 0 -> mine = 2;
#endif
			goto attach
		}
	}
}

/* Kill or stop one participant, at any step, or none. */
proctype fate()
{
#ifdef CONF_STALL
	if
	:: still = 0
	:: still = 1
	:: skip
	fi;
#elif !defined(CONF_ROUND)
	if
#ifndef CONF_LAPS
	:: killed[0] = true
#endif
	:: killed[1] = true
#if READERS == 1 /* a second reader is like the first */
	:: killed[2] = true
#endif
	:: skip
	fi;
#endif
	quiet = true
}

init
{
	byte i;

	atomic {
		run fate();
#if WRITERS == 2
		run writer(0);
		run writer(1);
		run reader(2)
#else
		run writer(0);
		run reader(1);
		run reader(2)
#endif
	};
	(_nr_pr == 1);
	atomic {
		do
		:: i == WRITERS * FRAMES -> break
		:: else ->
			/* A stopped writer may not have committed its frame. */
			assert(!sent[i] || gone[i] || still == i / FRAMES); /* rule 7 */
			i++
		od
	}
}
