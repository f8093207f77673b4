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
from ipu_runtime.plan.layers.checkpoints import choose_checkpoints
from ipu_runtime.plan.layers.tensors import find_tensors, streamed_bytes
from ipu_runtime.plan.memory.code_size import (
    MATRIX_CODES,
    code_key,
    conv_vertex_bytes,
)
from ipu_runtime.plan.model.model_spec import ModelSpec
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
    """Table: what the backward pass needs."""
    entering: Floats
    """Table: what comes from elsewhere, and what else cannot be computed again."""
    crossing: Floats
    """What a cut before each layer sends on."""
    returning: Floats
    """Of it, what has a gradient that comes back in training."""
    code: Floats
    """Table: layers that are alike share most of theirs."""
    uneven: Floats
    """Table: the fullest tile over the mean."""
    plans: Floats
    """Table: products that are compiled, those that are alike once."""
    working: Floats
    """Table: the fullest moment, with all that is kept."""
    working_again: float
    """The same of a plain model that keeps its checkpoints and recomputes the rest."""
    streams: float
    """Buffers of what the host sends to the first stage."""

    @classmethod
    def of(
        cls, plan: Plan, table: HardwareTable, *, any_device: bool = False
    ) -> LeastMemory:
        """Read them from the plan of a model on one IPU.

        Of any device, without what products keep for a moment.
        """
        request, layers = plan.request, plan.layers
        model, batch = request.model, request.batch_size
        own_trained = [layer.trained for layer in model.stage_layers]
        touched, gradients = np.zeros(len(layers)), np.zeros(len(layers))
        returning = np.zeros(len(layers) + 1)
        entering, held = _Shared(len(layers)), _Shared(len(layers))
        tensors = find_tensors(model)
        for at, (extra, mask) in enumerate(
            zip(tensors.extra_bytes, tensors.mask_bytes, strict=True)
        ):
            entering.add(at, ("of layer", at), batch * mask)
            held.add(at, ("of layer", at), batch * (extra + mask))
        for number, tensor in enumerate(tensors.tensors):
            size = float(batch * tensor.sample_bytes)
            users = [at for at in {*tensor.users} if at > tensor.maker]
            near = [*users, tensor.maker] if tensor.maker >= 0 else users
            touched[near] += size
            gradients[near] += size * tensor.has_gradient
            for user in sorted(users):
                entering.add(user, number, size, since=tensor.maker)
            for keeper in tensor.keepers:
                held.add(keeper, number, size)
            if tensor.has_gradient and users and request.training:
                returning[max(tensor.maker, 0) + 1 : max(users) + 1] += size
        trained = np.array(own_trained) * model.weight_bytes
        tiles = 0 if any_device else plan.memory[0].tiles
        ahead = touched + tiles * _temporary(item.forward_ops for item in layers)
        back = gradients + trained
        back += tiles * _temporary(item.backward_ops for item in layers)
        kept = held.table() * request.training
        nothing = np.zeros_like(kept)
        working = _fullest(ahead, nothing)
        working_again = float(ahead.max())
        if request.training:
            walked = back[list(model.order)] + _checkpoints(model.ordered, batch)
            working_again = max(working_again, float(walked.max()))
            # Branches may be walked in another order than that of the experiment.
            before = kept if model.ordered is model else nothing
            working = np.maximum(working, _fullest(back, before))
            working = np.maximum(working, kept)
        scale = plan.constants["live_scale"]
        streams = streamed_bytes(model, batch, request.label_values)
        return cls(
            _sums([layer.parameters * model.weight_bytes for layer in layers]),
            _sums(trained),
            kept,
            entering.table(),
            np.array([0, *(layer.crossing_bytes for layer in layers[:-1]), 0.0]),
            returning,
            *_shared_code(plan, table),
            working * scale,
            working_again * scale,
            plan.constants["stream_buffers"] * streams,
        )


def _sums(values: Sequence[float] | Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])


def _checkpoints(model: ModelSpec, batch: int) -> Floats:
    """Return what recomputation starts from, up to every layer of the walk."""
    tensors = find_tensors(model)
    made = np.array(tensors.mask_bytes, dtype=float)
    chosen = choose_checkpoints(tensors.tensors, len(made))
    for tensor in (tensors.tensors[at] for at in chosen):
        if any(user > tensor.ready for user in tensor.users):
            made[max(tensor.maker, 0)] += tensor.sample_bytes
    return np.cumsum(made) * batch


def _temporary(ops: Iterable[tuple[OpCost, ...]]) -> Floats:
    return np.array(
        [max((op.temporary_bytes for op in own), default=0) for own in ops], dtype=float
    )


def _fullest(peaks: Floats, before: Floats) -> Floats:
    """Return the largest peak of every run, with what its layers up to it keep."""
    table = np.zeros_like(before)
    for first in range(len(peaks)):
        reached = peaks[first:] + before[first, first + 1 :]
        table[first, first + 1 :] = np.maximum.accumulate(reached)
    return table


class _Shared:
    """Adds up what layers of a run have, of things that are alike once."""

    def __init__(self, layers: int) -> None:
        self._layers = layers
        self._changes: list[tuple[int, int, float]] = []
        """First layer, end and size of what tables have from there on."""
        self._last: dict[object, int] = {}

    def add(self, layer: int, key: object, size: float, since: int = -1) -> None:
        """Count it for runs with this layer and none before it that has the same.

        Layers come in order; runs that begin up to the layer `since` have no such
        thing.
        """
        first = max(self._last.get(key, -1), since) + 1
        self._last[key] = layer
        self._changes.append((first, layer + 1, size))
        self._changes.append((layer + 1, layer + 1, -size))

    def table(self) -> Floats:
        """Return the sums of all runs."""
        changes = np.zeros((self._layers + 2, self._layers + 2))
        if self._changes:
            first, end, size = np.array(self._changes).T
            np.add.at(changes, (first.astype(int), end.astype(int)), size)
        sums: Floats = np.cumsum(np.cumsum(changes, axis=0), axis=1)[:-1, :-1]
        return sums


def _shared_code(plan: Plan, table: HardwareTable) -> tuple[Floats, Floats, Floats]:
    """Return the code of every run, how unevenly tiles hold it, and its products."""
    layers, values, tiles = plan.layers, table.values, plan.memory[0].tiles
    outlining = plan.request.config.get("optimizations.enable_graph_outlining", True)
    factor = tiles * (values["training_vertices"] if plan.request.training else 1.0)
    again = 0.0 if outlining else values["repeated_exchange"]
    code, convolutions, products = (_Shared(len(layers)) for _ in range(3))
    for at, layer in enumerate(layers):
        ops = (*layer.forward_ops, *layer.backward_ops, *layer.update_ops)
        code.add(at, at, sum(table.code[op.code].control for op in ops))
        for number, op in enumerate(ops):
            size, key = table.code[op.code], code_key(op)
            own = key if outlining else (at, number, "")
            code.add(at, own, size.state + again * size.exchange)
            code.add(at, (key, "exchange"), (1 - again) * size.exchange)
            if op.code == "conv":
                convolutions.add(at, key, 1)
            elif op.code in _VERTICES:
                code.add(at, op.code, size.vertex_bytes_per_tile * factor)
            if op.code in MATRIX_CODES:
                products.add(at, own, 1)
    plans = convolutions.table()
    per_tile = values["stack_bytes_per_tile"] + values["runtime_bytes_per_tile"]
    total = code.table() + (per_tile + conv_vertex_bytes(plans, table)) * tiles
    uneven = np.where(plans > 0, values["imbalance_conv"], values["imbalance_matmul"])
    return total, uneven, products.table()
