# SPDX-License-Identifier: BSD-3-Clause
"""Plot benchmark results as SVG: for each result, a dot for leat and a dot for its reference.

    name       leat o----o reference            ratio
               |         |         |         |
             10 ns    100 ns      1 us      10 us     (logarithmic)
"""

import math
from xml.sax.saxutils import escape

# In ns.
UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "ns/op": 1.0}
LEFT, RIGHT, WIDTH, ROW, TOP, BOTTOM = 190, 90, 880, 24, 62, 46
LEAT, REFERENCE, TEXT, GRID = "#2166ac", "#8c8c8c", "#1c212b", "#d8dde3"


def time_text(ns):
    """Return a time as text with its unit, in three digits."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


def rows_of(results):
    """Return [(name, leat, reference, ratio)] of results that are times with a reference; ns."""
    rows = []
    for result in results:
        size = UNITS.get(result.get("unit"))
        if size and result.get("reference") and result["leat"] > 0:
            rows.append((result["name"], result["leat"] * size, result["reference"] * size,
                         result["ratio"]))
    return rows


def dot(x, y, color):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{color}"/>'


def text(x, y, what, anchor="start", color=TEXT, size=13):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{color}">{escape(what)}</text>')


def svg(results, title):
    """Return the picture, or None if no result is a time with a reference."""
    rows = rows_of(results)
    if not rows:
        return None
    times = [t for row in rows for t in row[1:3]]
    first, last = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    last = max(last, first + 1)
    height = TOP + ROW * len(rows) + BOTTOM
    bottom = TOP + ROW * len(rows)

    def place(ns):
        return LEFT + (math.log10(ns) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
           f'width="{WIDTH}" height="{height}" '
           f'font-family="\'DejaVu Sans\', Verdana, Helvetica, sans-serif">',
           f"<title>{escape(title)}</title>",
           f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
           text(16, 24, title, size=14),
           dot(LEFT, 42, LEAT), text(LEFT + 10, 46, "leat"),
           dot(LEFT + 70, 42, REFERENCE), text(LEFT + 80, 46, "the interface below, same run"),
           text(WIDTH - 16, 46, "ratio", "end")]
    for power in range(first, last + 1):
        x = place(10.0 ** power)
        out.append(f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="{GRID}"/>')
        out.append(text(x, bottom + 20, time_text(10.0 ** power), "middle", "#55606e", 12))
    for number, (name, leat, reference, ratio) in enumerate(rows):
        y = TOP + ROW * (number + 0.5)
        x0, x1 = place(leat), place(reference)
        out += [text(LEFT - 12, y + 4, name, "end"),
                f'<path d="M{x0:.1f} {y:.1f}H{x1:.1f}" stroke="{REFERENCE}" stroke-width="2"/>',
                dot(x1, y, REFERENCE), dot(x0, y, LEAT),
                text(WIDTH - 16, y + 4, f"{ratio:.2f}", "end")]
    out.append("</svg>")
    return "\n".join(out) + "\n"


def write(path, everything):
    """Plot the results of one run of devtools/bench. Return False if there is nothing to plot."""
    machine = everything["machine"]
    picture = svg(everything["results"],
                  f"Time of an op, {machine['cpu']}, {machine['date'][:10]}")
    if picture is None:
        return False
    with open(path, "w", encoding="utf-8") as out:
        out.write(picture)
    return True
