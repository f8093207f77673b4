"""The plan of every layer: times, parts and bytes, for tables and for balancing."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ipu_runtime.plan.costs.layer_costs import Cycles, LayerWork, cost_layers, sum_ops
from ipu_runtime.plan.costs.op_costs import Costing, OpCost
from ipu_runtime.plan.hardware import HardwareTable
from ipu_runtime.plan.layers.tensors import LABEL_BYTES, find_tensors
from ipu_runtime.plan.memory.code_size import program_code
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.placements import ALL_RESIDENT, Residency
from ipu_runtime.plan.plan import LayerPlan


@functools.lru_cache(maxsize=512)
def plan_layers(
    work: LayerWork,
    stage_of_layer: tuple[int, ...],
    label_values: int,
    accumulates: bool,
    clock_hz: float,
    table: HardwareTable,
) -> tuple[LayerPlan, ...]:
    """Describe every layer that can have a stage."""
    model, batch, cost, optimizer, _ = work
    values = table.values
    crossing = _crossing_bytes(model, batch, label_values)
    stashed, touched = _layer_bytes(model, batch, cost.training)
    fixed = _code_bytes((), cost, table)
    codes: dict[int, int] = {}
    plans = []
    for at, own in enumerate(cost_layers(work)):
        backward = own.backward + (own.accumulate if accumulates else ())
        forward_cycles, backward_cycles = sum_ops(own.forward), sum_ops(backward)
        update_cycles = sum_ops(own.update)
        trained = own.layer.trained
        copies = int(accumulates) + (optimizer.slots if cost.training else 0)
        weight_bytes = (own.layer.parameters + trained * copies) * model.weight_bytes
        ops = own.forward + backward + own.update
        if own.alike not in codes:
            codes[own.alike] = _code_bytes(ops, cost, table) - fixed
        temporary = max((op.temporary_bytes for op in ops), default=0) * cost.tiles
        plans.append(
            LayerPlan(
                name=own.layer.name,
                kind=own.layer.kind,
                output_shape=own.layer.output_shape,
                parameters=own.layer.parameters,
                stage=stage_of_layer[at],
                forward_us=_us(forward_cycles, clock_hz, values),
                backward_us=_us(backward_cycles, clock_hz, values),
                update_us=_us(update_cycles, clock_hz, values),
                forward_cycles=_named(forward_cycles, values),
                backward_cycles=_named(backward_cycles, values),
                memory_bytes=weight_bytes + stashed[at],
                crossing_bytes=crossing[at],
                forward_ops=own.forward,
                backward_ops=backward,
                update_ops=own.update,
                resident_bytes=weight_bytes + codes[own.alike],
                stash_bytes=stashed[at],
                working_bytes=temporary + touched[at],
            )
        )
    return tuple(plans)


def _code_bytes(ops: Iterable[OpCost], cost: Costing, table: HardwareTable) -> int:
    return program_code(((op, 1) for op in ops), cost, table).code_bytes


def _us(cycles: Cycles, clock_hz: float, constants: Mapping[str, float]) -> float:
    return sum(_named(cycles, constants).values()) * 1e6 / clock_hz


def _named(cycles: Cycles, constants: Mapping[str, float]) -> dict[str, float]:
    return {
        "compute": cycles.compute * constants["compute_scale"],
        "exchange": cycles.exchange * constants["exchange_scale"],
        "sync": cycles.supersteps * constants["sigma"],
    }


def _crossing_bytes(model: ModelSpec, batch: int, label_values: int) -> list[int]:
    """Return what a cut right after each layer would send on."""
    layers = len(model.stage_layers)
    starts = [0] * (layers + 1)
    for tensor in find_tensors(model).tensors:
        last = max(tensor.users, default=tensor.maker)
        first = max(tensor.maker, 0)
        if last > first:
            starts[first] += tensor.sample_bytes
            starts[last] -= tensor.sample_bytes
    crossing, running = [], label_values * LABEL_BYTES
    for change in starts[:layers]:
        running += change
        crossing.append(batch * running)
    return crossing


def _layer_bytes(
    model: ModelSpec, batch: int, training: bool
) -> tuple[list[int], list[int]]:
    """Return what each layer keeps, and the tensors that it touches."""
    table = find_tensors(model)
    layers = len(model.stage_layers)
    stashed, touched = [0] * layers, [0] * layers
    for tensor in table.tensors:
        size = batch * tensor.sample_bytes
        if training and tensor.keepers:
            stashed[min(tensor.keepers)] += size
        both = 2 if training and tensor.has_gradient else 1
        for user in {*tensor.users, tensor.maker} - {-1}:
            touched[user] += size * both
    if training:
        for at in range(layers):
            stashed[at] += batch * (table.extra_bytes[at] + table.mask_bytes[at])
    return stashed, touched


def on_tiles(
    layers: tuple[LayerPlan, ...],
    model: ModelSpec,
    residency: Residency,
    accumulates: bool,
) -> tuple[LayerPlan, ...]:
    """Return layers without what is gathered or fetched only while they run."""
    if residency == ALL_RESIDENT:
        return layers
    changed = []
    for layer, own in zip(layers, model.stage_layers, strict=True):
        weights = own.parameters * model.weight_bytes if residency.gathers else 0
        summed = accumulates and not residency.accumulators
        sums = own.trained * model.weight_bytes if summed else 0
        away = int(weights * (1 - residency.weights)) + sums
        changed.append(
            replace(
                layer,
                memory_bytes=layer.memory_bytes - away,
                resident_bytes=layer.resident_bytes - away,
                working_bytes=layer.working_bytes + weights + sums,
            )
        )
    return tuple(changed)
