"""The page of a compiled program: what the plan says and what running it took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ipu_runtime.plan.plan import Plan
from ipu_runtime.reports.bar_chart import StackedRow, stacked_bars
from ipu_runtime.reports.markup import Html, section, table, tag
from ipu_runtime.reports.page import figure, page

_FOOTER = "Modelled by an emulated IPU runtime; nothing here was measured on an IPU."


def program_page(
    name: str, plan: Plan | None, reason: str, execution: Mapping[str, Any]
) -> str:
    """Return a self-contained HTML page."""
    parts: list[Html] = [tag("h1", f"Program {name}")]
    if plan is None:
        parts.append(tag("p", f"There is no plan of this program: {reason}."))
    else:
        parts += [_step(plan), _memory(plan), _layers(plan)]
    if execution:
        rows = [(key.replace("_", " "), value) for key, value in execution.items()]
        parts.append(section("Execution", table(("", "value"), rows)))
    return page(f"Report of program {name}", parts, _FOOTER)


def _step(plan: Plan) -> Html:
    if plan.step is None:
        problems = [tag("li", str(problem)) for problem in plan.problems]
        return section("Problems", tag("ul", *problems))
    times = {
        item.name.removesuffix("_us"): getattr(plan.step, item.name)
        for item in fields(plan.step)
    }
    row = StackedRow("step", {name: us for name, us in times.items() if us > 0})
    drawing = stacked_bars([row], lambda us: f"{us:.1f} us", "Modelled step time")
    caption = f"One step takes {plan.step.total_us:.1f} us, modelled."
    return section("Step time (modelled)", figure(caption, drawing))


def _memory(plan: Plan) -> Html:
    rows = [
        StackedRow(
            f"IPU {item.ipu}",
            {name: float(size) for name, size in item.by_category.items() if size},
            float(item.capacity_bytes),
        )
        for item in plan.memory
    ]
    drawing = stacked_bars(rows, lambda size: f"{size / 2**20:.1f} MiB", "Memory")
    caption = "Memory of each IPU by category; the dashed line is its capacity."
    return section("Memory (modelled)", figure(caption, drawing))


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
