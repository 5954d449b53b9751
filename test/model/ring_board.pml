/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The marks of the ring driver: an endpoint that relies on them misses no message, not even while
 * it begins or ceases to rely on them, or sleeps.
 *
 *     spin -a ring_board.pml && gcc -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m100000
 *
 * Two peers publish messages on a connection each; both mark in the same line. The owner polls all
 * connections, or relies on marks, and changes between the two some times, at any moment. When it
 * finds nothing it sleeps, until it has seen all messages or a peer wakes it: one missed message is
 * a standstill.
 *
 * The model's names, and those of drivers/common/ring (ring_mbox: of drivers/ring):
 *
 *     model                   drivers/common/ring
 *     published[]             the slots
 *     word[], line            struct ring_board: all its bits are changed by sequentially
 *                             consistent instructions
 *     want, answer[]          ring_dir.want, .marks
 *     wanted                  ring_link.wanted, .board
 *     rung                    ring_mbox.bell
 *     asleep                  ring_mbox.asleep; membarrier(2) is the fence between it and the
 *                             published messages
 *     inline mark             ring_board_mark()
 *     inline take             ring_board_take(), and the poll of the marked connections
 *     inline go_by            go_by() of ring_mark.c, in the peer's progress
 *     inline change           want_of_all()
 *     inline hear             ring_marks_progress() of the owner
 *
 * -D of one of these breaks the model; test/model/run checks that the property is then violated:
 *
 *     BREAK_TAKE    the words are taken before the line                      standstill
 *     BREAK_MARK    the line is read before the word is marked               standstill
 *     BREAK_ONCE    the connection is not polled when its peer has answered  standstill
 *     BREAK_NUMBER  each want has the number of the one before the last      standstill
 *     BREAK_WATCH   the marks of a peer that has not answered are relied on  standstill
 *     BREAK_SLEEP   the board is not read before the owner sleeps            standstill
 */

#define PEERS 2
#define MESSAGES 2
#define CHANGES 3

byte published[PEERS];
bool word[PEERS];
bool line;
byte want;
byte answer[PEERS];
bool rung;
bool asleep;
bool over;

inline wake()
{
	if
	:: asleep -> asleep = false
	:: else
	fi
}

inline mark()
{
#ifdef BREAK_MARK
	if
	:: line
	:: else -> line = true
	fi;
	word[me] = true;
#else
	word[me] = true;
	if
	:: line
	:: else -> line = true
	fi;
#endif
}

inline go_by()
{
	wanted = want;
	answer[me] = wanted;
	rung = true;
	wake()
}

proctype peer(byte me)
{
	byte wanted;

	do
	:: published[me] < MESSAGES ->
		published[me]++;
		if
		:: wanted % 2 == 1 -> mark()
		:: else
		fi;
		wake()
	:: want != wanted -> go_by()
	:: over -> break
	od
}

byte seen[PEERS];
bool watched[PEERS];
bool many;
byte changes;
byte p;

#define READY(p) (seen[p] != published[p] && (!many || watched[p]))
#define ALL_SEEN (seen[0] == MESSAGES && seen[1] == MESSAGES)

inline look(p)
{
	seen[p] = published[p]
}

inline take_words()
{
	for (p : 0 .. PEERS - 1) {
		if
		:: word[p] ->
			word[p] = false;
			look(p)
		:: else
		fi
	}
}

inline take()
{
	if
	:: line ->
#ifdef BREAK_TAKE
		take_words();
		line = false
#else
		line = false;
		take_words()
#endif
	:: else
	fi
}

inline change()
{
	many = !many;
	for (p : 0 .. PEERS - 1) {
#ifndef BREAK_WATCH
		watched[p] = many
#else
		watched[p] = false
#endif
	}
#ifdef BREAK_NUMBER
	want = 1 - want;
#else
	want++;
#endif
	changes++
}

inline hear()
{
	if
	:: rung ->
		rung = false;
		for (p : 0 .. PEERS - 1) {
			if
			:: watched[p] && answer[p] == want ->
				watched[p] = false;
#ifndef BREAK_ONCE
				look(p)
#endif
			:: else
			fi
		}
	:: else
	fi
}

inline poll()
{
	if
	:: many -> take()
	:: else
	fi;
	for (p : 0 .. PEERS - 1) {
		if
		:: READY(p) -> look(p)
		:: else
		fi
	}
}

#ifdef BREAK_SLEEP
#define MARKED false
#else
#define MARKED (many && line)
#endif

inline sleep()
{
	asleep = true;
	if
	:: rung || MARKED || READY(0) || READY(1) -> asleep = false
	:: else -> (!asleep || ALL_SEEN)
	fi
}

active proctype owner()
{
	run peer(0);
	run peer(1);
	do
	:: ALL_SEEN -> break
	:: else ->
		if
		:: changes < CHANGES -> change()
		:: true
		fi;
		hear();
		poll();
		sleep()
	od;
	over = true
}
