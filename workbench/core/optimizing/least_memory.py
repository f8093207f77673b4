"""What neighbouring layers take of an IPU at least, for every run of them at once.

Tables have a row for every first layer and a column for the layer after the last one.
Nothing may be counted that a plan does not count, or a choice that fits would be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ipu_runtime.plan.costs.op_costs import OpCost
from ipu_runtime.plan.hardware import HardwareTable
from ipu_runtime.plan.memory.code_size import TRAINING_FACTOR, code_key
from ipu_runtime.plan.model.tensors import find_tensors, streamed_bytes
from ipu_runtime.plan.plan import Plan

Floats = npt.NDArray[np.float64]
_VERTICES = ("matmul", "softmax", "norm", "elementwise")
"""Classes of code whose vertices are there once, whatever else is."""


@dataclass(frozen=True, slots=True, eq=False)
class LeastMemory:
    """Sums over layers and tables of their runs, for one micro-batch."""

    weights: Floats
    trained: Floats
    kept: Floats
    """What the backward pass needs."""
    entering: Floats
    """What a stage that begins with a layer takes from elsewhere."""
    crossing: Floats
    """What a cut before each layer sends on."""
    returning: Floats
    """Of it, what has a gradient that comes back."""
    code: Floats
    """Table: layers that are alike share most of theirs."""
    working: Floats
    """Table: the fullest moment, with all that is kept."""
    working_again: Floats
    """Table: the same where not all of it is there at once."""
    streams: float
    """Buffers of what the host sends to the first stage."""

    @classmethod
    def of(cls, plan: Plan, table: HardwareTable) -> LeastMemory:
        """Read them from the plan of a model on one IPU."""
        request, layers = plan.request, plan.layers
        model, batch = request.model, request.batch_size
        value_bytes = 2.0 if model.dtype == "float16" else 4.0
        own_trained = [
            sum(weight.size for weight in layer.weights if weight.trainable)
            for layer in model.stage_layers
        ]
        touched, gradients, entering = (np.zeros(len(layers)) for _ in range(3))
        returning = np.zeros(len(layers) + 1)
        for tensor in find_tensors(model).tensors:
            size = float(batch * tensor.sample_bytes)
            users = [at for at in {*tensor.users} if at > tensor.maker]
            near = [*users, tensor.maker] if tensor.maker >= 0 else users
            touched[near] += size
            gradients[near] += size * tensor.has_gradient
            entering[users] += size
            if tensor.has_gradient and users:
                returning[max(tensor.maker, 0) + 1 : max(users) + 1] += size
        tiles, trained = plan.memory[0].tiles, np.array(own_trained) * value_bytes
        ahead = touched + tiles * _temporary(item.forward_ops for item in layers)
        back = gradients + trained
        back += tiles * _temporary(item.backward_ops for item in layers)
        kept = _sums([layer.stash_bytes for layer in layers])
        nothing = np.zeros_like(kept)
        working = working_again = _fullest(ahead, nothing)
        if request.training:
            working_again = np.maximum(working, _fullest(back, nothing))
            # Branches may be walked in another order than that of the experiment.
            before = kept if model.ordered is model else nothing
            working = np.maximum(working, _fullest(back, before))
            working = np.maximum(working, kept[None, :] - kept[:, None])
        scale = plan.constants["live_scale"]
        streams = streamed_bytes(model, batch, request.label_values)
        return cls(
            _sums([layer.parameters * value_bytes for layer in layers]),
            _sums(trained),
            kept,
            entering,
            np.array([0, *(layer.crossing_bytes for layer in layers[:-1]), 0.0]),
            returning,
            _shared_code(plan, table),
            working * scale,
            working_again * scale,
            plan.constants["stream_buffers"] * streams,
        )


def _sums(values: Sequence[float] | Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])


def _temporary(ops: Iterable[tuple[OpCost, ...]]) -> Floats:
    return np.array(
        [max((op.temporary_bytes for op in own), default=0) for own in ops], dtype=float
    )


def _fullest(peaks: Floats, before: Floats) -> Floats:
    """Return the largest peak of every run, with what its layers up to it keep."""
    count = len(peaks)
    table = np.zeros((count + 1, count + 1))
    for first in range(count):
        reached = np.maximum.accumulate(peaks[first:] + before[first + 1 :])
        table[first, first + 1 :] = reached - before[first]
    return table


def _shared_code(plan: Plan, table: HardwareTable) -> Floats:
    """Return the code of every run: of operations that are alike, once."""
    count, values = len(plan.layers), table.values
    outlining = plan.request.config.get("optimizations.enable_graph_outlining", True)
    changes = np.zeros((count + 2, count + 2))
    last: dict[object, int] = {}
    memory = plan.memory[0]
    tiles, factor = memory.tiles, TRAINING_FACTOR if plan.request.training else 1.0

    def add(at: int, key: object, size: float) -> None:
        """Count it for runs that have the layer, and none before it that shares it."""
        first = last.get(key, -1) + 1
        last[key] = at
        for row, column, sign in ((first, at + 1, 1), (at + 1, at + 1, -1)):
            changes[row, column] += sign * size

    for at, layer in enumerate(plan.layers):
        control = 0
        for op in (*layer.forward_ops, *layer.backward_ops, *layer.update_ops):
            size = table.code[op.code]
            control += size.control
            own = size.state + size.exchange
            if outlining:
                add(at, code_key(op), own)
            else:
                control += own
            if op.code in _VERTICES:
                add(at, op.code, size.vertex_bytes_per_tile * tiles * factor)
            elif op.code == "conv":
                # Training has convolutions of its own, which are counted as such.
                add(at, op.code, size.vertex_bytes_per_tile * tiles)
        changes[0, at + 1] += control
        changes[at + 1, at + 1] -= control
    code: Floats = np.cumsum(np.cumsum(changes, axis=0), axis=1)[:-1, :-1]
    fixed = values["stack_bytes_per_tile"] + values["runtime_bytes_per_tile"]
    return code + fixed * tiles
