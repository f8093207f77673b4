"""Weights that several layer calls use: their IPU has all these calls."""

from __future__ import annotations

from collections.abc import Iterator

from ipu_runtime.plan.problem import Problem
from workbench.core.experiment.experiment_spec import ExperimentSpec


def shared_spans(spec: ExperimentSpec) -> tuple[tuple[int, int], ...]:
    """Return the first and the last of calls that share weights, without inputs."""
    position = {name: at for at, name in enumerate(_names(spec))}
    places = ([position[name] for name in calls] for calls in _shared(spec))
    return tuple((min(own), max(own)) for own in places)


def shared_problems(spec: ExperimentSpec) -> Iterator[Problem]:
    """Yield what the device would say of weights that several IPUs use."""
    stages, names = spec.pipeline.stages, _names(spec)
    if not stages or len(stages) != len(names) or min(stages) < 0:
        return
    mapping = spec.pipeline.device_mapping or tuple(range(max(stages) + 1))
    if len(mapping) <= max(stages):
        return
    ipu_of = {name: mapping[stage] for name, stage in zip(names, stages, strict=True)}
    for calls in _shared(spec):
        ipus = sorted({ipu_of[name] for name in calls})
        if len(ipus) > 1:
            more = f" and {len(calls) - 2} more" if len(calls) > 2 else ""
            yield Problem(
                "pipeline.stages",
                f"{calls[0]}, {calls[1]}{more} share weights, but are on IPUs "
                f"{', '.join(map(str, ipus))}",
                "put them on one IPU, as balance does",
                exception="UnimplementedError",
            )


def _shared(spec: ExperimentSpec) -> tuple[tuple[str, ...], ...]:
    """Return the calls that share weights; those of presets never do."""
    read = spec.model.read
    return read.spec.shared if read is not None and read.spec is not None else ()


def _names(spec: ExperimentSpec) -> list[str]:
    return [layer.name for layer in spec.model.layers if layer.kind != "Input"]
