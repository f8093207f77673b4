"""Whichever call on a file fails, or is the last one: nothing that was there is lost.

After each: one clear line and exit code 1, or no word and all done; and whoever goes on
comes to the same bits. As SQLite tests itself; `make fault-test` goes through all calls
of every command, `make test` through a few. Each call really fails, or is the last of
its process; what several of them leave behind alike is gone on from once.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.faults.conftest import FIGURE
from tests.faults.faulty_commands import FAULTS, KILLED, Done, FaultyCommands, possible
from tests.faults.left_behind import left_behind
from tests.run_outcome import outcome
from workbench.runs.events import RunStatus
from workbench.runs.run_notes import RunNotes, read_notes
from workbench.runs.run_store import StoredRun, list_runs
from workbench.store_json import read_lines

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

EVERY = int(os.environ.get("IPU_WORKBENCH_FAULTS", "0"))
"""1 lets every call fail, n every nth; 0 a few of each command."""
SAMPLES = 3
"""Calls of each command that fail in each way then."""
APIS = ("cpu", "ipu_strategy", "ipu_estimator", "ipu_pipeline_estimator")
BYSTANDER = "200101-000000"
"""A run from before that nobody has to do with."""
GROUP = "grid"

_PRESET = """
[experiment]
title = "Made to fail"
seed = 7

[data]
dataset = "synthetic"
batch_size = 16
train_samples = {samples}
test_samples = 32
labels = "sparse"

[train]
optimizer = "adam"
learning_rate = 0.01
loss = "sparse_categorical_crossentropy"
epochs = {epochs}

[execution]
api = "{api}"
steps_per_execution = {steps}
gradient_accumulation = {steps}
checkpoint_every_s = {checkpoint_every_s}
{pipeline}
[[model.layers]]
name = "input"
kind = "Input"
shape = [8]

[[model.layers]]
name = "dense"
kind = "Dense"
units = 32
activation = "relu"

[[model.layers]]
name = "dropout"
kind = "Dropout"
rate = 0.25

[[model.layers]]
name = "dense_1"
kind = "Dense"
units = 4
activation = "softmax"
"""
_PIPELINE = """
[pipeline]
stages = [0, 1, 1]

[ipu]
auto_select_ipus = 2
"""


@dataclass(frozen=True)
class Scenario:
    """A command, where it runs, and what must be true after it."""

    arguments: tuple[str, ...]
    home: Path
    """What is there before; every fault gets a copy of it."""
    check: Callable[[Path, Done], None]
    """Holds what must be true at once after a fault."""
    go_on: Callable[[Path], None]
    """Goes on after the fault, and holds that all is as without it."""
    gone_on: dict[str, str] = field(default_factory=dict)
    """What was wrong then, by what the fault had left behind; empty: nothing."""

    def wrong_after(self, home: Path, done: Done) -> str:
        """Return what is wrong after a fault, and after going on; empty: nothing."""
        if wrong := _wrong(lambda: self.check(home, done)):
            return wrong
        state = left_behind(home, map(os.strerror, filter(None, FAULTS.values())))
        if state not in self.gone_on:
            self.gone_on[state] = _wrong(lambda: self.go_on(home))
        return self.gone_on[state]


def _wrong(held: Callable[[], None]) -> str:
    try:
        held()
    except Exception as error:
        return f"{type(error).__name__}: {error!s:.1000}"
    return ""


def _preset(api: str, directory: Path, *, short: bool = False) -> Path:
    """Return a preset whose runs write a checkpoint after every piece.

    Args:
        api: Of the preset.
        directory: To write it to.
        short: Whether one epoch is enough, with the checkpoint at its end: for sweeps,
            which handle a point's failure alike, whichever of its calls it was.
    """
    steps = 1 if api == "cpu" else 4
    path = directory / f"{api}{'-short' if short else ''}.toml"
    path.write_text(
        _PRESET.format(
            api=api,
            steps=steps,
            samples=32 * steps,
            epochs=1 if short else 2,
            checkpoint_every_s=1000 if short else 0.000001,
            pipeline=_PIPELINE if api == "ipu_pipeline_estimator" else "",
        )
    )
    return path


class Maker:
    """Makes scenarios: runs what has to be there before, and the reference."""

    def __init__(self, commands: FaultyCommands, directory: Path) -> None:
        self._commands, self._directory = commands, directory
        self._made: dict[str, Scenario] = {}
        self.home = directory / "before"
        preset = _preset("cpu", directory)
        self._done(self.home, "run", "--quiet", str(preset))
        (run,) = (self.home / "runs").glob("[0-9]*")
        run.rename(run.with_name(BYSTANDER))
        self._done(self.home, "runs", "note", BYSTANDER, "kept")

    def scenario(self, name: str) -> Scenario:
        """Return a scenario; what is there before it is made once."""
        if name not in self._made:
            kind, _, api = name.partition(" ")
            make = getattr(self, f"_{kind}")
            self._made[name] = make(api) if api else make()
        return self._made[name]

    def _copied(self, name: str) -> Path:
        """Return a new home with what is there before everything."""
        return shutil.copytree(self.home, self._directory / name)

    def _done(self, home: Path, *arguments: str) -> Done:
        done = self._commands(home, *arguments)
        assert done.code == 0, done.stderr
        return done

    def _going_on(self, home: Path, *arguments: str) -> None:
        done = self._done(home, *arguments)
        assert done.stderr == "", done.stderr

    def _run_to_its_end(self, home: Path, preset: Path) -> StoredRun:
        """Go on with the run that a command has begun, or begin it."""
        run = _new_run(home)
        if run is None:
            self._going_on(home, "run", "--quiet", str(preset))
        elif run.status is not RunStatus.FINISHED:
            self._going_on(home, "run", "--quiet", "--resume", run.run_id)
        run = _new_run(home)
        assert run is not None
        return run

    def _reference(self, api: str) -> tuple[Path, StoredRun]:
        preset, home = _preset(api, self._directory), self._directory / f"whole-{api}"
        if not home.exists():
            self._copied(home.name)
        return preset, self._run_to_its_end(home, preset)

    def _run(self, api: str) -> Scenario:
        """A short run."""
        preset, reference = self._reference(api)
        expected = _outcome_in(reference.directory.parent.parent)

        def check(home: Path, done: Done) -> None:
            if done.code == 0:
                run = _new_run(home)
                assert run is not None
                assert run.status is RunStatus.FINISHED, run.message

        def go_on(home: Path) -> None:
            self._run_to_its_end(home, preset)
            assert _outcome_in(home) == expected
            _assert_tidy(home)

        return Scenario(("run", "--quiet", str(preset)), self.home, check, go_on)

    def _resume(self, api: str) -> Scenario:
        """Going on with a run that was killed after its first epoch."""
        preset, reference = self._reference(api)
        expected = _outcome_in(reference.directory.parent.parent)
        words = ("run", "--quiet", str(preset))
        whole = self._done(self._copied(f"first-{api}"), *words).calls
        home = self._copied(f"killed-{api}")
        first = next(i for i, call in enumerate(whole) if "epoch-000001.npz" in call)
        assert self._commands(home, *words, at=first + 3).killed
        run = _new_run(home)
        assert run is not None

        def check(home: Path, done: Done) -> None:
            if done.code == 0:
                assert _outcome_in(home) == expected

        def go_on(home: Path) -> None:
            self._run_to_its_end(home, preset)
            assert _outcome_in(home) == expected
            _assert_tidy(home)

        resuming = ("run", "--quiet", "--resume", run.run_id)
        return Scenario(resuming, home, check, go_on)

    def _sweep(self, how: str) -> Scenario:
        """A sweep of two points; a CPU has no figures to plan."""
        api = "cpu" if how == "trained" else "ipu_strategy"
        preset = _preset(api, self._directory, short=True)
        begin = (
            *("sweep", str(preset), "--json", "--group", GROUP),
            *("--grid", "train.learning_rate=0.01,0.1"),
            *(() if how == "trained" else ("--plan-only",)),
        )
        whole = self._copied(f"whole-{how}")
        self._done(whole, *begin)
        expected = _points(whole)

        def check(home: Path, done: Done) -> None:
            if done.code == 0:
                assert _points(home) == expected

        def go_on(home: Path) -> None:
            known = (home / "sweeps" / GROUP).is_dir()
            words = ("sweep", "--json", "--resume", GROUP) if known else begin
            self._going_on(home, *words)
            assert _points(home) == expected
            _assert_tidy(home)

        return Scenario(begin, self.home, check, go_on)

    def _note(self) -> Scenario:
        """A note in place of another one."""
        home = self._copied("noted")
        run = home / "runs" / BYSTANDER
        shutil.copytree(run, home / "runs" / "noted")
        self._done(home, "runs", "tag", "noted", "a")
        old, new = RunNotes(note="kept", tags=("a",)), RunNotes(note="new", tags=("a",))

        def check(home: Path, done: Done) -> None:
            notes = read_notes(home / "runs" / "noted")
            assert notes in ((new,) if done.code == 0 else (old, new))

        def go_on(home: Path) -> None:
            self._done(home, "runs", "note", "noted", "new")
            assert read_notes(home / "runs" / "noted") == new
            self._done(home, "runs", "delete", "noted", "--yes")
            _assert_tidy(home)

        return Scenario(("runs", "note", "noted", "new"), home, check, go_on)

    def _delete(self) -> Scenario:
        """A run that is deleted."""
        home = self._copied("deleted")
        shutil.copytree(home / "runs" / BYSTANDER, home / "runs" / "gone")
        shutil.copytree(home / "runs" / BYSTANDER, home / "runs" / "other")
        whole = _files(home / "runs" / "gone")

        def check(home: Path, done: Done) -> None:
            gone = home / "runs" / "gone"
            if done.code == 0:
                assert not gone.exists()
            if gone.exists():
                assert _files(gone) == whole

        def go_on(home: Path) -> None:
            gone = home / "runs" / "gone"
            if gone.exists():
                self._done(home, "runs", "delete", "gone", "--yes")
            assert not gone.exists()
            # Whatever is left of it goes with the next.
            self._done(home, "runs", "delete", "other", "--yes")
            _assert_tidy(home)

        return Scenario(("runs", "delete", "gone", "--yes"), home, check, go_on)


def _new_run(home: Path) -> StoredRun | None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPU_WORKBENCH_HOME", str(home))
        runs = [run for run in list_runs() if run.run_id != BYSTANDER]
        assert len(runs) <= 1
        return runs[0] if runs else None


def _outcome_in(home: Path) -> tuple[object, ...]:
    run = _new_run(home)
    assert run is not None
    return outcome(run)


def _points(home: Path) -> dict[str, object]:
    """Return what the points have come to, without the time that they took."""
    rows = read_lines(home / "sweeps" / GROUP / "points.jsonl")
    points: dict[str, object] = {}
    for row in rows:
        metrics = row["metrics"].items()
        told = {name: value for name, value in metrics if not _MEASURED.search(name)}
        points[json.dumps(row["values"])] = told, row["problem"]
    return points


def _files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        # A lock holds the number of whoever had it last.
        if path.is_file() and path.name != "lock"
    }


def _assert_tidy(home: Path) -> None:
    """Hold that nothing half-made is left once somebody has gone on."""
    rest = [path for path in home.rglob("*") if _HALF_MADE.search(path.name)]
    assert rest == []


_MEASURED = re.compile("host|seconds")
_HALF_MADE = re.compile(r"\.new$|\.deleted$|tempstate|\.tmp")


def _assert_clear(done: Done, fault: str) -> None:
    """Hold that a command says in one line what it could not do, or nothing."""
    if done.killed:
        assert fault == KILLED
        return
    assert fault != KILLED, "it outlived its end"
    assert "Traceback" not in done.stderr, done.stderr
    assert done.code in (0, 1), (done.code, done.stderr)
    if done.code:
        reason = os.strerror(FAULTS[fault])
        assert reason in done.stderr, (done.stderr, done.stdout)
        assert done.stderr.count("\n") == 1, done.stderr


SCENARIOS = (
    *(f"run {api}" for api in APIS),
    *(f"resume {api}" for api in APIS),
    "sweep trained",
    "sweep planned",
    "note",
    "delete",
)


OFTEN = (
    ("run cpu", KILLED),
    ("run ipu_estimator", "EIO"),
    ("sweep planned", "ENOSPC"),
    ("note", "EACCES"),
    ("delete", KILLED),
)
"""What `make test` has time for."""


def _numbers(count: int) -> Iterator[int]:
    if EVERY:
        yield from range(1, count + 1, EVERY)
        return
    yield from sorted({1 + count * k // SAMPLES for k in range(SAMPLES)})


@pytest.fixture(scope="module")
def maker(commands: FaultyCommands, tmp_path_factory: pytest.TempPathFactory) -> Maker:
    return Maker(commands, tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        pytest.param(
            *case,
            marks=(
                # What a scenario needs is made once, by the process that tries it.
                pytest.mark.xdist_group(case[0]),
                *(() if case in OFTEN else (pytest.mark.thorough,)),
            ),
            id="-".join(case),
        )
        for case in itertools.product(SCENARIOS, FAULTS)
    ],
)
def test_nothing_is_lost(
    name: str,
    fault: str,
    maker: Maker,
    commands: FaultyCommands,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    scenario = maker.scenario(name)
    whole = tmp_path / "whole"
    shutil.copytree(scenario.home, whole)
    calls = commands(whole, *scenario.arguments).calls
    before = _files(scenario.home / "runs" / BYSTANDER)
    wrong: list[str] = []
    faults = 0
    for number in _numbers(len(calls)):
        if not possible(fault, calls[number - 1]):
            continue
        home = tmp_path / "faulty"
        shutil.copytree(scenario.home, home)
        done = commands(home, *scenario.arguments, at=number, fault=fault)
        if len(done.calls) < number:
            shutil.rmtree(home)
            break
        faults += 1
        place = f"{number} {done.calls[number - 1]}"
        if problem := _wrong(partial(_assert_clear, done, fault)):
            wrong.append(f"{place}: {problem}")
        elif _files(home / "runs" / BYSTANDER) != before:
            wrong.append(f"{place}: another run is not what it was")
        elif problem := scenario.wrong_after(home, done):
            wrong.append(f"{place}: {problem}")
        shutil.rmtree(home)
    record_property(FIGURE, (name, faults - len(wrong), faults, len(scenario.gone_on)))
    assert not wrong, "\n".join(wrong)
