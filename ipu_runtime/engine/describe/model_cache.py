"""What stays with a Keras model between calls: how it was read, its plans and programs.

[Note: When it is dropped]
Everything here is of the model as it is compiled, with its options and its assignment
of stages. `compile` of Keras makes a new record, which is compared by identity; the
option methods of extended models call `drop_programs`. A reading is also dropped where
the model has another network of layers. Programs know more that they depend on, and
have it in their keys: see `model_programs`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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
from ipu_runtime.engine.watch.observer import ProgramPlan
from ipu_runtime.engine.watch.step_profile import IpuProfile
from ipu_runtime.frameworks.keras_api import tree
from ipu_runtime.frameworks.keras_training import compile_record
from ipu_runtime.frameworks.types import KerasModel, Structure
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.system.device import Device

_CACHE = "_ipu_programs"


@dataclass
class ModelCache:
    """What stays with a model between calls."""

    compiled: Any = None
    """Keras' record of the `compile` that the programs belong to."""
    read: ReadModel | None = None
    hidden: tuple[tuple[Any, ...], ModelSpec] | None = None
    """The model as a single layer, and the shapes that it takes."""
    programs: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    """Its `ProgramSet`s, by what they depend on."""
    plans: dict[str, ProgramPlan] = field(default_factory=dict)
    """The plan of the last program of each phase."""
    profile: IpuProfile | None = None
    """Of the last call."""
    warned_of_statistics: bool = False
    fed_arrays: int = 0
    """Calls that were given NumPy arrays."""

    def drop_programs(self) -> None:
        """Forget compiled programs, because something that they depend on changed."""
        self.read = self.hidden = None
        self.programs.clear()
        self.plans.clear()


def cache_of(model: KerasModel) -> ModelCache:
    """Return what stays with the model; Keras must not track it."""
    cache: ModelCache = model.__dict__.setdefault(_CACHE, ModelCache())
    compiled = compile_record(model)
    if cache.compiled is not compiled:
        cache.compiled = compiled
        cache.drop_programs()
    return cache


def drop_programs(model: KerasModel) -> None:
    """Forget compiled programs, because options or the assignment changed."""
    cache_of(model).drop_programs()


def read_once(model: KerasModel) -> ReadModel | None:
    """Read the layer calls, where running them one by one is what the model does."""
    network = getattr(model, "traced_network", None)
    if network is None and runs_as_written(model):
        network = network_of(model)
    if network is None:
        return None
    cache = cache_of(model)
    if cache.read is None or cache.read.graph.network is not network:
        cache.read = read_graph(model_graph(network), model.compute_dtype)
    return cache.read


def read_hidden_once(model: KerasModel, x: Structure) -> ModelSpec:
    """Read a model whose calls are hidden, anew only if it takes other shapes."""
    cache = cache_of(model)
    key = tuple((tuple(item.shape[1:]), item.dtype) for item in tree.flatten(x))
    if cache.hidden is None or cache.hidden[0] != key:
        cache.hidden = key, read_as_one_layer(model, x)
    return cache.hidden[1]


def plan_once(
    model: KerasModel, phase: str, request: PlanRequest, device: Device
) -> ProgramPlan:
    """Return the plan of a program, made anew only if the request is another."""
    plans = cache_of(model).plans
    known = plans.get(phase)
    if known is None or known.request != request:
        known = plans[phase] = plan_program(phase, request, device)
    check_room(known.plan, device)
    return known
