#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Adds up the samples of writer.c, and prints statistics when it has ended: reader.py [NAME]

Who comes first makes the channel; the reader removes it. If the writer is killed, all that it had
committed is read, and the reader ends, too: it looks who takes part when nothing comes for a while.
"""

import os
import struct
import sys
import time

from leat_channel import Channel, Exists, NotFound, Terminated, TimedOut, WouldBlock, unlink

MAKE_S = 1  # how long another one may take to make the channel
LOOK_S = 0.2  # nothing for so long: is the writer still there?

# As in writer.c: a type, its definition, and what struct makes of it.
SAMPLE_TYPE = 1
SAMPLE_DEFINITION = "sample: number u64, time_ns u64, packets u64, depth u32, core u32"
SAMPLE = struct.Struct("=QQQII")


def hash_of(text):
    """FNV-1a, 64 bits"""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


def make_or_open(name):
    end = time.monotonic() + MAKE_S
    while True:
        try:
            return Channel.create(name)
        except Exists:
            pass
        try:
            return Channel.open(name)
        except (NotFound, WouldBlock):
            # It is being made, or removed.
            if time.monotonic() > end:
                raise


class Statistics:
    def __init__(self):
        self.samples = self.lost = self.packets = self.depths = self.deepest = 0
        self.next = 0
        self.first_ns = self.last_ns = None

    def add(self, number, time_ns, packets, depth, _core):
        if number < self.next:
            self.next = number  # another writer, which began anew
        self.lost += number - self.next
        self.next = number + 1
        self.samples += 1
        self.packets += packets
        self.depths += depth
        self.deepest = max(self.deepest, depth)
        self.first_ns = time_ns if self.first_ns is None else self.first_ns
        self.last_ns = time_ns

    def __str__(self):
        if self.samples == 0:
            return "no samples"
        return (
            f"{self.samples} samples, {self.lost} lost, in {(self.last_ns - self.first_ns) / 1e9:.6f} s: "
            f"{self.packets} packets, depth {self.depths / self.samples:.1f} on average, "
            f"{self.deepest} at most"
        )


def alone(channel):
    channel.recover()
    return not any(w.alive and w.pid != os.getpid() for w in channel.inspect().who)


def read_all(channel, statistics):
    """Until the writer has ended: True; or is gone without a word."""
    expected = hash_of(SAMPLE_DEFINITION)
    gone = False
    while True:
        try:
            frames = channel.peek(timeout=0 if gone else LOOK_S)
        except Terminated:
            return True
        except WouldBlock:
            return False
        except TimedOut:
            # What it sent before it went is read first. Before the first sample there is no writer yet.
            gone = statistics.samples > 0 and alone(channel)
            continue
        with frames:
            for frame in frames:
                if frame.type != SAMPLE_TYPE:
                    continue  # of a newer writer, perhaps
                if frame.hash != expected or len(frame.data) != SAMPLE.size:
                    raise SystemExit("reader: the writer means something else by a sample")
                statistics.add(*SAMPLE.unpack(frame.data))


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "/telemetry"
    statistics = Statistics()
    try:
        with make_or_open(name) as channel:
            ended = read_all(channel, statistics)
        unlink(name)
    except OSError as e:
        raise SystemExit(f"reader: {e}") from None
    except KeyboardInterrupt:
        ended = None
    print(statistics)
    if ended is None:
        raise SystemExit("reader: interrupted; the channel stays")
    if not ended:
        raise SystemExit("reader: the writer died")


if __name__ == "__main__":
    main()
