"""Models that several tests of the cost model plan."""

from __future__ import annotations

from typing import Any

import pytest

from ipu_runtime.plan.layers.shapes import resolve_model
from ipu_runtime.plan.model.model_spec import LayerSpec, ModelSpec


class Chain:
    """Collects layers, each after the one before unless inputs are given."""

    def __init__(self) -> None:
        self.layers: list[LayerSpec] = []

    def add(self, kind: str, *inputs: str, **settings: Any) -> str:
        name = f"{kind.lower()}_{len(self.layers)}"
        if not inputs and self.layers:
            inputs = (self.layers[-1].name,)
        self.layers.append(LayerSpec(name, kind, settings, inputs))
        return name

    def model(self, dtype: str = "float32") -> ModelSpec:
        model, problems = resolve_model(self.layers, dtype)
        assert model is not None, problems
        return model


@pytest.fixture
def chain() -> Chain:
    """An empty model."""
    return Chain()


@pytest.fixture(scope="session")
def mnist_cnn() -> ModelSpec:
    """The CNN of the Keras tutorial."""
    chain = Chain()
    chain.add("Input", shape=[28, 28, 1])
    chain.add("Conv2D", filters=32, kernel_size=3, activation="relu")
    chain.add("MaxPooling2D")
    chain.add("Conv2D", filters=64, kernel_size=3, activation="relu")
    chain.add("MaxPooling2D")
    chain.add("Flatten")
    chain.add("Dropout", rate=0.5)
    chain.add("Dense", units=10, activation="softmax")
    return chain.model()


@pytest.fixture(scope="session")
def resnet50() -> ModelSpec:
    """ResNet-50 without biases before normalisations, in half precision."""
    chain = Chain()
    chain.add("Input", shape=[224, 224, 3])
    _conv(chain, 64, 7, 2)
    chain.add("MaxPooling2D", pool_size=3, strides=2, padding="same")
    for stage, (width, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            start = chain.layers[-1].name
            _conv(chain, width, 1, 1)
            _conv(chain, width, 3, stride)
            end = _conv(chain, 4 * width, 1, 1, activation="")
            if not block:
                start = _conv(chain, 4 * width, 1, stride, start, activation="")
            chain.add("Add", end, start)
            chain.add("ReLU")
    chain.add("GlobalAveragePooling2D")
    chain.add("Dense", units=1000, activation="softmax")
    return chain.model("float16")


def _conv(
    chain: Chain,
    filters: int,
    kernel: int,
    stride: int,
    *inputs: str,
    activation: str = "relu",
) -> str:
    chain.add(
        "Conv2D",
        *inputs,
        filters=filters,
        kernel_size=kernel,
        strides=stride,
        padding="same",
        use_bias=False,
    )
    name = chain.add("BatchNormalization")
    return chain.add("ReLU") if activation else name
