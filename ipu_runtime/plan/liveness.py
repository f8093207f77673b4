"""Tensors that are alive while a stage works on one micro-batch."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ipu_runtime.plan.checkpoints import choose_checkpoints, recomputed_segments
from ipu_runtime.plan.hardware import OptimizerCost
from ipu_runtime.plan.layer_costs import LayerCost, cost_layers
from ipu_runtime.plan.model_spec import ModelSpec
from ipu_runtime.plan.op_costs import Costing, OpCost
from ipu_runtime.plan.tensors import TensorTable, find_tensors

Floats = NDArray[np.float64]


class StageTensors(NamedTuple):
    """What one stage keeps for a micro-batch, and its fullest moment."""

    kept_bytes: int
    """Forward tensors that the backward pass needs."""
    input_bytes: int
    """Tensors that enter the stage."""
    mask_bytes: int
    """Results of random draws, which are not recomputed."""
    live_bytes: int
    """Tensors at the fullest moment, those kept included."""
    temporary_bytes: int
    """Of the matrix unit's plan at that moment, over all tiles."""
    at: str
    """Layer and pass of that moment."""


class _Walk(NamedTuple):
    forward: Floats
    backward: Floats
    gradients: Floats


@functools.lru_cache(maxsize=1024)
def stage_tensors(
    model: ModelSpec,
    batch: int,
    cost: Costing,
    optimizer: OptimizerCost,
    with_loss: bool,
    stage_of_layer: tuple[int, ...],
    checkpointed: bool,
) -> tuple[StageTensors, ...]:
    """Walk every stage forward and backward; `checkpointed` only in one stage."""
    layers = cost_layers(model, batch, cost, optimizer, with_loss)
    table = find_tensors(model)
    stages = max(stage_of_layer) + 1
    members: list[list[int]] = [[] for _ in range(stages)]
    for layer, stage in enumerate(stage_of_layer):
        members[stage].append(layer)
    return tuple(
        _walk_stage(
            own, model, table, layers, batch, cost, checkpointed and stages == 1
        )
        for own in members
    )


def _walk_stage(
    members: list[int],
    model: ModelSpec,
    table: TensorTable,
    layers: tuple[LayerCost, ...],
    batch: int,
    cost: Costing,
    checkpointed: bool,
) -> StageTensors:
    if not members:
        return StageTensors(0, 0, 0, 0, 0, "")
    position = {layer: at for at, layer in enumerate(members)}
    last = len(members) - 1
    temporary = [_temporaries(layers[layer].forward, cost.tiles) for layer in members]
    masks = np.array([table.mask_bytes[layer] for layer in members]) * float(batch)
    extra = np.array([table.extra_bytes[layer] for layer in members]) * float(batch)
    walk = _Walk(*(np.zeros(last + 2) for _ in range(3)))
    segments = recomputed_segments(model) if checkpointed else (0,) * len(layers)
    chosen: frozenset[int] = frozenset()
    if checkpointed:
        chosen = choose_checkpoints(table.tensors, len(layers))
    final = segments[members[-1]]
    segment_kept = np.zeros((final + 1, last + 2))
    kept_total = input_total = 0.0
    for at, tensor in enumerate(table.tensors):
        users = [position[user] for user in tensor.users if user in position]
        inside = tensor.maker in position
        if not inside and not users:
            continue
        size = float(batch * tensor.sample_bytes)
        first = position[tensor.maker] if inside else 0
        leaves = tensor.is_output or any(user > members[-1] for user in tensor.users)
        end = last if leaves else max(users, default=first)
        keepers = [position[keeper] for keeper in tensor.keepers if keeper in position]
        kept = bool(keepers) and cost.training
        input_total += 0.0 if inside else size
        kept_total += size if kept else 0.0
        if at in chosen:
            _mark(walk.forward, first, last, size)
            _mark(walk.backward, first, last, size)
        elif kept and checkpointed:
            segment = segments[tensor.maker] if inside else 0
            _mark(walk.forward, first, end, size)
            _mark(segment_kept[segment], min(keepers), last, size)
        else:
            _mark(walk.forward, first, last if kept else end, size)
            if kept:
                _mark(walk.backward, min(keepers), last, size)
        if tensor.has_gradient:
            _mark(walk.gradients, first, end, size)
    forward = np.cumsum(walk.forward)[:-1]
    if not cost.training:
        moment = int(np.argmax(forward + temporary))
        return StageTensors(
            0,
            int(input_total),
            0,
            int(forward[moment]),
            int(temporary[moment]),
            f"{layers[members[moment]].layer.name} forward",
        )
    of_segment = np.array([segments[layer] for layer in members])
    for at in range(last + 1):
        if checkpointed:
            segment_kept[of_segment[at], at] += extra[at]
        else:
            walk.backward[at] += extra[at]
        walk.backward[at] += masks[at]
    forward = forward + np.cumsum(masks) + (0 if checkpointed else np.cumsum(extra))
    in_segment = np.cumsum(segment_kept, axis=1)[:, :-1]
    backward = np.cumsum(walk.backward)[:-1]
    backward += in_segment[of_segment, np.arange(last + 1)]
    gradients = np.cumsum(walk.gradients)[:-1]
    trained = np.array([_trained_bytes(layers[layer], cost) for layer in members])
    peaks = [
        (forward, temporary, "forward"),
        (
            backward + gradients + trained,
            [_temporaries(layers[layer].backward, cost.tiles) for layer in members],
            "backward",
        ),
    ]
    if checkpointed:
        ends = np.array([np.flatnonzero(of_segment == seg)[-1] for seg in of_segment])
        peaks.append(((backward + gradients)[ends], temporary, "recomputation"))
    best = max(
        (
            (float(live[at] + temporaries[at]), float(live[at]), at, name)
            for live, temporaries, name in peaks
            for at in (int(np.argmax(live + np.asarray(temporaries))),)
        ),
        key=lambda item: item[0],
    )
    return StageTensors(
        int(kept_total + extra.sum() + masks.sum()),
        int(input_total),
        int(masks.sum()),
        int(best[1]),
        int(best[0] - best[1]),
        f"{layers[members[best[2]]].layer.name} {best[3]}",
    )


def _mark(steps: Floats, first: int, end: int, size: float) -> None:
    steps[first] += size
    steps[end + 1] -= size


def _temporaries(ops: tuple[OpCost, ...], tiles: int) -> float:
    return float(max((op.temporary_bytes for op in ops), default=0) * tiles)


def _trained_bytes(layer: LayerCost, cost: Costing) -> float:
    return float(
        sum(weight.size for weight in layer.layer.weights if weight.trainable)
        * cost.value_bytes
    )
