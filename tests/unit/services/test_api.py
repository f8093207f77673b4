"""The workbench from Python: the functions that commands call."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from workbench import api
from workbench.headless import main as command_line
from workbench.runs.events import EpochEnded, Event, RunStatus
from workbench.services.refused import Refused

SMALL = [
    "data.train_samples=512",
    "data.test_samples=128",
    "train.epochs=1",
    "train.steps_per_epoch=16",
    "execution.steps_per_execution=16",
]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    """Return the object that a command prints."""
    command_line.main([*words, "--json"], {}, lambda **_: 1)
    row: dict[str, object] = json.loads(capsys.readouterr().out)
    return row


def test_a_plan_is_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    experiment = api.load("mnist-ipu-pipelined", ["data.batch_size=32"])
    plan = api.plan(experiment)
    row = printed(capsys, "plan", "mnist-ipu-pipelined", "--set", "data.batch_size=32")
    assert row["samples_per_second"] == plan.samples_per_second
    assert api.plan(experiment, inference=True).request.training is False


def test_best_stages_are_those_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    balanced = api.balance(api.load("mnist-ipu-pipelined"), 2)
    row = printed(capsys, "balance", "mnist-ipu-pipelined", "--stages", "2")
    assert row["stage_of_layer"] == list(balanced.result.stage_of_layer)


def test_best_settings_are_never_worse_than_the_experiment() -> None:
    experiment = api.load("mnist-ipu-pipelined")
    outcome = api.optimize(experiment, ipus=2)
    now = api.plan(experiment).samples_per_second
    assert outcome.best[0].plan.samples_per_second >= now
    with pytest.raises(Refused) as refused:
        api.optimize(experiment, ipus=3)
    assert refused.value.hint == "a power of two: 1, 2, 4, ..."


def test_what_is_wrong_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        api.load("mnist-dense", ["data.batch_sise=3"])
    problem = "unknown field, did you mean data.batch_size?"
    assert refused.value.problem == problem
    with pytest.raises(Refused) as refused:
        api.load("mnist-denze")
    assert refused.value.hint == "did you mean mnist-dense?"


def test_planning_loads_no_tensorflow() -> None:
    code = (
        "from workbench import api\n"
        "api.plan(api.load('mnist-dense')); api.runs()\n"
        "import sys; print(*{'tensorflow', 'textual'} & sys.modules.keys())"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.slow
def test_a_run_is_trained_here_and_listed() -> None:
    events: list[Event] = []
    run = api.run(api.load("mnist-dense", SMALL), watch=events.append)
    assert run.status is RunStatus.FINISHED
    assert [item.run_id for item in api.runs()] == [run.run_id]
    told = [item.loss for item in events if isinstance(item, EpochEnded)]
    assert list(run.series().epochs["loss"].ys) == told
