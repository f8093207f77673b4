"""What is shown before a run, recorded, planned by the engine and streamed is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from ipu_runtime.config import reset_ipu_configuration
from ipu_runtime.engine.planning import program_plan
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.keras.optimizers import ALSOptimizer
from ipu_runtime.plan import planner
from ipu_runtime.plan.plan import Plan, PlanRequest
from ipu_runtime.plan.plan_json import plan_to_json
from tests.runtime.small_presets import (
    ESTIMATORS,
    INSTANCES,
    NARROW,
    SMALL,
    small_preset,
)
from workbench.core.experiment.experiment_spec import ExperimentSpec
from workbench.core.experiment.preset_store import list_presets
from workbench.core.planning.experiment_plan import plan_experiment
from workbench.core.runs.events import (
    Compiled,
    EpochEnded,
    Event,
    Progressed,
    RunStarted,
    RunStatus,
)
from workbench.core.runs.run_context import RunControl
from workbench.core.runs.run_store import open_run
from workbench.core.runs.runner import run_experiment

pytestmark = pytest.mark.slow

VARIANTS = (
    *((name,) for name in NARROW),
    ("mnist-ipu-faster", "train.optimizer=adam", "execution.gradient_accumulation=2"),
    ("mnist-ipu", "train.optimizer=momentum", "model.dtype=float16"),
    ("mnist-ipu", "ipu.io_tiles.num_io_tiles=32", "ipu.allow_recompute=true"),
    ("mnist-ipu", "model.layers[0].dtype=float16"),
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


class Plans:
    """Every plan that is made, and by whom."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.all: list[Plan] = []
        self.by_engine: list[Plan] = []
        self.control = RunControl()
        self.stop_when_planned = False
        make_plan = planner.make_plan

        def noted(request: PlanRequest, **options: Any) -> Plan:
            plan = make_plan(request, **options)
            self.all.append(plan)
            return plan

        def noted_of_engine(request: PlanRequest) -> Plan:
            plan = noted(request)
            self.by_engine.append(plan)
            if self.stop_when_planned:
                self.control.stop.set()
            return plan

        monkeypatch.setattr(planner, "make_plan", noted)
        monkeypatch.setattr(program_plan, "make_plan", noted_of_engine)

    def run(self, spec: ExperimentSpec) -> list[Event]:
        """Run an experiment, or only up to its engine's first plan."""
        events: list[Event] = []
        status = run_experiment(spec, self.control, events.append)
        wanted = RunStatus.STOPPED if self.stop_when_planned else RunStatus.FINISHED
        assert status is wanted, events[-1]
        return events


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plans:
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path / "home"))
    reset_ipu_configuration()
    return Plans(monkeypatch)


def _figures(plan: Plan) -> dict[str, Any]:
    """Return everything modelled, whatever order the layers are listed in."""
    figures = plan_to_json(plan)
    asked = figures.pop("request")
    # Where IPUs are selected does not matter once their number is known.
    asked["config"].pop("auto_select_ipus", None)
    if asked["pipeline"]:
        del asked["pipeline"]["stage_of_layer"]
    for stage in figures["stages"]:
        stage["layers"] = sorted(stage["layers"])
    figures["layers"] = {
        layer["name"]: (layer["stage"], layer["forward_us"], layer["backward_us"])
        for layer in figures["layers"]
    }
    return figures | asked


def test_every_preset_has_a_small_form() -> None:
    small = {*SMALL, *ESTIMATORS, *NARROW, *INSTANCES}
    assert {preset.name for preset in list_presets()} == small


@pytest.mark.parametrize("name", [*SMALL, *ESTIMATORS])
def test_a_preset_has_one_plan(name: str, plans: Plans, tmp_path: Path) -> None:
    spec = small_preset(name, tmp_path)
    shown = plan_experiment(spec)
    plans.all.clear()

    events = plans.run(spec)

    started = events[0]
    assert isinstance(started, RunStarted)
    assert open_run(started.run_id).plan == json.loads(json.dumps(plan_to_json(shown)))
    streamed = {e.ipu_step_us for e in events if isinstance(e, Progressed | EpochEnded)}
    assert streamed == {shown.ipu_step_us}
    compiled = [event for event in events if isinstance(event, Compiled)]
    assert compiled[0].ipu_compile_s == shown.compile_s
    programs = 0 if spec.execution.api == "cpu" else 1 + spec.train.evaluate
    assert len(plans.by_engine) == programs
    assert len(plans.all) == 1 + programs
    for plan in plans.by_engine[:1]:
        assert _figures(plan) == _figures(shown)


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
    assert _figures(planned) == _figures(plan_experiment(spec))


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
    assert _figures(planned) == _figures(plan_experiment(spec))


@pytest.mark.parametrize("api", ["cpu", "ipu_strategy", "ipu_estimator"])
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


@pytest.mark.parametrize("preset", ["mnist-ipu", "cifar10-ipu-estimator"])
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
