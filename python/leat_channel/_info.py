# SPDX-License-Identifier: BSD-3-Clause
"""The state of a channel, as inspect() returns it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import _abi


@dataclass(frozen=True)
class Who:
    """A participant of a channel."""

    slot: int
    pid: int
    start: int  # of the process, clock ticks after boot
    generation: int  # how many participants have had this slot
    alive: bool
    waiting: bool
    count: dict[str, int]  # counters as in Info, summed over all participants of this slot


@dataclass(frozen=True)
class Info:
    """The state of a channel, not read atomically.

    size, bytes, and the positions write, read and free are in bytes.
    """

    size: int
    bytes: int
    write: int
    read: int
    free: int
    notify: _abi.Notify
    on_death: _abi.OnDeath
    ended: bool
    reserved: int  # this and the next five: frames in this state
    committed: int
    reading: int
    returned: int
    done: int
    empty: int
    participants: int
    participants_max: int
    count: dict[str, int]  # sent, received, full, overwritten, invalid, aborted, returned, lost
    who: list[Who]


def _counters(count: Iterable[int]) -> dict[str, int]:
    return dict(zip(_abi.COUNTERS, count))


def info_of(raw: _abi.CInfo) -> Info:
    plain: dict[str, Any] = {name: getattr(raw, name) for name, _ in _abi.CInfo._fields_}
    plain["notify"] = _abi.Notify(raw.notify)
    plain["on_death"] = _abi.OnDeath(raw.on_death)
    plain["count"] = _counters(raw.count)
    plain["who"] = [
        Who(w.slot, w.pid, w.start, w.generation, w.alive, w.waiting, _counters(w.count))
        for w in raw.who[: raw.participants]
    ]
    return Info(**plain)
