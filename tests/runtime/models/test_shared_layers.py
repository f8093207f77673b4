"""Weights that several calls use are on one IPU, with all the calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.config import IPUConfig, reset_ipu_configuration
from ipu_runtime.engine.describe.keras_reader import read_model
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.plan.model.model_json import model_from_json, model_to_json
from ipu_runtime.plan.problem import Severity
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.planning.balancing import balanced_experiment
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.events import RunStatus
from workbench.runs.run_context import RunControl
from workbench.runs.runner import run_experiment

pytestmark = pytest.mark.slow

PIPELINED = (
    "data.batch_size=2",
    "data.train_samples=32",
    "train.evaluate=false",
    "execution.gradient_accumulation=4",
    "ipu.auto_select_ipus=2",
)


@pytest.fixture
def twins(tmp_path: Path) -> Path:
    left, right, entry = keras.Input((8,)), keras.Input((8,)), keras.Input((16,))
    shared = keras.layers.Dense(16, name="shared")
    first = keras.layers.Dense(4, name="first")
    inner = keras.Model(entry, first(entry), name="inner")
    both = keras.layers.Concatenate(name="both")(
        [inner(shared(left)), inner(shared(right))]
    )
    out = keras.layers.Dense(3, activation="softmax", name="out")(both)
    path = tmp_path / "twins.keras"
    keras.Model([left, right], out).save(path)
    return path


def _spec(path: Path, *changes: str) -> ExperimentSpec:
    loaded = load_experiment(str(path), changes)
    assert loaded.spec is not None, loaded.problems
    return loaded.spec


def _errors(spec: ExperimentSpec) -> list[str]:
    problems = plan_experiment(spec).problems
    return [item.problem for item in problems if item.severity is Severity.ERROR]


def test_the_calls_of_a_shared_layer_are_known(twins: Path) -> None:
    read = _spec(twins).model.read
    assert read is not None
    assert read.spec is not None
    assert {frozenset(names) for names in read.spec.shared} == {
        frozenset(("shared", "shared_call1")),
        frozenset(("inner/first", "inner_call1/first")),
    }


def test_shared_weights_are_counted_once(twins: Path) -> None:
    plan = plan_experiment(_spec(twins))
    keras_model = keras.models.load_model(twins)
    assert sum(layer.parameters for layer in plan.layers) == keras_model.count_params()
    assert plan.memory[0].by_category["weights"] == 4 * keras_model.count_params()
    again = next(layer for layer in plan.layers if layer.name == "shared_call1")
    assert again.forward_us > 0
    assert again.backward_us > 0
    assert again.update_us == 0


def test_weights_on_two_ipus_are_refused_before_anything_trains(twins: Path) -> None:
    names = [layer.name for layer in _spec(twins).model.layers[2:]]
    # Only the nested model's two calls stand in different stages.
    stages = [int(name not in ("shared", "shared_call1", names[0])) for name in names]
    stages[names.index("inner/first")] = 0
    changed = _spec(twins, *PIPELINED, f"pipeline.stages={stages}")
    (error,) = _errors(changed)
    assert error == (
        "layers inner/first, inner_call1/first share weights, but are on IPUs 0, 1: an "
        "input can only be used by pipeline stages on the same IPU"
    )
    one_ipu = _spec(
        twins, *PIPELINED, f"pipeline.stages={stages}", "pipeline.device_mapping=0,0"
    )
    assert _errors(one_ipu) == []


def test_balance_keeps_the_calls_together_and_it_trains(twins: Path) -> None:
    spec = _spec(twins, *PIPELINED)
    balanced = balanced_experiment(spec, 2)
    assert balanced.result.feasible
    assert _errors(balanced.spec) == []
    assert run_experiment(balanced.spec, RunControl(), print) is RunStatus.FINISHED


def test_more_stages_than_it_can_have_are_a_problem(twins: Path) -> None:
    assert "share weights" in balanced_experiment(_spec(twins), 5).result.problem


class Head(keras.layers.Layer):
    """Compares with every word of a table that another layer has, and adds a bias."""

    def __init__(self, table: keras.layers.Embedding, **settings: Any) -> None:
        super().__init__(**settings)
        self.table = table

    def build(self, shape: Any) -> None:
        self.bias = self.add_weight(shape=(7,), name="bias")

    def call(self, x: Any) -> Any:
        scores = keras.ops.matmul(x, keras.ops.transpose(self.table.embeddings))
        return scores + self.bias


def tied() -> keras.Model:
    table, words = keras.layers.Embedding(7, 4, name="table"), keras.Input((5,))
    x = keras.layers.Dense(4, name="middle")(table(words))
    return keras.Model(words, Head(table, name="head")(x))


def test_weights_that_two_layers_share_are_counted_once() -> None:
    spec = read_model(model := tied())
    assert spec.parameters == model.count_params() == 7 * 4 + 4 * 4 + 4 + 7
    assert spec.shared == (("table", "head"),)
    assert model_from_json(model_to_json(spec)) == spec


def test_the_engine_refuses_tied_weights_on_two_ipus() -> None:
    config = IPUConfig()
    config.auto_select_ipus = 4
    config.configure_ipu_system()
    with IPUStrategy().scope():
        model = tied()
        calls = model.get_pipeline_stage_assignment()
        for stage, call in enumerate(calls):
            call.pipeline_stage = stage
        model.set_pipeline_stage_assignment(calls)
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=6)
        model.compile("sgd", "mse", steps_per_execution=6)
        with pytest.raises(
            tf.errors.UnimplementedError, match="table, head share weights"
        ):
            model.fit(np.zeros((6, 5)), np.zeros((6, 5, 7)), batch_size=1, verbose=0)
    reset_ipu_configuration()
