# SPDX-License-Identifier: BSD-3-Clause
"""leat-perf --plot and --beside: pictures as SVG.

Usage: test_perf_plot.py LEAT_PERF
"""

import json
import os
import tempfile
import xml.etree.ElementTree

from perf_lib import case, check, light, main, run

RING = "--vdev=fabric_ring0"
SVG = "{http://www.w3.org/2000/svg}"
LEGEND_TOP = 470


def self_run(options):
    return run(["--lcores", "0@0,1@0", RING], ["--self", *light(RING), *options])


def ok(options):
    p = self_run(options)
    check(p.code == 0, p.text())
    return p


def refused(pattern, options, code=2):
    p = self_run(options)
    check(p.code == code and pattern in p.err(), p.text())
    return p


class Picture:
    def __init__(self, path):
        top = xml.etree.ElementTree.parse(path).getroot()
        check(top.tag == SVG + "svg", top.tag)
        self.texts = [t.text for t in top.iter(SVG + "text")]
        self.lines = list(top.iter(SVG + "polyline"))
        self.points = [c for c in top.iter(SVG + "circle") if c.get("r") == "2.8"]

    def curves(self, dashed):
        """Return the points of each curve: the thick lines, except those in the legend."""
        curves = [[tuple(map(float, p.split(","))) for p in line.get("points").split()]
                  for line in self.lines
                  if line.get("stroke-width") == "2.2"
                  and (line.get("stroke-dasharray") is not None) == dashed]
        return [points for points in curves if points and points[0][1] < LEGEND_TOP]

    def legend(self):
        """Return the color of each entry of the legend."""
        return [line.get("stroke") for line in self.lines
                if line.get("points") and float(line.get("points").split()[0].split(",")[1])
                >= LEGEND_TOP]

    def ticks(self):
        """Return the numbers at the x axis: the texts between the title and the axis's own."""
        return self.texts[1:self.texts.index("bytes" if "bytes" in self.texts else
                                             "us; the last column has all above")]


@case
def latency_over_size():
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "p.svg")
        ok(["--op", "send,write", "--size", "8,64,4K", "-n", "50", "--plot", path])
        picture = Picture(path)
    check("latency, fabric_ring0" in picture.texts, picture.texts)
    for text in ("send: fabric_ring0", "write: fabric_ring0", "bytes", "us", "8", "64", "4K"):
        check(text in picture.texts, "%s: %s" % (text, picture.texts))
    curves = picture.curves(False)
    check([len(points) for points in curves] == [3, 3], curves)
    # Larger values are further to the right, and all points lie inside the picture.
    for points in curves:
        check(points == sorted(points) and all(0 < y < 480 for _, y in points), points)


@case
def bandwidth_and_rate():
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "p.svg")
        for test, unit in (("bw", "MB/s"), ("rate", "million messages/s")):
            ok(["--test", test, "--size", "8,64", "-n", "200", "--plot", path])
            picture = Picture(path)
            check(unit in picture.texts, picture.texts)
            check([len(points) for points in picture.curves(False)] == [2], picture.lines)


@case
def single_points_are_visible():
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "p.svg")
        ok(["--test", "bw", "--size", "8", "-n", "100", "--plot", path])
        picture = Picture(path)
        check(len(picture.points) == 1, picture.points)
        check(60 < float(picture.points[0].get("cy")) < 420, picture.points[0].attrib)
        check(picture.ticks() == ["4", "8", "16"], picture.texts)
        # Atomics have one size only.
        ok(["--op", "write,fetch_add", "--test", "bw", "--size", "8,64", "-n", "100",
            "--plot", path])
        check(len(Picture(path).points) == 3, Picture(path).points)


@case
def every_op_has_a_color_and_a_name():
    with tempfile.TemporaryDirectory() as tmp:
        old, path = os.path.join(tmp, "old.json"), os.path.join(tmp, "p.svg")
        options = ["--op", "all,msg", "--size", "8,64", "-n", "20"]
        p = ok([*options, "--json"])
        with open(old, "w", encoding="utf-8") as f:
            f.write(p.out())
        ok([*options, "--plot", path])
        colors = Picture(path).legend()
        check(len(colors) == 8 and len(set(colors)) == 8, colors)
        # An op has the same color in both runs, which both are in the legend.
        ok(["--op", "cmp_swap,write", "--size", "8,64", "-n", "20", "--plot", path,
            "--beside", old])
        picture = Picture(path)
        check(len(picture.legend()) == 10 and len(set(picture.legend())) == 8, picture.legend())


@case
def size_0_is_at_the_left_edge():
    with tempfile.TemporaryDirectory() as tmp:
        old, path = os.path.join(tmp, "old.json"), os.path.join(tmp, "p.svg")
        p = ok(["--size", "0,1,4", "-n", "20", "--plot", path, "--json"])
        picture = Picture(path)
        check(picture.ticks() == ["0", "1", "2", "4"], picture.texts)
        check([len(points) for points in picture.curves(False)] == [3], picture.lines)
        with open(old, "w", encoding="utf-8") as f:
            f.write(p.out())
        ok(["--size", "1,4", "-n", "20", "--plot", path, "--beside", old])
        check([len(points) for points in Picture(path).curves(True)] == [3], path)
        p = ok(["--test", "bw", "--size", "0,1", "-n", "20", "--plot", path])
        check("size 0 has no bandwidth" in p.err(), p.text())
        check(len(Picture(path).points) == 1, path)


@case
def histogram_of_one_sample_has_ticks():
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "p.svg")
        for _ in range(3):
            ok(["--size", "8", "-n", "1", "--warmup", "0", "--plot", path])
            check(4 <= len(Picture(path).ticks()) <= 11, Picture(path).texts)


@case
def histogram_of_one_size():
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "p.svg")
        ok(["--size", "8", "-n", "500", "--plot", path])
        picture = Picture(path)
    check("latency of 8 bytes, fabric_ring0" in picture.texts, picture.texts)
    check("% of the samples" in picture.texts, picture.texts)
    check(len(picture.curves(False)) == 1, picture.lines)


@case
def two_runs():
    with tempfile.TemporaryDirectory() as tmp:
        old, hist, path = (os.path.join(tmp, x) for x in ("old.json", "old.hist", "p.svg"))
        options = ["--size", "8,64", "-n", "50"]
        p = ok([*options, "--json", "--histogram", hist])
        with open(old, "w", encoding="utf-8") as f:
            f.write(p.out())
        for earlier in (old, hist):
            ok([*options, "--plot", path, "--beside", earlier])
            picture = Picture(path)
            check("send: " + os.path.basename(earlier) in picture.texts, picture.texts)
            check([len(points) for points in picture.curves(True)] == [2], picture.lines)
        # A run of one size beside a histogram of an earlier run: the picture shows both as
        # histograms.
        ok(["--size", "8", "-n", "50", "--histogram", hist])
        ok(["--size", "8", "-n", "50", "--plot", path, "--beside", hist])
        picture = Picture(path)
        check("% of the samples" in picture.texts, picture.texts)
        check(len(picture.curves(True)) == 1, picture.lines)


@case
def text_of_files_is_escaped():
    with tempfile.TemporaryDirectory() as tmp:
        old, path = os.path.join(tmp, "a<b>&.json"), os.path.join(tmp, "p.svg")
        with open(old, "w", encoding="utf-8") as f:
            json.dump({"schema": "leat-perf", "test": "lat", "results": [
                {"op": "</text>&", "bytes": 8, "p50_us": 1.5, "p99_us": 2}]}, f)
        ok(["--size", "8,64", "-n", "20", "--plot", path, "--beside", old])
        check("</text>&: a<b>&.json" in Picture(path).texts, Picture(path).texts)


@case
def a_histogram_needs_the_histogram_of_its_size():
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "p.svg")
        old = {name: os.path.join(tmp, name) for name in ("json", "several", "64")}
        p = ok(["--size", "8,64", "-n", "20", "--json", "--histogram", old["several"]])
        with open(old["json"], "w", encoding="utf-8") as f:
            f.write(p.out())
        ok(["--size", "64", "-n", "20", "--histogram", old["64"]])
        options = ["--size", "8", "-n", "20", "--plot", path, "--beside"]
        needs = "needs a file of --histogram --size 8"
        for name, has in (("json", "percentiles (--json) of 8 to 64 bytes"),
                          ("several", "histograms of 8 to 64 bytes"),
                          ("64", "histograms of 64 bytes")):
            p = refused(has, [*options, old[name]])
            check(needs in p.err() and p.out() == "", p.text())
        check(not os.path.exists(path), path)
        # The values over the size are drawn beside any sizes.
        ok(["--size", "8,64", "-n", "20", "--plot", path, "--beside", old["64"]])
        check(len(Picture(path).points) == 3, path)


@case
def nonsense_is_refused():
    with tempfile.TemporaryDirectory() as tmp:
        old, path = os.path.join(tmp, "old"), os.path.join(tmp, "p.svg")
        lat = {"schema": "leat-perf", "test": "lat", "results": [
            {"op": "send", "bytes": 8, "p50_us": 1.5}]}
        result = lat["results"][0]
        neither = "it is neither from leat-perf --json nor from --histogram"
        wrong = [
            ("", "it is empty"), ("\n", "it is empty"), ("{", "it is not JSON"),
            ("1 2 3\n", neither), ("[1]", neither),
            ("# op send, bytes 8\n3 2 1\n", "it is not from leat-perf --histogram"),
            ("# op send, bytes 8\n", "it is not from leat-perf --histogram"),
            (json.dumps(dict(lat, schema="x")), "it is not from leat-perf --json"),
            (json.dumps(dict(lat, results=[1])), "its results"),
            (json.dumps(dict(lat, results=[dict(result, bytes=-1)])), "its results"),
            (json.dumps(dict(lat, results=[dict(result, bytes="0")])), "its results"),
            (json.dumps(dict(lat, results=[dict(result, p50_us=1e300)])), "its results"),
            (json.dumps(dict(lat, test="bw")), "another --test"),
        ]
        for text, why in wrong:
            with open(old, "w", encoding="utf-8") as f:
                f.write(text)
            refused("--beside %s: %s" % (old, why) if why != "another --test" else why,
                    ["--size", "8", "-n", "10", "--plot", path, "--beside", old])
        refused("No such file", ["--size", "8", "-n", "10", "--plot", path, "--beside",
                                 os.path.join(tmp, "none")])
        refused("--plot /no/such/dir/x: No such file",
                ["--size", "8", "-n", "10", "--plot", "/no/such/dir/x"])
        refused("--plot %s: Is a directory" % tmp, ["--size", "8", "-n", "10", "--plot", tmp])
        refused("--plot a.b.PNG: the picture is SVG: name it a.b.svg",
                ["--size", "8", "-n", "10", "--plot", "a.b.PNG"])
        refused("--plot -: name a file", ["--size", "8", "-n", "10", "--plot", "-"])
        refused("--plot /dev/full: can't write it", ["--size", "8", "-n", "10",
                                                     "--plot", "/dev/full"], 1)
        refused("--beside FILE is drawn by --plot", ["--size", "8", "--beside", old])


if __name__ == "__main__":
    main()
