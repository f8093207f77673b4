"""Changes that would make a plan faster, each planned before it is said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.request_checks import check_request
from ipu_runtime.plan.step_parts import step_parts

_LEAST_GAIN = 0.02
"""Advice that saves less than this share of the time is not given."""
_IO_TILES = (32, 64, 128)
"""More of them only hold more, and are missing where the model computes."""
_SUM_BUFFER_BYTES = 50_000_000
_DISTANCES = (1, 2, 4, 8)
"""Layers by which a cut is moved to see whether that helps."""
_SMALLER = 1.1
_STAGES = "pipeline.stages"


@dataclass(frozen=True, slots=True)
class Advice:
    """One change that leaves the training as it is, with what it would save."""

    what: str
    """`cut after stage 0 up by one layer`, or the field and its value."""
    changes: Mapping[str, object]
    """Fields by their paths, with the values that they need."""
    us_per_batch: float
    """Modelled time per batch with the change."""
    saved: float
    """Share of the time per batch that it saves."""
    fits: bool
    """Whether it lets a plan fit that does not."""
    reason: str
    part: str
    """The part of a step that changes most, whose times per batch follow."""
    before_us: float
    after_us: float

    @property
    def cuts(self) -> tuple[int, ...]:
        """The stage of every layer, if a cut is moved."""
        stages = self.changes.get(_STAGES)
        return tuple(stages) if isinstance(stages, list) else ()


@dataclass(frozen=True, slots=True)
class _Change:
    what: str
    values: Mapping[str, object]
    reason: str
    request: PlanRequest


def advise(
    plan: Plan,
    *,
    locked: Collection[str] = (),
    together: Collection[tuple[int, int]] = (),
    given_up: Callable[[], bool] = lambda: False,
) -> tuple[Advice, ...]:
    """Return what would help, most helpful first; a plan that cannot run gets none.

    What fits is better than what is faster.

    Args:
        plan: The plan, with its layers.
        locked: Layers that stay in their stages.
        together: First and last of layers that have to share a stage.
        given_up: Asked before every plan; True ends it without advice.
    """
    if plan.step is None or any(p.severity is Severity.ERROR for p in plan.problems):
        return ()
    found = []
    for kind in (*_settings(plan), _moves(plan, locked, together)):
        best: Advice | None = None
        for change in kind:
            if given_up():
                return ()
            told = _tried(plan, change)
            if told is not None and (best is None or _rank(told) < _rank(best)):
                best = told
        if best is not None:
            found.append(best)
    return tuple(sorted(found, key=_rank))


def _rank(advice: Advice) -> tuple[bool, float]:
    return not advice.fits, advice.us_per_batch


def _tried(plan: Plan, change: _Change) -> Advice | None:
    """Return what comes of a change; None if it is refused or not worth it."""
    refused = (
        item.severity is Severity.ERROR for item in check_request(change.request)
    )
    if any(refused):
        return None
    changed = make_plan(change.request, with_remedies=False, with_layers=False)
    if not changed.ok or changed.step is None:
        return None
    saved = 1 - changed.ipu_us_per_batch / plan.ipu_us_per_batch
    if plan.ok and saved < _LEAST_GAIN:
        return None
    part, before_us, after_us = _most_changed(plan, changed)
    return Advice(
        change.what,
        change.values,
        changed.ipu_us_per_batch,
        saved,
        not plan.ok,
        change.reason or _stage_reason(plan, changed),
        part,
        before_us,
        after_us,
    )


def _most_changed(plan: Plan, changed: Plan) -> tuple[str, float, float]:
    """Return the part of a step that differs most, with its times per batch."""
    times = [
        {part.title: part.us / item.replicas for part in step_parts(item.step)}
        for item in (plan, changed)
        if item.step is not None
    ]
    before, after = times
    title = max(
        before | after, key=lambda name: before.get(name, 0.0) - after.get(name, 0.0)
    )
    return title, before.get(title, 0.0), after.get(title, 0.0)


def _stage_reason(plan: Plan, changed: Plan) -> str:
    """Say how the slowest stage differs, where the size of a cut does not."""
    now, then = (
        max(stage.busy_us for stage in item) for item in (plan.stages, changed.stages)
    )
    if round(now) == round(then):
        return "other work overlaps"
    return f"the slowest stage takes {then:,.0f}, not {now:,.0f} us"


def _settings(plan: Plan) -> Iterator[Iterable[_Change]]:
    """Yield what may help, the values of one field together."""
    request, config = plan.request, plan.request.config
    if plan.steps_per_execution < plan.steps_per_epoch:
        path, steps = "execution.steps_per_execution", plan.steps_per_epoch
        reason = "every execution costs the host the same"
        changed = replace(request, steps_per_execution=steps)
        yield [_Change(f"{path} = {steps}", {path: steps}, reason, changed)]
    if not config.get("io_tiles.num_io_tiles"):
        reason = "samples arrive while the other tiles compute"
        name = "io_tiles.num_io_tiles"
        yield [_of_config(request, name, tiles, reason) for tiles in _IO_TILES]
    if request.model.dtype == "float16":
        reason = "sums in half precision are twice as fast, and less exact"
        for group in ("convolutions", "matmuls"):
            name = f"{group}.poplar_options"
            options = {**config.get(name, {}), "partialsType": "half"}
            yield [_of_config(request, name, options, reason)]
    if plan.all_reduce_us:
        reason = "one reduction of many gradients starts only once"
        name = "optimizations.maximum_cross_replica_sum_buffer_size"
        yield [_of_config(request, name, _SUM_BUFFER_BYTES, reason)]
    if request.pipeline is not None:
        values = {_STAGES: [], "ipu.auto_select_ipus": plan.replicas}
        what = ", ".join(f"{path} = {value}" for path, value in values.items())
        reason = "a single IPU holds the model, and waits for no other"
        changed = replace(request, pipeline=None, ipus=plan.replicas)
        yield [_Change(what, values, reason, changed)]


def _of_config(request: PlanRequest, name: str, value: Any, reason: str) -> _Change:
    shown = value
    if isinstance(value, dict):
        shown = ", ".join(f"{option} {text}" for option, text in value.items())
    changed = replace(request, config={**request.config, name: value})
    return _Change(f"ipu.{name} = {shown}", {f"ipu.{name}": value}, reason, changed)


def _moves(
    plan: Plan, locked: Collection[str], together: Collection[tuple[int, int]]
) -> Iterator[_Change]:
    """Yield the stages with one cut in another place."""
    request, pipeline = plan.request, plan.request.pipeline
    if pipeline is None:
        return
    stages, layers = pipeline.stage_of_layer, request.model.stage_layers
    stay = {at for at, layer in enumerate(layers) if layer.name in locked}
    cuts = [at for at in range(1, len(stages)) if stages[at] != stages[at - 1]]
    for start, cut, end in zip(
        [0, *cuts[:-1]], cuts, [*cuts[1:], len(stages)], strict=True
    ):
        for place in (cut + way * far for far in _DISTANCES for way in (-1, 1)):
            low, high = min(place, cut), max(place, cut)
            if not start < place < end or stay.intersection(range(low, high)):
                continue
            stage = stages[cut] if place < cut else stages[cut - 1]
            moved = (*stages[:low], *(stage,) * (high - low), *stages[high:])
            if any(moved[first] != moved[last] for first, last in together):
                continue
            far = "one layer" if high - low == 1 else f"{high - low} layers"
            yield _Change(
                f"cut after stage {stages[cut - 1]} {'up' if place < cut else 'down'} "
                f"by {far}",
                {_STAGES: list(moved)},
                _size_reason(plan, cut, place),
                replace(request, pipeline=replace(pipeline, stage_of_layer=moved)),
            )


def _size_reason(plan: Plan, cut: int, place: int) -> str:
    """Say how much less crosses a cut; nothing if it is not less."""
    now, then = (plan.layers[at - 1].crossing_bytes for at in (cut, place))
    if not then or now < _SMALLER * then:
        return ""
    return f"the cut is {now / then:.1f} times smaller"
