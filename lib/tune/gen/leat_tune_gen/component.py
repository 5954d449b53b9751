# SPDX-License-Identifier: BSD-3-Clause
"""Check the description of a component, and build its model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from . import layout, metrics, names
from .common import help_text
from .keys import Key, Table, tables
from .model import (CACHE_LINE, FIELDS_MAX, MESSAGE_MAX, Component, Field, Group, Rule)
from .report import report
from .setting import setting
from .source import Source

TOP = {
    "component": Key(required=True),
    "title": Key(required=True),
    "help": Key(required=True),
    "one_cache_line": Key(bool),
    "setting": Key(Any),
    "group": Key(Any),
    "report": Key(Any),
}
GROUP = {
    "name": Key(required=True),
    "settings": Key(list, required=True),
    "rule": Key(),
    "help": Key(required=True),
}
RULE = re.compile(r"\s*([a-z0-9_]+)\s*(<=|>=|==|!=|<|>)\s*([a-z0-9_]+)\s*")


def load(source: Source) -> Component:
    """Return the model of a component; raise Mistakes with all mistakes."""
    top = Table(source, source.values, source.where(), "description")
    top.check(TOP)
    name = top.get("component", "x")
    reason = names.mistake(name, "component")
    if reason:
        top.say("component", reason)
    if name == "leat":
        top.say("component", "component 'leat' is the name of the library's own structures")
    for key in ("title", "help"):
        help_text(top, key)
    c = Component(name, top.get("title", ""), top.get("help", ""), top.get("one_cache_line", False))
    for table, _ in tables(source, top.values, "setting"):
        c.settings.append(setting(table))
    for table, _ in tables(source, top.values, "report"):
        c.reports.append(report(table))
    if "setting" not in source.values and "report" not in source.values:
        top.say(None, "there are neither settings nor reports")
    _unique(source, c)
    for table, i in tables(source, top.values, "group"):
        group = _group(table, c, i + 1)
        if group:
            c.groups.append(group)
    layout.place_component(c)
    _sizes(source, top, c)
    _c_names(source, c)
    for i, r in enumerate(c.reports):
        reason = metrics.mistake(c, c.reports[:i], r)
        if reason and r.name != "?" and r.name not in [other.name for other in c.reports[:i]]:
            source.say(r.line, f"report {r.name!r}: {reason}")
    source.done()
    return c


def _unique(source: Source, c: Component) -> None:
    """Check that no name or alias is used twice."""
    for what, fields in (("setting", c.settings), ("report", c.reports)):
        seen: dict[str, int] = {}
        for i, f in enumerate(fields):
            where = source.where(what, i)
            for key, name in [("name", f.name)] + [
                ("aliases", a) for a in getattr(f, "aliases", [])
            ]:
                if name == "?":
                    continue
                if name in seen:
                    source.say(where.keys.get(key, where.line),
                               f"{what} {f.name!r}: {name!r} is already in line {seen[name]}")
                seen.setdefault(name, where.keys.get(key, where.line))


def _group(t: Table, c: Component, number: int) -> Group | None:
    if not t.check(GROUP):
        return None
    reason = names.mistake(t.get("name"))
    if reason:
        t.say("name", reason)
    help_text(t, "help")
    if t.get("name") in [g.name for g in c.groups]:
        t.say("name", f"there is another group {t.get('name')!r}")
    index: dict[str, int] = {}
    for i, s in enumerate(c.settings):
        index.setdefault(s.name, i)
    members: list[int] = []
    for name in t.get("settings"):
        if name not in index:
            t.say("settings", f"there is no setting {name!r}")
        elif index[name] in members:
            t.say("settings", f"{name!r} is there twice")
        elif c.settings[index[name]].group:
            t.say("settings", f"{name!r} is in group "
                  f"{c.groups[c.settings[index[name]].group - 1].name!r}, too")
        else:
            members.append(index[name])
    if len(t.get("settings")) < 2:
        t.say("settings", "a group has two settings or more")
    if len({c.settings[i].when == "start" for i in members}) > 1:
        t.say("settings", "some take effect only at start, others not: they could never be changed")
    if not t.right:
        return None
    for i in members:
        c.settings[i].group = len(c.groups) + 1
    group = Group(t.get("name"), members, t.get("help"))
    if t.get("rule") is not None:
        group.rule = _rule(t, c, group, t.get("rule"))
    return group


def _rule(t: Table, c: Component, group: Group, text: str) -> Rule | None:
    match = RULE.fullmatch(text)
    if not match:
        t.say("rule", f"rule {text!r} is not NAME OP NAME, with OP one of < <= > >= == !=")
        return None
    index = {c.settings[i].name: i for i in group.settings}
    for name in (match[1], match[3]):
        if name not in index:
            t.say("rule", f"rule {text!r}: {name!r} is no setting of the group")
    if not t.right:
        return None
    rule = Rule(f"{match[1]} {match[2]} {match[3]}", index[match[1]], match[2], index[match[3]])
    left, right = c.settings[rule.left], c.settings[rule.right]
    if rule.left == rule.right:
        t.say("rule", f"rule {text!r} compares a setting with itself")
    elif not left.right or not right.right:
        return rule
    elif left.type != right.type or left.type not in ("integer", "real"):
        t.say("rule", f"rule {text!r}: both must be integers, or reals")
    elif left.unit != right.unit:
        t.say("rule", f"rule {text!r}: the units are {left.unit} and {right.unit}")
    elif (left.default not in left.special.values() and right.default not in right.special.values()
          and not rule.holds(left.default, right.default)):  # type: ignore[arg-type]
        t.say("rule", f"rule {text!r} does not hold for the defaults, "
              f"{left.default} and {right.default}")
    return rule


def _sizes(source: Source, top: Table, c: Component) -> None:
    def count(what: str, fields: Sequence[Field], size: int) -> None:
        if len(fields) > FIELDS_MAX:
            source.say(fields[FIELDS_MAX].line,
                       f"{len(fields)} {what}s; there are at most {FIELDS_MAX}")
        if size > MESSAGE_MAX:
            line = next(f.line for f in fields if f.offset + f.bytes > MESSAGE_MAX)
            source.say(line, f"the {what}s have {size} bytes; a message has at most {MESSAGE_MAX}")

    count("setting", c.settings, c.settings_size)
    count("report", c.reports, c.reports_size)
    if c.one_cache_line and layout.c_size(c.settings) > CACHE_LINE:
        top.say("one_cache_line", f"the settings have {layout.c_size(c.settings)} bytes in C, "
                f"a cache line has {CACHE_LINE}")


def _c_names(source: Source, c: Component) -> None:
    """Check that names stay distinct in C, where enumerators, and tags of enums, are global."""
    tags = {"setting": (1, [""]), "settings": (1, [""]), "report": (1, [""]), "schema": (1, [""])}
    words = {"NB_SETTINGS": 1}
    for s in c.settings:
        words.setdefault(names.upper(s.name), s.line)
    for f in [*c.settings, *c.reports]:
        if f.type != "enum":
            continue
        if f.name in tags:
            line, same = tags[f.name]
            if same == f.values:
                continue  # a setting and the report of its effective value may share an enum
            source.say(f.line, f"enum {f.name!r} has other values than that of line {line}"
                       if line > 1 else f"an enum can't be called {f.name!r}")
            continue
        tags[f.name] = (f.line, f.values)
        for v in f.values:
            word = names.upper(f.name, v)
            if word in words:
                source.say(f.line, f"value {v!r} of {f.name!r} has the same name in C, "
                           f"{names.upper(c.name)}_TUNE_{word}, as what is in line {words[word]}")
            words[word] = f.line
    for s in c.settings:
        if s.name == "nb_settings":
            source.say(source.where("setting", c.settings.index(s)).keys["name"],
                       "a setting can't be called 'nb_settings'")


