"""What is shown before a run is what the engine plans, once for each program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from ipu_runtime.config import reset_ipu_configuration
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.keras.optimizers import ALSOptimizer
from tests.runtime.noted_plans import Plans, figures
from tests.runtime.small_presets import (
    ESTIMATORS,
    INSTANCES,
    NARROW,
    SMALL,
    small_preset,
)
from workbench.experiment.preset_store import list_presets
from workbench.planning.experiment_plan import plan_experiment

pytestmark = pytest.mark.slow

VARIANTS = (
    ("mnist-ipu-faster", "train.optimizer=adam", "execution.gradient_accumulation=2"),
    ("mnist-ipu", "train.optimizer=momentum", "model.dtype=float16"),
    ("mnist-ipu", "ipu.io_tiles.num_io_tiles=32", "ipu.allow_recompute=true"),
    ("mnist-ipu", "model.layers[0].dtype=float16"),
    ("mnist-ipu-faster", "data.dataset=synthetic", "execution.hosts=1"),
    ("cifar10-ipu-estimator", "data.dataset=synthetic"),
    ("mnist-ipu-replicated", "ipu.optimizations.enable_graph_outlining=false"),
    ("mnist-ipu-pipelined", "pipeline.schedule=Interleaved"),
    ("mnist-ipu-pipelined", "pipeline.schedule=Sequential", "ipu.allow_recompute=true"),
    ("mnist-ipu-pipelined", "pipeline.device_mapping=[0,1]"),
    ("mnist-ipu-pipelined", "pipeline.device_mapping=[1,0]"),
    (
        "mnist-ipu-pipelined",
        "pipeline.offload_activations=true",
        "pipeline.offload_weight_update_variables=true",
        "pipeline.replicated_weight_sharding=true",
        "ipu.auto_select_ipus=4",
        "train.optimizer=momentum",
    ),
    ("cifar10-ipu-estimator", "execution.gradient_accumulation=3"),
    (
        "cifar10-ipu-estimator",
        "train.optimizer=momentum",
        "data.labels=categorical",
        "train.loss=categorical_crossentropy",
    ),
    (
        "cifar10-ipu-pipeline-estimator",
        "pipeline.offload_weight_update_variables=true",
        "pipeline.replicated_optimizer_state_sharding=true",
        "pipeline.offload_gradient_accumulation_buffers=true",
        "train.optimizer=momentum",
    ),
    ("cifar10-ipu-pipeline-estimator", "pipeline.device_mapping=[1,0]"),
    (
        "cifar10-ipu-pipeline-estimator",
        "model.dtype=float16",
        "ipu.allow_recompute=true",
    ),
)


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plans:
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path / "home"))
    reset_ipu_configuration()
    return Plans(monkeypatch)


def test_every_preset_has_a_small_form() -> None:
    small = {*SMALL, *ESTIMATORS, *NARROW, *INSTANCES}
    assert {preset.name for preset in list_presets()} == small


@pytest.mark.parametrize("case", VARIANTS, ids=" ".join)
def test_the_engine_plans_what_the_experiment_says(
    case: tuple[str, ...], plans: Plans, tmp_path: Path
) -> None:
    name, *changes = case
    spec = small_preset(name, tmp_path, *changes)
    plans.stop_when_planned = True

    plans.run(spec)

    (planned,) = plans.by_engine
    assert planned.ok, planned.problems
    assert figures(planned) == figures(plan_experiment(spec))


def test_evaluating_a_checkpoint_is_planned_as_evaluation(
    plans: Plans, tmp_path: Path
) -> None:
    directory = f"execution.model_dir={tmp_path / 'model'}"
    name = "cifar10-ipu-estimator"
    plans.run(small_preset(name, tmp_path, directory))
    spec = small_preset(name, tmp_path, directory, "train.test_only=true")
    plans.by_engine.clear()

    plans.run(spec)

    (planned,) = plans.by_engine
    assert not planned.request.training
    assert figures(planned) == figures(plan_experiment(spec))


@pytest.mark.parametrize(
    "api",
    [
        pytest.param("cpu", marks=pytest.mark.thorough),
        "ipu_strategy",
        "ipu_estimator",
    ],
)
def test_more_epochs_make_no_more_plans(api: str, plans: Plans, tmp_path: Path) -> None:
    counts = []
    for epochs in (1, 3):
        changes = (f"train.epochs={epochs}", "train.evaluate=false")
        plans.all.clear()
        plans.run(small_preset("mnist-ipu", tmp_path, f"execution.api={api}", *changes))
        counts.append(len(plans.all))
    assert counts[0] == counts[1]


def _model(optimizer: Any = "sgd") -> keras.Model:
    with IPUStrategy().scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile(optimizer, "mse", steps_per_execution=4)
    return model


X = np.zeros((8, 4), np.float32)
Y = np.zeros((8, 2), np.float32)


def test_a_plan_is_kept_until_something_that_it_depends_on_changes(
    plans: Plans,
) -> None:
    model = _model()
    for epoch in range(3):
        model.fit(X, Y, batch_size=2, initial_epoch=epoch, epochs=epoch + 1, verbose=0)
    assert len(plans.by_engine) == 1
    model.evaluate(X, Y, batch_size=2, verbose=0)
    model.fit(X, Y, batch_size=2, verbose=0)
    assert len(plans.by_engine) == 2
    model.fit(X, Y, batch_size=1, verbose=0)
    assert plans.by_engine[-1].request.batch_size == 1
    assert len(plans.by_engine) == 3
    model.compile("adam", "mse", steps_per_execution=4)
    model.fit(X, Y, batch_size=1, verbose=0)
    assert plans.by_engine[-1].request.optimizer == "adam"
    assert len(plans.by_engine) == 4


@pytest.mark.parametrize(
    "preset",
    ["mnist-ipu", pytest.param("cifar10-ipu-estimator", marks=pytest.mark.thorough)],
)
def test_two_epochs_make_one_executable(
    preset: str, plans: Plans, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("TF_POPLAR_FLAGS", f"--executable_cache_path={cache}")
    changes = ("train.epochs=2", "train.evaluate=false")

    plans.run(small_preset(preset, tmp_path, *changes))

    assert len(list(cache.glob("*.poplar_exec"))) == 1


def test_a_wrapped_optimizer_costs_what_is_inside(plans: Plans) -> None:
    model = _model(ALSOptimizer(keras.optimizers.SGD(momentum=0.9)))
    model.fit(X, Y, batch_size=2, verbose=0)
    assert plans.by_engine[0].request.optimizer == "momentum"
