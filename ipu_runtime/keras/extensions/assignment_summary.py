"""The table that `print_pipeline_stage_assignment_summary` prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

SEQUENTIAL_WIDTH = 60
GRAPH_WIDTH = 89

_SEQUENTIAL_COLUMNS = {"Layer (type)": 0.5, "Pipeline Stage": 1.0}
_GRAPH_COLUMNS = {
    "Layer (type) (node index)": 0.4,
    "Input Layers": 0.8,
    "Pipeline Stage": 1.0,
}
"""Titles, with the right edge of the column as a fraction of the line."""


def print_summary(
    name: str,
    assignments: Sequence[Any],
    *,
    sequential: bool,
    line_length: int | None,
    print_fn: Callable[[str], Any],
) -> None:
    """Print the stage of every layer, or of every layer call of a graph."""
    width = line_length or (SEQUENTIAL_WIDTH if sequential else GRAPH_WIDTH)
    columns = _SEQUENTIAL_COLUMNS if sequential else _GRAPH_COLUMNS
    table = _Table(width, tuple(columns.values()), print_fn)
    print_fn(f'Model: "{name}"')
    print_fn("_" * width)
    table.row(tuple(columns))
    print_fn("=" * width)
    table.assignments(assignments)


class _Table:
    def __init__(
        self, width: int, edges: tuple[float, ...], print_fn: Callable[[str], Any]
    ) -> None:
        self._width = width
        self._columns = [int(width * edge) for edge in edges]
        self._print = print_fn

    def row(self, fields: Sequence[str]) -> None:
        """Print fields, each cut and padded to its column."""
        line = ""
        for text, edge in zip(fields, self._columns, strict=True):
            separated = f"{line[:-1]} " if line else ""
            line = f"{separated}{text}"[:edge].ljust(edge)
        self._print(line)

    def assignments(self, assignments: Sequence[Any]) -> None:
        """Print rows and the lines between them."""
        for index, assignment in enumerate(assignments):
            if assignment.is_nested_model:
                self._print(f'Nested Model: "{assignment.nested_model.name}"')
                self._print("-" * self._width)
                self.assignments(assignment.pipeline_stage_assignments)
                continue
            self._layer(assignment)
            following = assignments[index + 1 : index + 2]
            last = not following or following[0].is_nested_model
            self._print(("=" if last else "_") * self._width)

    def _layer(self, assignment: Any) -> None:
        layer = assignment.layer
        title = f"{layer.name} ({type(layer).__name__})"
        stage = str(assignment.pipeline_stage)
        if len(self._columns) == 2:
            self.row((title, stage))
            return
        if not hasattr(assignment, "node_index"):
            self.row((title, "", stage))
            return
        inputs = [layer.name for layer in assignment.inbound_layers] or [""]
        self.row((f"{title} ({assignment.node_index})", inputs[0], stage))
        for name in inputs[1:]:
            self.row(("", name, ""))
