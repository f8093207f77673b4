"""The optimizers of experiments, in Keras and in TensorFlow 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class OptimizerNames(NamedTuple):
    """How both call an optimizer; both take the learning rate first."""

    keras: str
    """In `keras.optimizers`."""
    v1: str
    """In `tf.compat.v1.train`."""
    with_momentum: bool = False

    def settings(self, momentum: float) -> dict[str, float]:
        """Return what both take beside the learning rate."""
        return {"momentum": momentum} if self.with_momentum else {}


OPTIMIZERS: Mapping[str, OptimizerNames] = {
    "sgd": OptimizerNames("SGD", "GradientDescentOptimizer"),
    "momentum": OptimizerNames("SGD", "MomentumOptimizer", with_momentum=True),
    "rmsprop": OptimizerNames("RMSprop", "RMSPropOptimizer"),
    "adam": OptimizerNames("Adam", "AdamOptimizer"),
}
"""By the value of `train.optimizer`."""
