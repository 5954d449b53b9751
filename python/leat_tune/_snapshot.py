# SPDX-License-Identifier: BSD-3-Clause
"""Snapshots: the content of a process's block, read piece by piece while the process runs on."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field

from ._block import RECORD_OWNER, RECORD_ROW, Change, RawLease, Record
from ._errors import Unknown, nearest
from ._histogram import Histogram
from ._schema import Schema, Setting, Value


@dataclass(frozen=True)
class Object:
    """An object of a process, or a row of an object. Times are CLOCK_MONOTONIC, ns."""

    id: int
    parent: int  # id of its parent; 0: none
    name: str
    schema: Schema = field(repr=False)
    path: str  # "reactor.lcore0"; of a row "endpoint.ep0/10.0.0.2"
    settings: dict[str, Value]
    report: dict[str, Value | Histogram]  # empty: no report yet
    created_ns: int
    time_ns: int  # of the report; 0: no report yet
    epoch: int  # how often the settings were changed
    updates: int  # how often the record was written
    row: bool
    owner: bool  # its owner's loop writes the report, which gets old when that loop hangs

    @property
    def component(self) -> str:
        """Name of the object's component."""
        return self.schema.component


@dataclass(frozen=True)
class Lease:
    """A lease: settings of an object that go back to former values when the lease ends."""

    id: int  # of the object
    object: str  # its path
    settings: tuple[str, ...]
    session: int
    expires_ns: int  # CLOCK_MONOTONIC; 0: when the session ends
    who: str


@dataclass(frozen=True)
class Snapshot:
    """The content of a block. Times are CLOCK_MONOTONIC, ns."""

    time_ns: int  # when the block was read
    heartbeat_ns: int  # when the process's control thread last ran
    interval_ns: int  # time between two updates of the block
    dropped: int  # objects and rows without room in the block
    objects: list[Object]
    changes: list[Change] = field(repr=False)  # oldest first
    leases: list[Lease]

    def find(self, pattern: str) -> list[Object]:
        """Return the objects that match a pattern.

        Patterns are "reactor", "reactor.lcore0", "reactor.*", "*.lcore[01]", "*". A row matches by
        its whole path, or by its component alone.
        """
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
        """Return the object of this path; otherwise raise Unknown."""
        for o in self.objects:
            if o.path == path:
                return o
        raise Unknown(f"there is no object '{path}'", nearest(path, (o.path for o in self.objects)))

    def holder(self, o: Object, setting: str) -> Lease | None:
        """Return the lease that holds a setting of an object, or None."""
        for lease in self.leases:
            if lease.id == o.id and setting in lease.settings:
                return lease
        return None

    def resolve(self, name: str) -> list[tuple[Object, Setting]]:
        """Return settings by COMPONENT.OBJECT.SETTING or COMPONENT.SETTING; parts may be patterns.

        Raises Unknown, with similar names, if there is no such setting.
        """
        component, dot, rest = name.partition(".")
        pattern, dot2, setting = rest.rpartition(".")
        if not dot or not component or not setting:
            raise Unknown(
                f"'{name}' is no setting: COMPONENT.OBJECT.SETTING, "
                "or COMPONENT.SETTING for all objects"
            )
        with_settings = [o for o in self.objects if not o.row and o.schema.settings]
        objects = [o for o in with_settings if fnmatch.fnmatchcase(o.component, component)]
        if not objects:
            raise Unknown(
                f"there is no component '{component}' with settings",
                nearest(component, (o.component for o in with_settings)),
            )
        if dot2:
            named = [
                o for o in objects if o.name == pattern or fnmatch.fnmatchcase(o.name, pattern)
            ]
            if not named:
                raise Unknown(
                    f"{component} has no object '{pattern}'",
                    nearest(pattern, (o.name for o in objects)),
                )
            objects = named
        found = []
        for o in objects:
            if any(c in setting for c in "*?["):
                found += [
                    (o, s) for s in o.schema.settings.values()
                    if fnmatch.fnmatchcase(s.name, setting)
                ]
            elif any(c in component for c in "*?["):
                found += [
                    (o, s) for s in o.schema.settings.values() if setting in (s.name, *s.aliases)
                ]
            else:
                found.append((o, o.schema.setting(setting)))
        if not found:
            raise Unknown(
                f"'{name}': no setting of that name",
                nearest(setting, (s for o in objects for s in o.schema.settings)),
            )
        return found


def objects_of(records: list[Record]) -> list[Object]:
    """Return the objects, ordered by component and id, each one followed by its rows."""
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

    def place(o: Object) -> tuple[str, int, bool, int]:
        above = by_id.get(o.parent) if o.row else None
        if above is None:
            return (o.component, o.id, False, 0)
        return (above.schema.component, above.id, True, o.id)

    return sorted(objects, key=place)


def leases_of(raw: list[RawLease], objects: list[Object]) -> list[Lease]:
    """Return the leases of these objects, with names for ids and masks."""
    by_id = {o.id: o for o in objects if not o.row}
    leases = []
    for one in raw:
        o = by_id.get(one.id)
        if o is not None:
            names = tuple(s.name for s in o.schema.settings.values() if one.mask >> s.index & 1)
            leases.append(Lease(one.id, o.path, names, one.session, one.expires_ns, one.who))
    return leases
