"""Every preset, run once in its small form: it has one plan, and a script alike.

What is shown before a run, recorded, planned by the engine and streamed is the same;
the exported script runs unmodified and learns what the run has learned.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ipu_runtime.config import reset_ipu_configuration
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.plan_json import plan_to_json
from tests.runtime.noted_plans import Plans, figures
from tests.runtime.small_presets import ESTIMATORS, NARROW, SMALL, small_preset
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.events import (
    Compiled,
    EpochEnded,
    Evaluated,
    Event,
    Progressed,
    RunStarted,
)
from workbench.runs.run_store import open_run
from workbench.script_export import export_script

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class PresetRun:
    """A run of a preset's small form, and what was planned before and in it."""

    spec: ExperimentSpec
    shown: Plan
    events: list[Event]
    plans: Plans
    recorded_plan: Any

    @property
    def losses(self) -> list[float]:
        """The loss of each epoch."""
        return [e.loss for e in self.events if isinstance(e, EpochEnded)]


RunOnce = Callable[[str], PresetRun]
_SCRIPTS = (
    "mnist-cpu",
    "mnist-ipu-pipelined",
    "mnist-dense",
    "cifar10-estimator-cnn",
    "cifar10-ipu-pipeline-estimator",
)


def _scripts_of(names: Iterable[str]) -> list[Any]:
    """Leave scripts to thorough tests where another one is written alike."""
    alike = pytest.mark.thorough
    return [
        pytest.param(name, marks=() if name in _SCRIPTS else alike) for name in names
    ]


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> RunOnce:
    """Runs a preset for the first test that asks; the plan and the script share it."""

    @cache
    def run(name: str) -> PresetRun:
        directory = tmp_path_factory.mktemp(name)
        reset_ipu_configuration()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("IPU_WORKBENCH_HOME", str(directory / "home"))
            plans = Plans(patch)
            spec = small_preset(name, directory)
            shown = plan_experiment(spec)
            plans.all.clear()
            events = plans.run(spec)
            started = events[0]
            assert isinstance(started, RunStarted)
            return PresetRun(spec, shown, events, plans, open_run(started.run_id).plan)

    return run


def _run_script(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    script = tmp_path / "script.py"
    script.write_text(text)
    monkeypatch.setattr(sys, "argv", [str(script)])
    return runpy.run_path(str(script))["main"]()


@pytest.mark.parametrize("name", [*SMALL, *ESTIMATORS, *NARROW])
def test_a_preset_has_one_plan(name: str, run_once: RunOnce) -> None:
    run = run_once(name)
    spec, shown, plans = run.spec, run.shown, run.plans

    assert run.recorded_plan == json.loads(json.dumps(plan_to_json(shown)))
    streamed = [e for e in run.events if isinstance(e, Progressed | EpochEnded)]
    assert {event.ipu_step_us for event in streamed} == {shown.ipu_step_us}
    compiled = [event for event in run.events if isinstance(event, Compiled)]
    assert compiled[0].ipu_compile_s == shown.compile_s
    # Plain Keras on the CPU has no device whose figures a plan could give.
    shared, programs = 1, 1 + spec.train.evaluate
    if spec.execution.api == "cpu":
        shared = programs = 0
    assert len(plans.by_engine) == programs
    assert len(plans.all) == shared + programs
    for plan in plans.by_engine[:1]:
        assert figures(plan) == figures(shown)


@pytest.mark.parametrize("name", _scripts_of(SMALL))
def test_a_script_has_the_losses_of_its_run(
    name: str, run_once: RunOnce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_once(name)
    assert len(run.losses) == run.spec.train.epochs

    found = _run_script(export_script(run.spec), tmp_path, monkeypatch)

    # The same operations in the same order; only the last bits of sums may differ.
    assert found == pytest.approx(run.losses, rel=1e-5)


@pytest.mark.parametrize("name", _scripts_of(NARROW))
def test_the_script_of_a_large_model_has_the_losses_of_its_run(
    name: str, run_once: RunOnce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_once(name)

    found = _run_script(export_script(run.spec), tmp_path, monkeypatch)

    # Normalised layers magnify in which order threads add: 1e-5 was seen.
    assert found == pytest.approx(run.losses, rel=1e-4)


@pytest.mark.parametrize("name", _scripts_of(ESTIMATORS))
def test_an_estimators_script_logs_the_loss_of_its_run(
    name: str,
    run_once: RunOnce,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = run_once(name)
    evaluated = next(event for event in run.events if isinstance(event, Evaluated))
    # Only what the script logs counts.
    caplog.clear()

    results = _run_script(export_script(run.spec), tmp_path, monkeypatch)

    # A loop is an epoch here, and the first loop's loss is logged.
    logged = re.search(r"loss = ([\d.]+), step = (\d+)", caplog.text)
    assert logged is not None, caplog.text
    assert float(logged[1]) == pytest.approx(run.losses[0], rel=1e-5)
    assert results["loss"] == pytest.approx(evaluated.loss, rel=1e-5)
    assert results["accuracy"] == pytest.approx(evaluated.accuracy)


def test_a_sequential_script_learns_the_same(
    run_once: RunOnce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_once("mnist-ipu-pipelined")
    text = export_script(run.spec, sequential=True)

    found = _run_script(text, tmp_path, monkeypatch)

    assert found == pytest.approx(run.losses, rel=1e-5)
