"""Weights that several layer calls use: their IPU has all these calls."""

from __future__ import annotations

from workbench.experiment.experiment_spec import ExperimentSpec


def shared_spans(spec: ExperimentSpec) -> tuple[tuple[int, int], ...]:
    """Return the first and the last of calls that share weights, without inputs."""
    position = {name: at for at, name in enumerate(_names(spec))}
    places = ([position[name] for name in calls] for calls in _shared(spec))
    return tuple((min(own), max(own)) for own in places)


def _shared(spec: ExperimentSpec) -> tuple[tuple[str, ...], ...]:
    """Return the calls that share weights; those of presets never do."""
    read = spec.model.read
    return read.spec.shared if read is not None and read.spec is not None else ()


def _names(spec: ExperimentSpec) -> list[str]:
    return [layer.name for layer in spec.model.layers if layer.kind != "Input"]
