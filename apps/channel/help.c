/* SPDX-License-Identifier: BSD-3-Clause */

/* The text of --help, of the program and of each command: all options. */

#include "channel.h"

/* clang-format off */
static const char *const help[CT_COMMANDS + 1] = {
[CT_NONE] =
"Usage: leat-channel COMMAND NAME [OPTION]...\n"
"\n"
"Channels of frames in shared memory: made, used and looked at. NAME is as for shm_open(3), such as\n"
"/watch; the first slash may be left out.\n"
"\n"
"  create     make a channel\n"
"  send       lines of stdin, or arguments, as frames\n"
"  recv       frames to stdout\n"
"  attach     take part, and show every second what goes by\n"
"  inspect    positions, frames, counters, participants\n"
"  terminate  the orderly end: nothing can be sent any more, what was sent can be received\n"
"  destroy    remove it; who takes part can go on\n"
"\n"
"  leat-channel COMMAND --help   the command's options\n"
"  leat-channel --version | --help\n"
"\n"
"Exit: 0; 1 failed; 2 wrong usage; 3 no frame, or no room, in time; 4 terminated before all was sent or\n"
"received; 128 + N ended by signal N (13: who read its output is gone).\n"
"\n"
"  leat-channel create /watch\n"
"  leat-channel recv /watch --follow &\n"
"  leat-channel send /watch hello world\n"
"  leat-channel terminate /watch\n"
"  leat-channel destroy /watch\n",

[CT_CREATE] =
"Usage: leat-channel create NAME [OPTION]...\n"
"\n"
"Makes a channel, for the user who calls it alone. It stays until destroy, or until the machine starts\n"
"anew.\n"
"\n"
"  --size SIZE        of the buffer, a power of two from 4K to 1G (default 1M); a frame can have half of\n"
"                     it, without its 16 bytes of header\n"
"  --participants N   at most, 1 to 64 (default 64)\n"
"  --notify HOW       how who sleeps is woken: futex (default), or none: who waits looks again and again\n"
"  --on-death WHAT    what becomes of a frame whose reader dies with it: redeliver (default), drop\n"
"  -h, --help\n",

[CT_ATTACH] =
"Usage: leat-channel attach NAME [OPTION]...\n"
"\n"
"Takes part in a channel, without sending or receiving, until it is terminated or Ctrl-C comes. It looks\n"
"for participants that died and puts in order what they left, and says what goes by:\n"
"\n"
"  sent/s, received/s, full/s           frames; full: no room for them, refused or dropped\n"
"  bytes in use                         of the buffer\n"
"  reserved ... returned                frames in these states, now\n"
"  aborted, lost                        of the dead, since the channel was made\n"
"\n"
"  --interval S       seconds between two lines, from 0.01 (default 1)\n"
"  -n, --count N      end after N lines\n"
"  --json             an object per line\n"
"  -h, --help\n",

[CT_SEND] =
"Usage: leat-channel send NAME [OPTION]... [TEXT]...\n"
"\n"
"Sends each TEXT, or without one each line of stdin, as a frame; the newline is not part of it. Empty lines\n"
"are left out: a frame has a byte at least. Behind -- a TEXT may begin with a dash.\n"
"\n"
"  --type N           type of the frames, from 1 (default 1)\n"
"  --hash N           of the type's definition (default 0); 0x... is hexadecimal\n"
"  --full WHAT        when there is no room: wait (default), fail, drop-newest, drop-oldest (or the newest,\n"
"                     while a reader has the oldest in its hands)\n"
"  --timeout S        of --full wait, for each frame (default: for ever)\n"
"  --wait HOW         notify (default), spin, pause, yield, sleep\n"
"  -z, --null         lines of stdin end with NUL\n"
"  --block SIZE       stdin is bytes: each SIZE of them are a frame, the rest one more\n"
"  --terminate        terminate the channel when all is sent\n"
"  --json             how many were sent, dropped, left out as empty\n"
"  -h, --help\n"
"\n"
"Exit: 3 no room, with --full fail, or wait and --timeout; 4 the channel is terminated.\n",

[CT_RECV] =
"Usage: leat-channel recv NAME [OPTION]...\n"
"\n"
"Writes frames to stdout, a line for each. Without --count and --follow those that are there now. They\n"
"are consumed when stdout has taken them; else they are given back, and delivered again, four times at\n"
"most.\n"
"\n"
"  -n, --count N      wait for N frames\n"
"  -f, --follow       until the channel is terminated\n"
"  --timeout S        wait so long for the next frame (default: for ever; without --count and --follow 0)\n"
"  --wait HOW         notify (default), spin, pause, yield, sleep\n"
"  --invalid WHAT     a frame with a wrong header: end (default), or skip\n"
"  --raw              payloads alone, one behind the other: the opposite of send --block\n"
"  -z, --null         NUL instead of newline\n"
"  --json             an object per line: type, hash, length, and text or, if it is not UTF-8, hex\n"
"  -h, --help\n"
"\n"
"Exit: 3 no frame in time, with --count or --follow; 4 terminated before --count was reached.\n",

[CT_INSPECT] =
"Usage: leat-channel inspect NAME [OPTION]...\n"
"\n"
"Positions, frames by state, counters, participants. It does not take part, changes nothing, and needs\n"
"no more than to read.\n"
"\n"
"  --json             JSON on stdout\n"
"  -h, --help\n",

[CT_TERMINATE] =
"Usage: leat-channel terminate NAME\n"
"\n"
"The orderly end. Nothing can be sent any more; readers get what was sent, then they are told. Who waits\n"
"wakes.\n"
"\n"
"  -h, --help\n",

[CT_DESTROY] =
"Usage: leat-channel destroy NAME [OPTION]...\n"
"\n"
"Removes the name. Who takes part can go on; the memory goes with the last of them. What is no channel is\n"
"left alone.\n"
"\n"
"  --force            remove it whatever it is: shared memory of any other use, too\n"
"  -h, --help\n",
};
/* clang-format on */

void
ct_help(FILE *f, enum ct_command command)
{
	(void)fputs(help[command], f);
}
