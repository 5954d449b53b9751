# SPDX-License-Identifier: BSD-3-Clause
"""Write a block, in the format of lib/tune, for a fake process."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time

MAGIC = 0x454E55545441454C
HEAD = struct.Struct("<QIIQQIIQQQQIIIIIIIIQQ64s")
RECORD = struct.Struct("<QIIIIQQQQQIIII64s")
CHANGE = struct.Struct("<QQQQII16s64s112s32s64s64s")
LEASE = struct.Struct("<QIIQQ64s")
SLOTS, CHANGES, LEASES = 8192, 256, 64
SLOT_AT = 4096
CHANGE_AT = SLOT_AT + SLOTS * 16
LEASE_AT = CHANGE_AT + CHANGES * CHANGE.size
HEAP_AT = (LEASE_AT + LEASES * LEASE.size + 255) // 256 * 256
SIZE = 16 << 20

ROW, OWNER = 1, 2


class FakeBlock:
    """A block. Like lib/tune, lock it before it gets its name. Only one thread may use it."""

    def __init__(self, dirfd: int, program: str, protocol: int, instance: int) -> None:
        self._dirfd = dirfd
        self.name = f"{os.getpid()}-{instance:016x}.block"
        self.fd = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=dirfd)
        os.ftruncate(self.fd, SIZE)
        self.map = mmap.mmap(self.fd, SIZE)
        self._end = HEAP_AT
        self._free: dict[int, list[int]] = {}
        self._texts: dict[bytes, int] = {}
        self._slots: dict[int, tuple[int, int]] = {}  # offset of a record: its slot and size
        self._next_slot = 0
        self._used: set[int] = set()
        self._nb_changes = 0
        now = time.monotonic_ns()
        HEAD.pack_into(
            self.map, 0, MAGIC, 1, 4096, protocol, instance, os.getpid(), os.geteuid(),
            time.time_ns(), now,
            1_000_000_000, self._end, SLOTS, SLOT_AT, CHANGES, CHANGE_AT, CHANGE.size, LEASES,
            LEASE_AT, LEASE.size, 0, 0, program.encode()[:63],
        )
        lock = struct.pack("@hh4xqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(self.fd, fcntl.F_OFD_SETLK, lock)
        os.link(f"/proc/self/fd/{self.fd}", self.name, dst_dir_fd=dirfd, follow_symlinks=True)

    def close(self, remove: bool = True) -> None:
        """Close the block; without remove it is left like that of a process that died."""
        if remove:
            os.unlink(self.name, dir_fd=self._dirfd)
        self.map.close()
        os.close(self.fd)

    def heartbeat(self, interval_ns: int) -> None:
        struct.pack_into("<QQ", self.map, 48, time.monotonic_ns(), interval_ns)

    # ---- heap ----

    def _alloc(self, size: int) -> int:
        whole = max(256, 1 << (size - 1).bit_length())
        free = self._free.get(whole)
        if free:
            offset = free.pop()
        else:
            offset = self._end
            if offset + whole > SIZE:
                raise MemoryError("the fake block is full")
            self._end += whole
            struct.pack_into("<Q", self.map, 64, self._end)
        self.map[offset : offset + whole] = bytes(whole)
        return offset

    def _text(self, schema: int, text: bytes) -> int:
        offset = self._texts.get(text)
        if offset is None:
            offset = self._texts[text] = self._alloc(16 + len(text))
            self.map[offset : offset + 16 + len(text)] = struct.pack("<QII", schema, len(text),
                                                                     0) + text
        return offset

    # ---- records ----

    def record(self, id: int, parent: int, flags: int, schema: int, text: bytes, name: str,
               settings: bytes, report: bytes, reported: bool) -> int:
        """Add a record, and return its offset."""
        text_at = self._text(schema, text)
        size = RECORD.size + len(settings) + len(report)
        offset = self._alloc(size)
        now = time.monotonic_ns()
        body = RECORD.pack(now * 2 + 1, id, parent, text_at, flags, schema, now,
                           now if reported else 0, 0,
                           int(reported), RECORD.size, len(settings), RECORD.size + len(settings),
                           len(report), name.encode()[:63])
        self.map[offset : offset + size] = body + settings + report
        struct.pack_into("<Q", self.map, offset, now * 2 + 2)
        while self._next_slot in self._used:
            self._next_slot = (self._next_slot + 1) % SLOTS
        slot = self._next_slot
        self._used.add(slot)
        self._slots[offset] = (slot, size)
        struct.pack_into("<III", self.map, SLOT_AT + slot * 16 + 4, size, id, 0)
        struct.pack_into("<I", self.map, SLOT_AT + slot * 16, offset)
        return offset

    def begin(self, offset: int) -> None:
        """Make the sequence number of a record, a change or a lease odd, as while it is being
        written."""
        (seq,) = struct.unpack_from("<Q", self.map, offset)
        struct.pack_into("<Q", self.map, offset, seq + 1)

    end = begin

    def report(self, offset: int, report: bytes, time_ns: int) -> None:
        self.begin(offset)
        at, size = struct.unpack_from("<II", self.map, offset + 72)
        self.map[offset + at : offset + at + size] = report
        struct.pack_into("<Q", self.map, offset + 40, time_ns)
        (updates,) = struct.unpack_from("<Q", self.map, offset + 56)
        struct.pack_into("<Q", self.map, offset + 56, updates + 1)
        self.end(offset)

    def settings(self, offset: int, settings: bytes, epoch: int) -> None:
        self.begin(offset)
        at, size = struct.unpack_from("<II", self.map, offset + 64)
        self.map[offset + at : offset + at + size] = settings
        struct.pack_into("<Q", self.map, offset + 48, epoch)
        self.end(offset)

    def remove(self, offset: int) -> None:
        slot, size = self._slots.pop(offset)
        self._used.remove(slot)
        struct.pack_into("<IIII", self.map, SLOT_AT + slot * 16, 0, 0, 0, 0)
        self.begin(offset)
        struct.pack_into("<I", self.map, offset + 8, 0)
        self.end(offset)
        self._free.setdefault(max(256, 1 << (size - 1).bit_length()), []).append(offset)

    # ---- history, leases ----

    def change(self, epoch: int, id: int, setting: int, why: str, who: str, path: str, name: str,
               old: str, new: str) -> None:
        number = self._nb_changes + 1
        at = CHANGE_AT + (number - 1) % CHANGES * CHANGE.size
        self.begin(at)
        body = CHANGE.pack(0, number, time.time_ns(), epoch, id, setting, why.encode()[:15],
                           who.encode()[:63],
                           path.encode()[:111], name.encode()[:31], old.encode()[:63],
                           new.encode()[:63])
        self.map[at + 8 : at + CHANGE.size] = body[8:]
        self.end(at)
        self._nb_changes = number
        struct.pack_into("<Q", self.map, 104, number)

    def lease(self, place: int, id: int, session: int, mask: int, expires_ns: int,
              who: str) -> None:
        at = LEASE_AT + place * LEASE.size
        self.begin(at)
        self.map[at + 8 : at + LEASE.size] = LEASE.pack(0, id, session, mask, expires_ns,
                                                        who.encode()[:63])[8:]
        self.end(at)
