"""Which tensors a plain model keeps when the rest is recomputed."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from ipu_runtime.plan.layers.tensors import Tensor, find_tensors
from ipu_runtime.plan.model.model_spec import ModelSpec


def choose_checkpoints(tensors: Sequence[Tensor], layers: int) -> frozenset[int]:
    """Return indices of tensors: where branches begin, or in a chain at intervals."""
    inputs = {at for at, tensor in enumerate(tensors) if tensor.maker < 0}
    forks = {at for at, tensor in enumerate(tensors) if tensor.readers > 1}
    if forks - inputs:
        return frozenset(inputs | forks)
    interval = max(math.ceil(math.sqrt(layers)), 1)
    spaced = {
        at
        for at, tensor in enumerate(tensors)
        if tensor.maker >= 0 and (tensor.ready + 1) % interval == 0
    }
    return frozenset(inputs | spaced)


@functools.lru_cache(maxsize=64)
def recomputed_segments(model: ModelSpec) -> tuple[int, ...]:
    """Return the segment of every layer; all but the last are computed twice."""
    tensors = find_tensors(model).tensors
    layers = len(model.stage_layers)
    chosen = choose_checkpoints(tensors, layers)
    ends = {tensors[at].ready for at in chosen if tensors[at].maker >= 0}
    segments, segment = [], 0
    for position in range(layers):
        segments.append(segment)
        if position in ends and position < layers - 1:
            segment += 1
    return tuple(segments)
