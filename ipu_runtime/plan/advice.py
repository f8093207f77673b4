"""Changes that would make a plan faster, each planned before it is said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ipu_runtime.plan.plan import Plan, PlanRequest
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.rules.request_checks import check_request

_WORTH = 0.05
"""Advice that saves less than this share of the time is not given."""
_IO_TILES = (32, 64, 128)
"""More of them only hold more, and are missing where the model computes."""
_SUM_BUFFER_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class Advice:
    """One change, with what it would save."""

    where: str
    value: object
    us_per_batch: float
    """Modelled time per batch with the change."""
    saved: float
    """Share of the time per batch that it saves."""
    reason: str


def advise(plan: Plan) -> tuple[Advice, ...]:
    """Return what would help, most helpful first; a plan that cannot run gets none."""
    if not plan.ok or plan.step is None:
        return ()
    advice: dict[str, Advice] = {}
    for where, value, reason, request in _changes(plan):
        if where in advice or _refused(request):
            continue
        changed = make_plan(request, with_remedies=False, with_layers=False)
        if not changed.ok or changed.step is None:
            continue
        us = changed.ipu_us_per_batch
        saved = 1 - us / plan.ipu_us_per_batch
        advice[where] = Advice(where, value, us, saved, reason)
    worth = (item for item in advice.values() if item.saved >= _WORTH)
    return tuple(sorted(worth, key=lambda item: -item.saved))


def _refused(request: PlanRequest) -> bool:
    """Tell without planning whether the device would refuse a request."""
    problems = check_request(request)
    return any(problem.severity is Severity.ERROR for problem in problems)


def _changes(plan: Plan) -> Iterator[tuple[str, object, str, PlanRequest]]:
    """Yield what may help; of values for one field, the first that works is best."""
    request, config = plan.request, plan.request.config
    if plan.steps_per_execution < plan.steps_per_epoch:
        yield (
            "execution.steps_per_execution",
            plan.steps_per_epoch,
            "every execution costs the host the same",
            replace(request, steps_per_execution=plan.steps_per_epoch),
        )
    if not config.get("io_tiles.num_io_tiles"):
        for tiles in _IO_TILES:
            yield (
                "ipu.io_tiles.num_io_tiles",
                tiles,
                "samples arrive while the other tiles compute",
                replace(request, config={**config, "io_tiles.num_io_tiles": tiles}),
            )
    if request.model.dtype == "float16":
        yield from _half_partials(request)
    if plan.all_reduce_us:
        name = "optimizations.maximum_cross_replica_sum_buffer_size"
        yield (
            f"ipu.{name}",
            _SUM_BUFFER_BYTES,
            "one reduction of many gradients starts only once",
            replace(request, config={**config, name: _SUM_BUFFER_BYTES}),
        )
    if request.pipeline is not None:
        yield (
            "pipeline.stages",
            [],
            "a single IPU holds the model, and waits for no other",
            replace(request, pipeline=None, ipus=plan.replicas),
        )


def _half_partials(
    request: PlanRequest,
) -> Iterator[tuple[str, object, str, PlanRequest]]:
    for group in ("convolutions", "matmuls"):
        path = f"{group}.poplar_options"
        options = {**request.config.get(path, {}), "partialsType": "half"}
        yield (
            f"ipu.{path}",
            options,
            "sums in half precision are twice as fast, and less exact",
            replace(request, config={**request.config, path: options}),
        )
