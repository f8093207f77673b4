"""Timelines as text."""

from __future__ import annotations

from ipu_runtime.plan.schedule.building import build_schedule
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind
from workbench.views.timeline_text import (
    legend,
    replica_lines,
    timeline_lines,
)


def test_two_stages_look_like_the_published_figure() -> None:
    schedule = build_schedule(ScheduleKind.GROUPED, 2, 4)
    assert timeline_lines(schedule, ascii_only=True) == [
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
    assert timeline_lines(schedule, ascii_only=True)[1].split()[3] == "F1+R0"
    assert "R recomputation" in legend(schedule)


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
    assert len(lines) == 3
    assert "0F2+2F0" in lines[1]


def test_rows_name_the_ipus_of_all_replicas() -> None:
    schedule = build_schedule(ScheduleKind.GROUPED, 3, 6)
    lines = timeline_lines(schedule, replicas=2, ipus_per_replica=4)
    assert lines[2].startswith("IPU 1,5 ")
    assert replica_lines(2, 4, 3) == [
        "replica 0: IPU 0 to 2, IPU 3 reserved without a stage",
        "replica 1: IPU 4 to 6, IPU 7 reserved without a stage",
    ]
