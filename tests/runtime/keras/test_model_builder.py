"""Keras models built from presets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.resolved_model import resolved
from workbench.runs.model_builder import build_keras_model, compile_arguments

pytestmark = pytest.mark.slow


def _spec(preset: str, *changes: str) -> ExperimentSpec:
    loaded = load_experiment(preset, changes)
    assert loaded.spec is not None, loaded.problems
    return loaded.spec


@pytest.mark.parametrize(
    "preset",
    ["mnist-cpu", "mnist-dense", "cifar10-ipu-strategy", "mnist-dense-8-stages"],
)
def test_shapes_and_parameters_are_those_of_the_plan(preset: str) -> None:
    spec = _spec(preset)
    model, planned = build_keras_model(spec), resolved(spec.model)[0]
    assert planned is not None
    assert model.count_params() == planned.parameters
    shapes = {layer.name: tuple(layer.output.shape[1:]) for layer in model.layers}
    assert shapes == {layer.name: layer.output_shape for layer in planned.layers}


def test_weights_follow_the_seed() -> None:
    first, again, other = (
        build_keras_model(_spec("mnist-dense", f"experiment.seed={seed}"))
        for seed in (3, 3, 4)
    )
    assert np.array_equal(first.get_weights()[0], again.get_weights()[0])
    assert not np.array_equal(first.get_weights()[0], other.get_weights()[0])


def test_every_layer_is_built_inside_its_stage() -> None:
    entered: list[int] = []

    @contextmanager
    def scope(stage: int) -> Iterator[None]:
        entered.append(stage)
        yield

    build_keras_model(_spec("mnist-ipu-pipelined"), scope)
    assert entered == [0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("sgd", "SGD"), ("momentum", "SGD"), ("rmsprop", "RMSprop"), ("adam", "Adam")],
)
def test_optimizers(name: str, kind: str) -> None:
    changes = (f"train.optimizer={name}", "train.learning_rate=0.25")
    arguments = compile_arguments(_spec("mnist-cpu", *changes))
    assert type(arguments["optimizer"]).__name__ == kind
    assert float(arguments["optimizer"].learning_rate) == 0.25
