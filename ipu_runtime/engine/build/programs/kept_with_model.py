"""What stays with a model between calls: how it was read, its programs, their plans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ipu_runtime.engine.build.programs.program_set import ProgramSet
from ipu_runtime.engine.describe.keras_reader import (
    ReadModel,
    read_as_one_layer,
    read_graph,
)
from ipu_runtime.engine.describe.model_graph import (
    model_graph,
    network_of,
    runs_as_written,
)
from ipu_runtime.engine.describe.program_plan import check_room, plan_program
from ipu_runtime.engine.numerics.half_models import device_half_settings
from ipu_runtime.engine.watch.planned_program import ProgramPlan
from ipu_runtime.frameworks.keras_api import tree
from ipu_runtime.frameworks.keras_training import compile_record
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.system.device import Device

_KEPT = "_ipu_programs"


@dataclass
class Kept:
    """What stays with a model between calls."""

    compiled: Any = None
    """Keras' record of the `compile` that the programs belong to."""
    read: ReadModel | None = None
    hidden: tuple[tuple[Any, ...], ModelSpec] | None = None
    """The model as a single layer, and the shapes that it takes."""
    programs: dict[tuple[Any, ...], ProgramSet] = field(default_factory=dict)
    plans: dict[str, ProgramPlan] = field(default_factory=dict)
    """The plan of the last program of each phase."""
    profile: Any = None
    warned_of_statistics: bool = False
    fed_arrays: int = 0
    """Calls that were given NumPy arrays."""

    def drop_programs(self) -> None:
        """Forget compiled programs, because something that they depend on changed."""
        self.read = self.hidden = None
        self.programs.clear()
        self.plans.clear()


def kept_of(model: Any) -> Kept:
    """Return what stays with the model; Keras must not track it."""
    kept: Kept = vars(model).setdefault(_KEPT, Kept())
    compiled = compile_record(model)
    if kept.compiled is not compiled:
        kept.compiled = compiled
        kept.drop_programs()
    return kept


def drop_programs(model: Any) -> None:
    """Forget compiled programs, because options or the assignment changed."""
    kept_of(model).drop_programs()


def read_once(model: Any) -> ReadModel | None:
    """Read the layer calls, where running them one by one is what the model does."""
    network = getattr(model, "traced_network", None)
    if network is None and runs_as_written(model):
        network = network_of(model)
    if network is None:
        return None
    kept = kept_of(model)
    if kept.read is None or kept.read.graph.network is not network:
        kept.read = read_graph(model_graph(network), model.compute_dtype)
    return kept.read


def read_hidden_once(model: Any, x: Any) -> ModelSpec:
    """Read a model whose calls are hidden, anew only if it takes other shapes."""
    kept = kept_of(model)
    key = tuple((tuple(item.shape[1:]), item.dtype) for item in tree.flatten(x))
    if kept.hidden is None or kept.hidden[0] != key:
        kept.hidden = key, read_as_one_layer(model, x)
    return kept.hidden[1]


def plan_once(
    model: Any, phase: str, request: PlanRequest, device: Device
) -> ProgramPlan:
    """Return the plan of a program, made anew only if the request is another."""
    plans = kept_of(model).plans
    known = plans.get(phase)
    if known is None or known.request != request:
        known = plans[phase] = plan_program(phase, request, device)
    check_room(known.plan, device)
    return known


def programs_of(
    model: Any, read: ReadModel | None, replicas: int, device: Device, phase: str
) -> ProgramSet:
    """Return the programs of a model for a device, kept or new."""
    programs = kept_of(model).programs
    key = (
        phase == "predict",
        replicas,
        device.seed,
        device.loss_scale_replicas,
        device.instance,
        device_half_settings(device),
    )
    if key not in programs:
        programs[key] = ProgramSet(model, read, replicas, device)
    return programs[key]
