# SPDX-License-Identifier: BSD-3-Clause
"""leat-channel as its users see it: test_channel.py LEAT_CHANNEL"""

import json
import os
import random
import re
import signal
import subprocess
import tempfile
import time

from perf_lib import DEADLINE, PERF as TOOL, Failed, Skipped, case, check, main

COUNT = iter(range(1 << 30))
# A shell that starts this in the background may ignore these signals, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
COMMANDS = ["create", "attach", "send", "recv", "inspect", "terminate", "destroy"]


def start(*args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **options):
    """Start a leat-channel in the background."""
    return subprocess.Popen([TOOL] + list(args), stdin=stdin, stdout=stdout, stderr=subprocess.PIPE,
                            **options)


def collect(*args):
    """Start a leat-channel whose output goes to a file, so that it never blocks on a pipe."""
    with tempfile.TemporaryFile() as file:
        p = start(*args, stdout=file)
        p.file = os.fdopen(os.dup(file.fileno()), "rb")
    return p


def finish(p, stdin=None):
    try:
        out, err = p.communicate(stdin, timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        p.kill()
        raise Failed("still running: %s\n%s" % (p.args, p.communicate())) from None
    p.out, p.err = out, err.decode(errors="replace")
    if out is None and hasattr(p, "file"):
        with p.file as file:
            file.seek(0)
            p.out = file.read()
    check(re.fullmatch(r"(leat-channel: [^\n]+\n)*", p.err), "stderr of %s: %r" % (p.args, p.err))
    return p


def run(*args, stdin=None, code=0, err=None, **options):
    """Run leat-channel and check its end; err is a pattern of its stderr, None: nothing."""
    if stdin is not None:
        p = finish(start(*args, stdin=subprocess.PIPE, **options), stdin)
    else:
        p = finish(start(*args, **options))
    said = "%s: exit %s, %r %r" % (" ".join(map(str, p.args)), p.returncode, p.out, p.err)
    check(p.returncode == code, said)
    check(re.search(err, p.err) if err is not None else p.err == "", said)
    return p.out


class Channel:
    """A channel with a new name; other processes may use the same /dev/shm."""

    def __init__(self, *options, make=True):
        self.name = "/leat-test-%d-%d-%d" % (os.getpid(), time.time_ns(), next(COUNT))
        self.path = "/dev/shm" + self.name
        if make:
            run("create", self.name, *options)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        if os.path.exists(self.path):
            os.unlink(self.path)

    def inspect(self):
        j = json.loads(run("inspect", self.name, "--json"))
        check(j["schema"] == "leat-channel" and j["version"] == 1 and j["name"] == self.name,
              str(j))
        check(re.fullmatch(r"\d+\.\d+\.\d+", j["leat"]), str(j))
        return j

    def until(self, what):
        """Inspect the channel until the condition holds."""
        end = time.monotonic() + DEADLINE
        while not what(self.inspect()):
            check(time.monotonic() < end, "it did not come to that: %s" % self.inspect())


def waiting(*who):
    """Return whether all these processes sleep in the channel."""
    return lambda j: {p.pid for p in who} <= {w["pid"] for w in j["participants"] if w["waiting"]}


@case
def usage():
    for args in ([], ["bogus"], ["--bogus"], ["-x"], ["-h", "--bogus"], ["bogus", "--help"]):
        run(*args, code=2, err=r"--help")
    for command in COMMANDS:
        run(command, code=2, err="of which channel")
        run(command, "/x", "--bogus", code=2, err="unknown option '--bogus'.*%s --help" % command)
        run(command, "/x", "--help=5", code=2, err="takes no value")
        for name in ("", "/", "a/b", "/a/b", "..", "/.", "x" * 256):
            run(command, name, code=2, err="not the name of a channel")
        if command != "send":
            run(command, "/x", "surplus", code=2, err="unexpected argument 'surplus'")
    for args, words in (
            (["create", "--size", "5000"], "power of two"),
            (["create", "--size", "2K"], "out of range"),
            (["create", "--size", "99999999999999999999"], "out of range"),
            (["create", "--size", "2G"], "out of range"),
            (["create", "--size", "-4096"], "not a number"),
            (["create", "--size", "4Kx"], "not a number"),
            (["create", "--size", ""], "not a number"),
            (["create", "--size"], "needs a value"),
            (["create", "--participants", "65"], "out of range"),
            (["create", "--participants", "0"], "out of range"),
            (["create", "--notify", "eventfd"], "by name"),
            (["create", "--notify", "x"], "'x' is not futex or none"),
            (["create", "--on-death", "x"], "redeliver or drop"),
            (["create", "--type", "1"], "unknown option '--type'"),
            (["send", "--type", "0"], "out of range"),
            (["send", "--type", "4294967296"], "out of range"),
            (["send", "--hash", "0xg"], "not a number"),
            (["send", "--full", "x"], "drop-oldest"),
            (["send", "--wait", "x"], "yield"),
            (["send", "--timeout", "-1"], "not a number"),
            (["send", "--timeout", "nan"], "not a number"),
            (["send", "--timeout", "1e99"], "out of range"),
            (["send", "--block", "0"], "out of range"),
            (["send", "--block", "1", "text"], "neither"),
            (["send", "--null", "text"], "--null"),
            (["recv", "--count", "0"], "out of range"),
            (["recv", "--count", "5", "--follow"], "only one"),
            (["recv", "--raw", "--json"], "only one"),
            (["recv", "--invalid", "x"], "end or skip"),
            (["attach", "--interval", "0"], "out of range"),
            (["attach", "--interval", "1s"], "not a number")):
        run(args[0], "/x", *args[1:], code=2, err=words)
    # Control sequences do not reach the terminal.
    run("\x1b[2J\n", code=2, err=r"'\?\[2J\?' is no command")


@case
def help_and_version():
    check(re.fullmatch(rb"leat-channel \d+\.\d+\.\d+\n", run("--version")), "version")
    text = run("--help").decode()
    for command in COMMANDS:
        check(re.search(r"^  %s " % command, text, re.M), command)
        own = run(command, "--help").decode()
        check(own.startswith("Usage: leat-channel %s NAME" % command), own)
        check(own == run(command, "/x", "-h").decode(), own)
        check(max(map(len, own.splitlines())) <= 110, own)
    with open("/dev/full", "wb") as full:
        for args in (["--help"], ["--version"], ["send", "--help"]):
            run(*args, stdout=full, code=1, err="No space")


@case
def lines():
    with Channel() as ch:
        run("send", ch.name, "hello", "two words", "--type", "7", "--hash", "0xabc", "--", "-x")
        out = [json.loads(x) for x in run("recv", ch.name, "--json").splitlines()]
        check(out == [{"type": 7, "hash": "0x0000000000000abc", "length": len(t), "redelivered": 0,
                       "text": t}
                      for t in ("hello", "two words", "-x")], str(out))
        j = json.loads(run("send", ch.name, "--json", stdin=b"a\n\nb\n\nno newline",
                           err="left out: 2"))
        check((j["sent"], j["dropped"], j["empty"]) == (3, 0, 2), str(j))
        check(run("recv", ch.name, "-n2") == b"a\nb\n", "two of three")
        check(run("recv", ch.name) == b"no newline\n", "the third")
        check(run("recv", ch.name) == b"", "all there was")
        # The name without the slash is the same channel.
        run("send", ch.name[1:], "x")
        check(run("recv", ch.name[1:], "--timeout", "0") == b"x\n", "name without slash")
        run("send", ch.name, "", err="left out: 1")
        run("send", ch.name, stdin=b"")


@case
def bytes_of_all_values():
    data = bytes(range(256)) * 3001
    with Channel() as ch:
        run("send", ch.name, "--block", "1000", stdin=data)
        check(run("recv", ch.name, "--raw") == data, "block and raw")
        check(ch.inspect()["counters"]["sent"] == 769, str(ch.inspect()))
        items = [b"a\nb", b"\xff\xfe", b"\n", b"last"]
        run("send", ch.name, "-z", stdin=b"\0".join(items))
        check(run("recv", ch.name, "-z") == b"".join(i + b"\0" for i in items), "null")
        # Texts that JSON can represent, and bytes that are not UTF-8 (RFC 3629): overlong,
        # surrogate, too large, cut off.
        for text in ("\u00e9", "\u20ac", "\U0001f600", "\x7f\x01\"\\/",
                     "\u0800\ud7ff\ue000\U0010ffff"):
            run("send", ch.name, text)
            check(json.loads(run("recv", ch.name, "--json"))["text"] == text, text)
        for raw in (b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80",
                    b"\xf0\x80\x80\x80", b"\xc3\x28", b"\xf8\x88\x80\x80\x80"):
            run("send", ch.name, stdin=raw)
            got = json.loads(run("recv", ch.name, "--json"))
            check(got["hex"] == raw.hex() and "text" not in got, str(got))
        run("send", ch.name, "-z", "--type", "2", stdin=b"nul\0", err=None)
        run("send", ch.name, "--block", "4", stdin=b"a\0b")
        check([json.loads(x)["text"] for x in run("recv", ch.name, "--json").splitlines()] ==
              ["nul", "a\0b"], "NUL in JSON")


@case
def long_lines():
    with Channel("--size", "4K") as ch:
        run("send", ch.name, stdin=b"x" * 2032 + b"\n" + b"y\n")
        check(run("recv", ch.name) == b"x" * 2032 + b"\ny\n", "the longest")
        run("send", ch.name, stdin=b"ok\n" + b"x" * 2033 + b"\nnever\n", code=1,
            err="line 2 .* 2032 bytes")
        run("send", ch.name, stdin=b"x" * 100000, code=1, err="line 1 .* 2032 bytes")
        run("send", ch.name, "x" * 2033, code=1, err="line 1 .* 2032 bytes")
        run("send", ch.name, "--block", "2033", stdin=b"x", code=2, err="2032")
        check(run("recv", ch.name) == b"ok\n", "what came before the long one")


@case
def a_full_channel():
    many = b"".join(b"%d\n" % i for i in range(100))
    with Channel("--size", "4K") as ch:
        run("send", ch.name, "--full", "fail", stdin=many, code=3, err="full.*--full")
        run("send", ch.name, "--timeout", "0.05", stdin=many, code=3, err="full.*in time")
        j = json.loads(run("send", ch.name, "--full", "drop-newest", "--json", stdin=many,
                           err="100 of 100 frames were dropped"))
        check((j["sent"], j["dropped"]) == (0, 100), str(j))
        kept = run("recv", ch.name).splitlines()
        check(kept == [b"%d" % i for i in range(63)], str(kept))
        run("send", ch.name, "--full", "drop-oldest", stdin=many)
        kept = run("recv", ch.name).splitlines()
        check(kept == [b"%d" % i for i in range(37, 100)], str(kept))
        check(ch.inspect()["counters"]["overwritten"] == 37, str(ch.inspect()))
        # The channel is full, and a receiver whose pipe is full holds the oldest frame, so that it
        # can't be overwritten: --full drop-oldest drops the new frames, and does not wait or fail.
        run("send", ch.name, "--full", "fail", stdin=many, code=3, err="full.*--full")
        r, w = os.pipe()
        os.set_blocking(w, False)
        try:
            while True:
                os.write(w, bytes(65536))
        except BlockingIOError:
            os.set_blocking(w, True)
        p = start("recv", ch.name, "-f", stdout=w)
        ch.until(lambda j: j["frames"]["reading"] > 0)
        j = json.loads(run("send", ch.name, "--full", "drop-oldest", "--json", stdin=many,
                           err="100 of 100 frames were dropped"))
        check((j["sent"], j["dropped"]) == (0, 100), str(j))
        p.send_signal(signal.SIGTERM)
        check(finish(p).returncode == 128 + signal.SIGTERM, p.err)
        os.close(r)
        os.close(w)
        check(len(run("recv", ch.name).splitlines()) == 63, "given back")
        # Waiting is the default: all frames arrive.
        p = start("send", ch.name, "--terminate", stdin=subprocess.PIPE)
        q = collect("recv", ch.name, "--follow")
        data = b"".join(b"line %d\n" % i for i in range(20000))
        check(finish(p, data).returncode == 0, p.err)
        check(finish(q).returncode == 0 and q.out == data, "%s %s" % (q.err, len(q.out)))


@case
def waiting_for_frames():
    with Channel() as ch:
        run("recv", ch.name, "-n", "1", "--timeout", "0.05", code=3, err="no frame in time, 0 were")
        run("recv", ch.name, "-f", "--timeout", "0", code=3, err="no frame in time")
        check(run("recv", ch.name, "--timeout", "0.05") == b"", "a time out is all right")
        for how in ("notify", "sleep", "yield", "pause", "spin"):
            p = start("recv", ch.name, "-n", "3", "--wait", how)
            run("send", ch.name, "a", "b")
            run("send", ch.name, "c")
            check(finish(p).out == b"a\nb\nc\n" and p.returncode == 0, str(p.out))
    with Channel("--notify", "none") as ch:
        p = start("recv", ch.name, "--follow")
        run("send", ch.name, "a", "--terminate")
        check(finish(p).out == b"a\n" and p.returncode == 0, str(p.out))


@case
def terminated():
    with Channel() as ch:
        sleepers = [start("recv", ch.name, "--follow") for _ in range(3)]
        ch.until(waiting(*sleepers))
        run("send", ch.name, "last")
        run("terminate", ch.name)
        out = [finish(p).out for p in sleepers]
        check(sorted(out) == [b"", b"", b"last\n"] and not any(p.returncode for p in sleepers),
              str(out))
        check(ch.inspect()["terminated"], "terminated")
        run("send", ch.name, "x", code=4, err="is terminated")
        run("recv", ch.name, "-n", "2", code=4, err="after 0 of 2")
        run("recv", ch.name)
        run("attach", ch.name)
        run("terminate", ch.name)
    with Channel("--size", "4K") as ch:
        run("send", ch.name, "--full", "fail", stdin=b"x\n" * 64, code=3, err="full")
        p = start("send", ch.name, "one more")
        ch.until(waiting(p))
        run("terminate", ch.name)
        check(finish(p).returncode == 4, p.err)


@case
def looking():
    with Channel("--size", "8K", "--participants", "3", "--on-death", "drop", "--notify",
                 "none") as ch:
        run("send", ch.name, "a", "b")
        j = ch.inspect()
        check((j["size"], j["participants_max"], j["on_death"], j["notify"], j["terminated"]) ==
              (8192, 3, "drop", "none", False), str(j))
        check(j["positions"] == {"write": 128, "read": 0, "free": 0}, str(j))
        check(j["frames"] == {"reserved": 0, "committed": 2, "reading": 0, "returned": 0, "done": 0,
                              "empty": 0}, str(j))
        check(j["counters"]["sent"] == 2 and j["participants"] == [], str(j))
        before = open(ch.path, "rb").read()
        text = run("inspect", ch.name).decode()
        check(open(ch.path, "rb").read() == before, "inspect changed something")
        check(re.search(r"buffer 8192 bytes.*\n.*write 128, read 0, free 0: 128 bytes in use\n"
                        r"frames .*committed 2.*\ncounters .*sent 2.*\nparticipants 0 of 3\n",
                        text), text)
        os.chmod(ch.path, 0o400)
        ch.inspect()
        os.chmod(ch.path, 0o600)
        p = start("attach", ch.name, "--interval", "0.01", "--json")
        one = json.loads(p.stdout.readline())
        check(one["participants"] == 1 and one["counters"]["sent"] == 2 and one["seconds"] > 0 and
              one["per_second"]["sent"] == 0, str(one))
        j = ch.inspect()
        check([(w["pid"], w["alive"]) for w in j["participants"]] == [(p.pid, True)], str(j))
        text = run("inspect", ch.name).decode()
        check(re.search(r"participants 1 of 3\n.*\n +\d+ +%d " % p.pid, text), text)
        run("send", ch.name, "c")
        while one["counters"]["sent"] != 3:
            one = json.loads(p.stdout.readline())
        run("terminate", ch.name)
        lines_ = finish(p).out.splitlines()
        check(p.returncode == 0 and (json.loads(lines_[-1]) if lines_ else one)["terminated"],
              p.err)
    with Channel() as ch:
        text = run("attach", ch.name, "--interval", "0.01", "-n", "3").decode().splitlines()
        check(len(text) == 4 and text[0].split()[0] == "sent/s", str(text))


@case
def what_is_no_channel():
    with Channel(make=False) as ch:
        run("create", ch.name)
        run("create", ch.name, code=1, err="File exists.*destroy")
        run("destroy", ch.name)
        for command in ("send", "recv", "attach", "inspect", "terminate", "destroy"):
            run(command, ch.name, code=1, err="%s: No such file" % ch.name)
        run("recv", ch.name, code=1, err="leat-channel create")
        for content, words in ((b"", "being made"), (b"x" * 100, "being made"),
                               (bytes(70000), "not ready"), (b"x" * 70000, "not a channel")):
            with open(ch.path, "wb") as file:
                file.write(content)
            for command in ("send", "recv", "attach", "inspect", "terminate"):
                run(command, ch.name, code=1, err=words)
            run("destroy", ch.name, code=1, err="%s.*--force" % words)
            run("destroy", ch.name, "--force")
            check(not os.path.exists(ch.path), "destroyed")
        run("create", ch.name, "--size", "4K")
        good = open(ch.path, "rb").read()
        for at, value, words in ((8, 99, "version 99"), (12, 200, "sizes"), (16, 3, "sizes"),
                                 (24, 7, "sizes"),
                                 (32, 9, "policies"), (128, 1, "positions"), (257, 1, "positions")):
            with open(ch.path, "wb") as file:
                file.write(good[:at] + bytes([value]) + good[at + 1:])
            for command in ("send", "recv", "inspect"):
                run(command, ch.name, code=1, err=words)
        for cut in (1000, 2000, len(good) - 1):
            with open(ch.path, "wb") as file:
                file.write(good[:cut])
            run("recv", ch.name, code=1, err="being made|sizes")


@case
def memory_that_lies():
    """With arbitrary contents of the block a command answers, or fails with an error in words; no
    signal ends it, and it does not hang."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    with Channel("--size", "4K") as ch:
        run("send", ch.name, *["x" * n for n in (1, 100, 900, 30)])
        run("recv", ch.name, "-n", "2")
        good = open(ch.path, "rb").read()
        for turn in range(60):
            lies = bytearray(good)
            for _ in range(rng.randrange(1, 9)):
                # Change the head and the positions, or marks and frames.
                at = rng.choice((rng.randrange(8, 1024), rng.randrange(9088, len(good))))
                lies[at] = rng.choice((0, 1, 0x7f, 0xff, rng.randrange(256)))
            for args in (["inspect"], ["inspect", "--json"], ["recv"],
                         ["recv", "--json", "--invalid", "skip"],
                         ["send", "--full", "fail", "y"],
                         ["send", "--full", "drop-oldest", "y" * 2000], ["terminate"]):
                with open(ch.path, "wb") as file:
                    file.write(lies)
                p = finish(start(args[0], ch.name, *args[1:]))
                check(p.returncode in (0, 1, 3, 4) and (p.returncode == 0 or p.err != ""),
                      "seed %d, turn %d: %s: exit %d, %r" % (seed, turn, args, p.returncode, p.err))


@case
def memory_that_goes_away():
    with Channel() as ch:
        run("send", ch.name, "x")
        p = start("attach", ch.name, "--interval", "0.01", "--json")
        p.stdout.readline()
        os.truncate(ch.path, 0)
        check(finish(p).returncode == 1 and "memory is gone" in p.err,
              "%s %s" % (p.returncode, p.err))


@case
def memory_that_goes_away_while_written():
    """The memory is cut off while recv writes its frames: then zeros are written, an error."""
    with Channel() as ch:
        for _ in range(32):
            run("send", ch.name, "x" * 3000)
        p = start("recv", ch.name, "--count", "32", pipesize=4096)
        # recv waits for room in the pipe, and holds all frames.
        ch.until(lambda j: j["frames"]["reading"] == 32)
        os.truncate(ch.path, 0)
        check(finish(p).returncode == 1 and "memory is gone" in p.err,
              "%s %s" % (p.returncode, p.err))


@case
def other_users():
    if os.getuid() != 0:
        raise Skipped("only root can try as another user")
    with Channel() as ch:
        # The other user must be able to run the tool: not all users can enter the build directory.
        other = {"user": 65534, "group": 65534, "extra_groups": []}
        try:
            run("--version", **other)
        except PermissionError:
            raise Skipped("user 65534 can't run %s" % TOOL) from None
        for command in ("send", "recv", "attach", "inspect", "terminate", "destroy"):
            run(command, ch.name, code=1, err="Permission denied.*same user", **other)
        os.chmod(ch.path, 0o644)
        run("inspect", ch.name, **other)
        run("recv", ch.name, code=1, err="Permission denied", **other)


@case
def no_place_left():
    with Channel("--participants", "1") as ch:
        p = start("recv", ch.name, "--follow")
        ch.until(waiting(p))
        run("send", ch.name, "x", code=1, err="places are taken.*inspect")
        p.kill()
        p.communicate()
        run("send", ch.name, "x")


@case
def interrupted():
    """A signal ends each wait: no frame stays held, and the exit code says which signal it was."""
    with Channel("--size", "4K") as ch:
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            for args in (["recv", "-f"], ["recv", "-n", "9"], ["attach"], ["send"]):
                p = start(args[0], ch.name, *args[1:], stdin=subprocess.PIPE)
                ch.until(lambda j, p=p: p.pid in [w["pid"] for w in j["participants"]])
                p.send_signal(sig)
                check(p.wait(DEADLINE) == 128 + sig, "%s: %s" % (args, p.returncode))
                finish(p)
                check(p.err == "", p.err)
                check(ch.inspect()["participants"] == [], str(ch.inspect()))
        run("send", ch.name, "--full", "fail", stdin=b"x\n" * 64, code=3, err="full")
        p = start("send", ch.name, "one more")
        ch.until(waiting(p))
        p.send_signal(signal.SIGINT)
        check(finish(p).returncode == 128 + signal.SIGINT and p.err == "", p.err)
        # A program that is started with SIGINT ignored, as by nohup or in a shell's background,
        # goes on ignoring it.
        p = start("recv", ch.name, "-n", "64",
                  preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        ch.until(waiting(p))
        p.send_signal(signal.SIGINT)
        run("send", ch.name, "the last")
        check(finish(p).returncode == 0 and p.out.endswith(b"the last\n"), p.err)


@case
def stdout_that_takes_nothing():
    """Frames are consumed when stdout has taken them; otherwise other readers get them."""
    with Channel() as ch:
        run("send", ch.name, "a", "b", "c")
        with open("/dev/full", "wb") as full:
            run("recv", ch.name, stdout=full, code=1, err="stdout.*No space")
        check(ch.inspect()["frames"]["returned"] == 3, str(ch.inspect()))
        r, w = os.pipe()
        os.close(r)
        run("recv", ch.name, "-f", stdout=w, code=128 + signal.SIGPIPE)
        run("attach", ch.name, "--interval", "0.01", stdout=w, code=128 + signal.SIGPIPE)
        os.close(w)
        check(sorted(run("recv", ch.name).splitlines()) == [b"a", b"b", b"c"], "given back")
        # The receiver blocks in the middle of a frame, since its pipe is not read, and is
        # interrupted.
        run("send", ch.name, stdin=b"y" * 200000)
        p = start("recv", ch.name, "-f")
        ch.until(lambda j: j["frames"]["reading"] == 1)
        p.send_signal(signal.SIGINT)
        check(p.wait(DEADLINE) == 128 + signal.SIGINT, str(p.returncode))
        p.communicate()
        check(len(run("recv", ch.name)) == 200001, "given back")


@case
def killed():
    with Channel() as ch:
        # A receiver dies with a held frame: no other receiver is blocked, and the frame is
        # delivered again.
        run("send", ch.name, stdin=b"y" * 200000)
        p = start("recv", ch.name, "-f")
        ch.until(lambda j: j["frames"]["reading"] == 1)
        p.kill()
        p.communicate()
        check(len(run("recv", ch.name, "-n1")) == 200001, "redelivered")
        # Senders and receivers are killed in the middle of their work; all frames of the last
        # sender arrive.
        for _ in range(5):
            sender = start("send", ch.name, stdin=subprocess.PIPE)
            reader = start("recv", ch.name, "-f", stdout=subprocess.DEVNULL)
            sender.stdin.write(b"line\n" * 20000)
            sender.kill()
            reader.kill()
            sender.communicate()
            reader.communicate()
        p = collect("recv", ch.name, "-f")
        run("send", ch.name, "--terminate", "the end")
        check(finish(p).returncode == 0, p.err)
        # Frames that a dead reader held may come after the last one that was sent.
        got = p.out.splitlines()
        check(got.count(b"the end") == 1 and set(got) <= {b"line", b"the end"}, str(p.out[-200:]))
        j = ch.inspect()
        check(j["frames"]["reserved"] == j["frames"]["reading"] == j["frames"]["committed"] == 0,
              str(j))
        check(j["participants"] == [] or not any(w["alive"] for w in j["participants"]), str(j))


@case
def many_of_each():
    with Channel("--size", "16K") as ch:
        readers = [collect("recv", ch.name, "--follow") for _ in range(3)]
        senders = [start("send", ch.name, stdin=subprocess.PIPE) for _ in range(3)]
        for n, p in enumerate(senders):
            p.stdin.write(b"".join(b"%d %d\n" % (n, i) for i in range(3000)))
            p.stdin.close()
            p.stdin = None
        check([finish(p).returncode for p in senders] == [0, 0, 0], "senders")
        run("terminate", ch.name)
        got = []
        for p in readers:
            check(finish(p).returncode == 0, p.err)
            mine = [tuple(map(int, x.split())) for x in p.out.splitlines()]
            for n in range(3):
                order = [i for m, i in mine if m == n]
                check(order == sorted(order), "order of sender %d" % n)
            got += mine
        check(sorted(got) == [(n, i) for n in range(3) for i in range(3000)],
              "%d frames" % len(got))


main()
