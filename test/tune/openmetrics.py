# SPDX-License-Identifier: BSD-3-Clause
"""A parser of OpenMetrics 1.0 that refuses what the specification forbids."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
META = re.compile(rf"# (TYPE|UNIT|HELP) ({NAME}) (.*)")
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? ([^ ]+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
SUFFIXES = {
    "counter": ("_total", "_created"),
    "gauge": ("",),
    "histogram": ("_bucket", "_count", "_sum", "_created"),
    "info": ("_info",),
    "stateset": ("",),
}


class Wrong(Exception):
    """The line, and what is wrong with it."""


def number(text):
    if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]Inf|NaN", text):
        return float(text)
    raise ValueError(f"number {text}")


def labels_of(text):
    found, at = {}, 0
    while text and at < len(text):
        match = LABEL.match(text, at)
        if match is None:
            raise ValueError(f"labels at {text[at:]}")
        name, value = match.groups()
        if name in found:
            raise ValueError(f"label {name} twice")
        found[name] = value.replace("\\\\", "\0").replace('\\"', '"').replace("\\n",
                                                                              "\n").replace("\0",
                                                                                            "\\")
        at = match.end()
    return found


def parse(text):
    """Return {family: (type, unit, help, {(sample name, labels): value})}."""
    if not text.endswith("# EOF\n"):
        raise Wrong("no # EOF at the end")
    families, current, done = {}, None, set()
    for i, line in enumerate(text[:-len("# EOF\n")].splitlines(), 1):
        try:
            meta = META.fullmatch(line)
            if meta:
                what, name, rest = meta.groups()
                if name != current:
                    if name in families:
                        raise ValueError(f"{name} again")
                    if what != "TYPE":
                        raise ValueError("TYPE is not first")
                    current = name
                    families[name] = {"TYPE": rest, "UNIT": "", "samples": {}}
                    if rest not in SUFFIXES:
                        raise ValueError(f"type {rest}")
                elif families[name]["samples"] or families[name].get(what):
                    raise ValueError(f"{what} late, or twice")
                else:
                    families[name][what] = rest
                if what == "UNIT" and not name.endswith("_" + rest):
                    raise ValueError(f"unit {rest} is not the end of {name}")
                continue
            match = SAMPLE.fullmatch(line)
            if match is None or current is None:
                raise ValueError("neither a sample nor metadata")
            name, inner, value = match.groups()
            kind = families[current]["TYPE"]
            if name not in [current + suffix for suffix in SUFFIXES[kind]]:
                raise ValueError(f"{name} in family {current}")
            key = (name, tuple(sorted(labels_of(inner).items())))
            if key in done:
                raise ValueError(f"{key} twice")
            done.add(key)
            families[current]["samples"][key] = number(value)
            if kind == "stateset" and current not in labels_of(inner):
                raise ValueError("a state without its label")
        except ValueError as e:
            raise Wrong(f"line {i}: {e}: {line}") from None
    for name, family in families.items():
        if family["TYPE"] == "histogram":
            check_histogram(name, family["samples"])
    return families


def check_histogram(name, samples):
    series = {}
    for (sample, pairs), value in samples.items():
        pairs = dict(pairs)
        if sample == name + "_bucket":
            le = number(pairs.pop("le"))
            series.setdefault(tuple(sorted(pairs.items())), []).append((le, value))
    for pairs, buckets in series.items():
        if buckets != sorted(buckets) or [v for _, v in buckets] != sorted(v for _, v in buckets):
            raise Wrong(f"{name}: buckets out of order")
        if buckets[-1][0] != float("inf") or buckets[-1][1] != samples[name + "_count", pairs]:
            raise Wrong(f"{name}: +Inf is not the count")


def value(families, sample, **labels):
    """Return the value of one sample; KeyError: no such sample."""
    for family in families.values():
        for (name, pairs), found in family["samples"].items():
            if name == sample and dict(pairs).items() >= labels.items():
                return found
    raise KeyError((sample, labels))
