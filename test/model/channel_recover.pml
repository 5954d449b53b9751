/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Actions of a participant on behalf of others, and of dead ones: a part of channel.pml, which has
 * the table of names.
 */

inline adv(position, from, l)
{
	atomic {
		if
		:: position == from -> position = from + l
		:: else
		fi;
		assert(free <= read && read <= write && write < free + N) /* rule 2 */
	}
}

inline pass(p, x)
{
#ifndef BREAK_HELP
	if
	:: STATE(x) == EMPTY || STATE(x) == ASIDE -> adv(write, p, LEN(x))
	:: else
	fi;
#endif
	adv(read, p, LEN(x))
}

/* The frames before pos are claimed, or done. */
inline pass_beyond(pos)
{
	do
	:: atomic { read > pos -> r = 0; m2 = 0; break }
	:: atomic { read <= pos -> r = read };
		atomic {
			m2 = mark[r % N];
			if
			:: AT(m2, r)
			:: else -> m2 = 0
			fi
		};
		if
		:: m2 != 0 -> pass(r, m2)
		:: else
		fi
	od
}

#ifdef BREAK_HASTE
#define TAKEN COMMITTED
#else
#define TAKEN RESERVED
#endif
#ifdef BREAK_TRIES
#define AND_COUNTED 0
#else
#define AND_COUNTED 8
#endif
#ifdef CONF_DROP
#define BACK(m) TO(m, DONE)
#else
#define BACK(m) (TO(m, RETURNED) + AND_COUNTED)
#endif

/* Return the frame at p, which a dead reader had: a compare-and-swap of its mark. */
inline put_back()
{
#ifndef BREAK_BEYOND
	pass_beyond(p);
#endif
	atomic {
		if
		:: mark[p % N] == m ->
			mark[p % N] = BACK(m);
#ifdef CONF_DROP
			assert(!gone[data[p % N]]);			/* rule 5: once */
			gone[data[p % N]] = true;
			goto taken
#endif
		:: else -> goto taken
		fi
	};
	returned++
}

/*
 * A dead reader's claim may be of several frames, here of two at most: mark each of them as READING
 * by itself, the first one last. Then look at the slot again.
 */
inline split_dead()
{
	c = 1;
	do
	:: atomic {
		if
		:: c < LEN(m) -> m2 = mark[(p + c) % N]
		:: else -> m2 = 0; c = 0; break
		fi;
		if
		:: AT(m2, p + c)
		:: else -> m2 = 0
		fi
	};
		if
		:: m2 == 0 -> c++
		:: else ->
#ifndef BREAK_SPLIT
			atomic {
				if
				:: STATE(m2) == COMMITTED && mark[(p + c) % N] == m2 ->
					mark[(p + c) % N] = MK(p, LEN(m2), d, TRIES(m2), READING)
				:: else
				fi;
				m2 = 0
			};
#endif
			atomic {
				if
				:: mark[p % N] == m -> mark[p % N] = MK(p, c, d, TRIES(m), READING)
				:: else
				fi;
				c = 0;
				goto look
			}
		fi
	od
}

/* Recover the frames that the dead owner of slot d left. Then go to label recovered. */
inline recover()
{
	atomic {
		if
		:: DEAD(d) -> seen_who = who[d]
		:: else -> goto recovered
		fi
	};
	p = free;
	last = write;
look:
	atomic {
		if
		:: p > last -> goto all
		:: else -> m = mark[p % N]
		fi;
		if
		:: !AT(m, p) && p == last -> goto all
		:: !AT(m, p) && p != last -> goto again_free
		:: AT(m, p) && OWNER(m) == d &&
		   (STATE(m) == RESERVED || STATE(m) == READING || STATE(m) == ASIDE)
		:: else -> p = p + LEN(m); goto look
		fi
	};
#ifndef BREAK_SUCCESSOR
	atomic {
		if
		:: who[d] != seen_who -> goto recovered
		:: else
		fi
	};
#endif
	if
	:: STATE(m) == READING -> split_dead(); put_back()
	:: else ->
		atomic {
			if
			:: mark[p % N] == m -> mark[p % N] = TO(m, EMPTY)
#ifdef BREAK_AGAIN
			:: else
#else
			:: else -> goto look /* a reader set it aside meanwhile */
#endif
			fi
		}
	fi;
taken:
	atomic { p = p + LEN(m); goto look };
again_free:
	atomic {
		assert(free > p);				/* rule 2: frames without a gap */
		p = free;
		goto look
	};
all:
#ifndef BREAK_COUNT
	returned++;
#endif
	atomic {
		if
		:: who[d] == seen_who -> who[d] = 0
		:: else
		fi
	}
}
