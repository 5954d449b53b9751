# SPDX-License-Identifier: BSD-3-Clause
"""Emit tables for guides (Markdown) and man pages (roff), and words for completion."""

from __future__ import annotations

from . import text
from .metrics import metric
from .model import Component


def _md(cell: str) -> str:
    for ch in "\\`*_<>|[]":
        cell = cell.replace(ch, "\\" + ch)
    return cell


def _code(name: str) -> str:
    return f"`{name}`"


def _md_table(head: list[str], rows: list[list[str]]) -> str:
    return "".join("| " + " | ".join(row) + " |\n" for row in [head, ["---"] * len(head), *rows])


def markdown(components: list[Component], page: str | None) -> str:
    """Return Markdown sections; with page ("NAME - ABOUT") a whole document with a title."""
    out = []
    if page:
        name, _, about = page.partition(" - ")
        out.append(f"# {_md(about[:1].upper() + about[1:])}\n\n"
                   f"Made by leat-tune-gen of the descriptions of {_md(name)}'s components.\n")
    for c in components:
        out.append(f"## {_md(c.title)}: {_code(c.name)}\n\n{_md(c.help)}\n")
        if c.settings:
            out.append(_md_table(
                ["setting", "values", "default", "takes effect", "what it is"],
                [[_code(s.name), _md(text.values(s)), _md(text.default(s)), text.WHEN[s.when],
                  _md(text.about(c, s))] for s in c.settings]))
        if c.reports:
            out.append(_md_table(
                ["measurement", "kind", "unit", "metric", "what it is"],
                [[_code(r.name), text.report_kind(r), r.unit or "", _code(metric(c, r).sample),
                  _md(r.help)] for r in c.reports]))
    return "\n".join(out)


def _roff(line: str) -> str:
    line = line.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "".join(ch if ord(ch) < 128 else f"\\[u{ord(ch):04X}]" for ch in line)


def _roff_line(line: str) -> str:
    """Return a line of text. A leading dot is escaped: roff would read it as a request."""
    escaped = _roff(line)
    return "\\&" + escaped if escaped.startswith(".") else escaped


def _quoted(words: str) -> str:
    return '"' + _roff(words).replace('"', '\\(dq') + '"'


def man(components: list[Component], page: str | None) -> str:
    """Return roff subsections; with page ("NAME - ABOUT") a whole man page of section 7."""
    out = []
    if page:
        name, _, about = page.partition(" - ")
        out.append(f".TH {_quoted(name.upper() + '-SETTINGS')} 7 \"\" {_quoted(name)}\n.SH NAME\n"
                   f"{_roff(name)}\\-settings \\- {_roff(about)}\n"
                   ".SH SETTINGS AND MEASUREMENTS\n")
    for c in components:
        out.append(f".SS {_quoted(f'{c.title}: {c.name}')}\n{_roff_line(c.help)}\n")
        for s in c.settings:
            out.append(f".TP\n.B {_quoted(f'{c.name}.{s.name}')}\n"
                       f"{_roff_line(text.about(c, s))}\n.br\n"
                       f"{_roff_line(text.values(s))}; default {_roff(text.default(s))}; "
                       f"takes effect {text.WHEN[s.when]}.\n")
        for r in c.reports:
            unit = f", {r.unit}" if r.unit else ""
            out.append(f".TP\n.I {_quoted(f'{c.name}.{r.name}')}\n{_roff_line(r.help)}\n.br\n"
                       f"{_roff_line(text.report_kind(r) + unit)}.\n")
    return "".join(out)


def completion(components: list[Component]) -> str:
    """Return a line for each setting: COMPONENT.SETTING, then the names of its values."""
    lines = []
    for c in components:
        for s in c.settings:
            words = s.values or (["true", "false"] if s.type == "bool" else list(s.special))
            lines.append(" ".join([f"{c.name}.{s.name}", *words]))
    return "".join(line + "\n" for line in lines)
