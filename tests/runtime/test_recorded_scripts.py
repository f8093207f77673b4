"""Unmodified scripts leave a run: a series and a plan for every call they make."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.runs.events import RunStatus
from workbench.runs.run_store import open_run
from workbench.runs.script_calls import calls_of, recorded_plan
from workbench.views.run import report_page

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"


def executed(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "workbench", "exec", *arguments]
    environment = {**os.environ, "IPU_WORKBENCH_HOME": str(home / "home")}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment,
    )


EVERY_KIND = f"""
import sys
sys.path.insert(0, {str(EXAMPLES)!r})
import adversarial, cifar10_ipu_estimator, cifar10_pipeline_estimator, mnist_steps
import repeated_loop
script, *arguments = sys.argv
small = ["--samples=64", "--batch-size=4", "--epochs=1"]
mnist_steps.main(["replicated", "pipelined", *small])
adversarial.main(["--runs=3", "--steps=4"])
sys.argv = [script, *small]
cifar10_ipu_estimator.main()
cifar10_pipeline_estimator.main()
repeated_loop.main(["--runs=3"])
print("done", *arguments)
"""


def test_every_kind_of_call_has_its_series_and_its_plan(
    home: Path, tmp_path: Path
) -> None:
    script = tmp_path / "every.py"
    script.write_text(EVERY_KIND)
    result = executed(str(script), "--last", home=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("done --last\n")
    run = open_run("latest")
    assert (run.status, run.preset) == (RunStatus.FINISHED, "every.py")
    assert (run.directory / "run.log").read_text().endswith("done --last\n")
    calls = {call.began.call: call for call in calls_of(run)}
    kinds = ("fit 1", "fit 2", "run 1", "train 1", "train 2", "compile 1")
    for name in kinds:
        call = calls[name]
        assert call.last("loss") is not None, name
        plan = recorded_plan(run, call.began.plan)
        assert plan is not None, name
        assert plan.ipu_us_per_batch == call.last("ipu_us_per_batch"), name
        assert plan.memory, name
    assert calls["evaluate 1"].last("accuracy") is not None
    assert len(calls["run 1"].series.curve("loss").ys) == 3
    pipelined = recorded_plan(run, calls["train 2"].began.plan)
    assert pipelined is not None
    assert pipelined.schedule is not None
    page = report_page(run)
    assert all(call.title in page for call in calls.values())
    loss = calls["compile 1"].last("loss")
    assert f"loss {loss:.4f}" in result.stdout


KILLED = """
import os, signal
import numpy as np
from tensorflow import keras
from tensorflow.python import ipu
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

class Ends(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 2:
            os.kill(os.getpid(), signal.SIGKILL)

with ipu.ipu_strategy.IPUStrategy().scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    data = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")
    model.fit(*data, batch_size=4, epochs=9, verbose=0, callbacks=[Ends()])
"""


def test_a_killed_script_leaves_what_it_did(home: Path, tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    result = executed(str(script), home=tmp_path)
    assert result.returncode == -signal.SIGKILL, result.stderr
    run = open_run("latest")
    assert run.status is RunStatus.KILLED
    (call,) = calls_of(run)
    assert (call.title, call.ended) == ("fit 1 of sequential", None)


def test_another_program_can_be_asked_to_record_and_none_is_said_plainly(
    home: Path, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('ran')")
    entry = tmp_path / "site/watching-0.dist-info"
    entry.mkdir(parents=True)
    (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: watching\n")
    (entry / "entry_points.txt").write_text(
        "[ipu_runtime.script_watch]\n"
        "record = workbench.scripts.recording:ScriptRecording\n"
    )
    command = [sys.executable, "-m", "ipu_runtime", "--record", str(script)]
    environment = {**os.environ, "PYTHONPATH": str(entry.parent)}
    subprocess.run(command, check=True, env=environment, capture_output=True)
    run = open_run("latest")
    assert (run.preset, run.status) == ("script.py", RunStatus.FINISHED)
    assert (run.directory / "run.log").read_text() == "ran\n"
