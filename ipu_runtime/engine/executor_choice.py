"""Which of TensorFlow's ways to run a program suits a model.

The choice depends on the model and its data alone, never on the time of day, because
two ways may round differently.
"""

from __future__ import annotations

from typing import Any

from ipu_runtime.engine.keras_reader import ReadModel

_DENSE_KINDS = frozenset(
    {
        "Activation",
        "Add",
        "BatchNormalization",
        "Concatenate",
        "Dense",
        "ELU",
        "Flatten",
        "LayerNormalization",
        "LeakyReLU",
        "Multiply",
        "ReLU",
        "Reshape",
        "Softmax",
    }
)
_SMALL_FORWARD_FLOPS = 100e6
_WORTH_COMPILING_BATCHES = 64
_LONG_RUN_FLOPS = 2e9


def suits_xla(read: ReadModel | None, batch_size: int, batches: int) -> bool:
    """Whether the loop is faster compiled: small dense models, run for a while.

    Convolutions are several times slower under XLA on CPUs, and random numbers are
    others, so that dropout would depend on the choice.
    """
    if read is None or read.spec is None or batches < _WORTH_COMPILING_BATCHES:
        return False
    kinds = {layer.kind for layer in read.spec.stage_layers}
    return kinds <= _DENSE_KINDS and forward_flops(read, batch_size) < (
        _SMALL_FORWARD_FLOPS
    )


def looks_outside(read: ReadModel, batch_size: int, micro_batches: int) -> bool:
    """Whether a pipeline run takes so long that it must be watched from inside."""
    return forward_flops(read, batch_size) * 3 * micro_batches > _LONG_RUN_FLOPS


def forward_flops(read: ReadModel, batch_size: int) -> float:
    """Return the work of a forward pass, guessed from weights if not known."""
    if read.spec is not None:
        return float(sum(layer.flops for layer in read.spec.layers) * batch_size)
    weights: list[Any] = [
        weight
        for call in read.graph.calls
        for weight in getattr(call.operation, "trainable_weights", ())
    ]
    return float(sum(2 * _size(weight) for weight in weights) * batch_size)


def _size(weight: Any) -> int:
    size = 1
    for extent in weight.shape:
        size *= int(extent)
    return size
