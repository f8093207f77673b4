"""Exported scripts run unmodified and learn what the run they come from learned."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.small_presets import ESTIMATORS, NARROW, SMALL, small_preset
from workbench.core.experiment.experiment_spec import ExperimentSpec
from workbench.core.runs.events import EpochEnded, Evaluated, Event, RunStatus
from workbench.core.runs.run_context import RunControl
from workbench.core.runs.runner import run_experiment
from workbench.core.script_export import export_script

pytestmark = pytest.mark.slow


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
    spec = small_preset(name, tmp_path)
    expected = _losses_of_run(spec)
    assert len(expected) == spec.train.epochs

    found = _run_script(export_script(spec), tmp_path, monkeypatch)

    # The same operations in the same order; only the last bits of sums may differ.
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", NARROW)
def test_the_script_of_a_large_model_has_the_losses_of_its_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = small_preset(name, tmp_path)
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
    spec = small_preset(name, tmp_path)
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
    spec = small_preset("mnist-ipu-pipelined", tmp_path, "train.epochs=1")
    functional = _run_script(export_script(spec), tmp_path, monkeypatch)
    text = export_script(spec, sequential=True)

    assert _run_script(text, tmp_path, monkeypatch) == pytest.approx(
        functional, rel=1e-5
    )
