"""Training written out: gradients of TensorFlow, added up and applied with NumPy."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

Arrays = list[np.ndarray]
Rate = Callable[[int], float]


def run_example(module: str, *arguments: object) -> Any:
    """Run an example from fixed random numbers; returns what its `main` returns."""
    tf.keras.utils.set_random_seed(7)
    return importlib.import_module(module).main([str(item) for item in arguments])


def twin(module: str, build: Callable[[Any], Any]) -> Any:
    """Return what `build` makes of an example from the same random numbers.

    It is made for the IPU, but calling it is plain Keras.
    """
    example = importlib.import_module(module)
    tf.keras.utils.set_random_seed(7)
    ipu = importlib.import_module("tensorflow.python.ipu")
    with ipu.ipu_strategy.IPUStrategy().scope():
        return build(example)


@dataclass
class Adam:
    """Adam's rule, with its two running means for each weight."""

    rate: Rate
    beta_1: float = 0.9
    clipnorm: float = 0.0
    updates: int = 0
    means: Arrays = field(default_factory=list)
    squares: Arrays = field(default_factory=list)

    def __call__(self, weights: Arrays, gradients: Arrays) -> Arrays:
        """Return the weights after one more update."""
        if not self.means:
            self.means = [np.zeros_like(weight) for weight in weights]
            self.squares = [np.zeros_like(weight) for weight in weights]
        if self.clipnorm:
            norms = [np.linalg.norm(item) / self.clipnorm for item in gradients]
            gradients = [
                item / max(1.0, norm)
                for item, norm in zip(gradients, norms, strict=True)
            ]
        rate = self.rate(self.updates)
        self.updates += 1
        after = []
        for index, gradient in enumerate(gradients):
            mean = self.beta_1 * self.means[index] + (1 - self.beta_1) * gradient
            square = 0.999 * self.squares[index] + 0.001 * gradient**2
            self.means[index], self.squares[index] = mean, square
            step = mean / (1 - self.beta_1**self.updates)
            scale = np.sqrt(square / (1 - 0.999**self.updates))
            small = 1e-7 / np.sqrt(1 - 0.999**self.updates)
            new = weights[index] - rate * step / (scale + small)
            after.append(new.astype(np.float32))
        return after


def learn(
    weights: Arrays,
    batch_loss: Callable[[Any, Any], Any],
    updates: Sequence[Sequence[Any]],
    rule: Callable[[Arrays, Arrays], Arrays],
    share: float = 1.0,
) -> tuple[Arrays, np.ndarray]:
    """Train weights; returns them and the loss of every batch, one row per update.

    Args:
        batch_loss: takes the weights as tensors and a batch.
        updates: the batches of every update; their gradients are summed.
        share: what the sum is multiplied by.
    """

    @tf.function
    def slopes(tensors: Any, batch: Any, scale: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = batch_loss(tensors, batch)
            scaled = loss * scale
        gradients = tape.gradient(scaled, tensors)
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]

    losses = []
    for batches in updates:
        scale = tf.constant(getattr(rule, "loss_scale", 1.0))
        tensors = [tf.constant(weight) for weight in weights]
        results = [slopes(tensors, _tensors(batch), scale) for batch in batches]
        losses.append([loss.numpy() for loss, _ in results])
        columns = zip(*(gradients for _, gradients in results), strict=True)
        weights = rule(weights, [share * np.sum(column, axis=0) for column in columns])
    return weights, np.array(losses)


def _tensors(batch: Any) -> Any:
    return tf.nest.map_structure(tf.constant, batch)


def learn_model(
    model: Any,
    batch_loss: Callable[[Any, Any], Any],
    updates: Sequence[Sequence[Any]],
    rule: Callable[[Arrays, Arrays], Arrays],
    share: float = 1.0,
) -> np.ndarray:
    """Train a model that is called as a whole; returns the losses as `learn` does."""
    variables = model.trainable_variables

    def loss(tensors: Any, batch: Any) -> Any:
        with tf.keras.StatelessScope(list(zip(variables, tensors, strict=True))):
            return batch_loss(model, batch)

    start = [variable.numpy() for variable in variables]
    weights, losses = learn(start, loss, updates, rule, share)
    for variable, value in zip(variables, weights, strict=True):
        variable.assign(value)
    return losses


def batches_of(data: Any, size: int, per_update: int) -> list[list[Any]]:
    """Cut arrays into batches, and these into updates; what is left is left out."""
    count = len(tf.nest.flatten(data)[0]) // size
    batches = [
        tf.nest.map_structure(lambda item, n=n: item[n * size : (n + 1) * size], data)
        for n in range(count)
    ]
    return [
        batches[first : first + per_update]
        for first in range(0, count - per_update + 1, per_update)
    ]


def assert_close(model: Any, weights: Arrays, tolerance: float = 2e-5) -> None:
    """Compare the trainable weights of a model with those trained by hand."""
    for weight, expected in zip(model.trainable_variables, weights, strict=True):
        if weight.path.endswith("key/bias"):
            # Attention does not depend on it: what it learns is rounding.
            continue
        np.testing.assert_allclose(
            weight.numpy(), expected, rtol=1e-3, atol=tolerance, err_msg=weight.path
        )
