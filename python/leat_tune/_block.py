# SPDX-License-Identifier: BSD-3-Clause
"""Reader of a process's block, the file whose layout lib/tune/tune_block.h describes.

The file is read with pread(2), never mapped: if it is truncated meanwhile, a read is short, and the
reader gets no SIGBUS. Every offset, length and count is checked against the file before it is used,
and the bytes of one read are bounded. A wrong or malicious block therefore raises Corrupt after a
bounded time.

A record that its process is writing is read again, a bounded number of times; after that the last
consistent copy is used, or if there is none, the record is omitted. The block of a process that was
stopped while writing can therefore be read. A writer may merely be waiting for a CPU. So the reader
waits longer for records without a copy: at most 0.1 s in all for one reading of the block.
"""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass

from ._errors import Corrupt
from ._schema import TEXT_MAX, Schema
from ._text import text_of

MAGIC = 0x454E55545441454C  # "LEATTUNE"
VERSION = 1
HEAD_SIZE = 4096
BLOCK_MAX = 64 << 20
SLOTS_MAX = 65536
CHANGES_MAX = 4096
LEASES_MAX = 4096
ENTRY_MAX = 4096  # bytes of a change or a lease
RECORD_MAX = 64 << 10  # bytes of a record
SCHEMAS_MAX = 512
SCHEMA_TEXT_MAX = 8 << 20  # bytes of all schemas of a block
TRIES = 16  # reads of a record that is being written
PATIENCE = 256  # repeated reads of all records together
UNKNOWN_SECONDS = 0.1  # waits for all records without a copy together

RECORD_ROW = 1
RECORD_OWNER = 2

_HEAD = struct.Struct("<QIIQQIIQQQQIIIIIIIIQQ64s")
_SLOT = struct.Struct("<IIII")
_RECORD = struct.Struct("<QIIIIQQQQQIIII64s")
_SCHEMA = struct.Struct("<QII")
_CHANGE = struct.Struct("<QQQQII16s64s112s32s64s64s")
_LEASE = struct.Struct("<QIIQQ64s")
_SEQ = struct.Struct("<Q")
_EMPTY = _SLOT.pack(0, 0, 0, 0)

assert (_HEAD.size, _RECORD.size, _CHANGE.size, _LEASE.size) == (184, 144, 392, 96)


@dataclass(frozen=True)
class Head:
    """struct tune_block_head."""

    protocol: int
    instance: int
    pid: int
    uid: int
    start_ns: int  # CLOCK_REALTIME
    heartbeat_ns: int
    interval_ns: int
    bytes: int
    slots: int
    slot_offset: int
    changes: int
    change_offset: int
    change_size: int
    leases: int
    lease_offset: int
    lease_size: int
    nb_changes: int
    dropped: int
    program: str


@dataclass(frozen=True)
class Record:
    """struct tune_block_record, with its messages (settings, report)."""

    id: int
    parent: int
    flags: int
    schema: Schema
    created_ns: int
    time_ns: int
    epoch: int
    updates: int
    name: str
    settings: bytes
    report: bytes


@dataclass(frozen=True)
class Change:
    """A change of a setting, as the process recorded it."""

    number: int  # from 1
    real_ns: int  # CLOCK_REALTIME
    epoch: int
    id: int  # of the object
    object: str  # its path: "reactor.lcore0"
    name: str  # of the setting
    why: str  # "set", "lease over", "program", ...
    who: str  # "leat-tune[1234]"
    old: str
    new: str


@dataclass(frozen=True)
class RawLease:
    """A lease of settings of an object."""

    id: int  # of the object
    session: int
    mask: int  # bits of Setting.index
    expires_ns: int  # CLOCK_MONOTONIC; 0: when the session ends
    who: str


class Block:
    """The block of one process; owns its descriptor. Methods raise Corrupt if it is wrong."""

    def __init__(self, fd: int, name: str) -> None:
        self._fd = fd
        self._name = name
        self._schemas: dict[tuple[int, int], Schema] = {}  # by offset and hash
        self._schema_text = 0
        # By offset: sequence number and last consistent record.
        self._records: dict[int, tuple[int, Record]] = {}
        self._changes: tuple[int, list[Change]] = (0, [])
        self._patience = PATIENCE
        self._unknown_until: float | None = None  # when the wait ends for records without a copy

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def fd(self) -> int:
        return self._fd

    def _corrupt(self, words: str) -> Corrupt:
        return Corrupt(f"{self._name}: {words}")

    def _read(self, length: int, offset: int) -> bytes:
        data = os.pread(self._fd, length, offset)
        if len(data) != length:
            raise self._corrupt(f"ends at {offset + len(data)}, before {offset + length}")
        return data

    def head(self) -> Head:
        """Read and check the head, at the beginning of each reading of the block."""
        self._patience = PATIENCE
        self._unknown_until = None
        # Try twice: the process may have changed the head during the first read.
        for tries in (1, 0):
            try:
                return self._head()
            except Corrupt:
                if not tries:
                    raise
        raise AssertionError

    def _head(self) -> Head:
        magic, version, size, *rest, program = _HEAD.unpack(self._read(_HEAD.size, 0))
        if magic != MAGIC:
            raise self._corrupt("not a block")
        if version != VERSION or size != HEAD_SIZE:
            raise self._corrupt(
                f"version {version}, head of {size} bytes: made by another release"
            )
        head = Head(*rest, text_of(program))
        length = os.fstat(self._fd).st_size
        if not HEAD_SIZE <= head.bytes <= length or length > BLOCK_MAX:
            raise self._corrupt(f"{head.bytes} bytes in use of {length}")
        for what, n, most, offset, entry, least in (
            ("slots", head.slots, SLOTS_MAX, head.slot_offset, _SLOT.size, _SLOT.size),
            ("changes", head.changes, CHANGES_MAX, head.change_offset, head.change_size,
             _CHANGE.size),
            ("leases", head.leases, LEASES_MAX, head.lease_offset, head.lease_size, _LEASE.size),
        ):
            if not 1 <= n <= most or not least <= entry <= ENTRY_MAX:
                raise self._corrupt(f"{n} {what} of {entry} bytes")
            if offset < HEAD_SIZE or offset + n * entry > head.bytes:
                raise self._corrupt(f"{what} at {offset}, outside of {head.bytes} bytes")
        return head

    def _again(self, tries: int) -> bool:
        """Whether to read again a record or entry that is being written."""
        if tries == TRIES or self._patience == 0:
            return False
        self._patience -= 1
        if tries > 2:
            time.sleep(50e-6)
        return True

    def _await_unknown(self) -> bool:
        """Whether to read again a record without a copy."""
        now = time.monotonic()
        if self._unknown_until is None:
            self._unknown_until = now + UNKNOWN_SECONDS
        if now >= self._unknown_until:
            return False
        time.sleep(1e-3)
        return True

    # ---- records ----

    def records(self, head: Head, rows: bool) -> list[Record]:
        """Return all objects, with or without rows; omit records that are not consistent."""
        table = self._read(head.slots * _SLOT.size, head.slot_offset)
        # Overlapping records would be read twice: read no more bytes than the file has.
        budget = head.bytes
        found = []
        seen: dict[int, tuple[int, Record]] = {}
        for at in range(0, len(table), _SLOT.size):
            if table[at : at + _SLOT.size] == _EMPTY:
                continue
            offset, size, id, _ = _SLOT.unpack_from(table, at)
            if offset == 0:
                continue
            if offset < HEAD_SIZE or offset % 8 or offset + size > head.bytes:
                raise self._corrupt(f"a record at {offset}, outside of {head.bytes} bytes")
            if not _RECORD.size <= size <= RECORD_MAX:
                raise self._corrupt(f"a record of {size} bytes")
            budget -= size
            if budget < 0:
                raise self._corrupt("records that overlap")
            whole = self._record(head, offset, size, id)
            if whole is None:
                continue
            seen[offset] = whole
            if rows or not whole[1].flags & RECORD_ROW:
                found.append(whole[1])
        self._records = seen
        return found

    def _record(self, head: Head, offset: int, size: int, id: int) -> tuple[int, Record] | None:
        old = self._records.get(offset)
        tries = 0
        while True:
            data = self._read(size, offset)
            (seq,) = _SEQ.unpack_from(data)
            if old is not None and old[0] == seq and old[1].id == id:
                return old
            if seq % 2 == 0 and self._read(_SEQ.size, offset) == data[: _SEQ.size]:
                record = self._parse(head, data)
                # The record may have been replaced since its slot was read: then omit it.
                return None if record is None or record.id != id else (seq, record)
            tries += 1
            if self._again(tries):
                continue
            if old is not None and old[1].id == id:
                return old
            if not self._await_unknown():
                return None

    def _parse(self, head: Head, data: bytes) -> Record | None:
        (_, id, parent, schema_at, flags, hash, created, stamp, epoch, updates, settings_at,
         settings_size, report_at, report_size, name) = _RECORD.unpack_from(data)
        if id == 0:
            return None
        schema = self._schema(head, schema_at, hash)
        messages = []
        for what, at, length, wanted in (
            ("settings", settings_at, settings_size, schema.settings_size),
            ("report", report_at, report_size, schema.report_size),
        ):
            if length not in (0, wanted):
                raise self._corrupt(
                    f"{schema.component}: {length} bytes of {what} instead of {wanted}"
                )
            if length and (at < _RECORD.size or at + length > len(data)):
                raise self._corrupt(f"{schema.component}: {what} at {at}, outside of its record")
            messages.append(data[at : at + length])
        return Record(id, parent, flags, schema, created, stamp, epoch, updates, text_of(name),
                      *messages)

    def _schema(self, head: Head, offset: int, hash: int) -> Schema:
        schema = self._schemas.get((offset, hash))
        if schema is not None:
            return schema
        if offset < HEAD_SIZE or offset + _SCHEMA.size > head.bytes:
            raise self._corrupt(f"a schema at {offset}, outside of {head.bytes} bytes")
        found, length, _ = _SCHEMA.unpack(self._read(_SCHEMA.size, offset))
        if found != hash:
            raise self._corrupt(f"at {offset} the schema of another record")
        if length > TEXT_MAX or offset + _SCHEMA.size + length > head.bytes:
            raise self._corrupt(f"a schema of {length} bytes at {offset}")
        self._schema_text += length
        if len(self._schemas) >= SCHEMAS_MAX or self._schema_text > SCHEMA_TEXT_MAX:
            raise self._corrupt("more schemas than a process has")
        schema = Schema.parse(self._read(length, offset + _SCHEMA.size).rstrip(b"\0"), hash)
        self._schemas[offset, hash] = schema
        return schema

    def schema_of(self, hash: int) -> Schema | None:
        """Return a schema that was read before, by its hash, or None."""
        for (_, known), schema in self._schemas.items():
            if known == hash:
                return schema
        return None

    # ---- history and leases ----

    def _entry(self, offset: int, size: int, data: bytes) -> bytes | None:
        """Return a consistent entry, or None; data is the first read of it."""
        tries = 0
        while True:
            (seq,) = _SEQ.unpack_from(data)
            if seq == 0:
                return None  # never written
            if seq % 2 == 0 and self._read(_SEQ.size, offset) == data[: _SEQ.size]:
                return data
            tries += 1
            if not self._again(tries):
                return None
            data = self._read(size, offset)

    def _entries(self, offset: int, n: int, stride: int, size: int) -> list[bytes]:
        table = self._read(n * stride, offset)
        found = []
        for i in range(n):
            at = i * stride
            entry = self._entry(offset + at, size, table[at : at + size])
            if entry is not None:
                found.append(entry)
        return found

    def changes(self, head: Head) -> list[Change]:
        """Return the changes that the block keeps, oldest first."""
        if self._changes[0] == head.nb_changes:
            return self._changes[1]
        found: dict[int, Change] = {}
        for data in self._entries(head.change_offset, head.changes, head.change_size, _CHANGE.size):
            _, number, real, epoch, id, _, why, who, path, name, old, new = _CHANGE.unpack(data)
            if number:
                found[number] = Change(number, real, epoch, id, text_of(path), text_of(name),
                                       text_of(why), text_of(who), text_of(old), text_of(new))
        changes = [found[number] for number in sorted(found)]
        self._changes = (head.nb_changes, changes)
        return changes

    def leases(self, head: Head) -> list[RawLease]:
        """Return all leases."""
        found = []
        for data in self._entries(head.lease_offset, head.leases, head.lease_size, _LEASE.size):
            _, id, session, mask, expires, who = _LEASE.unpack(data)
            if id:
                found.append(RawLease(id, session, mask, expires, text_of(who)))
        return found
