# SPDX-License-Identifier: BSD-3-Clause
"""The screen of a component: a table of all its objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..columns import text_of
from ..known import columns_of, sorted_by
from ..model import Object
from .base import Box, Hints, View
from .overview import role_of

if TYPE_CHECKING:
    from ..app import App


class ComponentView(View):
    def __init__(self, app: App, name: str) -> None:
        super().__init__(app)
        self.name = name
        schema = self._schema()
        self.boxes = [
            Box.of(
                schema.title or name,
                columns_of(schema),
                sorted_by(name),
                rows=lambda: app.model.objects(name),
                key_of=lambda o: o.key,
                text_of=text_of,
                role_of=role_of,
                trouble_of=Object.trouble,
                enter=app.open,
            )
        ]

    @property
    def title(self) -> str:
        return self.name

    def _schema(self):
        return next((c for c in self.app.model.components() if c.component == self.name), None)

    def refresh(self) -> None:
        # Another process may describe the component with more measurements.
        schema = self._schema()
        if schema is not None:
            self.boxes[0].table.set_columns(columns_of(schema))

    def alive(self) -> bool:
        return self._schema() is not None

    def hints(self) -> Hints:
        return [("Enter", "open")]
