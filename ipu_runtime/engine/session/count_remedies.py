"""What would be valid, said below an error about counts: planned before it is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from keras.utils import unpack_x_y_sample_weight

from ipu_runtime.engine.feeds.feed import Feed
from ipu_runtime.engine.pipeline.pipeline_setup import make_cut
from ipu_runtime.engine.planning.keras_request import keras_request
from ipu_runtime.engine.programs.kept_with_model import read_once
from ipu_runtime.engine.session.model_options import ModelOptions
from ipu_runtime.engine.session.step_count import StepCount
from ipu_runtime.plan.plan import PlanRequest
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.system.device import Device

_FIELDS = {
    "ipu.auto_select_ipus": "ipus",
    "execution.gradient_accumulation": "gradient_accumulation",
    "execution.steps_per_execution": "steps_per_execution",
}
_MOST_CHANGES = 4
"""One valid count may need another."""


def add_remedies(
    error: BaseException,
    model: Any,
    options: ModelOptions,
    device: Device,
    phase: str,
    feed: Feed,
    steps: int | None,
) -> None:
    """Add two lines to an error that the device's rules for counts explain."""
    try:
        request = _request(model, options, device, phase, feed, steps)
        notes = _remedies(request)
    except Exception:  # the script's own error is what counts, not a second one
        return
    for note in notes:
        error.add_note(f"ipu_runtime: {note}")


def _remedies(request: PlanRequest) -> list[str]:
    changes: dict[str, Any] = {}
    first: Problem | None = None
    plan = make_plan(request, with_remedies=False)
    for _ in range(_MOST_CHANGES):
        wrong = next(filter(_is_count, plan.problems), None)
        if wrong is None:
            break
        first = first or wrong
        changes[wrong.where] = wrong.suggestion
        changed: dict[str, Any] = {_FIELDS[wrong.where]: wrong.suggestion}
        request = replace(request, **changed)
        plan = make_plan(request, with_remedies=False)
    if first is None or not plan.ok or plan.step is None:
        return []
    values = ", ".join(f"{where} = {value}" for where, value in changes.items())
    time = f"{plan.ipu_us_per_batch:,.0f} us per batch"
    return [str(first), f"planned: {values} runs, {time}"]


def _is_count(problem: Problem) -> bool:
    return (
        problem.severity is Severity.ERROR
        and problem.where in _FIELDS
        and problem.suggestion is not None
    )


def _request(
    model: Any,
    options: ModelOptions,
    device: Device,
    phase: str,
    feed: Feed,
    steps: int | None,
) -> PlanRequest:
    """Return what the call asks for, right or wrong."""
    training = phase == "train"
    read = read_once(model)
    if read is None:
        raise ValueError("the layers are not known")
    cut = make_cut(read.graph, options, device, training) if options.pipelined else None
    replicas = max(1, device.replicas(options.shard_count))
    batches = steps if steps is not None else feed.batches
    per_execution = model.steps_per_execution if model.compiled else 1
    count = StepCount(max(batches // replicas, 1), per_execution, replicas, False)
    pipelined = options.pipeline_accumulation if options.pipelined else None
    accumulation = pipelined or options.accumulation or 1
    _, targets, _ = unpack_x_y_sample_weight(feed.element_spec)
    return keras_request(
        read.checked_spec(),
        device,
        batch_size=feed.batch_size,
        targets=targets,
        count=count,
        cut=cut,
        accumulation=accumulation if training else 1,
        optimizer=model.optimizer if training else None,
    )
