"""Every IPUConfig field that is said to act does act, and only those do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ipu_runtime.plan.config.config_effects import MODELLED_CONFIG, effect_on_plan
from ipu_runtime.plan.config.config_fields import IPU_CONFIG_FIELDS
from ipu_runtime.plan.config.field import Affects
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.request import PipelineRequest, PlanRequest

Figures = tuple[float, ...]
HALF = {"partialsType": "half"}
TIGHT = {"availableMemoryProportion": "0.02"}


@pytest.fixture
def plain(mnist_cnn: ModelSpec) -> PlanRequest:
    return PlanRequest(
        replace(mnist_cnn, dtype="float16"),
        256,
        936,
        label_values=10,
        steps_per_execution=468,
        ipus=2,
    )


def figures(request: PlanRequest) -> Figures:
    plan = make_plan(request)
    assert plan.step is not None
    fullest = max(item.fullest_tile_bytes for item in plan.memory)
    return (plan.ipu_step_us, fullest, plan.memory[0].by_category["code"])


CHANGES = [
    ("allow_recompute", True),
    ("convolutions.poplar_options", HALF),
    ("convolutions.poplar_options", TIGHT),
    ("matmuls.poplar_options", HALF),
    ("io_tiles.num_io_tiles", 128),
    ("ipu_model.tiles_per_ipu", 64),
    ("ipu_model.version", "ipu1"),
    ("experimental.always_rearrange_copies_on_the_host", True),
    ("optimizations.prefetch_data_streams", False),
    ("optimizations.merge_infeed_io_copies", False),
    ("optimizations.maximum_cross_replica_sum_buffer_size", 1_000_000),
]


@pytest.mark.parametrize(("path", "value"), CHANGES)
def test_field_acts(plain: PlanRequest, path: str, value: Any) -> None:
    changed = replace(plain, config={path: value})
    assert figures(changed) != figures(plain)


def test_stable_statistics_act_on_normalisations(resnet50: ModelSpec) -> None:
    request = PlanRequest(resnet50, 1, 10)
    config = {"norms.use_stable_statistics": True}
    assert figures(replace(request, config=config)) > figures(request)


def test_outlining_acts_on_repeated_layers(resnet50: ModelSpec) -> None:
    request = PlanRequest(resnet50, 1, 10)
    config = {"optimizations.enable_graph_outlining": False}
    without = make_plan(replace(request, config=config))
    outlined = make_plan(request)
    assert without.compile_s > outlined.compile_s
    assert (
        without.memory[0].by_category["code"] > outlined.memory[0].by_category["code"]
    )


def test_selection_order_acts_on_copies(plain: PlanRequest) -> None:
    # The largest copy is that after conv2, between the second and the third IPU.
    pipeline = PipelineRequest((0, 0, 1, 2, 3, 3, 3))
    request = replace(
        plain,
        ipus=4,
        gradient_accumulation=8,
        steps_per_execution=936,
        pipeline=pipeline,
    )
    zigzag = replace(request, config={"selection_order": "ZIGZAG"})
    snake, diagonal = make_plan(request).copy_us, make_plan(zigzag).copy_us
    assert diagonal == pytest.approx(snake + 2 * 0.5)


def test_io_tiles_hide_the_infeed(plain: PlanRequest) -> None:
    serial = make_plan(plain).step
    config = {"io_tiles.num_io_tiles": 128, "io_tiles.place_ops_on_io_tiles": True}
    plan = make_plan(replace(plain, config=config))
    hidden = plan.step
    assert (plan.memory[0].tiles, plan.memory[0].io_tiles) == (1472 - 128, 128)
    assert serial is not None
    assert hidden is not None
    assert serial.infeed_us > 50
    assert hidden.infeed_us == 0
    assert hidden.compute_us > serial.compute_us
    assert hidden.sync_us < serial.sync_us


def test_streams_too_large_for_io_tiles_are_a_warning(plain: PlanRequest) -> None:
    config = {"io_tiles.num_io_tiles": 2, "io_tiles.available_memory_proportion": 0.5}
    (problem,) = make_plan(replace(plain, config=config)).problems
    assert problem.where == "ipu.io_tiles.num_io_tiles"
    changed = {**config, "io_tiles.num_io_tiles": problem.suggestion}
    assert make_plan(replace(plain, config=changed)).problems == ()


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("io_tiles.num_io_tiles", 1472, "ipu.io_tiles.num_io_tiles"),
        (
            "convolutions.poplar_options",
            {"partialsType": "double"},
            "ipu.convolutions.poplar_options.partialsType",
        ),
        (
            "matmuls.poplar_options",
            {"availableMemoryProportion": "lots"},
            "ipu.matmuls.poplar_options.availableMemoryProportion",
        ),
    ],
)
def test_unreadable_options_are_problems(
    plain: PlanRequest, path: str, value: Any, where: str
) -> None:
    plan = make_plan(replace(plain, config={path: value}))
    assert [problem.where for problem in plan.problems] == [where]
    assert plan.ipu_step_us > 0


def test_modelled_fields_exist_and_are_declared_to_act() -> None:
    declared = {field.path: field for field in IPU_CONFIG_FIELDS}
    assert set(MODELLED_CONFIG) <= set(declared)
    for path in MODELLED_CONFIG:
        assert {Affects.TIME, Affects.MEMORY} & set(declared[path].affects)


def test_every_modelled_field_is_tested() -> None:
    elsewhere = {
        "norms.use_stable_statistics",
        "optimizations.enable_graph_outlining",
        "selection_order",
        "io_tiles.place_ops_on_io_tiles",
        "io_tiles.available_memory_proportion",
    }
    assert {path for path, _ in CHANGES} | elsewhere == set(MODELLED_CONFIG)


def test_fields_that_are_not_modelled_change_nothing(plain: PlanRequest) -> None:
    config = {"scheduling.algorithm": "CLUSTERING", "pooling.poplar_options": {}}
    before: Plan = make_plan(plain)
    after = make_plan(replace(plain, config=config))
    assert (after.step, after.memory) == (before.step, before.memory)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "ipu_model.tiles_per_ipu",
            "In the plan it replaces the number of tiles, with --use_ipu_model.",
        ),
        (
            "optimizations.combine_matmuls",
            "It acts on real hardware only; no modelled figure changes.",
        ),
        ("floating_point_behaviour.inv", ""),
    ],
)
def test_help_says_whether_a_field_acts_in_the_plan(path: str, text: str) -> None:
    field = next(field for field in IPU_CONFIG_FIELDS if field.path == path)
    assert effect_on_plan(field) == text
