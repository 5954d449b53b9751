/* SPDX-License-Identifier: BSD-3-Clause */

/* The text of --help, of the program and of each command: all options. */

#include "channel.h"

/* clang-format off */
static const char *const help[CT_COMMANDS + 1] = {
[CT_NONE] =
"Usage: leat-channel COMMAND NAME [OPTION]...\n"
"  or:  leat-channel --version | --help\n"
"\n"
"Create, use and inspect channels, which carry frames in shared memory. NAME is\n"
"as for shm_open(3), such as /watch; the first slash may be left out.\n"
"\n"
"Commands:\n"
"  create     create a channel\n"
"  send       send lines of stdin, or arguments, as frames\n"
"  recv       write frames to stdout\n"
"  attach     take part, and print every second what passes through\n"
"  inspect    print positions, frames, counters and participants\n"
"  terminate  end a channel cleanly: nothing can be sent any more, frames that\n"
"             were sent can be received\n"
"  destroy    remove a channel; its participants can go on\n"
"\n"
"leat-channel COMMAND --help prints the options of a command.\n"
"\n"
"Exit: 0; 1 failed; 2 wrong usage; 3 no frame, or no room, in time; 4 the channel\n"
"was terminated before all was sent or received; 128 + N ended by signal N (13:\n"
"the reader of the output has gone).\n"
"\n"
"Examples:\n"
"  leat-channel create /watch\n"
"  leat-channel recv /watch --follow &\n"
"  leat-channel send /watch hello world\n"
"  leat-channel terminate /watch\n"
"  leat-channel destroy /watch\n",

[CT_CREATE] =
"Usage: leat-channel create NAME [OPTION]...\n"
"\n"
"Create a channel, which only the same user can use. It stays until destroy, or\n"
"until the machine restarts.\n"
"\n"
"  --size SIZE        bytes of the buffer, a power of two from 4K to 1G (default:\n"
"                     1M); a frame can take half of it, less its header of 16\n"
"                     bytes\n"
"  --participants N   how many can take part at a time, 1 to 64 (default: 64)\n"
"  --notify HOW       how a sleeping participant is woken: futex (default), or\n"
"                     none: waiting participants poll\n"
"  --on-death WHAT    what becomes of a frame whose reader dies before it has\n"
"                     consumed it: redeliver (default), drop\n"
"  -h, --help         print this help\n",

[CT_ATTACH] =
"Usage: leat-channel attach NAME [OPTION]...\n"
"\n"
"Take part in a channel, without sending or receiving, until it is terminated or\n"
"Ctrl-C is pressed. Find participants that died, recover the frames that they\n"
"held, and print a line per interval:\n"
"\n"
"  sent/s, received/s, full/s   frames; full: refused or dropped, as there was no\n"
"                               room\n"
"  bytes in use                 bytes of the buffer that frames take\n"
"  reserved ... returned        frames that are in these states now\n"
"  aborted, lost                frames of participants that died, since the\n"
"                               channel was created\n"
"\n"
"  --interval S       seconds between two lines, at least 0.01 (default: 1)\n"
"  -n, --count N      end after N lines\n"
"  --json             print an object per line\n"
"  -h, --help         print this help\n",

[CT_SEND] =
"Usage: leat-channel send NAME [OPTION]... [TEXT]...\n"
"\n"
"Send each TEXT as a frame; without TEXT send each line of stdin, without its\n"
"newline. Empty lines are left out: a frame has at least one byte. Behind -- a\n"
"TEXT may begin with a dash.\n"
"\n"
"  --type N           type of the frames, at least 1 (default: 1)\n"
"  --hash N           hash of the type's definition (default: 0); 0x... is\n"
"                     hexadecimal\n"
"  --full WHAT        when there is no room: wait (default), fail, drop-newest,\n"
"                     drop-oldest (or the newest, while a reader holds the\n"
"                     oldest)\n"
"  --timeout S        with --full wait: seconds to wait for room for a frame\n"
"                     (default: no limit)\n"
"  --wait HOW         how to wait: notify (default), spin, pause, yield, sleep\n"
"  -z, --null         lines of stdin end with NUL\n"
"  --block SIZE       cut stdin into frames of SIZE bytes; the last can be less\n"
"  --terminate        terminate the channel when all is sent\n"
"  --json             print how many frames were sent and dropped, and how many\n"
"                     empty lines left out\n"
"  -h, --help         print this help\n"
"\n"
"Exit: 3 no room, with --full fail, or with --full wait within --timeout; 4 the\n"
"channel is terminated.\n",

[CT_RECV] =
"Usage: leat-channel recv NAME [OPTION]...\n"
"\n"
"Write frames to stdout, a line for each. Without --count and --follow write the\n"
"frames that are there now. Frames are consumed when stdout has taken them; else\n"
"they are given back and delivered again, up to four times in all.\n"
"\n"
"  -n, --count N      wait for N frames\n"
"  -f, --follow       receive until the channel is terminated\n"
"  --timeout S        seconds to wait for the next frame (default: no limit;\n"
"                     without --count and --follow 0)\n"
"  --wait HOW         how to wait: notify (default), spin, pause, yield, sleep\n"
"  --invalid WHAT     at a frame with an invalid header: end (default), or skip\n"
"  --raw              write payloads only, with nothing in between: the reverse\n"
"                     of send --block\n"
"  -z, --null         write NUL instead of newline\n"
"  --json             print an object per line: type, hash, length, redelivered,\n"
"                     and text or, if the payload is not UTF-8, hex\n"
"  -h, --help         print this help\n"
"\n"
"Exit: 3 no frame in time, with --count or --follow; 4 the channel was terminated\n"
"before --count was reached.\n",

[CT_INSPECT] =
"Usage: leat-channel inspect NAME [OPTION]...\n"
"\n"
"Print positions, frames by state, counters and participants. inspect does not\n"
"take part in the channel, changes nothing, and needs only to read it.\n"
"\n"
"  --json             print JSON on stdout\n"
"  -h, --help         print this help\n",

[CT_TERMINATE] =
"Usage: leat-channel terminate NAME\n"
"\n"
"End a channel cleanly. Nothing can be sent any more; readers get the frames\n"
"that were sent, and then learn of the end. Waiting participants wake up.\n"
"\n"
"  -h, --help         print this help\n",

[CT_DESTROY] =
"Usage: leat-channel destroy NAME [OPTION]...\n"
"\n"
"Remove the name of a channel. Participants can go on; the memory is freed with\n"
"the last of them. Shared memory that is not a channel is left alone.\n"
"\n"
"  --force            remove the shared memory NAME whatever it is, even if\n"
"                     another program uses it\n"
"  -h, --help         print this help\n",
};
/* clang-format on */

void
ct_help(FILE *f, enum ct_command command)
{
	(void)fputs(help[command], f);
}
