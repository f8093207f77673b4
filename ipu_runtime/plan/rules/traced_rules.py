"""What the costs of traced layers leave out or guess."""

from __future__ import annotations

from collections.abc import Iterator

from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.problem import Problem, Severity


def check_traced(model: ModelSpec) -> Iterator[Problem]:
    """Warn of every remark once, with the layers that it is about."""
    names: dict[str, list[str]] = {}
    for layer in model.layers:
        for remark in layer.traced.remarks if layer.traced else ():
            names.setdefault(remark, []).append(f"{layer.name} ({layer.kind})")
    for remark, layers in names.items():
        more = f" and {len(layers) - 1} more" if len(layers) > 1 else ""
        yield Problem(
            "model.layers",
            f"{layers[0]}{more}: {remark}",
            "times of these layers are rough",
            Severity.WARNING,
            exception="",
        )
