"""What a layer without a cost of its own does, as plain operations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

Extent = int
"""Of a dimension; a negative one grows with the batch and says how much a sample has.

So `-1` is the batch itself, `-49` is 49 positions of every sample, `64` is fixed.
"""


class OpKind(Enum):
    """How an operation is costed; `shape` of TracedOp says what its extents are."""

    MATMUL = "matmul"
    """Rows, inner extent, columns, groups."""
    CONVOLUTION = "convolution"
    """Positions, channels in and out of a group, taps, groups."""
    DATA_GRADIENT = "data gradient"
    """Of a convolution; the same extents."""
    WEIGHT_GRADIENT = "weight gradient"
    """Of a convolution, with the extents of the convolution itself."""
    ELEMENTWISE = "elementwise"
    """Any shape; several fused operations have `cycles` of all of them."""
    REDUCTION = "reduction"
    """Values, results."""
    NORM = "norm"
    """Values, results."""
    NORM_GRADIENT = "norm gradient"
    """Values, results."""
    POOL = "pool"
    """Values that the windows go over."""
    POOL_GRADIENT = "pool gradient"
    """Values that the windows go over."""
    SOFTMAX = "softmax"
    SOFTMAX_GRADIENT = "softmax gradient"
    RANDOM = "random"
    GATHER = "gather"
    """Values that are read."""
    SCATTER = "scatter"
    """Values that are added."""
    TRANSPOSE = "transpose"
    COPY = "copy"
    """Slices, joins, padding."""
    SORT = "sort"
    """Values, extent of the sorted axis."""
    SCAN = "scan"
    """Values, extent of the scanned axis."""
    UNKNOWN = "unknown"
    """Counted as values that move."""


@dataclass(frozen=True, slots=True)
class TracedOp:
    """One operation, or several elementwise ones that run as one."""

    kind: OpKind
    name: str
    """Of the TensorFlow operation, for messages and tables."""
    shape: tuple[Extent, ...]
    value_bytes: int = 4
    cycles: int = 2
    """Per vector of an elementwise pass."""
    repeat: Extent = 1
    """How often a loop runs it."""


@dataclass(frozen=True, slots=True)
class TracedWork:
    """Everything that the plan needs to know of a traced layer."""

    forward: tuple[TracedOp, ...] = ()
    """In training."""
    inference: tuple[TracedOp, ...] = ()
    """The forward pass where nothing is trained."""
    backward: tuple[TracedOp, ...] = ()
    """Up to the gradients of weights and inputs."""
    weights_backward: tuple[TracedOp, ...] = ()
    """The same where no input needs a gradient."""
    keeps_input: bool = False
    keeps_output: bool = False
    kept_values: int = 0
    """Further values of one sample that the backward pass needs."""
    mask_bytes: int = 0
    """Results of random draws for one sample that the backward pass needs."""
    stateful: bool = False
    """Whether it draws random numbers."""
    remarks: tuple[str, ...] = ()
    """What the costs leave out or guess."""


def at_batch(extent: Extent, batch: int) -> int:
    """Return an extent at some batch size."""
    return extent if extent >= 0 else -extent * batch


def values_at(shape: Iterable[Extent], batch: int) -> int:
    """Count the values of a shape at some batch size."""
    size = 1
    for extent in shape:
        size *= at_batch(extent, batch)
    return size


def joined(shape: Iterable[Extent]) -> Extent:
    """Return several dimensions as one."""
    size, grows = 1, False
    for extent in shape:
        size *= abs(extent)
        grows |= extent < 0
    return -size if grows else size
