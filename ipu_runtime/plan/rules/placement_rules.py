"""Rules for where a pipeline's things live."""

from __future__ import annotations

from collections.abc import Iterator

from ipu_runtime.plan.plan import PlanRequest
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.rules.replica_counts import replica_count


def check_placements(request: PlanRequest) -> Iterator[Problem]:
    """Yield what is asked for in vain."""
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
