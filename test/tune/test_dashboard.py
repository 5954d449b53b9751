# SPDX-License-Identifier: BSD-3-Clause
"""The dashboard and the alerts of doc/grafana: the metrics that they query exist, and they are up
to date.

test_dashboard.py devtools/grafana-dashboard lib/tune/gen
"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

import fake
from leat_tune import metrics

TOOL, GEN = sys.argv[1:3]
DOC = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(TOOL))), "doc", "grafana")
RULES = os.path.join(DOC, "leat.rules.yml")
NAME = re.compile(r"\bleat_\w+")


def run(*args):
    return subprocess.run([sys.executable, "-B", *args], capture_output=True, text=True, timeout=60)


def expressions(tree):
    """Return all queries in the JSON of a dashboard."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key in ("expr", "query") and isinstance(value, str):
                yield value
            else:
                yield from expressions(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from expressions(value)


class Dashboard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = run(TOOL, "--metrics")
        assert done.returncode == 0, done.stderr
        cls.metrics = set(done.stdout.split())
        with open(os.path.join(DOC, "leat.json"), encoding="utf-8") as file:
            cls.tree = json.load(file)

    def test_it_is_what_the_descriptions_make(self):
        done = run(TOOL, "--check")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_every_metric_exists(self):
        asked = {name for text in expressions(self.tree) for name in NAME.findall(text)}
        self.assertLess(20, len(asked))
        self.assertEqual(asked - self.metrics, set())

    def test_every_component_is_shown(self):
        shown = {name for text in expressions(self.tree) for name in NAME.findall(text)}
        missing = {name for name in self.metrics - shown
                   if not name.endswith(("_info", "_sum", "_count"))}
        own = {f.sample for f in metrics.own_families()}
        self.assertEqual(missing - own, set())

    def test_panels(self):
        panels = self.tree["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = set()
        for panel in panels:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                     for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells
            refs = [target["refId"] for target in panel.get("targets", ())]
            self.assertEqual(len(set(refs)), len(refs))

    @unittest.skipUnless(shutil.which("promtool"), "promtool was not found (package prometheus)")
    def test_expressions_are_promql(self):
        # A file of rules with all queries: promtool does not check a bare expression.
        values = {"$program": ".*", "$pid": ".*", "$object": ".*", "$__rate_interval": "1m"}
        lines = ["groups:", "- name: dashboard", "  rules:"]
        for i, text in enumerate(e for e in expressions(self.tree) if "label_values" not in e and
                                 "leat_" in e):
            for name, value in values.items():
                text = text.replace(name, value)
            lines += [f"  - record: x{i}", f"    expr: {json.dumps(text)}"]
        self.assertLess(40, len(lines))
        done = subprocess.run(["promtool", "check", "rules", "/dev/stdin"],
                              input="\n".join(lines) + "\n",
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)

    def test_alerts_ask_for_what_exists(self):
        with open(RULES, encoding="utf-8") as file:
            asked = {name for line in file if "expr:" in line for name in NAME.findall(line)}
        self.assertLess(5, len(asked))
        self.assertEqual(asked - self.metrics, set())

    @unittest.skipUnless(shutil.which("promtool"), "promtool was not found (package prometheus)")
    def test_promtool_takes_the_alerts(self):
        done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn("7 rules found", done.stdout)


class SameNames(unittest.TestCase):
    def test_the_generator_lists_the_same(self):
        if "--metrics" not in run(GEN, "--help").stdout:
            self.skipTest("leat-tune-gen has no --metrics")
        root = os.path.dirname(DOC)
        files = []
        for where, _, names in os.walk(os.path.dirname(root)):
            if where.startswith(tuple(os.path.join(os.path.dirname(root), d)
                                      for d in ("lib", "apps", "drivers"))):
                files += [os.path.join(where, name) for name in names if name.endswith(".toml")]
        components = []
        for file in sorted(files):
            with open(file, encoding="utf-8") as text:
                if re.search(r"^component\s*=", text.read(), re.M):
                    components.append(file)
        listed = json.loads(run(GEN, "--metrics", *components).stdout)
        schemas = json.loads(run(GEN, "--json", *components).stdout)
        schemas = schemas if isinstance(schemas, list) else [schemas]
        ours = {(f.component, f.report): (f.sample, f.name, f.type, f.unit) for s in schemas
                for f in metrics.families(s)}
        theirs = {(m["component"], m["field"]): (m["metric"], m["family"], m["type"],
                                                 m.get("unit") or "")
                  for m in listed}
        self.assertEqual(ours, theirs)
        for one in listed:
            family = next(f for s in schemas for f in metrics.families(s)
                          if (f.component, f.report) == (one["component"], one["field"]))
            self.assertEqual((family.factor, family.aggregate), (one["factor"], one["aggregate"]))

    def test_states_are_labels(self):
        (state,) = (f for f in metrics.families(fake.EP.json) if f.type == "stateset")
        self.assertEqual(state.sample, "leat_ep_state")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
