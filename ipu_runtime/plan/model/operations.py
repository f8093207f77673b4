"""Plain operations: what layers do, and all that a cost is worked out from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

Extent = int
"""Of a dimension; a negative one grows with the batch and says how much a sample has.

So `-1` is the batch itself, `-49` is 49 positions of every sample, `64` is fixed.
"""


DIVISION = 6
"""Cycles per vector of a division, an exponential, a root and their like."""


class OpKind(Enum):
    """How an operation is costed; `shape` of Operation says what its extents are."""

    MATMUL = "matmul"
    """Of a dense layer, whose three passes are planned together: rows, inner extent,
    columns."""
    PRODUCT = "product"
    """Of any two tensors: rows, inner extent, columns, groups."""
    CONVOLUTION = "convolution"
    """Positions, channels in and out of a group, taps, groups, and the positions of its
    data gradient."""
    DATA_GRADIENT = "data gradient"
    """Of a convolution: positions, channels in and out of a group, taps, groups."""
    WEIGHT_GRADIENT = "weight gradient"
    """Of a convolution, with the extents of the convolution itself."""
    BIAS = "bias"
    """Adds what all samples share, in place: values, values of what is added."""
    ACTIVATION = "activation"
    """A function of every value that PopLibs has; `name` says which."""
    ACTIVATION_GRADIENT = "activation gradient"
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
    DROPOUT = "dropout"
    DROPOUT_GRADIENT = "dropout gradient"
    RANDOM = "random"
    GATHER = "gather"
    """Values that are read."""
    SCATTER = "scatter"
    """Values that are added."""
    TRANSPOSE = "transpose"
    HEADS = "heads"
    """All that an attention moves to have its heads apart, and together again."""
    COPY = "copy"
    """Slices, joins, padding: values that are made, values that are taken."""
    SORT = "sort"
    """Values, extent of the sorted axis."""
    SCAN = "scan"
    """Values, extent of the scanned axis."""
    UNKNOWN = "unknown"
    """Counted as values that move."""


_DIMENSIONS = {
    **dict.fromkeys(
        (
            OpKind.BIAS,
            OpKind.REDUCTION,
            OpKind.NORM,
            OpKind.NORM_GRADIENT,
            OpKind.COPY,
            OpKind.SORT,
            OpKind.SCAN,
        ),
        1,
    ),
    OpKind.CONVOLUTION: 5,
}
"""How many of the extents are dimensions of what is gone over, where not all are."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What a layer does in one go, listed by its kind or read from a traced graph."""

    kind: OpKind
    name: str
    """For messages and tables: a kind's own word, or that of TensorFlow."""
    shape: tuple[Extent, ...]
    value_bytes: int = 0
    """Of a value that it computes with; 0 is the model's own type."""
    cycles: int = 2
    """Per vector of an elementwise pass."""
    gradient_cycles: int = 0
    """The same of its gradient; 0 hands the gradient on as it is."""
    repeat: Extent = 1
    """How often a loop runs it."""
    rearranged: bool = False
    """Whether operands come in another order: those of a product by a superstep more,
    those of a reduction, or of a bias' gradient, by an exchange of all values."""
    trains: bool = False
    """Whether it has a weight of the layer."""
    first: bool = False
    """Whether it takes what the layer takes, and nothing that the layer computed."""

    def size_at(self, batch: int) -> int:
        """Return the values that it goes over; of products the multiply-adds."""
        return values_at(self.shape[: _DIMENSIONS.get(self.kind)], batch)


@dataclass(frozen=True, slots=True)
class TracedWork:
    """Everything that the plan needs to know of a traced layer."""

    forward: tuple[Operation, ...] = ()
    """In training."""
    inference: tuple[Operation, ...] = ()
    """The forward pass where nothing is trained."""
    backward: tuple[Operation, ...] = ()
    """Up to the gradients of weights and inputs."""
    weights_backward: tuple[Operation, ...] = ()
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
