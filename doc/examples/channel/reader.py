#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Add up the samples of writer.c, and print statistics when the writer has ended: reader.py [NAME]

The program that starts first creates the channel; the reader removes it. When no sample has come
for a while, the reader checks that the writer is still alive. If the writer was killed, the reader
reads all samples that it had committed, and ends.
"""

import os
import struct
import sys
import time

from leat_channel import Channel, Exists, NotFound, Terminated, TimedOut, WouldBlock, unlink

CREATE_S = 1  # longest wait for the writer to finish creating the channel
CHECK_S = 0.2  # after this long without a sample, check that the writer is alive

# The sample, as in writer.c: frame type, definition, and layout in terms of Python's struct.
SAMPLE_TYPE = 1
SAMPLE_DEFINITION = "sample: number u64, time_ns u64, packets u64, depth u32, core u32"
SAMPLE = struct.Struct("=QQQII")


def hash_of(text):
    """FNV-1a of a text, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


def create_or_open(name):
    end = time.monotonic() + CREATE_S
    while True:
        try:
            return Channel.create(name)
        except Exists:
            pass
        try:
            return Channel.open(name)
        except (NotFound, WouldBlock):
            # The writer is creating or removing the channel at this moment.
            if time.monotonic() > end:
                raise


class Statistics:
    def __init__(self):
        self.samples = self.lost = self.packets = self.depths = self.deepest = 0
        self.next = 0
        self.first_ns = self.last_ns = None

    def add(self, number, time_ns, packets, depth, _core):
        if number < self.next:
            self.next = number  # a new writer, whose numbers begin at 0
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
            f"{self.samples} samples, {self.lost} lost, "
            f"in {(self.last_ns - self.first_ns) / 1e9:.6f} s: "
            f"{self.packets} packets, depth {self.depths / self.samples:.1f} on average, "
            f"{self.deepest} at most"
        )


def writer_is_dead(channel):
    """Return whether no other live process has the channel open; recover frames of dead ones."""
    channel.recover()
    return not any(w.alive and w.pid != os.getpid() for w in channel.inspect().who)


def read_all(channel, statistics):
    """Read until the writer ends. Return True, or False when the writer died."""
    expected = hash_of(SAMPLE_DEFINITION)
    writer_died = False
    while True:
        try:
            frames = channel.peek(timeout=0 if writer_died else CHECK_S)
        except Terminated:
            return True
        except WouldBlock:
            return False
        except TimedOut:
            # A dead writer's remaining samples are read before returning False. Before the first
            # sample the writer may not have started.
            writer_died = statistics.samples > 0 and writer_is_dead(channel)
            continue
        with frames:
            for frame in frames:
                if frame.type != SAMPLE_TYPE:
                    continue  # a newer writer may send other types as well
                if frame.hash != expected or len(frame.data) != SAMPLE.size:
                    raise SystemExit("reader: the writer means something else by a sample")
                statistics.add(*SAMPLE.unpack(frame.data))


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "/telemetry"
    statistics = Statistics()
    try:
        with create_or_open(name) as channel:
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
