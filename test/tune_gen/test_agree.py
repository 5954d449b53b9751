# SPDX-License-Identifier: BSD-3-Clause
"""C and Python agree byte for byte, and on bytes to refuse: test_agree.py PROGRAM (values.c)"""

import json
import random
import struct
import subprocess
import sys
from dataclasses import fields

import gen
import tap

from leat_tune_gen import component, layout
from leat_tune_gen.source import Source

every = gen.module("every", gen.EVERY)
protocol = gen.module("protocol", gen.PROTOCOL)
rng = random.Random(18)
program = None

LABELS = ["", "x", "123456789012", "Grüße", "€uro", "\U0001f600", 'a "b" \\']
NUMBERS = [0, 1, -1, 255, 256, 2**31, 2**32, 2**63 - 1, -2**63]


class Program:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.first = self.process.stdout.readline().decode().split()

    def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().decode().rstrip("\n")
        assert answer, f"no answer to {line!r}"
        return answer

    def ask(self, line):
        """Send a line; return (0, hex, the rest), or (errno, None, None)."""
        answer = self.say(line)
        code, _, rest = answer.partition(" ")
        if int(code) != 0:
            return int(code), None, None
        made, _, rest = rest.partition("\t" if line[0] == "s" else " ")
        return 0, bytes.fromhex(made), rest


def random_settings():
    low, high = rng.randint(1, 1000000), rng.randint(1, 1000000)
    return every.EverySettings(
        enabled=rng.random() < 0.5, batch=rng.randint(1, 4096),
        window=rng.choice([0, 8, 4096, 4294967295, rng.randint(8, 4096)]),
        shift=rng.choice([*NUMBERS, rng.randint(-2**63, 2**63 - 1)]),
        ratio=rng.choice([0.125, 1e6, -1.0, rng.uniform(0.125, 1e6)]),
        policy=rng.randrange(4), label=rng.choice(LABELS), low_ns=low, high_ns=high,
        lcores=rng.randint(1, 128))


def hashes_agree():
    assert program.first[:2] == [f"{every.EverySettings.HASH:016x}", f"{protocol.HASH:016x}"]
    assert every.HASHES == {"every": every.EveryReport.HASH}


def schema_in_c_is_that_of_json():
    shown = gen.run("--json", gen.EVERY)
    assert json.loads(program.say("j -")) == json.loads(shown.stdout)


def sizes_in_c_agree():
    """The sizes of C structs that leat-tune-gen computes, for one_cache_line, are the
    compiler's."""
    c = component.load(Source.read(gen.EVERY))
    sizes = [str(layout.c_size(c.settings)), str(layout.c_size(c.reports))]
    assert program.first[2:] == sizes, (program.first, sizes)


def settings_agree():
    for _ in range(3000):
        s = random_settings()
        data = s.pack()
        code, made, texts = program.ask("s " + data.hex())
        assert code == 0, (code, s)
        assert made == data, s
        assert every.EverySettings.unpack(data) == s
        shown = texts.split("\t")
        assert shown[0] == str(s.enabled).lower() and shown[1] == str(s.batch), shown
        assert shown[4] == "off" if s.ratio == -1.0 else float(shown[4]) == s.ratio, shown
        assert shown[5] == ["auto", "spin", "sleep-long", "2nd"][s.policy], shown
        assert shown[6] == s.label, shown


def texts_agree():
    for _ in range(1000):
        s = every.EverySettings()
        values = random_settings()
        name = rng.choice([f.name for f in fields(s)])
        value = getattr(values, name)
        setattr(s, name, value)
        said = str(value).lower() if name == "enabled" else str(value)
        if name == "policy":
            said = ["auto", "spin", "sleep-long", "2nd"][value]
        code, made, _ = program.ask(f"t {name} {said}")
        assert code == 0 and made == s.pack(), (name, said, code)
    assert program.ask("t on false")[1] == every.EverySettings(enabled=False).pack()
    assert program.ask("t window automatic")[1] == every.EverySettings(window=0).pack()
    assert program.ask("t nothing 1")[0] == -2


def accepted(unpack, data, error):
    try:
        return unpack(data)
    except error:
        return None


def mutate(data):
    """Return a copy of data with a few random changes."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        how = rng.randrange(8)
        if how == 0 and data:
            del data[rng.randrange(len(data)):]
        elif how == 1:
            data += rng.randbytes(rng.choice([1, 7, 8]))
        elif how == 2:
            place = rng.randrange(len(data) // 8 + 1) * 8
            data[place:place + 8] = struct.pack("<d", rng.choice(
                [0.0, float("nan"), float("inf"), -1.0]))
        elif data:
            data[rng.randrange(len(data))] = rng.choice([0, 1, 2, 0x7f, 0x80, 0xff,
                                                         rng.randrange(256)])
    return bytes(data)


def hostile_settings_agree():
    taken = refused = 0
    for _ in range(6000):
        data = mutate(random_settings().pack())
        s = accepted(every.EverySettings.unpack, data, every.MessageError)
        code, made, _ = program.ask("s " + data.hex())
        assert (s is None) == (code != 0), (data.hex(), s, code)
        if s is None:
            refused += 1
        else:
            taken += 1
            assert made == data == s.pack(), data.hex()
    assert taken > 500 and refused > 500, (taken, refused)


def reports_agree():
    for _ in range(500):
        h = every.Histogram(rng.randrange(2**64), rng.randrange(2**64),
                            tuple(rng.choice([0, rng.randrange(2**64)]) for _ in range(112)))
        r = every.EveryReport(
            turns=rng.randrange(2**64), busy_ns=rng.randrange(2**64), depth=rng.choice(NUMBERS),
            load=rng.choice([0.0, -0.0, 1e300, float("inf"), rng.random()]), up=rng.random() < 0.5,
            policy=rng.randrange(4), peer=rng.choice(LABELS), latency=h)
        bits, = struct.unpack("<Q", struct.pack("<d", r.load))
        line = [r.turns, r.busy_ns, r.depth, bits, int(r.up), r.policy, r.peer.encode().hex(),
                h.count, h.sum, *h.buckets]
        code, made, _ = program.ask("r " + " ".join(map(str, line)))
        assert code == 0 and made == r.pack(), r
        assert every.EveryReport.unpack(made) == r


def random_message(kind):
    values = {}
    for f in fields(kind):
        values[f.name] = {
            "bool": lambda: rng.random() < 0.5,
            "int": lambda: rng.choice([n for n in NUMBERS if n >= 0 or f.name != "mask"]),
            "str": lambda: rng.choice(LABELS),
            "bytes": lambda: rng.randbytes(rng.choice([0, 1, 8, 88])),
        }[f.type]()
    if "mask" in values:
        values["mask"] = rng.choice([0, 1, 2**63, 2**64 - 1])
    return kind(**values)


def messages_agree():
    for kind in protocol.MESSAGES.values():
        for _ in range(300):
            m = random_message(kind)
            data = m.pack()
            assert kind.unpack(data) == m
            code, made, payload = program.ask(f"m {kind.NUMBER} {data.hex()}")
            assert code == 0, (m, code)
            assert made + bytes.fromhex(payload) == data, m
            assert len(made) == kind.SIZE


def utf8(data):
    try:
        data.decode()
        return True
    except UnicodeDecodeError:
        return False


def hostile_messages_agree():
    taken = refused = 0
    for kind in protocol.MESSAGES.values():
        for _ in range(1000):
            data = mutate(random_message(kind).pack())
            m = accepted(kind.unpack, data, protocol.MessageError)
            code, made, payload = program.ask(f"m {kind.NUMBER} {data.hex()}")
            assert (m is None) == (code != 0), (kind, data.hex(), m, code)
            if m is None:
                refused += 1
                continue
            taken += 1
            assert made + bytes.fromhex(payload) == data, data.hex()
            # Python shows bytes that are not UTF-8 differently, and does not send them.
            texts = [getattr(m, f.name) for f in fields(m) if f.type == "str"]
            assert any("\ufffd" in t for t in texts) or m.pack() == data, data.hex()
    assert taken > 500 and refused > 500, (taken, refused)


def python_refuses_wrong_values():
    wrong = [("enabled", 2), ("enabled", "true"), ("batch", 0), ("batch", 4097), ("batch", 1.0),
             ("batch", True), ("window", 7), ("shift", 2**63), ("ratio", float("nan")),
             ("ratio", "1"), ("ratio", 0.1), ("policy", 4), ("policy", -1), ("label", "x" * 13),
             ("label", "a\0"),
             ("label", "a\n"), ("label", "\x9b"),
             ("label", b"x"), ("lcores", None)]
    for name, value in wrong:
        s = every.EverySettings()
        setattr(s, name, value)
        try:
            s.pack()
        except every.MessageError as e:
            assert f"EverySettings.{name}" in str(e), e
        else:
            raise AssertionError(f"{name} = {value!r} was packed")
    assert every.EverySettings.mask("enabled", "window") == 5
    for value in (2**64, -1):
        try:
            protocol.Set(mask=value).pack()
        except protocol.MessageError:
            continue
        raise AssertionError(f"mask {value} was packed")


if __name__ == "__main__":
    program = Program(sys.argv[1])
    with program.process:
        tap.main([hashes_agree, schema_in_c_is_that_of_json, sizes_in_c_agree, settings_agree,
                  texts_agree, hostile_settings_agree, reports_agree,
                  messages_agree, hostile_messages_agree, python_refuses_wrong_values])
