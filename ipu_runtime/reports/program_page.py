"""The page of a compiled program: what the plan says and what running it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu_runtime.plan.plan import Plan
from ipu_runtime.reports.markup import Html, section, table, tag
from ipu_runtime.reports.page import page
from ipu_runtime.reports.plan_parts import plan_parts

_FOOTER = "Modelled by an emulated IPU runtime; nothing here was measured on an IPU."


def program_page(
    name: str, plan: Plan | None, reason: str, execution: Mapping[str, Any]
) -> str:
    """Return a self-contained HTML page."""
    parts: list[Html] = [tag("h1", f"Program {name}")]
    if plan is None:
        parts.append(tag("p", f"There is no plan of this program: {reason}."))
    else:
        parts += [*plan_parts(plan), _layers(plan)]
    if execution:
        rows = [(key.replace("_", " "), value) for key, value in execution.items()]
        parts.append(section("Execution", table(("", "value"), rows)))
    return page(f"Report of program {name}", parts, _FOOTER)


def _layers(plan: Plan) -> Html:
    rows = [
        (
            layer.name,
            layer.kind,
            layer.stage,
            "x".join(str(extent) for extent in layer.output_shape),
            layer.parameters,
            f"{layer.forward_us:.2f}",
            f"{layer.backward_us:.2f}",
            layer.memory_bytes,
        )
        for layer in plan.layers
    ]
    head = (
        "layer",
        "kind",
        "stage",
        "output",
        "parameters",
        "forward, us",
        "backward, us",
        "bytes",
    )
    return section("Layers (modelled)", table(head, rows))
