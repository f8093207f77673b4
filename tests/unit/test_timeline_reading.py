"""What the words about a task call waiting is what the plan calls waiting."""

from __future__ import annotations

import pytest

from ipu_runtime.plan.plan_timeline import plan_timeline
from ipu_runtime.plan.schedule.building import build_schedule
from ipu_runtime.plan.schedule.schedule import ScheduleKind
from ipu_runtime.plan.schedule.timeline import StageTimes, build_timeline
from workbench.experiment.experiment_loading import load_experiment
from workbench.planning.experiment_plan import plan_experiment
from workbench.planning.timeline_reading import idle_before, task_words


@pytest.mark.parametrize(
    ("preset", "schedule"),
    [
        ("mnist-ipu-pipelined", "Grouped"),
        ("mnist-ipu-pipelined", "Interleaved"),
        ("mnist-ipu-pipelined", "Sequential"),
        ("mnist-dense-8-stages", "Grouped"),
        ("bert-large-pod16", "Grouped"),
    ],
)
def test_waiting_before_tasks_adds_up_to_that_of_the_plan(
    preset: str, schedule: str
) -> None:
    spec = load_experiment(preset, [f"pipeline.schedule={schedule}"]).spec
    assert spec is not None
    plan = plan_experiment(spec)
    timeline = plan_timeline(plan)
    assert timeline is not None
    assert plan.step is not None
    copies_us = plan.copy_us * len(timeline.schedule.program_steps)
    waited_us = 0.0
    for ipu in timeline.ipus:
        tasks = list(timeline.intervals(ipu))
        idle = [idle_before(timeline, ipu, task) for task in tasks]
        before_us = sum(item.copies_us for item in idle)
        assert before_us / plan.copy_us == pytest.approx(
            round(before_us / plan.copy_us), abs=1e-6
        )
        after_us = timeline.total_us - tasks[-1].end_us
        waited_us += sum(item.waited_us for item in idle)
        waited_us += after_us - (copies_us - before_us)
    each = waited_us / len(timeline.ipus) / timeline.schedule.micro_batches
    assert each == pytest.approx(plan.step.waiting_us)


TIMES = StageTimes((30.0, 30.0), (40.0, 40.0), copy_us=10.0)


def test_words_call_copies_copies() -> None:
    timeline = build_timeline(build_schedule(ScheduleKind.GROUPED, 2, 4), TIMES)
    first = next(timeline.intervals(1))
    words = "F0 of stage 1: 30.0 us from 40.0 us, waited 30.0 us for F0 of IPU0"
    assert task_words(timeline, 1, first) == words
    second = list(timeline.intervals(0))[1]
    words = "F1 of stage 0: 30.0 us from 40.0 us, after 10.0 us of copies"
    assert task_words(timeline, 0, second) == words


def test_schedules_of_others_wait_for_what_they_need() -> None:
    timeline = build_timeline(build_schedule(ScheduleKind.ONE_F_ONE_B, 2, 4), TIMES)
    idle = idle_before(timeline, 1, next(timeline.intervals(1)))
    assert (idle.waited_us, idle.copies_us) == (30.0, 10.0)
