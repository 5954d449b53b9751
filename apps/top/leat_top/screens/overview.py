# SPDX-License-Identifier: BSD-3-Clause
"""The overview: total load, processes, lcores, endpoints, and a line for each other object.

Given a process, it is the screen of that process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..columns import text_of
from ..format import Parts, graph, nice_top, si, with_unit
from ..grid import Grid, Rect
from ..known import endpoint_columns, process_columns, reactor_columns
from ..model import Object, Process
from ..summary import summary_columns
from .base import Box, Hints, View, needed

if TYPE_CHECKING:
    from ..app import App

_GRAPH_HEIGHT = 7
_GRAPH_MOST = 13
_BUSY_HEIGHT = 22  # lines of the screen below which graphs have no room
_HIGH = 36  # lines of the screen from which graphs always have room


def role_of(o: Object) -> str | None:
    if o.trouble():
        return "bad"
    return "dim" if o.process.hung else None


def process_role(p: Process) -> str | None:
    return "bad" if p.state() else None


class Overview(View):
    def __init__(self, app: App, process: tuple | None = None) -> None:
        super().__init__(app)
        self.process = process
        self._processes = Box.of(
            "Processes",
            process_columns(),
            "pid",
            rows=lambda: app.model.processes,
            key_of=lambda p: p.key,
            text_of=lambda p: f"{p.pid} {p.program} {p.state()}",
            role_of=process_role,
            trouble_of=Process.silent,
            enter=lambda p: app.push(Overview(app, p.key)),
            empty="no leat process of this user runs (leat-top waits for one)",
        )
        self._lcores = self._objects("Lcores", reactor_columns(), "reactor")
        self._endpoints = self._objects("Endpoints", endpoint_columns(), "endpoint")
        self._others = self._objects("More", summary_columns(), None)
        self._others.weight = 2
        self.refresh()

    @property
    def title(self) -> str:
        process = self._process()
        return f"{process.program} {process.pid}" if process else "Overview"

    def _objects(self, title: str, columns, component: str | None) -> Box:
        def rows() -> list[Object]:
            objects = self.app.model.objects(component)
            if component is None:
                objects = [o for o in objects if o.component not in ("reactor", "endpoint")]
            if self.process is not None:
                objects = [o for o in objects if o.process.key == self.process]
            return objects

        return Box.of(
            title,
            columns,
            "component" if component is None else "pid" if self.process is None else "name",
            rows=rows,
            key_of=lambda o: o.key,
            text_of=text_of,
            role_of=role_of,
            trouble_of=Object.trouble,
            enter=self.app.open,
        )

    def _process(self) -> Process | None:
        return next((p for p in self.app.model.processes if p.key == self.process), None)

    def alive(self) -> bool:
        return self.process is None or self._process() is not None

    def refresh(self) -> None:
        focused = self.box
        self.boxes = [] if self.process is not None else [self._processes]
        self.boxes += [b for b in (self._lcores, self._endpoints, self._others) if b.rows()]
        if focused in self.boxes:
            self.focus = self.boxes.index(focused)

    def hints(self) -> Hints:
        return [("Enter", "open"), ("Tab", "box")]

    def shown(self) -> list[Process]:
        process = self._process()
        return [process] if process else list(self.app.model.processes)

    def draw(self, grid: Grid, rect: Rect) -> None:
        if self._graphs_fit(rect):
            height = min(max(rect.height - needed(self.boxes), _GRAPH_HEIGHT), _GRAPH_MOST)
            self._graphs(grid, Rect(rect.y, rect.x, height, rect.width))
            rect = Rect(rect.y + height, rect.x, rect.height - height, rect.width)
        self.stack(grid, rect, self.boxes)

    def _graphs_fit(self, rect: Rect) -> bool:
        """Whether graphs fit beside all tables, except the table of other objects."""
        if rect.height < _BUSY_HEIGHT or rect.width < 60 or not self.shown():
            return False
        tables = needed([b for b in self.boxes if b is not self._others])
        return rect.height - _GRAPH_HEIGHT - 4 >= tables or rect.height >= _HIGH

    def _graphs(self, grid: Grid, rect: Rect) -> None:
        third = rect.width // 3
        self._graph(grid, Rect(rect.y, rect.x, rect.height, third), "Busy", "busy")
        self._graph(grid, Rect(rect.y, rect.x + third, rect.height, third), "Ops/s", "ops")
        last = Rect(rect.y, rect.x + 2 * third, rect.height, rect.width - 2 * third)
        self._graph(grid, last, "Bytes/s", "bytes")

    def _graph(self, grid: Grid, rect: Rect, title: str, name: str) -> None:
        mean = name == "busy"
        past = together([p.past.get(name) or () for p in self.shown()], mean)
        now = past[-1] if past else None
        if mean:
            top, ends = 1.0, "100%"
            value = f"{(now or 0) * 100:.0f}%" if now is not None else "-"
        else:
            top = nice_top(max((v for v in past if v is not None), default=0.0))
            ends = si(top)
            value = with_unit(now, "bytes" if name == "bytes" else None, rate=True)
        heading: Parts = [(title + " ", "title"), (value, "strong")]
        grid.box(rect, heading, self.app.glyphs.box, note=ends)
        inner = rect.inner()
        lines = graph(past, inner.width, inner.height, self.app.glyphs, top)
        for i, line in enumerate(lines):
            role = f"busy{min((inner.height - 1 - i) * 8 // inner.height + 1, 7)}" if mean else (
                "graph" if name == "ops" else "graph2"
            )
            grid.put(inner.y + i, inner.x, line, role)


def together(pasts: list, mean: bool) -> list[float | None]:
    """Return the sum, or mean, of several histories that end now."""
    length = max((len(p) for p in pasts), default=0)
    columns: list[float | None] = []
    for i in range(length, 0, -1):
        values = [p[-i] for p in pasts if len(p) >= i and p[-i] is not None]
        total = sum(values) / (len(values) if mean else 1) if values else None
        columns.append(total)
    return columns
