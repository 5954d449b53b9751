# SPDX-License-Identifier: BSD-3-Clause
"""The hash of a component changes exactly when its layout does.

Tested with random descriptions and random changes.
"""

import copy
import hashlib
import json
import random

import gen
import tap

from leat_tune_gen import component, emit_json, protocol
from leat_tune_gen.source import Source

rng = random.Random(7)
NAMES = ["batch", "burst", "depth", "share", "mode", "label", "turns", "calls", "misses", "window"]
WORDS = ["one", "two", "three", "four"]
HELPS = ["Help.", "Other help.", "More of it."]


def toml(value):
    """Print a value as TOML: as JSON, except for tables."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def write(d):
    """The text of a description."""
    out = [f"{k} = {toml(d[k])}" for k in ("component", "title", "help")]
    for table in ("setting", "report"):
        for one in d[table]:
            out += [f"[[{table}]]"] + [f"{k} = {toml(v)}" for k, v in one.items()]
    return "\n".join(out) + "\n"


def random_setting(name):
    kind = rng.choice(["bool", "integer", "real", "enum", "string"])
    s = {"name": name, "type": kind, "when": rng.choice(["now", "next", "start"]),
         "help": rng.choice(HELPS)}
    if kind == "integer":
        s |= {"range": [rng.choice([1, 2]), rng.choice([100, 2**40])],
              "default": rng.randint(2, 100)}
        s |= {"unit": rng.choice(["us", "ops"])} if rng.random() < 0.5 else {}
        s |= {"special": {rng.choice(["automatic", "off"]): 0}} if rng.random() < 0.5 else {}
    elif kind == "real":
        s |= {"range": [0.5, rng.choice([1.5, 2.5])], "default": 1.0}
    elif kind == "enum":
        values = rng.sample(WORDS, rng.randint(1, 4))
        s |= {"values": values, "default": rng.choice(values)}
    elif kind == "string":
        s |= {"size": rng.choice([4, 8, 9, 16, 17]), "default": "x"}
    else:
        s |= {"default": rng.random() < 0.5}
    return s


def random_report(name):
    kind = rng.choice(["counter", "gauge", "text", "histogram"])
    r = {"name": name, "kind": kind, "help": rng.choice(HELPS)}
    if kind == "gauge":
        r["type"] = rng.choice(["integer", "real", "bool", "enum"])
        if r["type"] == "enum":
            r["values"] = rng.sample(WORDS, rng.randint(1, 4))
    elif kind == "text":
        r["size"] = rng.choice([4, 8, 9, 16])
    elif kind == "counter" and rng.random() < 0.5:
        r["unit"] = rng.choice(["us", "ops"])
    return r


def random_description():
    settings = rng.sample(NAMES, rng.randint(1, 4))
    reports = [n for n in rng.sample(NAMES, rng.randint(0, 4)) if n not in settings]
    return {"component": rng.choice(["kv", "kw"]), "title": "T", "help": "H.",
            "setting": [random_setting(n) for n in settings],
            "report": [random_report(n) for n in reports]}


def change(d):
    """Return a copy of description d with one random change, of its layout or only of its texts."""
    d = copy.deepcopy(d)
    table = rng.choice(["setting", "report"])
    make = random_setting if table == "setting" else random_report
    fields = d[table]
    used = [f["name"] for f in d["setting"] + d["report"]]
    how = rng.randrange(9)
    if how == 0:
        d["component"] = rng.choice(["kv", "kw"])
    elif how == 1:
        d[rng.choice(["title", "help"])] = rng.choice(HELPS)
    elif how == 2 and fields:
        rng.choice(fields)["help"] = rng.choice(HELPS)
    elif how == 3 and len(fields) > 1:
        fields.append(fields.pop(rng.randrange(len(fields))))
    elif how == 4 and len(fields) > 1:
        del fields[rng.randrange(len(fields))]
    elif how == 5:
        fields.insert(rng.randint(0, len(fields)),
                      make(rng.choice([n for n in NAMES if n not in used])))
    elif how == 6 and fields:
        rng.choice(fields)["name"] = rng.choice([n for n in NAMES if n not in used])
    elif fields:
        i = rng.randrange(len(fields))
        fields[i] = make(fields[i]["name"])
    return d


def load(d):
    return component.load(Source("random", write(d)))


def layout_of(c):
    """The layout that a reader of messages must know, from the schema shown to agents."""
    shown = emit_json.describe(c)
    keys = ("name", "kind", "type", "offset", "bytes", "values")
    return [shown["component"]] + [[tuple(map(str, (f.get(k) for k in keys))) for f in shown[table]]
                                   for table in ("settings", "reports")]


def hash_is_of_the_layout():
    same = other = 0
    seen = {}
    for _ in range(1500):
        before = random_description()
        after = change(before)
        a, b = load(before), load(after)
        alike = layout_of(a) == layout_of(b)
        assert alike == (a.hash == b.hash), (write(before), write(after))
        same += alike and before != after
        other += not alike
        for c in (a, b):
            assert c.hash and seen.setdefault(c.hash, layout_of(c)) == layout_of(c)
    assert same > 200 and other > 200, (same, other)


def sizes_that_round_to_the_same_are_the_same():
    text = write({"component": "kv", "title": "T", "help": "H.", "report": [], "setting": [
        {"name": "label", "type": "string", "size": 9, "default": "", "when": "now",
         "help": "H."}]})
    hashes = {size: component.load(Source("x", text.replace("size = 9", f"size = {size}"))).hash
              for size in (8, 9, 16, 17)}
    assert hashes[9] == hashes[16] != hashes[8] and hashes[17] != hashes[16]


def hash_is_the_same_everywhere():
    """An agent of another release computes the same hash: the sha256sum of these lines."""
    lines = "leat-tune-1\ncomponent kv\nreport calls counter integer 0 8"
    assert hashlib.sha256(lines.encode()).hexdigest().startswith("0ec4a5a57a451040")
    c = component.load(Source("x", 'component = "kv"\ntitle = "T"\nhelp = "H."\n[[report]]\n'
                              'name = "calls"\nkind = "counter"\nhelp = "H."\n'))
    assert f"{c.hash:016x}" == "4010457aa5a5c40e", f"{c.hash:016x}"


def hash_of_a_protocol():
    with open(gen.PROTOCOL, encoding="utf-8") as f:
        text = f.read()
    was = protocol.load(Source("x", text)).hash
    changes = {  # change of the text: does it change the layout?
        ('number = 18', 'number = 19'): True, ('name = "epoch"', 'name = "era"'): True,
        ('type = "bool"', 'type = "integer"'): True, ('size = 64', 'size = 72'): True,
        ('payload = "report"', 'payload = "settings"'): True,
        ('direction = "telemetry"', 'direction = "feedback"'): True,
        ('protocol = "tune"', 'protocol = "tone"'): True,
        ('size = 64', 'size = 63'): False, ('help = "its id"', 'help = "x"'): False}
    for (old, new), differs in changes.items():
        assert old in text, old
        now = protocol.load(Source("x", text.replace(old, new, 1))).hash
        assert (now != was) == differs, (old, new)


if __name__ == "__main__":
    tap.main([hash_is_of_the_layout, sizes_that_round_to_the_same_are_the_same,
              hash_is_the_same_everywhere, hash_of_a_protocol])
