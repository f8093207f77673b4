"""Runs of several processes: what they leave, and that no process is left."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.tiny_preset import EVERY_PIECE, tiny_spec
from workbench.core.experiment.experiment_spec import ExperimentSpec
from workbench.core.planning.experiment_plan import plan_experiment
from workbench.core.runs.events import (
    EpochEnded,
    Event,
    InstancesSeen,
    Progressed,
    RunEnded,
    RunStatus,
)
from workbench.core.runs.record_files import read_lines
from workbench.core.runs.run_checkpoint import load
from workbench.core.runs.run_context import RunControl
from workbench.core.runs.run_store import StoredRun, list_runs
from workbench.core.runs.runner import run_experiment
from workbench.core.script_export import export_script

pytestmark = pytest.mark.slow

EPOCHS = 2
WAITING = "import sys, time; sys.stdin.readline(); time.sleep(120)"
"""An instance that never does anything."""


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ExperimentSpec:
    """Two instances of two replicas, with a checkpoint after every update."""
    shared = ("execution.instances=2", "ipu.auto_select_ipus=4")
    return tiny_spec(tmp_path_factory.mktemp("preset"), *shared, EVERY_PIECE)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records of this module."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(home))


def _run(
    spec: ExperimentSpec,
    resume: str | None = None,
    when: Callable[[Event, list[Event]], None] = lambda event, events: None,
) -> tuple[StoredRun, list[Event]]:
    events: list[Event] = []

    def emit(event: Event) -> None:
        events.append(event)
        when(event, events)

    run_experiment(spec, RunControl(), emit, resume=resume)
    return list_runs()[0], events


@pytest.fixture(scope="module")
def undisturbed(spec: ExperimentSpec, home: Path) -> tuple[StoredRun, list[Event]]:
    """A run that nobody has disturbed, and that has stopped for no checkpoint."""
    execution = replace(spec.execution, checkpoint_every_s=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPU_WORKBENCH_HOME", str(home))
        return _run(replace(spec, execution=execution))


def _outcome(run: StoredRun) -> list[object]:
    ends = [event for event in run.events() if isinstance(event, EpochEnded)]
    state = load(run.directory / "checkpoints" / f"epoch-{EPOCHS:06}.npz")
    arrays = (*state.weights, *state.optimizer)
    return [
        [(event.epoch, event.loss, event.accuracy) for event in ends],
        [np.asarray(array).tobytes() for array in arrays],
    ]


def _processes(events: list[Event]) -> list[int]:
    seen = [event for event in events if isinstance(event, InstancesSeen)]
    return [state.pid for state in seen[-1].instances]


def _all_gone(processes: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in processes)


def test_a_run_is_that_of_its_first_instance(
    spec: ExperimentSpec, undisturbed: tuple[StoredRun, list[Event]]
) -> None:
    run, events = undisturbed
    assert run.status is RunStatus.FINISHED, events[-1]
    assert _all_gone(_processes(events))
    shown = plan_experiment(spec)
    streamed = {e.ipu_step_us for e in events if isinstance(e, Progressed | EpochEnded)}
    assert streamed == {shown.ipu_step_us}
    seen = [event for event in events if isinstance(event, InstancesSeen)][-1]
    assert [state.step for state in seen.instances] == [shown.steps_per_epoch] * 2
    assert all(state.host_step_ms > 0 for state in seen.instances)
    logs = sorted(path.name for path in (run.directory / "instances").iterdir())
    assert logs == ["0.log", "1.log"]


def test_a_killed_instance_ends_all_and_the_run_resumes_equal(
    spec: ExperimentSpec, undisturbed: tuple[StoredRun, list[Event]]
) -> None:
    def kill(event: Event, events: list[Event]) -> None:
        if isinstance(event, EpochEnded):
            os.kill(_processes(events)[1], signal.SIGKILL)

    run, events = _run(spec, when=kill)
    assert _all_gone(_processes(events))
    end = events[-1]
    assert isinstance(end, RunEnded)
    assert end.status is run.status is RunStatus.FAILED
    assert end.message.startswith("instance 1 of 2 was ended by SIGKILL")

    # Of the last two, one at least is inside an epoch.
    for whole in run.directory.glob("checkpoints/epoch-??????.npz"):
        whole.unlink()
    resumed, events = _run(spec, resume=run.run_id)
    (began,) = [
        row
        for row in read_lines(run.directory / "metrics.jsonl")
        if row["event"] == "resumed"
    ]
    assert began["step"] > 0
    assert resumed.run_id == run.run_id
    assert resumed.status is RunStatus.FINISHED, events[-1]
    assert _outcome(resumed) == _outcome(undisturbed[0])


def test_its_script_learns_the_same_under_poprun(
    spec: ExperimentSpec, undisturbed: tuple[StoredRun, list[Event]], tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(export_script(spec))
    ran = subprocess.run(
        (
            *(sys.executable, "-m", "ipu_runtime.popdist.poprun"),
            *("--num-instances", "2", "--num-replicas", "4"),
            *("--only-output-from-instance", "0", "--timeout", "120"),
            *("python", str(script)),
        ),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    found = re.findall(r" - loss: ([\d.]+)\s*$", ran.stdout, re.MULTILINE)
    epochs = [event for event in undisturbed[1] if isinstance(event, EpochEnded)]
    losses = [event.loss for event in epochs]
    assert [float(text) for text in found[:EPOCHS]] == pytest.approx(losses, rel=1e-3)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_instance_outlives_its_run(number: signal.Signals, tmp_path: Path) -> None:
    parent = tmp_path / "parent.py"
    parent.write_text(
        f"""
import os, sys
from pathlib import Path
from workbench.core.instances import local_instances
from workbench.core.instances.instance_job import InstanceJob

start = local_instances.subprocess.Popen
def popen(command, **options):
    if command == local_instances.COMMAND:
        command = (sys.executable, "-c", {WAITING!r})
    process = start(command, **options)
    print(process.pid, flush=True)
    return process
local_instances.subprocess.Popen = popen
job = InstanceJob({{}}, 2, 1, 2, 1, Path({str(tmp_path)!r}))
with local_instances.start_here(job) as running:
    print("all", flush=True)
    while running.heard(1.0) is None:
        pass
"""
    )
    process = subprocess.Popen(
        (sys.executable, str(parent)), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = list(iter(process.stdout.readline, "all\n"))
    opened = [os.pidfd_open(int(line)) for line in lines]
    process.send_signal(number)
    assert all(select.select([one], [], [], 30)[0] for one in opened)
    process.wait(30)
