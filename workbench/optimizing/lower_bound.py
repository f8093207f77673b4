"""What no settings can be better than: a bound that fits on a napkin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ipu_runtime.plan.costs.host_io import feed_us
from ipu_runtime.plan.costs.links import all_reduce_us
from ipu_runtime.plan.costs.op_costs import OpCost
from ipu_runtime.plan.hardware import HardwareTable, System, load_table
from ipu_runtime.plan.layers.tensors import streamed_bytes
from ipu_runtime.plan.plan import Plan
from workbench.optimizing.choice import Choice, with_choice
from workbench.optimizing.goal import Aim, Goal
from workbench.optimizing.search_space import SearchSpace
from workbench.planning.experiment_plan import plan_experiment

_VECTOR_BYTES = 16
"""What a tile loads in a cycle at most: an elementwise operation is not faster."""
_FIXED_PER_TILE = ("stack_bytes_per_tile", "runtime_bytes_per_tile")


class Part(NamedTuple):
    """Something that takes time or memory whatever the settings are."""

    name: str
    amount: float
    """Of the goal's figure: microseconds, or a share of a tile."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """The least that a goal's figure can be."""

    cost: float
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, space: SearchSpace, aim: Aim) -> LowerBound:
        """Return it for the best number of IPUs.

        [Note: what is counted]
        All work runs on all IPUs at once, without waiting, at the peak rate of its
        kind: multiply-adds in the matrix unit, everything else as fast as a tile loads
        vectors. IPUs that share the work either sum gradients once per update or copy
        at least the smallest tensor that any cut sends on. Meanwhile the host feeds
        them at the rate of its links. Supersteps, exchange on the chip, weight updates,
        compiling, starting executions, pipelines that fill and empty, and unequal
        stages are all left out, so that a change of the cost model which only adds
        time leaves the bound below every plan. It is close for large micro-batches
        and far from it for small ones, where supersteps decide.
        """
        device = max(space.devices(), key=lambda device: device.micro_batch)
        alone = Choice(device, ipus=1, stages=1, accumulation=1)
        plan = plan_experiment(with_choice(space.spec, alone), with_remedies=False)
        table = load_table(plan.request.hardware_file)
        system = table.system(plan.request.system)
        if not plan.layers or system is None:
            return cls(0.0, ())
        if aim.goal is Goal.MEMORY:
            return _of_memory(space, plan, table, system)
        return _of_time(space, aim, plan, system)


def _of_memory(
    space: SearchSpace, plan: Plan, table: HardwareTable, system: System
) -> LowerBound:
    fixed = sum(table.values[name] for name in _FIXED_PER_TILE)
    parts = [Part("program on every tile", fixed / system.ipu.tile_bytes)]
    if not space.can_move_weights:
        weights = plan.memory[0].by_category["weights"]
        share = weights / (space.ipus * system.ipu.memory_bytes)
        parts.append(Part("weights on all IPUs", share))
    return LowerBound(sum(part.amount for part in parts), tuple(parts))


def _of_time(space: SearchSpace, aim: Aim, plan: Plan, system: System) -> LowerBound:
    fewest, most = space.update_sizes()
    work_us = _work_us(plan, system)
    if aim.goal is Goal.LATENCY and not plan.request.training:
        # One micro-batch goes through all stages, and is in one of them at a time.
        return LowerBound(
            fewest * work_us, (Part("work on one IPU", fewest * work_us),)
        )
    samples = fewest if aim.goal is Goal.LATENCY else most
    counts = sorted({ipus for _, ipus in space.sizes()})
    bounds = [_on_ipus(space, plan, system, ipus, samples, work_us) for ipus in counts]
    best = min(bounds, key=lambda bound: bound.cost)
    times = {Goal.LATENCY: samples, Goal.TIME_TO_SAMPLES: aim.samples}.get(aim.goal, 1)
    scaled = tuple(part._replace(amount=part.amount * times) for part in best.parts)
    return LowerBound(best.cost * times, scaled)


def _on_ipus(
    space: SearchSpace,
    plan: Plan,
    system: System,
    ipus: int,
    samples: int,
    work_us: float,
) -> LowerBound:
    """Return the bound of a sample on some IPUs, with so many samples per update."""
    request = plan.request
    hosts = request.hosts or system.usual_hosts(ipus)
    size = streamed_bytes(request.model, 1, request.label_values)
    fed_us = feed_us(size, ipus, 1, hosts, system, plan.constants)
    links_us = min(
        _links_us(plan, stages, ipus // (1 << (stages - 1).bit_length()), samples)
        for stages, reserved in space.sizes()
        if reserved == ipus
    )
    named = f"work on {ipus} IPUs at their peak" if ipus > 1 else "work at its peak"
    shared_us = work_us / ipus
    parts = [Part(named, shared_us), Part("host feed, meanwhile", fed_us)]
    if links_us:
        parts.insert(1, Part("links between IPUs", links_us))
    return LowerBound(max(shared_us + links_us, fed_us), tuple(parts))


def _links_us(plan: Plan, stages: int, replicas: int, samples: int) -> float:
    constants, request = plan.constants, plan.request
    sums_us = copies_us = 0.0
    if request.training:
        trained = sum(layer.trained for layer in request.model.stage_layers)
        size = trained * request.model.weight_bytes // stages
        sums_us = all_reduce_us(size, replicas, 1, constants, stages) / samples
    if stages > 1:
        smallest = min(layer.crossing_bytes for layer in plan.layers[:-1])
        rate = max(constants["pair_gb_s"], constants["link_gb_s"]) * 1e3
        copies_us = smallest / request.batch_size / rate / replicas
    return sums_us + copies_us


def _work_us(plan: Plan, system: System) -> float:
    """Return the time of a sample's operations on one IPU at their peak rates."""
    ipu, model = system.ipu, plan.request.model
    half = model.dtype == "float16"
    multiplied = ipu.macs_fp16_partials_fp16 if half else ipu.macs_fp32
    loaded = _VECTOR_BYTES // model.value_bytes
    ops = [
        op
        for layer in plan.layers
        for op in (*layer.forward_ops, *layer.backward_ops)
        if op.shape
    ]
    cycles = sum(
        _multiply_adds(op) / multiplied if op.plan else op.shape[0] / loaded
        for op in ops
    )
    scaled = cycles * min(plan.constants["compute_scale"], 1.0)
    return scaled / ipu.tiles / ipu.clock_hz * 1e6 / plan.request.batch_size


def _multiply_adds(op: OpCost) -> float:
    positions, channels_in, channels_out, taps, groups = op.shape
    return positions * channels_in * channels_out * taps * groups
