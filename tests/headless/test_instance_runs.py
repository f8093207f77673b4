"""Runs of several processes: what they leave, and that no process is left."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.runtime.tiny_preset import EVERY_PIECE, tiny_spec
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.events import (
    EpochEnded,
    Event,
    InstancesSeen,
    Progressed,
    RunEnded,
    RunStatus,
)
from workbench.runs.run_checkpoint import load
from workbench.runs.run_context import RunControl
from workbench.runs.run_store import StoredRun, list_runs
from workbench.runs.runner import run_experiment
from workbench.script_export import ScriptError, export_script
from workbench.store_json import read_lines

pytestmark = pytest.mark.slow

EPOCHS = 2
STARTED = """
import numpy, popdist, script
from workbench.runs.run_checkpoint import keras_state

train = script.train
def trained(model, data, args):
    losses = train(model, data, args)
    weights, optimizer = keras_state(model)
    if popdist.getInstanceIndex() == 0:
        numpy.savez("learnt.npz", *weights, *optimizer, losses=losses)
    return losses
script.train = trained
script.main()
"""
"""Starts a run's script, and keeps what it has learnt."""
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
def scripted(
    spec: ExperimentSpec, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, np.ndarray]:
    """What its script learns under `poprun`: nobody has disturbed or kept that."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "script.py").write_text(export_script(spec))
    (folder / "started.py").write_text(STARTED)
    ran = subprocess.run(
        (
            *(sys.executable, "-m", "ipu_runtime.popdist.poprun"),
            *("--num-instances", "2", "--num-replicas", "4", "--timeout", "120"),
            *("python", str(folder / "started.py")),
        ),
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert ran.returncode == 0, ran.stderr
    return dict(np.load(folder / "learnt.npz"))


@pytest.fixture(scope="module")
def killed(spec: ExperimentSpec, home: Path) -> tuple[StoredRun, list[Event]]:
    """A run whose second instance was killed while it trained."""

    def kill(event: Event, events: list[Event]) -> None:
        if isinstance(event, EpochEnded):
            os.kill(_processes(events)[1], signal.SIGKILL)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPU_WORKBENCH_HOME", str(home))
        return _run(spec, when=kill)


@pytest.fixture(scope="module")
def resumed(
    spec: ExperimentSpec, home: Path, killed: tuple[StoredRun, list[Event]]
) -> tuple[StoredRun, list[Event]]:
    """The same run, after it has gone on from a checkpoint inside of an epoch."""
    run, _ = killed
    # Of the last two, one at least is inside an epoch.
    for whole in run.directory.glob("checkpoints/epoch-??????.npz"):
        whole.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPU_WORKBENCH_HOME", str(home))
        return _run(spec, resume=run.run_id)


def _processes(events: list[Event]) -> list[int]:
    seen = [event for event in events if isinstance(event, InstancesSeen)]
    return [state.pid for state in seen[-1].instances]


def _all_gone(processes: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in processes)


def test_a_killed_instance_ends_all(killed: tuple[StoredRun, list[Event]]) -> None:
    _, events = killed
    assert _all_gone(_processes(events))
    end = events[-1]
    assert isinstance(end, RunEnded)
    assert end.status is RunStatus.FAILED
    assert end.message.startswith("instance 1 of 2 was ended by SIGKILL")


def test_a_run_is_that_of_its_first_instance(
    spec: ExperimentSpec, resumed: tuple[StoredRun, list[Event]]
) -> None:
    run, events = resumed
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


def test_it_goes_on_inside_an_epoch_and_learns_what_its_script_does(
    killed: tuple[StoredRun, list[Event]],
    resumed: tuple[StoredRun, list[Event]],
    scripted: dict[str, np.ndarray],
) -> None:
    run, _ = resumed
    assert run.run_id == killed[0].run_id
    (began,) = [
        row
        for row in read_lines(run.directory / "metrics.jsonl")
        if row["event"] == "resumed"
    ]
    assert began["step"] > 0
    ends = [event for event in run.events() if isinstance(event, EpochEnded)]
    assert [event.loss for event in ends] == scripted.pop("losses").tolist()
    state = load(run.directory / "checkpoints" / f"epoch-{EPOCHS:06}.npz")
    arrays = [*state.weights, *state.optimizer]
    assert len(arrays) == len(scripted)
    for array, expected in zip(arrays, scripted.values(), strict=True):
        np.testing.assert_array_equal(array, expected)


@pytest.mark.thorough
def test_an_estimator_is_shared_out_as_its_replicas_are(tmp_path: Path) -> None:
    changes = ("execution.api=ipu_estimator", "ipu.auto_select_ipus=2")
    shared = tiny_spec(tmp_path, *changes, "execution.instances=2")
    first, events = _run(shared)
    second, _ = _run(tiny_spec(tmp_path, *changes))
    assert first.status is second.status is RunStatus.FINISHED, events[-1]
    assert first.summary["test_loss"] == pytest.approx(second.summary["test_loss"])
    ones, others = map(_variables, (first, second))
    assert ones.keys() == others.keys()
    for name, values in ones.items():
        np.testing.assert_allclose(values, others[name], 1e-6, 1e-7, err_msg=name)
    with pytest.raises(ScriptError, match=r"execution\.instances: 2 is not written"):
        export_script(shared)


def _variables(run: StoredRun) -> dict[str, np.ndarray]:
    """Return what an estimator's last checkpoint holds."""
    kept = load(run.directory / "checkpoints" / f"epoch-{EPOCHS:06}.npz")
    name = str(kept.extra["model_checkpoint"])
    reader = tf.train.load_checkpoint(str(run.directory / "checkpoints/model" / name))
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_instance_outlives_its_run(number: signal.Signals, tmp_path: Path) -> None:
    parent = tmp_path / "parent.py"
    parent.write_text(
        f"""
import os, sys
from pathlib import Path
from workbench.instances import local_instances
from workbench.instances.instance_job import InstanceJob

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
