"""Traces that Perfetto opens."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.plan_timeline import plan_timeline
from ipu_runtime.plan.trace import chrome_trace
from workbench.experiment.experiment_loading import load_experiment
from workbench.planning.experiment_plan import plan_experiment


def planned(name: str, *changes: str) -> Plan:
    spec = load_experiment(name, changes).spec
    assert spec is not None
    return plan_experiment(spec)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planned("mnist-ipu-pipelined", "ipu.auto_select_ipus=4")


@pytest.fixture(scope="module")
def events(plan: Plan) -> list[dict[str, Any]]:
    return list(chrome_trace(plan)["traceEvents"])


def of_kind(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == kind]


def test_every_task_of_every_replica_is_there_once(
    plan: Plan, events: list[dict[str, Any]]
) -> None:
    assert plan.schedule is not None
    tasks = [e for e in of_kind(events, "X") if "mb" in e["args"]]
    expected = sum(map(len, plan.schedule.slots)) * plan.replicas
    assert plan.replicas == 2
    assert len(tasks) == expected
    assert len({(e["pid"], e["tid"], e["name"]) for e in tasks}) == expected


def test_slices_of_a_thread_never_overlap(events: list[dict[str, Any]]) -> None:
    threads = defaultdict(list)
    for event in of_kind(events, "X"):
        threads[event["pid"], event["tid"]].append(event)
    assert len(threads) == 4
    for slices in threads.values():
        slices.sort(key=lambda event: event["ts"])
        for before, after in pairwise(slices):
            assert before["ts"] + before["dur"] <= after["ts"] + 0.002


def test_names_say_which_ipu_belongs_to_which_replica(
    events: list[dict[str, Any]],
) -> None:
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in of_kind(events, "M")
        if event["name"] == "thread_name"
    }
    assert names == {
        (0, 0): "IPU 0",
        (0, 1): "IPU 1",
        (1, 0): "IPU 2",
        (1, 1): "IPU 3",
    }


def test_arrows_come_in_pairs_and_point_forward(events: list[dict[str, Any]]) -> None:
    starts = {event["id"]: event for event in of_kind(events, "s")}
    ends = {event["id"]: event for event in of_kind(events, "f")}
    assert starts.keys() == ends.keys()
    # One activation and one gradient per micro-batch, on two replicas.
    assert len(starts) == 2 * 8 * 2
    assert all(starts[number]["ts"] <= ends[number]["ts"] for number in starts)


def test_counters_end_with_an_empty_stash(events: list[dict[str, Any]]) -> None:
    stash = [e for e in of_kind(events, "C") if (e["pid"], e["tid"]) == (0, 0)]
    assert max(event["args"]["bytes"] for event in stash) > 0
    assert stash[-1]["args"]["bytes"] == 0


def test_update_follows_the_last_backward_pass(
    plan: Plan, events: list[dict[str, Any]]
) -> None:
    timeline = plan_timeline(plan)
    assert timeline is not None
    updates = [e for e in of_kind(events, "X") if e["name"] == "weight update"]
    assert len(updates) == 4
    assert min(e["ts"] for e in updates) >= timeline.total_us


def test_plain_model_shows_its_layers() -> None:
    plan = planned("mnist-ipu")
    slices = of_kind(chrome_trace(plan)["traceEvents"], "X")
    names = [event["name"] for event in slices]
    assert names[0] == plan.layers[0].name
    assert names[-1] == "weight update"
    assert len(names) == 2 * len(plan.layers) + 1


def test_long_run_says_what_it_leaves_out() -> None:
    changes = ("execution.gradient_accumulation=100000", "data.dataset=synthetic")
    plan = planned("mnist-ipu-pipelined", *changes, "data.train_samples=6400000")
    trace = chrome_trace(plan)
    tasks = [e for e in of_kind(trace["traceEvents"], "X") if "mb" in e["args"]]
    assert plan.schedule is not None
    left_out = trace["otherData"]["tasks_left_out"]
    assert len(tasks) + left_out == plan.schedule.tasks == 400_000
    assert len(tasks) <= 50_000
    numbers = {event["args"]["mb"] for event in tasks}
    assert {0, 1, 5_000, 95_000, 99_999} <= numbers
    assert 50_000 not in numbers
    ends = [event["ts"] + event["dur"] for event in tasks]
    assert max(ends) <= plan.run_us < max(ends) + 100
    stash = of_kind(trace["traceEvents"], "C")
    assert stash[-1]["args"]["bytes"] == 0


def test_short_run_is_whole(plan: Plan) -> None:
    assert chrome_trace(plan)["otherData"]["tasks_left_out"] == 0
