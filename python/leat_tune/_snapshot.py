# SPDX-License-Identifier: BSD-3-Clause
"""What a process was doing at about one moment."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field

from ._block import RECORD_OWNER, RECORD_ROW, Change, RawLease, Record
from ._errors import Unknown, nearest
from ._histogram import Histogram
from ._schema import Schema, Setting, Value


@dataclass(frozen=True)
class Object:
    """An object, or a row of one. Times are ns of CLOCK_MONOTONIC."""

    id: int
    parent: int  # id; 0: none
    name: str
    schema: Schema = field(repr=False)
    path: str  # "reactor.lcore0"; of a row "endpoint.ep0/10.0.0.2"
    settings: dict[str, Value]
    report: dict[str, Value | Histogram]  # empty: there was none yet
    created_ns: int
    time_ns: int  # of the report; 0: there was none yet
    epoch: int  # how often the settings were changed
    updates: int
    row: bool
    owner: bool  # the owner's loop makes the report: it grows old if that hangs

    @property
    def component(self) -> str:
        return self.schema.component


@dataclass(frozen=True)
class Lease:
    """Settings of an object that go back when it ends."""

    id: int  # of the object
    object: str  # its path
    settings: tuple[str, ...]
    session: int
    expires_ns: int  # CLOCK_MONOTONIC; 0: with the connection
    who: str


@dataclass(frozen=True)
class Snapshot:
    """All that a block says. Times are ns of CLOCK_MONOTONIC."""

    time_ns: int  # when it was read
    heartbeat_ns: int  # when the process's control thread was last there
    interval_ns: int  # at which it updates
    dropped: int  # objects and rows that had no room in the block
    objects: list[Object]
    changes: list[Change] = field(repr=False)  # oldest first
    leases: list[Lease]

    def find(self, pattern: str) -> list[Object]:
        """Objects of "reactor", "reactor.lcore0", "reactor.*", "*.lcore[01]", "*"; the whole path counts for rows."""
        component, dot, name = pattern.partition(".")
        name = name if dot else "*"
        return [
            o
            for o in self.objects
            if fnmatch.fnmatchcase(o.path, pattern)
            or (not o.row or not dot)
            and fnmatch.fnmatchcase(o.component, component)
            and (o.name == name or fnmatch.fnmatchcase(o.name, name))
        ]

    def object(self, path: str) -> Object:
        """The one of this path. Unknown: there is none."""
        for o in self.objects:
            if o.path == path:
                return o
        raise Unknown(f"there is no object '{path}'", nearest(path, (o.path for o in self.objects)))

    def holder(self, o: Object, setting: str) -> Lease | None:
        """Who holds a setting."""
        for lease in self.leases:
            if lease.id == o.id and setting in lease.settings:
                return lease
        return None

    def resolve(self, name: str) -> list[tuple[Object, Setting]]:
        """Settings by COMPONENT.OBJECT.SETTING or COMPONENT.SETTING, where any part may be a pattern.

        Unknown: there is none, with the nearest.
        """
        component, dot, rest = name.partition(".")
        pattern, dot2, setting = rest.rpartition(".")
        if not dot or not component or not setting:
            raise Unknown(f"'{name}' is no setting: COMPONENT.OBJECT.SETTING, or COMPONENT.SETTING for all objects")
        with_settings = [o for o in self.objects if not o.row and o.schema.settings]
        objects = [o for o in with_settings if fnmatch.fnmatchcase(o.component, component)]
        if not objects:
            raise Unknown(
                f"there is no component '{component}' with settings",
                nearest(component, (o.component for o in with_settings)),
            )
        if dot2:
            named = [o for o in objects if o.name == pattern or fnmatch.fnmatchcase(o.name, pattern)]
            if not named:
                raise Unknown(
                    f"{component} has no object '{pattern}'", nearest(pattern, (o.name for o in objects))
                )
            objects = named
        found = []
        for o in objects:
            if any(c in setting for c in "*?["):
                found += [(o, s) for s in o.schema.settings.values() if fnmatch.fnmatchcase(s.name, setting)]
            elif any(c in component for c in "*?["):
                found += [(o, s) for s in o.schema.settings.values() if setting in (s.name, *s.aliases)]
            else:
                found.append((o, o.schema.setting(setting)))
        if not found:
            raise Unknown(
                f"'{name}': no setting of that name",
                nearest(setting, (s for o in objects for s in o.schema.settings)),
            )
        return found


def objects_of(records: list[Record]) -> list[Object]:
    """Objects in the order of their components and ids, each with its rows behind it."""
    by_id = {r.id: r for r in records if not r.flags & RECORD_ROW}
    objects = []
    for r in records:
        row = bool(r.flags & RECORD_ROW)
        above = by_id.get(r.parent) if row else None
        path = f"{r.schema.component}.{r.name}"
        if above is not None:
            path = f"{above.schema.component}.{above.name}/{r.name}"
        objects.append(
            Object(
                r.id, r.parent, r.name, r.schema, path,
                r.schema.unpack_settings(r.settings) if r.settings else {},
                r.schema.unpack_report(r.report) if r.report and r.time_ns else {},
                r.created_ns, r.time_ns, r.epoch, r.updates, row, bool(r.flags & RECORD_OWNER),
            )
        )

    def place(o: Object) -> tuple:
        above = by_id.get(o.parent) if o.row else None
        if above is None:
            return (o.component, o.id, False, 0)
        return (above.schema.component, above.id, True, o.id)

    return sorted(objects, key=place)


def leases_of(raw: list[RawLease], objects: list[Object]) -> list[Lease]:
    by_id = {o.id: o for o in objects if not o.row}
    leases = []
    for one in raw:
        o = by_id.get(one.id)
        if o is not None:
            names = tuple(s.name for s in o.schema.settings.values() if one.mask >> s.index & 1)
            leases.append(Lease(one.id, o.path, names, one.session, one.expires_ns, one.who))
    return leases
