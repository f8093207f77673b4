"""The search against brute force, and the lower bound against what it bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise, product

import pytest

from ipu_runtime.plan.hardware import load_table
from ipu_runtime.plan.plan import Plan
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.preset_store import list_presets
from workbench.optimizing.choice import Choice, with_choice
from workbench.optimizing.goal import Aim, Goal
from workbench.optimizing.lower_bound import LowerBound
from workbench.optimizing.outcome import optimize
from workbench.optimizing.search import Search
from workbench.optimizing.search_space import FIXABLE, SearchSpace
from workbench.planning.experiment_plan import plan_experiment
from workbench.planning.same_training import update_samples
from workbench.views.outcome import outcome_row

_UNSEARCHED = frozenset(
    {"ipu.io_tiles.num_io_tiles", "ipu.convolutions.poplar_options"}
)
_RARELY_MOVED = frozenset(
    {
        "pipeline.offload_gradient_accumulation_buffers",
        "pipeline.replicated_weight_sharding",
        "pipeline.offload_weights",
    }
)


MODELLED = [preset.name for preset in list_presets() if preset.name != "mnist-cpu"]


def _spec(name: str, *changes: str) -> ExperimentSpec:
    spec = load_experiment(name, changes).spec
    assert spec is not None
    return spec


def _all_choices(space: SearchSpace) -> list[Choice]:
    return [
        choice
        for device, size in product(space.devices(), space.sizes())
        for choice in space.choices(device, *size)
    ]


def _all_cuts(spec: ExperimentSpec, stages: int) -> list[tuple[int, ...]]:
    layers = sum(layer.kind != "Input" for layer in spec.model.layers)
    if stages == 1:
        return [()]
    return [
        tuple(sum(at >= bound for bound in bounds) for at in range(layers))
        for bounds in combinations(range(1, layers), stages - 1)
    ]


def _fitting_plans(space: SearchSpace, choice: Choice) -> Iterator[Plan]:
    """Plan a choice with every cut there is."""
    for cuts in _all_cuts(space.spec, choice.stages):
        plan = plan_experiment(
            with_choice(space.spec, choice, cuts), with_remedies=False
        )
        if plan.ok:
            yield plan


_ONLY_TESTED = (
    "execution.api=ipu_pipeline_estimator",
    "train.test_only=true",
    "train.evaluate=true",
    "execution.model_dir=.",
)


@pytest.mark.parametrize(
    ("preset", "ipus", "batch", "changes"),
    [
        ("mnist-ipu-pipelined", 4, 0, ()),
        ("mnist-ipu-pipelined", 2, 512, ()),
        ("mnist-dense", 8, 256, ()),
        ("mnist-ipu-pipelined", 4, 0, _ONLY_TESTED),
    ],
)
def test_nothing_is_better_in_a_small_space(
    preset: str, ipus: int, batch: int, changes: tuple[str, ...]
) -> None:
    fixed = _UNSEARCHED | _RARELY_MOVED
    fixed |= {"data.batch_size"} if not batch else frozenset()
    space = SearchSpace(_spec(preset, *changes), ipus, batch, fixed)
    # Few samples, whose time is that of compiling, and as many as compiling takes.
    aims = [*(Aim(goal, 60_000) for goal in Goal), Aim(Goal.TIME_TO_SAMPLES, 10**7)]
    costs = [
        [aim.cost(plan) for aim in aims]
        for choice in _all_choices(space)
        for plan in _fitting_plans(space, choice)
    ]
    for aim, least in zip(aims, map(min, zip(*costs, strict=True)), strict=True):
        outcome = optimize(space, aim)
        assert outcome.best[0].cost == pytest.approx(least, rel=1e-9)
        assert outcome.proven
        assert outcome.gap == 0


@pytest.mark.parametrize("most_plans", [2500, 0])
@pytest.mark.parametrize("goal", [Goal.THROUGHPUT, Goal.MEMORY])
def test_locked_layers_stay_and_nothing_else_is_better(
    goal: Goal, most_plans: int
) -> None:
    free = _spec("mnist-ipu-pipelined")
    # The best cuts of two stages have the second of them in the first stage.
    spec = _spec("mnist-ipu-pipelined", "pipeline.locked=conv2d,max_pooling2d_1")
    fixed = _UNSEARCHED | _RARELY_MOVED | {"data.batch_size", "pipeline.schedule"}
    aim = Aim(goal, 60_000)
    least = min(
        aim.cost(plan)
        for choice in _all_choices(SearchSpace(free, 4, 0, fixed))
        for plan in _fitting_plans(SearchSpace(spec, 4, 0, fixed), choice)
        if (stages := plan.request.pipeline and plan.request.pipeline.stage_of_layer)
        and (stages[0], stages[3]) == (0, 1)
    )
    search = Search(SearchSpace(spec, 4, 0, fixed), aim, most_plans=most_plans).run()
    for found in search.found.values():
        stages = found.spec.pipeline.stages
        assert (stages[0], stages[3]) == (0, 1)
    assert search.best is not None
    assert search.best.cost == pytest.approx(least, rel=1e-9)
    assert search.proven == (most_plans > 0)


@pytest.mark.parametrize("updates_stay", [True, False])
@pytest.mark.parametrize("name", MODELLED)
def test_nothing_that_is_found_is_better_than_the_lower_bound(
    name: str, updates_stay: bool
) -> None:
    spec = _spec(name)
    space = SearchSpace(spec, 16, updates_stay * update_samples(spec))
    aims = [Aim(goal, 60_000) for goal in Goal]
    search = Search(space, aims[0], work=2e6).run()
    assert search.best is not None
    for aim in aims:
        bound = LowerBound.of(space, aim)
        assert bound.cost > 0
        assert all(0 <= part.amount <= bound.cost * (1 + 1e-9) for part in bound.parts)
        for item in search.found.values():
            assert bound.cost <= aim.cost(item.plan)


def test_the_lower_bound_fits_on_a_napkin() -> None:
    spec = _spec("mnist-dense", "model.dtype=float32", "execution.system=M2000")
    (_, *layers) = spec.model.layers
    units = [
        784,
        *(layer.settings["units"] for layer in layers if layer.kind == "Dense"),
    ]
    multiplied = sum(one * other for one, other in pairwise(units))
    # Forward, and in the backward pass the gradients of weights and of all inputs but
    # the first.
    multiplied = 3 * multiplied - units[0] * units[1]
    ipu = load_table("").system("M2000").ipu
    products_us = 2 * multiplied / (ipu.fp32_tflops * 1e6)
    one_ipu = SearchSpace(spec, 1, 32)
    bound = LowerBound.of(one_ipu, Aim(Goal.THROUGHPUT, 1))
    work, feed = bound.parts
    assert products_us < work.amount < 1.5 * products_us
    assert feed.amount == pytest.approx((784 * 4 + 4) / (ipu.machine_host_gb_s * 1e3))
    assert bound.cost == max(work.amount, feed.amount)


def test_latency_without_training_is_that_of_all_stages() -> None:
    spec = _spec("mnist-ipu-pipelined", *_ONLY_TESTED)
    plan = plan_experiment(spec)
    first, second = (stage.forward_us for stage in plan.stages)
    latency_us = Aim(Goal.LATENCY, 1).cost(plan)
    # The steps of a run overlap, those of a micro-batch do not.
    assert first + second < latency_us < 2 * plan.ipu_step_us


def test_a_search_that_is_cut_short_has_found_something_that_fits() -> None:
    spec = _spec("mnist-ipu-faster", "data.batch_size=8192")
    search = Search(SearchSpace(spec, 2), Aim(Goal.THROUGHPUT, 1), work=1e5).run()
    assert search.work < 5e4
    assert not search.proven
    assert search.best is not None


def test_what_saves_memory_is_tried_first_where_that_is_the_goal() -> None:
    space = SearchSpace(_spec("mnist-ipu"), 4)
    search = Search(space, Aim(Goal.MEMORY, 1), work=5e4).run()
    assert search.tried < 60
    assert search.best is not None
    assert search.best.choice.stages == 4
    assert search.best.cost < 0.03


@pytest.mark.parametrize("name", MODELLED)
def test_no_preset_is_better_as_it_is(name: str) -> None:
    spec = _spec(name)
    now = plan_experiment(spec, with_remedies=False)
    # More to choose from begins with the same.
    space = SearchSpace(spec, max(now.ipus, 1), 0, frozenset(FIXABLE))
    for goal in Goal:
        aim = Aim(goal, 60_000)
        best = Search(space, aim).run().best
        assert best is not None
        assert best.cost <= aim.cost(now)


def test_what_an_experiment_has_is_not_lost_to_the_same_settings_without_it() -> None:
    spec = _spec("mnist-dense-8-stages", "pipeline.device_mapping=[0,1,2,3,4,5,6,0]")
    aim = Aim(Goal.TIME_TO_SAMPLES, 60_000)
    outcome = optimize(SearchSpace(spec, 8, 0, frozenset(FIXABLE)), aim)
    assert outcome.best[0].cost == aim.cost(plan_experiment(spec))


def test_shipped_stages_can_be_beaten_by_a_tenth() -> None:
    spec = _spec("mnist-dense-8-stages")
    now = plan_experiment(spec)
    kept = spec.data.batch_size * spec.execution.gradient_accumulation * now.replicas
    outcome = optimize(SearchSpace(spec, now.ipus, kept), Aim(Goal.THROUGHPUT, 1))
    assert outcome.best[0].choice.update_samples == kept
    best = outcome.best[0].plan.samples_per_second
    assert best > 1.1 * now.samples_per_second


def test_rows_are_not_beaten_by_each_other() -> None:
    outcome = optimize(SearchSpace(_spec("mnist-ipu"), 4), Aim(Goal.THROUGHPUT, 1))
    costs = [found.cost for found in outcome.best]
    fullness = [
        max(memory.fullest_tile_bytes for memory in found.plan.memory)
        for found in outcome.best
    ]
    assert costs == sorted(costs)
    assert fullness == sorted(fullness, reverse=True)
    row = outcome_row(replace(outcome, lower_bound=LowerBound(0.0, ())), "mnist-ipu")
    assert json.loads(json.dumps(row, allow_nan=False))["gap"] is None


def test_what_is_fixed_stays() -> None:
    spec = _spec("mnist-ipu-pipelined")
    fixed = frozenset({"pipeline.stages", "pipeline.schedule", "data.batch_size"})
    outcome = optimize(SearchSpace(spec, 4, 0, fixed), Aim(Goal.THROUGHPUT, 1))
    best = outcome.best[0].spec
    assert best.pipeline.stages == spec.pipeline.stages
    assert best.pipeline.schedule == spec.pipeline.schedule
    assert best.data.batch_size == spec.data.batch_size


def test_a_search_can_be_ended_and_says_what_is_open() -> None:
    space = SearchSpace(_spec("mnist-ipu-pipelined"), 4)
    search = Search(space, Aim(Goal.THROUGHPUT, 1)).run(lambda now: now.tried < 3)
    assert search.tried == 3
    assert not search.proven
    again = Search(replace(space), Aim(Goal.THROUGHPUT, 1)).run(
        lambda now: now.tried < 3
    )
    assert again.best is not None
    assert search.best is not None
    assert again.best.choice == search.best.choice
