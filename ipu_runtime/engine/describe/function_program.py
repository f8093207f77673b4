"""A program that a function of the script makes: announced, and planned if watched.

Whoever changes settings from outside sees it by the layers that the function calls,
because settings concern layers. Whoever watches sees it by its operations, because any
function has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ipu_runtime.engine.describe.layer_use_reader import read_layer_uses
from ipu_runtime.engine.describe.model_scope import LayerUse
from ipu_runtime.engine.describe.operations_reader import read_operations
from ipu_runtime.engine.describe.placement import Placement
from ipu_runtime.engine.describe.program_plan import plan_watched
from ipu_runtime.engine.describe.program_request import optimizer_among, program_request
from ipu_runtime.engine.watch.interception import (
    Program,
    announce,
    is_intercepted,
    layers_wanted,
)
from ipu_runtime.engine.watch.observer import ProgramPlan
from ipu_runtime.frameworks.types import Graph
from ipu_runtime.plan.request import PipelineRequest
from ipu_runtime.system.emulated_device import device_for

_API = "ipu_strategy"


def announce_function(
    name: str,
    uses: Sequence[LayerUse],
    variables: Iterable[str],
    placement: Placement,
    iterations: int = 1,
) -> None:
    """Tell whoever may change settings that a function is about to run.

    Args:
        name: The call behind it: `run` or `compile`.
        uses: The layers that the function calls.
        variables: Names of all variables that it uses.
        placement: Where it runs.
        iterations: How often its loop runs, if the layers are in one.
    """
    if is_intercepted():
        uses = uses if layers_wanted() else ()
        announce(_function_program(name, uses, variables, placement, iterations))


def _function_program(
    name: str,
    uses: Sequence[LayerUse],
    variables: Iterable[str],
    placement: Placement,
    iterations: int,
) -> Program:
    read = read_layer_uses(uses)
    if read.spec is None:
        return Program(name, _API, None, read.reason)
    stages = read.stage_of_layer
    training = any("gradient" in item for use in uses for item in _operations(use))
    if stages:
        # The loop of a pipeline is over slots of its schedule.
        iterations = 1
    extents = uses[0].inputs[0].shape.as_list()
    request = program_request(
        read.spec,
        device_for(None, max(stages, default=0) + 1),
        batch_size=(extents[0] if extents else 1) or 1,
        batches=placement.replica_count() * iterations,
        steps_per_execution=iterations,
        optimizer=optimizer_among(variables) if training else None,
        pipeline=PipelineRequest(stages) if stages else None,
    )
    remarks = (
        "a function does not say what it is for: whether it trains is told by its "
        "gradients, its optimizer by the names of variables; its targets are unknown, "
        "and so are the steps of a loop whose length depends on values",
    )
    return Program(name, _API, request, remarks=remarks)


def _operations(use: LayerUse) -> Iterable[str]:
    return (operation.name for operation in use.outputs[0].graph.get_operations())


def plan_function(
    name: str, graph: Graph | None, replicas: int, shards: int
) -> ProgramPlan:
    """Plan a traced function, or say why there is no plan.

    It is looked at because somebody watches, so nothing here may end the script: also
    a program that is too large for the device is only told of.

    Args:
        name: Of the function.
        graph: What it does on one replica.
        replicas: How many run side by side.
        shards: IPUs of a replica that it places something on.
    """
    if graph is None:
        return ProgramPlan(None, None, "its operations are not known")
    if shards > 1:
        reason = f"it places operations on {shards} IPUs itself"
        return ProgramPlan(None, None, f"{reason}, which the plan does not follow")
    try:
        read = read_operations(name, graph)
        if read is None:
            return ProgramPlan(None, None, "it computes nothing that the plan knows")
        request = program_request(
            read.spec,
            device_for(None),
            batch_size=read.batch_size,
            batches=read.iterations * replicas,
            steps_per_execution=read.iterations,
        )
        return plan_watched(request)
    except Exception as error:  # graphs of scripts may hold anything
        return ProgramPlan(None, None, f"it cannot be read: {error}")
