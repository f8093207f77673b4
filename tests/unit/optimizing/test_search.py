"""The search against brute force, and its bounds against what they bound."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from ipu_runtime.plan.plan import Plan
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.preset_store import list_presets
from workbench.optimizing import cut_bounds
from workbench.optimizing.choice import Choice, own_choice, with_choice
from workbench.optimizing.goal import Aim, Goal
from workbench.optimizing.outcome import optimize
from workbench.optimizing.search import Search
from workbench.optimizing.search_space import FIXABLE, SearchSpace
from workbench.planning.experiment_plan import plan_experiment
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
        for device, cut in product(space.devices(), space.cuts())
        for choice in space.choices(device, *cut)
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
        assert outcome.gap == 0


@pytest.mark.parametrize("most_cuts", [3000, 0])
@pytest.mark.parametrize("goal", [Goal.THROUGHPUT, Goal.MEMORY])
def test_locked_layers_stay_and_nothing_else_is_better(
    goal: Goal, most_cuts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut_bounds, "_MOST_CUTS", most_cuts)
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
    outcome = optimize(SearchSpace(spec, 4, 0, fixed), aim)
    for found in outcome.best:
        stages = found.spec.pipeline.stages
        assert (stages[0], stages[3]) == (0, 1)
    best = outcome.best[0].cost
    assert least <= best * (1 + 1e-9)
    assert best <= (1 + outcome.gap) * least * (1 + 1e-9)
    assert most_cuts == 0 or outcome.gap == 0


def test_the_fastest_cut_is_not_taken_for_the_one_that_compiles_first() -> None:
    # Layers that are alike compile once, unless a cut parts them.
    space = SearchSpace(_spec("mnist-dense-8-stages"), 4)
    search = Search(space, Aim(Goal.TIME_TO_SAMPLES, 1))
    choice = replace(own_choice(space.spec), ipus=4, stages=3, accumulation=6)
    found, least = search.try_alone(choice), search._tightened(choice)
    assert found is not None
    assert least is not None
    best = min(search.aim.cost(plan) for plan in _fitting_plans(space, choice))
    assert found.cost == best or not found.exact
    assert 0.7 * best < least.least <= best


@pytest.mark.parametrize("preset", ["mnist-ipu-pipelined", "cifar10-ipu-strategy"])
def test_no_choice_does_better_than_its_bound(preset: str) -> None:
    space = SearchSpace(_spec(preset), 4, 0, _UNSEARCHED)
    search = Search(space, Aim(Goal.THROUGHPUT, 1))
    for choice in _all_choices(space)[::31]:
        found = search.try_alone(choice)
        costs = search._bounds.costs_of(choice)
        assert costs is not None
        least_us = costs.least_in_memory_us(choice)
        if found is not None:
            assert least_us is not None
            assert costs.least_us(choice) <= least_us
            assert search.aim.least(least_us, choice, 0.0) <= found.cost
            fullest = max(item.fullest_tile_bytes for item in found.plan.memory)
            tight = replace(costs, room=(fullest + 1.0) * found.plan.memory[0].tiles)
            assert tight.least_in_memory_us(choice) is not None


@pytest.mark.parametrize("change", ["model.dtype=float16", "model.dtype=float32"])
def test_no_device_does_better_than_the_loosest(change: str) -> None:
    space = SearchSpace(_spec("mnist-ipu", change), 1)
    search = Search(space, Aim(Goal.THROUGHPUT, 1))
    for device in space.devices():
        choice = Choice(device, 1, 1, 2)
        own = search._bounds.costs_of(choice)
        loosest = replace(choice, device=space.loosest(device))
        least = search._bounds.costs_of(loosest, any_device=True)
        assert own is not None
        assert least is not None
        assert (np.diff(least.again) <= np.diff(own.again)).all()
        assert (np.diff(least.backward) <= np.diff(own.backward)).all()
        assert least.compile_s <= own.compile_s
        for name in ("code", "kept", "entering", "working"):
            ours, theirs = getattr(least.memory, name), getattr(own.memory, name)
            # More tiles have more room; what each of them has is compared.
            assert (ours / least.room <= theirs / own.room * (1 + 1e-12)).all()


def test_latency_without_training_is_that_of_all_stages() -> None:
    spec = _spec("mnist-ipu-pipelined", *_ONLY_TESTED)
    plan = plan_experiment(spec)
    first, second = (stage.forward_us for stage in plan.stages)
    latency_us = Aim(Goal.LATENCY, 1).cost(plan)
    # The steps of a run overlap, those of a micro-batch do not.
    assert first + second < latency_us < 2 * plan.ipu_step_us


def test_layers_that_share_code_are_bounded_by_what_they_take_together() -> None:
    spec = _spec("resnet50-pod16")
    space = SearchSpace(spec, 1, 0, frozenset(FIXABLE))
    choice = Choice(next(space.devices()), 1, 1, 1)
    costs = Search(space, Aim(Goal.THROUGHPUT, 1))._bounds.costs_of(choice)
    assert costs is not None
    (memory,) = plan_experiment(with_choice(spec, choice)).memory
    used = memory.fullest_tile_bytes * memory.tiles
    for room, fits in ((used * 1.0001, True), (used * 0.98, False)):
        tight = replace(costs, room=room)
        assert (tight.least_in_memory_us(choice) is not None) == fits


def test_the_bound_of_memory_knows_what_equal_layers_share() -> None:
    plan = plan_experiment(_spec("bert-large-pod16"), with_remedies=False)
    space = SearchSpace(_spec("bert-large-pod16"), 16)
    choice = own_choice(space.spec)
    costs = Search(space, Aim(Goal.THROUGHPUT, 1))._bounds.costs_of(choice)
    assert costs is not None
    stages = space.spec.pipeline.stages
    table = costs.bytes_of(choice)
    for at, memory in enumerate(plan.memory):
        first, end = stages.index(at), len(stages) - stages[::-1].index(at)
        least = table(at, slice(first, first + 1), slice(end, end + 1)).item()
        used = (memory.fullest_tile_bytes + 1) * memory.tiles
        assert 0.99 * used < least <= used


def test_a_search_that_is_cut_short_has_found_something_that_fits() -> None:
    spec = _spec("mnist-ipu-faster", "data.batch_size=8192")
    search = Search(SearchSpace(spec, 2), Aim(Goal.THROUGHPUT, 1), work=1e5).run()
    assert search.work <= 0
    assert search.best is not None


def test_what_saves_memory_is_tried_first_where_that_is_the_goal() -> None:
    space = SearchSpace(_spec("mnist-ipu"), 4)
    search = Search(space, Aim(Goal.MEMORY, 1), work=5e5).run()
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


_DENSE = """
experiment = { name = "dense", title = "Four dense layers" }
data.dataset = "synthetic"
data.batch_size = 16
data.train_samples = 4096
data.labels = "sparse"
train = { optimizer = "adam", loss = "sparse_categorical_crossentropy" }
execution = { api = "ipu_strategy", system = "M2000", gradient_accumulation = 8 }
ipu = { auto_select_ipus = 2 }
pipeline = { stages = [0, 0, 1, 1] }

[model]
dtype = "float16"
layers = [
  { name = "in", kind = "Input", shape = [256] },
  { name = "a", kind = "Dense", units = 1024, activation = "relu" },
  { name = "b", kind = "Dense", units = 512, activation = "relu" },
  { name = "c", kind = "Dense", units = 1024, activation = "relu" },
  { name = "d", kind = "Dense", units = 10, activation = "softmax" },
]
"""


def test_settings_that_no_cut_seems_to_fit_are_bounded_by_what_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardware, experiment = tmp_path / "small.toml", tmp_path / "dense.toml"
    hardware.write_text("[ipus.gc200]\ntile_bytes = 22000\n")
    experiment.write_text(_DENSE)
    monkeypatch.setenv("IPU_WORKBENCH_HARDWARE", str(hardware))
    # As if there were more cuts than can be looked at one by one.
    monkeypatch.setattr(cut_bounds, "_MOST_CUTS", 0)
    fixed = _UNSEARCHED | {"data.batch_size"}
    space = SearchSpace(_spec(str(experiment)), 4, 0, fixed)
    search = Search(space, Aim(Goal.TIME_TO_SAMPLES, 60_000)).run()
    assert 0 < search.gap < 0.01


def test_rows_are_not_beaten_by_each_other() -> None:
    outcome = optimize(SearchSpace(_spec("mnist-ipu"), 4), Aim(Goal.THROUGHPUT, 1))
    costs = [found.cost for found in outcome.best]
    fullness = [
        max(memory.fullest_tile_bytes for memory in found.plan.memory)
        for found in outcome.best
    ]
    assert costs == sorted(costs)
    assert fullness == sorted(fullness, reverse=True)
    row = outcome_row(replace(outcome, gap=float("inf")), "mnist-ipu")
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
    assert search.gap > 0
    again = Search(replace(space), Aim(Goal.THROUGHPUT, 1)).run(
        lambda now: now.tried < 3
    )
    assert again.best is not None
    assert search.best is not None
    assert again.best.choice == search.best.choice
