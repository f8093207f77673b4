"""What the device refuses, in the words and with the exceptions of the runtime."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.request import PipelineRequest, PlanRequest
from ipu_runtime.plan.rules.request_checks import check_request
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind

from .test_schedule_properties import dense_model

CHAIN = dense_model([(-1,), (0,), (1,), (2,)])
SKIP = dense_model([(-1,), (0,), (0, 1), (2,)])
PLAIN = PlanRequest(CHAIN, batch_size=4, batches=96, steps_per_execution=24)
PIPED = replace(
    PLAIN,
    ipus=2,
    gradient_accumulation=8,
    pipeline=PipelineRequest((0, 0, 1, 1)),
)


def problems_of(request: PlanRequest, **changes: Any) -> list[Problem]:
    return list(check_request(replace(request, **changes)))


def only(problems: list[Problem]) -> Problem:
    assert len(problems) == 1, [str(problem) for problem in problems]
    return problems[0]


@pytest.mark.parametrize("request_", [PLAIN, PIPED])
def test_valid_requests_have_no_problems(request_: PlanRequest) -> None:
    assert check_request(request_) == ()


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_types_that_the_device_does_not_have_are_named(dtype: str) -> None:
    problem = only(problems_of(PLAIN, model=replace(CHAIN, dtype=dtype)))
    assert problem.severity is Severity.WARNING
    assert f"computes in {dtype}, which the device does not have" in problem.problem


def test_count_of_micro_batches_follows_the_overlap() -> None:
    problem = only(problems_of(PIPED, gradient_accumulation=6))
    assert problem.where == "execution.gradient_accumulation"
    assert problem.exception == "FailedPreconditionError"
    assert "try 4 or 8" in problem.hint
    assert problem.suggestion == 8


def test_io_tiles_ask_for_two_more_and_no_multiple() -> None:
    tiles = {"io_tiles.num_io_tiles": 32}
    assert problems_of(PIPED, gradient_accumulation=6, config=tiles) == []
    problem = only(problems_of(PIPED, gradient_accumulation=4, config=tiles))
    assert problem.suggestion == 6


def test_evaluation_counts_steps_per_execution() -> None:
    problem = problems_of(PIPED, training=False, steps_per_execution=3)[0]
    assert problem.where == "execution.steps_per_execution"
    assert problem.exception == "FailedPreconditionError"


def test_steps_per_execution_must_hold_whole_updates() -> None:
    problem = only(problems_of(PLAIN, gradient_accumulation=7, steps_per_execution=96))
    assert problem.exception == "RuntimeError"
    assert problem.where == "execution.steps_per_execution"


def test_steps_per_execution_must_divide_the_epoch() -> None:
    problem = only(problems_of(PIPED, steps_per_execution=40))
    assert problem.exception == "ValueError"
    assert problem.suggestion == 32
    assert "24, 32 or 48" in problem.hint


def test_too_many_steps_per_execution_are_lowered() -> None:
    problem = only(problems_of(PLAIN, steps_per_execution=400))
    assert problem.severity is Severity.WARNING
    assert problem.suggestion == 96


def test_lowered_steps_are_checked_again() -> None:
    found = problems_of(
        PLAIN, batches=90, steps_per_execution=400, gradient_accumulation=4
    )
    assert [p.exception for p in found] == ["", "RuntimeError"]


def test_layers_must_follow_the_data() -> None:
    cut = PipelineRequest((0, 1, 0, 1))
    assert "l2" in problems_of(PIPED, pipeline=cut)[0].problem
    found = problems_of(PIPED, pipeline=PipelineRequest((1, 0, 1, 1)), model=SKIP)
    assert found[0].problem.startswith("layer l1 in stage 0 has a dependency")
    assert "put l1 into stage 1 or later" in found[0].hint
    assert found[0].exception == "ValueError"


def test_a_stage_below_zero_is_told_where_ipus_are_mapped_too() -> None:
    cut = PipelineRequest((0, 0, 0, -2), device_mapping=(0,))
    found = problems_of(PIPED, pipeline=cut)
    assert found[0].problem == "layer l3 is in stage -2"


def test_a_skip_over_several_stages_is_fine() -> None:
    model = dense_model([(-1,), (0,), (1,), (0, 2)])
    found = problems_of(
        PIPED, model=model, pipeline=PipelineRequest((0, 1, 2, 3)), ipus=4
    )
    assert found == []


def test_an_empty_stage_is_a_runtime_error() -> None:
    cut = PipelineRequest((0, 0, 2, 2))
    found = problems_of(PIPED, model=SKIP, pipeline=cut, ipus=4)
    stages = [p for p in found if p.where == "pipeline.stages"]
    assert only(stages).exception == "RuntimeError"
    assert stages[0].suggestion == (0, 0, 1, 1)


def test_one_stage_is_no_pipeline() -> None:
    problem = only(problems_of(PIPED, pipeline=PipelineRequest((0, 0, 0, 0))))
    assert "at least two" in problem.problem
    assert problem.suggestion == (0, 0, 1, 1)


def test_too_few_ipus_name_the_power_of_two() -> None:
    cut = PipelineRequest((0, 1, 2, 2))
    problem = problems_of(PIPED, pipeline=cut, gradient_accumulation=6)[0]
    assert problem.where == "ipu.auto_select_ipus"
    assert problem.suggestion == 4


def test_idle_ipus_are_a_warning() -> None:
    cut = PipelineRequest((0, 1, 2, 2))
    found = problems_of(PIPED, pipeline=cut, gradient_accumulation=6, ipus=4)
    assert only(found).severity is Severity.WARNING


def test_odd_numbers_of_ipus_do_not_exist() -> None:
    problem = problems_of(PLAIN, ipus=3)[0]
    assert "2 or 4" in problem.hint
    assert problem.suggestion == 4


def test_more_ipus_than_the_system_has() -> None:
    assert problems_of(PLAIN, ipus=8)[0].suggestion == 4


def test_interleaved_training_needs_an_ipu_for_each_stage() -> None:
    cut = PipelineRequest((0, 0, 1, 1), ScheduleKind.INTERLEAVED, device_mapping=(0, 0))
    problem = problems_of(PIPED, pipeline=cut)[0]
    assert problem.exception == "NotImplementedError"
    assert problems_of(PIPED, pipeline=cut, training=False) == []


def test_recomputation_must_suit_the_schedule() -> None:
    cut = PipelineRequest(
        (0, 0, 1, 1), ScheduleKind.SEQUENTIAL, Recomputation.THEN_BACKPROPAGATE
    )
    problem = only(problems_of(PIPED, pipeline=cut))
    assert problem.exception == "UnimplementedError"
    assert problem.suggestion == "Auto"


def test_batches_that_replicas_cannot_share_are_dropped() -> None:
    found = problems_of(PLAIN, ipus=4, batches=97)
    assert "1 of 97" in only(found).problem


def test_unknown_system_lists_the_known_ones() -> None:
    problem = problems_of(PLAIN, system="M200")[0]
    assert problem.where == "execution.system"
    assert problem.suggestion == "M2000"
