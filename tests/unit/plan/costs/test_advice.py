"""Advice is only given for what was planned and found faster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ipu_runtime.plan.advice import advise
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.request import PipelineRequest, PlanRequest


@pytest.fixture
def base(mnist_cnn: ModelSpec) -> PlanRequest:
    return PlanRequest(mnist_cnn, 64, 936, label_values=10)


def test_one_step_per_execution_is_the_first_thing_to_change(base: PlanRequest) -> None:
    advice = advise(make_plan(base))
    assert advice[0].changes == {"execution.steps_per_execution": 936}
    assert advice[0].part == "launch"
    assert advice[0].before_us == pytest.approx(2780)
    assert advice[0].after_us == pytest.approx(2780 / 936)
    assert advice[0].saved == pytest.approx(1 - 219.4 / 2996.5, abs=0.001)


def test_io_tiles_pay_for_the_image_stream(base: PlanRequest) -> None:
    request = replace(base, steps_per_execution=936)
    (advice,) = advise(make_plan(request))
    ((path, tiles),) = advice.changes.items()
    assert path == "ipu.io_tiles.num_io_tiles"
    changes = {"io_tiles.num_io_tiles": tiles}
    followed = make_plan(replace(request, config=changes))
    assert followed.ipu_us_per_batch == pytest.approx(advice.us_per_batch)


def test_a_small_model_does_not_gain_from_a_pipeline(base: PlanRequest) -> None:
    plan = make_plan(
        replace(
            base,
            ipus=2,
            gradient_accumulation=8,
            steps_per_execution=936,
            pipeline=PipelineRequest((0, 0, 0, 1, 1, 1, 1)),
        )
    )
    alone = {"pipeline.stages": [], "ipu.auto_select_ipus": 1}
    assert alone in [item.changes for item in advise(plan)]


def test_replicas_should_merge_their_reductions(base: PlanRequest) -> None:
    plan = make_plan(replace(base, ipus=2, steps_per_execution=468))
    paths = [path for item in advise(plan) for path in item.changes]
    assert "ipu.optimizations.maximum_cross_replica_sum_buffer_size" in paths


def test_no_advice_for_what_cannot_run(base: PlanRequest) -> None:
    assert advise(make_plan(replace(base, system="nothing"))) == ()
