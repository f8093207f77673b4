"""Timelines as text."""

from __future__ import annotations

from ipu_runtime.plan.schedule.building import build_schedule
from ipu_runtime.plan.schedule.schedule import Recomputation, Schedule, ScheduleKind
from ipu_runtime.plan.schedule.timeline import StageTimes, build_timeline
from ipu_runtime.reports.plan_words import replica_lines
from ipu_runtime.reports.timeline_part import timeline_part
from workbench.views.drawings import timeline_lines as drawn_lines


def timeline_lines(
    schedule: Schedule, width: int = 100, *, ascii_only: bool = False, **replicas: int
) -> list[str]:
    same = (1.0,) * schedule.stages
    timed = build_timeline(schedule, StageTimes(same, same, same))
    part = timeline_part(timed, **replicas)
    return drawn_lines(part, width, ascii_only=ascii_only)


def test_two_stages_look_like_the_published_figure() -> None:
    schedule = build_schedule(ScheduleKind.GROUPED, 2, 4)
    *lines, legend = timeline_lines(schedule, ascii_only=True)
    assert legend.startswith("F forward, B backward, U weight update; the number")
    assert lines == [
        "      ramp up  main        down",
        "IPU0 |F0 F1 .. F2 B0 F3 B1 .. B2 B3|U",
        "IPU1 |.. F0 B0 F1 B1 F2 B2 F3 B3 ..|U",
    ]


def test_recomputation_shares_a_cell_with_the_forward_pass() -> None:
    schedule = build_schedule(
        ScheduleKind.INTERLEAVED,
        2,
        4,
        recomputation=Recomputation.THEN_BACKPROPAGATE,
    )
    lines = timeline_lines(schedule, ascii_only=True)
    assert lines[1].split()[3] == "F1+R0"
    assert "R recomputation" in lines[-1]


def test_long_runs_keep_both_ends_within_the_width() -> None:
    schedule = build_schedule(ScheduleKind.GROUPED, 8, 1024)
    lines = timeline_lines(schedule, 80)
    assert max(map(len, lines)) <= 80
    assert "F0" in lines[1]
    assert "B1023" in lines[1]
    assert "···" in lines[1]


def test_shared_ipus_name_the_stage() -> None:
    schedule = build_schedule(ScheduleKind.GROUPED, 3, 6, device_mapping=(0, 1, 0))
    lines = timeline_lines(schedule, 200)
    assert len(lines) == 4
    # In the order of time, as the app draws them.
    assert "2F0+0F2" in lines[1]


def test_rows_name_the_ipus_of_all_replicas() -> None:
    schedule = build_schedule(ScheduleKind.GROUPED, 3, 6)
    lines = timeline_lines(schedule, replicas=2, ipus_per_replica=4)
    assert lines[2].startswith("IPU 1,5 ")
    assert replica_lines(2, 4, 3) == [
        "replica 0: IPU 0 to 2, IPU 3 reserved without a stage",
        "replica 1: IPU 4 to 6, IPU 7 reserved without a stage",
    ]
