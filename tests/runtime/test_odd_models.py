"""Five models that no preset is like: planned, cut and trained as plain Keras does.

The file is their source, too: `test_odd_models.py:unet` is a model of the user's own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

import ipu_runtime
from workbench.data.dataset import load_prepared
from workbench.data.epoch_order import training_order
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.models.source_building import trainable_model
from workbench.planning.balancing import balanced_experiment
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.events import EpochEnded, Event, RunStatus
from workbench.runs.model_builder import compile_arguments
from workbench.runs.run_context import RunControl
from workbench.runs.runner import run_experiment

pytestmark = pytest.mark.slow


class Block(layers.Layer):
    """Attention and a small network, each added to what it is given."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = layers.MultiHeadAttention(2, width // 2)
        self.first, self.second = layers.Dense(2 * width), layers.Dense(width)
        self.norms = [layers.LayerNormalization(), layers.LayerNormalization()]

    def call(self, x: Any) -> Any:
        normed = self.norms[0](x)
        x = x + self.attention(normed, normed)
        return x + self.second(ops.gelu(self.first(self.norms[1](x))))


class Transformer(keras.Model):
    """Words in, a class out; what it calls is decided in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.words = layers.Embedding(20, 8)
        self.block = Block(8)
        self.out = layers.Dense(3, activation="softmax")

    def call(self, tokens: Any) -> Any:
        x = self.block(self.words(tokens))
        return self.out(ops.mean(x, axis=1))


def transformer() -> keras.Model:
    """A subclass: one block that cannot be cut."""
    return Transformer()


def translator() -> keras.Model:
    """A GRU that reads, and one that writes from where the first ended."""
    read = keras.Input((6,), dtype="int32", name="read")
    written = keras.Input((5,), dtype="int32", name="written")
    _, state = layers.GRU(8, return_state=True)(layers.Embedding(12, 6)(read))
    words = layers.Embedding(9, 6)(written)
    decoded = layers.GRU(8, return_sequences=True)(words, initial_state=state)
    return keras.Model([read, written], layers.Dense(9, activation="softmax")(decoded))


def unet() -> keras.Model:
    """Down and up again, with what was seen on the way down handed across."""
    entry = keras.Input((16, 16, 3))
    x, skips = entry, []
    for width in (4, 8):
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    for skip in reversed(skips):
        x = layers.Conv2DTranspose(skip.shape[-1], 2, strides=2)(x)
        x = layers.Concatenate()([x, skip])
        x = layers.Conv2D(skip.shape[-1], 3, padding="same", activation="relu")(x)
    return keras.Model(entry, layers.Conv2D(2, 1, activation="softmax")(x))


def generator() -> keras.Model:
    """A GAN's: noise in, an image out."""
    return keras.Sequential(
        [
            keras.Input((10,)),
            layers.Dense(4 * 4 * 8),
            layers.LeakyReLU(negative_slope=0.2),
            layers.Reshape((4, 4, 8)),
            layers.Conv2DTranspose(6, 4, strides=2, padding="same"),
            layers.LayerNormalization(),
            layers.LeakyReLU(negative_slope=0.2),
            layers.Conv2DTranspose(3, 4, strides=2, padding="same", activation="tanh"),
        ]
    )


def only_ops() -> keras.Model:
    """No layer, no weight: operations alone."""
    left, right = keras.Input((4, 6), name="left"), keras.Input((6, 4), name="right")
    product = ops.matmul(left, right)
    scaled = ops.softmax(product / ops.sqrt(6.0), axis=-1)
    summed = ops.sum(ops.matmul(scaled, left) ** 2, axis=-1)
    ranked = ops.concatenate([summed, ops.max(product, axis=1)], axis=-1)
    return keras.Model([left, right], ops.tanh(ops.cumsum(ranked, axis=-1)))


ODD = {
    "transformer": ("model.input_shape=7",),
    "translator": (),
    "unet": (),
    "generator": (),
    "only_ops": (),
}
LONG = ("transformer", "translator")
TRAINED = (
    "data.batch_size=2",
    "data.train_samples=32",
    "data.test_samples=32",
    "train.epochs=2",
    "train.evaluate=false",
    "train.optimizer=sgd",
    "train.learning_rate=0.1",
    "execution.gradient_accumulation=8",
    "execution.accumulation_reduction=mean",
)


@pytest.fixture(autouse=True)
def _installed() -> None:
    ipu_runtime.install()


def _spec(name: str) -> ExperimentSpec:
    loaded = load_experiment(f"{__file__}:{name}", (*TRAINED, *ODD[name]))
    assert loaded.spec is not None, loaded.problems
    return loaded.spec


def _losses(spec: ExperimentSpec) -> list[float]:
    events: list[Event] = []
    status = run_experiment(spec, RunControl(), events.append)
    assert status is RunStatus.FINISHED, events[-1]
    return [event.loss for event in events if isinstance(event, EpochEnded)]


def _keras_losses(spec: ExperimentSpec) -> list[float]:
    """Train plain Keras with the batches of whole weight updates."""
    data, order = load_prepared(spec).train, training_order(spec)
    model = trainable_model(spec.model.model_source, spec.experiment.seed, trust=True)
    model.compile(**compile_arguments(spec))
    size = spec.data.batch_size * spec.execution.gradient_accumulation
    losses = []
    for epoch in range(1, spec.train.epochs + 1):
        batches = order.indices(epoch).reshape(-1, size)
        steps = []
        for batch in batches:
            x, y = keras.tree.map_structure(lambda v, b=batch: v[b], (data.x, data.y))
            model.reset_metrics()
            steps.append(model.train_on_batch(x, y, return_dict=True)["loss"])
        losses.append(float(np.mean(steps)))
    return losses


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.thorough if name in LONG else ())
        for name in ODD
    ],
)
def test_an_odd_model_learns_as_in_plain_keras(name: str) -> None:
    spec = _spec(name)
    plan = plan_experiment(spec)
    assert plan.ipu_step_us > 0
    free = [layer.name for layer in plan.layers if layer.forward_us == 0]
    assert free == (["reshape"] if name == "generator" else [])
    assert not [problem for problem in plan.problems if "not known" in str(problem)]

    balanced = balanced_experiment(spec, 4)
    if name == "transformer":
        assert "is a subclass of Model, which is one block" in balanced.result.problem
    else:
        assert max(balanced.spec.pipeline.stages) == 3, balanced.result.problem
    staged = replace(balanced.spec, execution=spec.execution)

    # Micro-batches are added up in another order than whole batches.
    assert _losses(staged) == pytest.approx(_keras_losses(spec), rel=1e-4)
