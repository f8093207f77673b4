"""Exported scripts run unmodified and learn what the run they come from learned."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import ipu_runtime
from workbench.core.events import EpochEnded, Evaluated, Event, RunStatus
from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.overrides import apply_overrides
from workbench.core.preset_store import load_preset, packaged_directory
from workbench.core.run_context import RunControl
from workbench.core.runner import run_experiment
from workbench.core.script_export import export_script
from workbench.core.validation import validate

pytestmark = pytest.mark.slow

SMALL = {
    "mnist-cpu": ("data.train_samples=200", "train.epochs=2"),
    "mnist-ipu": ("data.train_samples=200",),
    "mnist-ipu-faster": ("data.train_samples=200", "data.batch_size=16"),
    "mnist-ipu-replicated": ("data.train_samples=200", "data.batch_size=16"),
    "mnist-ipu-pipelined": (
        "data.train_samples=300",
        "data.batch_size=16",
        "train.epochs=2",
    ),
    "mnist-dense": (
        "data.train_samples=200",
        "train.steps_per_epoch=10",
        "execution.steps_per_execution=5",
        "train.epochs=2",
    ),
    "mnist-padded": ("data.train_samples=200",),
    "cifar10-ipu-strategy": ("data.train_samples=96",),
    "mnist-dense-8-stages": (
        "data.batch_size=16",
        "data.train_samples=256",
        "data.test_samples=128",
    ),
}
"""Changes that make presets small; they stay what they are otherwise."""

NARROW = {
    "resnet50-pod16": (
        (r"224, 224", "32, 32"),
        ("float16", "float32"),
        ("auto_select_ipus = 16", "auto_select_ipus = 2"),
        ("train_samples = 128", "train_samples = 16"),
    ),
    "bert-large-pod16": (
        ("repeat = 24", "repeat = 4"),
        (r"stages = \[[^]]*\]", f"stages = {[layer * 4 // 33 for layer in range(33)]}"),
        ("128", "8"),
        ("1024", "16"),
        ("4096", "32"),
        ("num_heads = 16, key_dim = 64", "num_heads = 2, key_dim = 8"),
        ("30522", "100"),
        ("float16", "float32"),
        ("auto_select_ipus = 16", "auto_select_ipus = 4"),
    ),
}
"""What to replace in presets whose models are too large: the same kinds of layers,
narrower, and four encoders instead of 24."""

ESTIMATORS = {
    "cifar10-ipu-estimator": ("data.train_samples=96", "train.epochs=2"),
    "cifar10-ipu-estimator-replica": ("data.train_samples=128",),
    "cifar10-ipu-pipeline-estimator": (
        "data.train_samples=160",
        "data.batch_size=8",
        "execution.gradient_accumulation=4",
    ),
    "cifar10-estimator-cnn": (
        "data.train_samples=64",
        "train.steps_per_epoch=6",
        "execution.steps_per_execution=6",
    ),
}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path))
    ipu_runtime.install()


def _small(name: str, *changes: str) -> ExperimentSpec:
    common = ("data.test_samples=64", "train.epochs=1")
    tables, problems = apply_overrides(
        load_preset(name).tables, (*common, *(SMALL | ESTIMATORS)[name], *changes)
    )
    spec, more = validate(tables)
    assert spec is not None, (problems, more)
    return spec


def _events_of_run(spec: ExperimentSpec) -> list[Event]:
    events: list[Event] = []
    status = run_experiment(spec, RunControl(), events.append)
    assert status is RunStatus.FINISHED, events[-1]
    return events


def _losses_of_run(spec: ExperimentSpec) -> list[float]:
    events = _events_of_run(spec)
    return [event.loss for event in events if isinstance(event, EpochEnded)]


def _run_script(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    script = tmp_path / "script.py"
    script.write_text(text)
    monkeypatch.setattr(sys, "argv", [str(script)])
    return runpy.run_path(str(script))["main"]()


@pytest.mark.parametrize("name", SMALL)
def test_a_script_has_the_losses_of_its_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = _small(name)
    expected = _losses_of_run(spec)
    assert len(expected) == spec.train.epochs

    found = _run_script(export_script(spec), tmp_path, monkeypatch)

    # The same operations in the same order; only the last bits of sums may differ.
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", NARROW)
def test_the_script_of_a_large_model_has_the_losses_of_its_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = packaged_directory().joinpath(f"{name}.toml").read_text(encoding="utf-8")
    for large, small in NARROW[name]:
        text, replaced = re.subn(large, small, text)
        assert replaced, large
    preset = tmp_path / f"{name}.toml"
    preset.write_text(text, encoding="utf-8")
    spec, problems = validate(load_preset(str(preset)).tables)
    assert spec is not None, problems
    expected = _losses_of_run(spec)

    found = _run_script(export_script(spec), tmp_path, monkeypatch)

    # Fifty normalised layers magnify in which order threads add: 1e-5 was seen.
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimators_script_logs_the_loss_of_its_run(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    spec = _small(name)
    events = _events_of_run(spec)
    first_epoch = next(event for event in events if isinstance(event, EpochEnded))
    evaluated = next(event for event in events if isinstance(event, Evaluated))

    results = _run_script(export_script(spec), tmp_path, monkeypatch)

    # A loop is an epoch here, and the first loop's loss is logged.
    logged = re.search(r"loss = ([\d.]+), step = (\d+)", caplog.text)
    assert logged is not None, caplog.text
    assert float(logged[1]) == pytest.approx(first_epoch.loss, rel=1e-5)
    assert results["loss"] == pytest.approx(evaluated.loss, rel=1e-5)
    assert results["accuracy"] == pytest.approx(evaluated.accuracy)


def test_a_sequential_script_learns_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = _small("mnist-ipu-pipelined", "train.epochs=1")
    functional = _run_script(export_script(spec), tmp_path, monkeypatch)
    text = export_script(spec, sequential=True)

    assert _run_script(text, tmp_path, monkeypatch) == pytest.approx(
        functional, rel=1e-5
    )
