"""Everything that the device or its runtime would refuse, found before it runs."""

from __future__ import annotations

from ipu_runtime.plan.config.field import nearest
from ipu_runtime.plan.hardware import HardwareFileError, HardwareTable, load_table
from ipu_runtime.plan.plan import PlanRequest
from ipu_runtime.plan.problem import Problem
from ipu_runtime.plan.rules.count_rules import (
    check_ipus,
    check_micro_batches,
    check_steps,
)
from ipu_runtime.plan.rules.instance_rules import check_instances
from ipu_runtime.plan.rules.placement_rules import check_placements
from ipu_runtime.plan.rules.stage_rules import check_stages
from ipu_runtime.plan.rules.traced_rules import check_traced


def check_request(
    request: PlanRequest, table: HardwareTable | None = None
) -> tuple[Problem, ...]:
    """Return all problems of a request, with the exceptions of the real runtime."""
    problems: list[Problem] = []
    if request.batch_size < 1:
        problems.append(
            Problem(
                "data.batch_size",
                f"{request.batch_size} is not a positive whole number",
                "1 or more",
                suggestion=1,
            )
        )
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
    problems += check_ipus(request, system.ipus if system else max(request.ipus, 1))
    problems += check_instances(request, system)
    problems += check_stages(request)
    problems += check_placements(request)
    problems += check_micro_batches(request)
    problems += check_steps(request)
    problems += check_traced(request.model)
    return tuple(problems)
