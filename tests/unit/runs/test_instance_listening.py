"""What a run makes of what its instances say; no process is needed for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from workbench.data.epoch_order import EpochOrder
from workbench.experiment.experiment_loading import load_experiment
from workbench.instances import instance_run
from workbench.instances.instance_job import InstanceJob
from workbench.instances.instance_lines import (
    Alive,
    Failed,
    Here,
    line_of,
    read_line,
)
from workbench.instances.instance_run import train_on_instances
from workbench.instances.instance_spread import spread_words
from workbench.instances.instance_states import InstanceStates
from workbench.instances.starting import Left, Said
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.event_json import event_from_json, event_to_json
from workbench.runs.events import (
    EpochEnded,
    Event,
    InstancesSeen,
    InstanceState,
    Progressed,
)
from workbench.runs.run_context import InstanceFailure, RunContext, RunControl

HERE = [Said(index, line_of(Here("host", 10 + index))) for index in (0, 1)]
EPOCH = EpochEnded(1, 0.5, 0.8, 12.0, 250.0, 1.0)


def _progress(step: int, step_ms: float) -> Progressed:
    return Progressed(1, step, 100, 0.5, None, step_ms, 250.0)


class Scripted:
    """Instances that say what a test wants, then nothing."""

    def __init__(self, says: Sequence[Said | Left]) -> None:
        self.says, self.told = list(says), list[tuple[int, str]]()
        self.running = False

    def tell(self, instance: int, line: str) -> None:
        """Note what an instance is told."""
        self.told.append((instance, line))

    def heard(self, timeout_s: float) -> Said | Left | None:
        """Say the next thing."""
        return self.says.pop(0) if self.says else None

    @contextmanager
    def start(self, job: InstanceJob) -> Iterator[Scripted]:
        """Note that they run, and that they end."""
        self.running = True
        try:
            yield self
        finally:
            self.running = False


def _run(
    scripted: Scripted, directory: Path, control: RunControl | None = None
) -> list[Event]:
    spec = load_experiment("mnist-popdist").spec
    assert spec is not None
    events: list[Event] = []
    plan = plan_experiment(spec)
    context = RunContext(events.append, control or RunControl(), directory, plan)
    train_on_instances(spec, context, scripted.start)
    assert not scripted.running
    return events


def test_the_first_instance_speaks_for_the_run(tmp_path: Path) -> None:
    says = [
        *HERE,
        Said(0, line_of(_progress(10, 12.0))),
        Said(1, line_of(_progress(10, 13.0))),
        Said(1, "printed by a library\n"),
        Said(0, line_of(EPOCH)),
        Left(0, 0),
    ]
    events = _run(Scripted(says), tmp_path)
    assert [event for event in events if isinstance(event, Progressed)] == [
        _progress(10, 12.0)
    ]
    assert EPOCH in events
    seen = events[-1]
    assert isinstance(seen, InstancesSeen)
    assert [state.host_step_ms for state in seen.instances] == [12.0, 13.0]


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ([Left(1, 137)], "instance 1 of 2 was ended by SIGKILL, so all were ended"),
        ([Left(1, 0)], "instance 1 of 2 has ended with exit code 0"),
        ([Said(1, line_of(Failed("ValueError: no", False)))], "1 of 2: ValueError: no"),
        # The one that hears of it first is not the one to blame.
        (
            [
                Said(0, line_of(Failed("lost the connection", True))),
                Left(0, 1),
                Left(1, 137),
            ],
            "instance 1 of 2 was ended by SIGKILL",
        ),
    ],
)
def test_one_that_fails_ends_all_and_is_named(
    says: list[Said | Left], expected: str, tmp_path: Path
) -> None:
    scripted = Scripted([*HERE, *says])
    with pytest.raises(InstanceFailure, match=expected):
        _run(scripted, tmp_path)
    assert not scripted.running


@pytest.mark.parametrize(
    ("patience", "says", "expected"),
    [
        ("_SILENCE_S", [], "0 of 2 has not been heard of"),
        (
            "_CAUSE_S",
            [Said(index, line_of(Failed("lost it", True))) for index in (0, 1)],
            "instance 0 of 2: lost it",
        ),
        (
            "_CAUSE_S",
            [Said(0, line_of(Failed("lost it", True)))],
            "instance 1 of 2 has not been heard of for 0 s",
        ),
    ],
)
def test_waiting_has_an_end(
    patience: str,
    says: list[Said | Left],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(instance_run, patience, 0.05)
    with pytest.raises(InstanceFailure, match=expected):
        _run(Scripted(says), tmp_path)


def test_wishes_go_to_the_first_instance(tmp_path: Path) -> None:
    control = RunControl()
    control.pause()
    scripted = Scripted([])
    steps = iter([control.resume, control.stop.set, lambda: None])

    def heard(timeout_s: float) -> Said | Left | None:
        step = next(steps, None)
        if step is None:
            return Left(0, 0)
        step()
        return None

    scripted.heard = heard  # type: ignore[method-assign]
    _run(scripted, tmp_path, control)
    assert scripted.told == [(0, "pause\n"), (0, "resume\n"), (0, "stop\n")]


def test_one_that_does_not_stop_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_run, "_STOPPING_S", 0.0)
    control = RunControl()
    control.stop.set()
    _run(Scripted([]), tmp_path, control)


@pytest.mark.parametrize(
    "said", [Here("host", 7), Alive(1.5), Failed("why", True), EPOCH]
)
def test_lines_can_be_read_again(said: Event | Here | Alive | Failed) -> None:
    assert read_line(line_of(said)) == said


@pytest.mark.parametrize(
    "line", ["", "[1]", "7", '{"instance": 3}', '{"instance": "here", "x": 1}', "{}"]
)
def test_other_lines_say_nothing(line: str) -> None:
    assert read_line(line) is None


def test_processor_time_is_that_of_the_steps_since() -> None:
    states = InstanceStates(1)
    states.began(0, "host", 7)
    states.used(0, 5.0)  # Loading, which is no time of a step.
    states.progressed(0, _progress(10, 12.0))
    states.used(0, 6.0)
    states.progressed(0, _progress(30, 12.0))
    states.used(0, 6.5)
    seen = states.news(now=0.0, every_s=1.0)
    assert seen is not None
    assert seen.instances == (InstanceState("host", 7, 30, 12.0, 25.0),)
    states.progressed(0, _progress(40, 12.0))
    assert states.news(now=0.5, every_s=1.0) is None
    assert states.news(now=1.5, every_s=1.0) is not None


def test_the_slowest_is_named_with_the_spread() -> None:
    states = [
        InstanceState("a", 1, 10, 12.0, 8.0, 4),
        InstanceState("b", 2, 10, 15.0, 9.0, 4),
        InstanceState("b", 3, 10, 13.0, 8.5, 4),
    ]
    assert spread_words(states) == (
        "3 instances: 3.00 ms to 3.75 ms per batch, slowest 1; CPU 2.00 ms to 2.25 ms"
    )
    assert spread_words([InstanceState("a", 1)] * 2) == "2 instances"


@pytest.mark.parametrize("instances", [[7], [{"host": 1, "pid": 2}], [{}], {}, None])
def test_states_that_cannot_be_are_no_event(instances: object) -> None:
    assert event_from_json({"event": "instances", "instances": instances}) is None


def test_states_are_stored() -> None:
    seen = InstancesSeen((InstanceState("a", 1, 10, 12.0, 8.0),))
    assert event_from_json(event_to_json(seen)) == seen


def test_instances_have_the_batches_of_their_replicas() -> None:
    order = EpochOrder(50, 50, 3, shuffle=True, continues=False, per_step=4 * 3)
    batches = order.indices(1)[:48].reshape(16, 3)
    for instance in (0, 1):
        # In one process, batch i belongs to replica i modulo 4.
        own = [i for i in range(16) if i % 4 in (2 * instance, 2 * instance + 1)]
        expected = np.concatenate([batches[i] for i in own])
        np.testing.assert_array_equal(order.share(1, instance, 2), expected)


def test_one_process_has_all_samples() -> None:
    order = EpochOrder(50, 50, 3, shuffle=True, continues=False, per_step=12)
    np.testing.assert_array_equal(order.share(1, 0, 1), order.indices(1))
