"""Tensors that are alive while a stage works on one micro-batch.

A stage is walked once forward and once backward. Forward, a tensor lives from the layer
that makes it to the last that takes it, or to the end if the backward pass needs it.
Backward, it lives until the first layer that kept it is done; gradients live as tensors
do, in the other direction.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ipu_runtime.plan.costs.layer_costs import LayerCost, LayerWork, cost_layers
from ipu_runtime.plan.costs.op_costs import Costing, OpCost
from ipu_runtime.plan.layers.checkpoints import choose_checkpoints, recomputed_segments
from ipu_runtime.plan.layers.tensors import TensorTable, find_tensors

Floats = NDArray[np.float64]


class StageTensors(NamedTuple):
    """What one stage keeps for a micro-batch, and its fullest moment."""

    kept_bytes: int
    """Forward tensors that the backward pass needs."""
    input_bytes: int
    """Tensors that enter the stage."""
    mask_bytes: int
    """Results of random draws, which are not recomputed."""
    checkpoint_bytes: int
    """Tensors made in the stage from which recomputation starts."""
    live_bytes: int
    """Tensors at the fullest moment, those kept included."""
    temporary_bytes: int
    """Of the matrix unit's plan at that moment, over all tiles."""
    at: str
    """Layer and pass of that moment."""


class Moments(NamedTuple):
    """Bytes while each layer of a stage runs, in one pass over them."""

    name: str
    live: Floats
    """Tensors, those kept included."""
    temporaries: Floats
    """Of the matrix unit's plans, over all tiles."""

    @property
    def total(self) -> Floats:
        """What there is together."""
        return self.live + self.temporaries


class Alive(NamedTuple):
    """Something that is there at a moment of the walk."""

    name: str
    """The layer that makes it."""
    kind: str
    """activation, kept, checkpoint, mask, gradient, weight gradients, temporaries."""
    size: float


class _Life(NamedTuple):
    """A tensor's time in a stage, in positions of the stage's layers."""

    name: str
    size: float
    first: int
    end: int
    """The last layer that takes it, or that of the stage if it is sent on."""
    kept_by: int
    """The first layer whose backward pass needs it; -1 if none does."""
    enters: bool
    has_gradient: bool
    checkpoint: bool
    segment: int


def stash_bytes(
    tensors: Sequence[StageTensors], fifo_depth: Sequence[int], recomputes: bool
) -> tuple[int, ...]:
    """Return what every stage keeps of a micro-batch that waits, if any waits."""
    return tuple(
        (
            own.input_bytes + own.mask_bytes + own.checkpoint_bytes
            if recomputes
            else own.kept_bytes
        )
        if depth
        else 0
        for own, depth in zip(tensors, fifo_depth, strict=True)
    )


@functools.lru_cache(maxsize=1024)
def stage_tensors(
    work: LayerWork, stage_of_layer: tuple[int, ...], checkpointed: bool
) -> tuple[StageTensors, ...]:
    """Walk every stage; `checkpointed` recomputes from one checkpoint to the next."""
    return tuple(
        stage.fullest() if stage else StageTensors(0, 0, 0, 0, 0, 0, "")
        for stage in walked_stages(work, stage_of_layer, checkpointed)
    )


def walked_stages(
    work: LayerWork, stage_of_layer: tuple[int, ...], checkpointed: bool
) -> list[Stage | None]:
    """Return every stage, ready to be walked; None is one without layers."""
    model, batch, cost = work.model, work.batch, work.cost
    layers, table = cost_layers(work), find_tensors(model)
    members: list[list[int]] = [[] for _ in range(max(stage_of_layer) + 1)]
    for layer, stage in enumerate(stage_of_layer):
        members[stage].append(layer)
    segments, checkpoints = (0,) * len(layers), frozenset[int]()
    if checkpointed:
        segments = recomputed_segments(model)
        checkpoints = choose_checkpoints(table.tensors, len(layers))
    touched: list[list[int]] = [[] for _ in members]
    for at, tensor in enumerate(table.tensors):
        users = {stage_of_layer[user] for user in tensor.users}
        made_in = {stage_of_layer[tensor.maker]} if tensor.maker >= 0 else set()
        for stage in users | made_in:
            touched[stage].append(at)
    return [
        Stage(
            [layers[layer] for layer in own],
            _lives(own, table, tensors, batch, segments, checkpoints, cost.training),
            np.array([table.extra_bytes[layer] for layer in own]) * float(batch),
            np.array([table.gradient_bytes[layer] for layer in own]) * float(batch),
            np.array([table.mask_bytes[layer] for layer in own]) * float(batch),
            np.array([segments[layer] for layer in own]) - segments[own[0]],
            own[-1] == len(layers) - 1,
            cost,
            work.model.weight_bytes,
        )
        if own
        else None
        for own, tensors in zip(members, touched, strict=True)
    ]


def _lives(
    members: Sequence[int],
    table: TensorTable,
    touched: Sequence[int],
    batch: int,
    segments: Sequence[int],
    checkpoints: frozenset[int],
    training: bool,
) -> list[_Life]:
    """Follow the tensors that a stage makes or takes."""
    position = {layer: at for at, layer in enumerate(members)}
    last = len(members) - 1
    lives = []
    for at in touched:
        tensor = table.tensors[at]
        users = [position[user] for user in tensor.users if user in position]
        inside = tensor.maker in position
        first = position[tensor.maker] if inside else 0
        sent_on = any(user > members[-1] for user in tensor.users)
        keepers = [position[keeper] for keeper in tensor.keepers if keeper in position]
        lives.append(
            _Life(
                name=tensor.name,
                size=float(batch * tensor.sample_bytes),
                first=first,
                end=last if sent_on or tensor.is_output else max(users, default=first),
                kept_by=min(keepers) if keepers and training else -1,
                enters=not inside,
                has_gradient=tensor.has_gradient,
                # What is only sent on is a checkpoint of the next stage.
                checkpoint=bool(checkpoints)
                and (at in checkpoints or not inside)
                and any(
                    user > tensor.ready for user in tensor.users if user in position
                ),
                segment=segments[tensor.maker] - segments[members[0]] if inside else 0,
            )
        )
    return lives


_Span = tuple[int, int, _Life, str]
"""Of a tensor: first and last layer with which it is there, and as what."""


class Stage(NamedTuple):
    """A stage, ready to be walked."""

    layers: list[LayerCost]
    lives: list[_Life]
    extra: Floats
    """What layers keep besides their inputs and outputs."""
    inner_gradients: Floats
    """Gradients of values that only their layer knows."""
    masks: Floats
    segments: NDArray[np.int64]
    ends_model: bool
    """Whether its last segment goes straight on to its backward pass."""
    cost: Costing
    weight_bytes: int

    def moments(self) -> list[Moments]:
        """Return what there is while each layer runs, once for every pass over them."""
        ahead = self._temporaries("forward")
        moments = [Moments("forward", self._forward(), ahead)]
        if self.cost.training:
            backward = self._backward()
            trained = np.array([_trained_values(layer) for layer in self.layers])
            inner, temporaries = self._inside()
            live = backward + trained * self.weight_bytes + inner
            moments.append(Moments("backward", live, temporaries))
            if self.segments[-1]:
                # Before its backward pass a segment's activations are made again.
                straight = (self.segments == self.segments[-1]) & self.ends_model
                again = backward[self._ends()[self.segments]] * ~straight
                moments.append(Moments("recomputation", again, ahead * ~straight))
        return moments

    def fullest(self) -> StageTensors:
        """Find the moment with most tensors and temporaries together."""
        name, live, temporaries = max(
            self.moments(), key=lambda found: float(np.max(found.total))
        )
        at = int(np.argmax(live + temporaries))
        kept = sum(life.size for life in self.lives if life.kept_by >= 0)
        training = self.cost.training
        return StageTensors(
            kept_bytes=int(kept + self.extra.sum() + self.masks.sum()) * training,
            input_bytes=int(sum(life.size for life in self.lives if life.enters)),
            mask_bytes=int(self.masks.sum()) * training,
            checkpoint_bytes=int(
                sum(
                    life.size
                    for life in self.lives
                    if life.checkpoint and not life.enters
                )
            ),
            live_bytes=int(live[at]),
            temporary_bytes=int(temporaries[at]),
            at=f"{self.layers[at].layer.name} {name}",
        )

    def alive(self, name: str, at: int) -> list[Alive]:
        """Return what there is at a moment: of a pass, while its layer `at` runs."""
        forward = name == "forward"
        until = int(self._ends()[self.segments[at]]) if name == "recomputation" else at
        spans = self._forward_spans() if forward else self._backward_spans()
        found = [
            Alive(life.name, kind, life.size)
            for first, end, life, kind in spans
            if first <= until <= end
        ]
        begin = 0
        if not forward:
            begin = int(np.searchsorted(self.segments, self.segments[at]))
        if self.cost.training:
            for layer in range(until + 1):
                kept = layer >= begin and not (forward and self.segments[-1])
                own = self.layers[layer].layer.name
                found.append(Alive(own, "mask", float(self.masks[layer])))
                found.append(Alive(own, "kept", float(self.extra[layer]) * kept))
        inner, temporaries = self._inside()
        own = self.layers[at].layer.name
        if name == "backward":
            trained = float(_trained_values(self.layers[at]) * self.weight_bytes)
            found.append(Alive(own, "weight gradients", trained))
            found.append(Alive(own, "gradient", float(inner[at])))
        else:
            temporaries = self._temporaries("forward")
        found.append(Alive(own, "temporaries", float(temporaries[at])))
        return [item for item in found if item.size]

    def _forward(self) -> Floats:
        live = self._count(self._forward_spans())
        if self.cost.training:
            live += np.cumsum(self.masks)
            live += 0 if self.segments[-1] else np.cumsum(self.extra)
        return live

    def _forward_spans(self) -> Iterator[_Span]:
        last, recomputed = len(self.layers) - 1, bool(self.segments[-1])
        for life in self.lives:
            stays = life.checkpoint or (life.kept_by >= 0 and not recomputed)
            yield life.first, last if stays else life.end, life, "activation"

    def _backward(self) -> Floats:
        """Count what is kept, and gradients of what is sent on or taken."""
        live = self._count(self._backward_spans()) + np.cumsum(self.masks)
        extra = np.concatenate([[0.0], np.cumsum(self.extra)])
        begins = np.searchsorted(self.segments, self.segments)
        kept: Floats = live + extra[1:] - extra[begins]
        return kept

    def _backward_spans(self) -> Iterator[_Span]:
        """Follow checkpoints, what is kept of the segment in work, and gradients."""
        last, ends = len(self.layers) - 1, self._ends()
        for life in self.lives:
            if life.checkpoint:
                yield life.first, last, life, "checkpoint"
            elif 0 <= life.kept_by <= ends[life.segment]:
                begin = 0 if not life.segment else int(ends[life.segment - 1]) + 1
                end = int(ends[life.segment])
                yield max(life.kept_by, begin), end, life, "kept"
            if life.has_gradient:
                yield life.first, life.end, life, "gradient"

    def _ends(self) -> NDArray[np.intp]:
        """Return the last layer of every segment."""
        numbers = np.arange(int(self.segments[-1]) + 1)
        return np.searchsorted(self.segments, numbers, side="right") - 1

    def _count(self, spans: Iterable[_Span]) -> Floats:
        """Add up sizes over the layers from the first to the end of each span."""
        # A list: single values of an array take ten times as long to change.
        changes = [0.0] * (len(self.layers) + 1)
        for first, end, life, _ in spans:
            changes[first] += life.size
            changes[end + 1] -= life.size
        return np.cumsum(changes)[:-1]

    def _inside(self) -> tuple[Floats, Floats]:
        """Return the gradients that only a layer knows, and its temporaries then.

        They are there while products of its own values run, which may need less for
        themselves than its products with weights, before and after.
        """
        temporaries = self._temporaries("backward")
        inner = self.inner_gradients.copy()
        for at in np.flatnonzero(inner):
            ops = self.layers[at].backward
            within = [op for op in ops if op.code == "batched_matmul"]
            least = float(_largest(within) * self.cost.tiles)
            if inner[at] + least > temporaries[at]:
                temporaries[at] = least
            else:
                inner[at] = 0.0
        return inner, temporaries

    def _temporaries(self, direction: str) -> Floats:
        known: dict[int, int] = {}
        for layer in self.layers:
            if layer.alike not in known:
                largest = _largest(getattr(layer, direction))
                known[layer.alike] = largest * self.cost.tiles
        own = [known[layer.alike] for layer in self.layers]
        return np.array(own, dtype=np.float64)


def _largest(ops: Iterable[OpCost]) -> int:
    return max((op.temporary_bytes for op in ops), default=0)


def _trained_values(layer: LayerCost) -> int:
    return sum(weight.size for weight in layer.layer.weights if weight.trainable)
