# SPDX-License-Identifier: BSD-3-Clause
"""Turn settings of a program into knobs of a search.

    --set batch,window                     the whole range of the description
    --set batch=1:64                       a part of the range
    --set policy=spin|yield,batch=8|16|32  only these values
    --set 'reactor.*.spin_us'              one knob for several objects, which get the same value
"""

from __future__ import annotations

import errno
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .._errors import Refused, TuneError, Unknown, nearest
from ._measures import objects
from ._space import KNOBS_MAX, Knob, Space

_COMPARE = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


class SettingError(ValueError):
    """An argument of --set can't be searched."""


@dataclass(frozen=True)
class Target:
    """A knob, its setting, and the objects that have it."""

    knob: Knob
    setting: Any
    paths: tuple[str, ...]


class Targets:
    """All knobs of a search, and the changes of settings that their values mean."""

    def __init__(
        self,
        targets: list[Target],
        start: Mapping[str, Any],
        most: int = KNOBS_MAX,
        refused: Mapping[str, str] | None = None,
    ) -> None:
        """start: objects by path, with their current settings. refused: see targets()."""
        self.targets = targets
        #: objects that were left out, and why they refuse the settings
        self.refused = dict(refused or {})
        self._start = {path: dict(o.settings) for path, o in start.items()}
        self._schemas = {path: o.schema for path, o in start.items()}
        self.space = Space([one.knob for one in targets], self._allowed, most)

    @property
    def components(self) -> set[str]:
        """The components whose settings are searched."""
        return {self._schemas[path].component for one in self.targets for path in one.paths}

    def changes(self, values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the settings to change, by object path; groups are complete."""
        found: dict[str, dict[str, Any]] = {}
        for target in self.targets:
            for path in target.paths:
                change = found.setdefault(path, {})
                group = self._schemas[path].groups.get(target.setting.group)
                for name in group.settings if group is not None else ():
                    change.setdefault(name, self._start[path][name])
        for target in self.targets:
            for path in target.paths:
                found[path][target.setting.name] = values[target.knob.name]
        return found

    def _allowed(self, values: Mapping[str, Any]) -> bool:
        for path, change in self.changes(values).items():
            schema = self._schemas[path]
            for group in schema.groups.values():
                if group.rule and set(group.settings) <= change.keys():
                    left, compare, right = group.rule.split()
                    a, b = change[left], change[right]
                    if a in schema.settings[left].special.values():
                        continue
                    if b in schema.settings[right].special.values():
                        continue
                    if not _COMPARE[compare](a, b):
                        return False
        return True

    def words(self, values: Mapping[str, Any]) -> str:
        """Return values as text: NAME=VALUE NAME=VALUE."""
        return " ".join(
            f"{t.knob.name}={t.setting.format(values[t.knob.name])}" for t in self.targets
        )

    def command(self, values: Mapping[str, Any]) -> str:
        """Return arguments of leat-tune set that set all values."""
        return " ".join(
            f"{path}.{name}={self._schemas[path].settings[name].format(value)}"
            for path, change in self.changes(values).items()
            for name, value in change.items()
        )


def _found(name: str, snapshot: Any, pattern: str | None) -> list[tuple[Any, Any]]:
    if "." in name:
        return snapshot.resolve(name)
    found = []
    names = set()
    for o in objects(snapshot, pattern).values():
        names.update(o.schema.settings)
        for setting in o.schema.settings.values():
            if o.settings and name in (setting.name, *setting.aliases):
                found.append((o, setting))
    if not found:
        raise Unknown(f"there is no setting '{name}'", nearest(name, names))
    return found


def _split(words: list[str]) -> Iterator[tuple[str, str]]:
    """Return the names of the arguments of --set, each with what follows its =."""
    for word in (part.strip() for one in words for part in one.split(",")):
        name, _, spec = word.partition("=")
        if not name:
            raise SettingError("--set: a name is missing")
        yield name, spec


def _searchable(name: str, snapshot: Any, pattern: str | None) -> list[tuple[Any, Any]]:
    """Return the objects and the setting that a name means, if that can be searched."""
    pairs = _found(name, snapshot, pattern)
    settings = {(o.component, s.name) for o, s in pairs}
    if len(settings) > 1:
        names = ", ".join(sorted(f"{component}.{setting}" for component, setting in settings))
        raise SettingError(f"'{name}' can be {names}: say which")
    if pairs[0][1].when == "start":
        raise SettingError(
            f"{name} takes effect only when the program starts: it can't be searched"
        )
    return pairs


def present(
    words: list[str], snapshot: Any, pattern: str | None = None
) -> dict[str, dict[str, Any]]:
    """Return the current values of the settings that targets() would search, by object path.

    Groups are complete. Raises as targets().
    """
    found: dict[str, dict[str, Any]] = {}
    for name, _ in _split(words):
        for o, setting in _searchable(name, snapshot, pattern):
            group = o.schema.groups.get(setting.group)
            for one in (setting.name, *(group.settings if group is not None else ())):
                found.setdefault(o.path, {})[one] = o.settings[one]
    return found


def _knob(name: str, spec: str, setting: Any, start: Any) -> Knob:
    if setting.type == "string":
        raise SettingError(f"{name}: a text has no values to try")
    if "|" in spec or spec and setting.type in ("bool", "enum"):
        values = tuple(setting.parse(part) for part in spec.split("|"))
        for value in values:
            inside = setting.min is None or setting.min <= value <= setting.max
            if not inside and value not in setting.special.values():
                raise SettingError(f"{name}: {value} is not {setting.wanted()}")
        return Knob.of_names(name, values, start)
    if setting.type in ("bool", "enum"):
        values = (False, True) if setting.type == "bool" else setting.values
        return Knob.of_names(name, values, start)
    low, high = setting.min, setting.max
    special = tuple(setting.special.values())
    if spec:
        first, colon, last = spec.partition(":")
        if not colon:
            raise SettingError(f"{name}={spec}: LOW:HIGH or VALUE|VALUE is wanted")
        low, high = setting.parse(first), setting.parse(last)
        special = ()
        if not setting.min <= low < high <= setting.max:
            raise SettingError(f"{name}={spec}: not a part of {setting.min}:{setting.max}")
    quantum = setting.quantum or 0
    return Knob.of_range(
        name, low, high, start,
        integer=setting.type == "integer", log=setting.log, quantum=quantum, special=special,
    )  # fmt: skip


def targets(
    words: list[str],
    snapshot: Any,
    pattern: str | None = None,
    *,
    one_value: bool = False,
    most: int = KNOBS_MAX,
    refused: Mapping[str, str] | None = None,
) -> Targets:
    """Return the targets of the arguments of --set.

    one_value: arguments of --try, which are NAME=VALUE. most: largest number of settings. refused:
    objects that refuse a change of these settings, with their reason, as of refusing(); they are
    left out. Raises SettingError if a setting can't be searched, Unknown as leat-tune set,
    TuneError if another agent holds a setting, or if all objects refuse it.
    """
    refused = refused or {}
    found: list[Target] = []
    taken: dict[tuple[str, str], str] = {}
    for name, spec in _split(words):
        every = _searchable(name, snapshot, pattern)
        pairs = [(o, s) for o, s in every if o.path not in refused]
        if not pairs:
            why = "; ".join(f"{o.path}: {refused[o.path]}" for o, _ in every)
            raise TuneError(errno.EOPNOTSUPP, f"{name} is refused by {why}")
        setting = pairs[0][1]
        starts = {o.settings[setting.name] for o, _ in pairs}
        if len(starts) > 1:
            values = ", ".join(sorted(setting.format(value) for value in starts))
            raise SettingError(
                f"{name} has not one value to compare with, but {values}: name an object"
            )
        for o, _ in pairs:
            if (o.path, setting.name) in taken:
                raise SettingError(f"{o.path}.{setting.name} is named twice")
            taken[o.path, setting.name] = name
        try:
            if one_value and not spec:
                raise SettingError(f"{name}: a value is missing")
            knob = _knob(name, spec + "|" + spec if one_value else spec, setting, starts.pop())
        except Refused as e:
            raise SettingError(str(e)) from None
        if len(knob.values) < 2 and not one_value:
            raise SettingError(f"{name} has one value alone")
        found.append(Target(knob, setting, tuple(o.path for o, _ in pairs)))
    if not found:
        raise SettingError("--set: nothing is to be searched")
    held = [
        f"{lease.who} holds {path}.{setting}"
        for path, setting in taken
        for lease in snapshot.leases
        if lease.object == path and setting in lease.settings
    ]
    if held:
        raise TuneError(16, "; ".join(held) + ": wait, or end it")
    try:
        return Targets(found, objects(snapshot), most, refused)
    except ValueError as e:
        raise SettingError(str(e)) from None
