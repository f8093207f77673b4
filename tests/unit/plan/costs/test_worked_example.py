"""The MNIST CNN, batch 64, fp32, on a GC200: every row of the worked example."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ipu_runtime.plan.costs.matrix_unit import MatrixMode, MatrixShape, plan_pass
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.request import PipelineRequest, PlanRequest

ONE_PERCENT = 0.01
FP32 = MatrixMode(8, 16, 8, 4, 4, 1472, 638976)


@pytest.fixture(scope="module")
def request_64(mnist_cnn: ModelSpec) -> PlanRequest:
    return PlanRequest(mnist_cnn, 64, 937, label_values=10, steps_per_execution=937)


@pytest.fixture(scope="module")
def plan(request_64: PlanRequest) -> Plan:
    return make_plan(request_64)


# (layer, pass, operations) of each row; the infeed and the loop are no layer's.
ROWS = [
    ("conv1 forward", [(0, "forward", None)], 5_152, 7),
    ("pool1", [(1, "forward", None)], 2_916, 2),
    ("conv2 forward", [(2, "forward", None)], 13_861, 8),
    ("pool2, dropout", [(3, "forward", None), (5, "forward", None)], 1_634, 5),
    ("dense, softmax, loss", [(6, "forward", None)], 2_765, 25),
    ("loss gradient", [(6, "backward", ["loss gradient"])], 334, 5),
    (
        "dense gradients",
        [(6, "backward", ["data gradient", "weight gradient", "bias gradient"])],
        2_276,
        13,
    ),
    (
        "dropout, pool2, relu2 backward",
        [(5, "backward", None), (3, "backward", None), (2, "backward", ["relu"])],
        3_323,
        5,
    ),
    (
        "conv2 gradients",
        [(2, "backward", ["data gradient", "weight gradient", "bias gradient"])],
        33_245,
        19,
    ),
    (
        "pool1, relu1 backward",
        [(1, "backward", None), (0, "backward", ["relu"])],
        7_296,
        4,
    ),
    (
        "conv1 gradients",
        [(0, "backward", ["weight gradient", "bias gradient"])],
        6_230,
        11,
    ),
    ("SGD", [(layer, "update", None) for layer in range(7)], 1_350, 6),
]


@pytest.mark.parametrize(
    ("parts", "work", "supersteps"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_row_of_the_worked_example(
    plan: Plan,
    parts: list[tuple[int, str, list[str] | None]],
    work: float,
    supersteps: int,
) -> None:
    ops = [
        op
        for layer, direction, names in parts
        for op in getattr(plan.layers[layer], f"{direction}_ops")
        if names is None or any(op.name.startswith(name) for name in names)
    ]
    assert sum(op.work for op in ops) == pytest.approx(work, rel=ONE_PERCENT)
    assert sum(op.supersteps for op in ops) == supersteps


def test_totals_of_the_worked_example(plan: Plan) -> None:
    step = plan.step
    assert step is not None
    clock_mhz, sigma = 1325, 1200
    device_us = step.compute_us + step.exchange_us + step.sync_us + step.update_us
    assert device_us * clock_mhz == pytest.approx(82_066 + 121 * sigma, rel=1e-4)
    assert device_us == pytest.approx(171.5, abs=0.05)
    assert step.infeed_us == pytest.approx(45.0, abs=0.05)
    assert plan.compile_s == pytest.approx(42.3)


PLANS = [
    ((43_264, 1, 32, 9), (2, 1, 736, 59), (1_532, 492, 0, 970), 5),
    ((7_744, 32, 64, 9), (4, 4, 92, 85), (8_634, 2_954, 810, 505), 6),
    ((64, 1600, 10, 1), (1, 200, 7, 10), (442, 260, 180, 70), 6),
    ((64, 10, 1600, 1), (100, 1, 14, 5), (668, 185, 0, 70), 5),
    ((1600, 64, 10, 1), (1, 8, 184, 9), (442, 242, 175, 80), 6),
    ((10_816, 64, 32, 9), (2, 8, 92, 118), (10_794, 3_654, 1_074, 705), 6),
    ((288, 7_744, 64, 1), (4, 121, 3, 96), (8_072, 5_632, 898, 1_528), 6),
    ((9, 43_264, 32, 1), (2, 676, 1, 9), (2_696, 1_456, 202, 265), 6),
]


@pytest.mark.parametrize(("shape", "split", "cycles", "supersteps"), PLANS)
def test_plan_of_the_worked_example(
    shape: tuple[int, ...],
    split: tuple[int, ...],
    cycles: tuple[int, ...],
    supersteps: int,
) -> None:
    found = plan_pass(MatrixShape(*shape), FP32, 0.6)
    assert found.groups_split == found.taps_split == 1
    assert (
        found.out_split,
        found.in_split,
        found.positions_split,
        found.positions_per_tile,
    ) == split
    parts = (found.compute, found.exchange, found.reduction, found.rearrangement)
    assert parts == pytest.approx(cycles, abs=0.51)
    assert found.supersteps == supersteps


def test_one_step_per_execution_takes_3_ms(request_64: PlanRequest) -> None:
    plan = make_plan(replace(request_64, steps_per_execution=1))
    assert plan.ipu_us_per_batch == pytest.approx(2_996, abs=1)


def test_an_epoch_per_execution_takes_219_us(plan: Plan) -> None:
    assert plan.ipu_us_per_batch == pytest.approx(219.4, abs=0.1)
    assert plan.ipu_us_per_batch == pytest.approx(224, rel=0.1)


def test_two_replicas_take_135_us_per_batch(request_64: PlanRequest) -> None:
    plan = make_plan(replace(request_64, ipus=2, batches=936, steps_per_execution=468))
    assert plan.replicas == 2
    assert plan.ipu_step_us == pytest.approx(270.0, abs=0.1)
    assert plan.ipu_us_per_batch == pytest.approx(135.0, abs=0.1)
    assert plan.all_reduce_us == pytest.approx(47.6, abs=0.05)


def test_two_stage_pipeline_of_the_worked_example(request_64: PlanRequest) -> None:
    plan = make_plan(
        replace(
            request_64,
            ipus=2,
            batches=936,
            steps_per_execution=936,
            gradient_accumulation=8,
            pipeline=PipelineRequest((0, 0, 0, 1, 1, 1, 1)),
        )
    )
    step = plan.step
    assert step is not None
    assert [stage.forward_us for stage in plan.stages] == pytest.approx(
        [79.9, 30.5], abs=0.05
    )
    assert [stage.backward_us for stage in plan.stages] == pytest.approx(
        [71.6, 25.9], abs=0.05
    )
    assert plan.copy_us == pytest.approx(83.5, abs=0.05)
    assert plan.run_us == pytest.approx(2_129.6, abs=0.1)
    assert plan.update_us == pytest.approx(12.6, abs=0.05)
    assert step.total_us - step.launch_us == pytest.approx(267.8, abs=0.1)
    assert step.launch_us == pytest.approx(3.0, abs=0.05)
