"""The page of a compiled program: what the plan says and what running it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.quantities import byte_size, microseconds
from ipu_runtime.plan.step_parts import step_words
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
        parts.append(_execution(execution, plan.replicas if plan else 1))
    return page(f"Report of program {name}", parts, _FOOTER)


def _execution(execution: Mapping[str, Any], replicas: int) -> Html:
    step = f"time of a step ({step_words(replicas)})"
    measured = execution["measured_host_ms_per_step"]
    rows = [
        ("executions", execution["executions"]),
        ("steps of one replica", execution["steps_per_replica"]),
        (
            f"{step} on this machine, measured",
            microseconds(1e3 * measured) if measured else "too short to tell",
        ),
        (
            f"{step} on the IPU, modelled",
            microseconds(execution["modelled_ipu_us_per_step"]),
        ),
        (
            "time of all steps on the IPU, modelled",
            microseconds(1e6 * execution["modelled_ipu_s"]),
        ),
    ]
    return section("Execution", table(("", "value"), rows))


def _layers(plan: Plan) -> Html:
    rows = [
        (
            layer.name,
            layer.kind,
            layer.stage,
            "x".join(str(extent) for extent in layer.output_shape),
            f"{layer.parameters:,}",
            microseconds(layer.forward_us),
            microseconds(layer.backward_us),
            byte_size(layer.memory_bytes),
        )
        for layer in plan.layers
    ]
    times = ("forward", "backward", "memory")
    head = ("layer", "kind", "stage", "output", "parameters", *times)
    return section("Layers (modelled)", table(head, rows))
