"""Everything that the device or its runtime would refuse, found before it runs."""

from __future__ import annotations

from collections.abc import Iterator

from ipu_runtime.plan.config.field import nearest
from ipu_runtime.plan.hardware import HardwareFileError, HardwareTable, load_table
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.count_rules import (
    BATCH_SIZE,
    ESTIMATORS,
    check_accumulation,
    check_ipus,
    check_micro_batches,
    check_positive,
    check_steps,
)
from ipu_runtime.plan.rules.instance_rules import check_instances
from ipu_runtime.plan.rules.replica_counts import replica_count
from ipu_runtime.plan.rules.stage_rules import check_stages
from ipu_runtime.plan.rules.weight_updates import check_learning_rate

_DEVICE_TYPES = ("float32", "float16")


def check_request(
    request: PlanRequest, table: HardwareTable | None = None
) -> tuple[Problem, ...]:
    """Return all problems of a request, with the exceptions of the real runtime."""
    problems: list[Problem] = []
    problems += check_positive("batch_size", request.batch_size, BATCH_SIZE)
    try:
        table = table or load_table(request.hardware_file)
    except HardwareFileError as error:
        problems.append(Problem("hardware", str(error)))
        table = load_table()
    system = table.system(request.system)
    if system is None:
        names = list(table.systems)
        guess = nearest(request.system, names)
        problems.append(
            Problem(
                "execution.system",
                f"unknown system {request.system!r}",
                f"one of {', '.join(names)}",
                suggestion=guess or names[0],
            )
        )
    estimator = request.api in ESTIMATORS
    # An estimator's loops are checked before its stages are asked for.
    problems += check_steps(request) if estimator else check_accumulation(request)
    problems += check_stages(request)
    problems += check_ipus(request, system.ipus if system else max(request.ipus, 1))
    problems += check_instances(request, system)
    problems += _pointless_placements(request)
    if not estimator:
        problems += check_steps(request)
    problems += check_micro_batches(request)
    problems += check_learning_rate(request)
    problems += _rough_costs(request.model)
    if request.model.dtype not in _DEVICE_TYPES:
        text = f"computes in {request.model.dtype}, which the device does not have"
        hint = "it is planned as float32, and trains here as it is; use float16 instead"
        problem = Problem("model", text, hint, Severity.WARNING, exception="")
        problems.append(problem)
    return tuple(problems)


def _pointless_placements(request: PlanRequest) -> Iterator[Problem]:
    pipeline = request.pipeline
    if pipeline is None or not pipeline.shard_weights:
        return
    if replica_count(request) == 1:
        yield Problem(
            "pipeline.replicated_weight_sharding",
            "there is one replica, which has nobody to share its weights with",
            "reserve more IPUs, or false",
            Severity.WARNING,
            exception="",
            suggestion=False,
        )


def _rough_costs(model: ModelSpec) -> Iterator[Problem]:
    """Warn of what the costs of traced layers leave out or guess, each once."""
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
