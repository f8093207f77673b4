"""A program that a function of the script makes, as somebody outside sees it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ipu_runtime.engine.describe.layer_use_reader import read_layer_uses
from ipu_runtime.engine.describe.model_scope import LayerUse
from ipu_runtime.engine.describe.placement import Placement
from ipu_runtime.engine.describe.program_request import optimizer_among, program_request
from ipu_runtime.engine.watch.interception import Program
from ipu_runtime.plan.request import PipelineRequest
from ipu_runtime.system.emulated_device import device_for

_API = "ipu_strategy"


def function_program(
    name: str,
    uses: Sequence[LayerUse],
    variables: Iterable[str],
    placement: Placement,
    iterations: int = 1,
) -> Program:
    """Describe a program by the layers that its function calls.

    Args:
        name: The call behind it.
        uses: The layers that the function calls.
        variables: Names of all variables that it uses.
        placement: Where it runs.
        iterations: How often its loop runs, if the layers are in one.
    """
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
