"""Balancing against established optima, brute force and properties."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipu_runtime.plan.balance import cut_search
from ipu_runtime.plan.balance.cutting import cut, fast_bottleneck
from ipu_runtime.plan.balance.interval_costs import IntervalCosts
from ipu_runtime.plan.balance.partition import (
    BalanceRequest,
    Objective,
    balance,
    evaluate,
)
from ipu_runtime.plan.schedule.building import build_schedule
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind
from ipu_runtime.plan.schedule.timeline import Clock, StageTimes, pipeline_time_us

from .pipeline_facts import FACTS, KINDS, label

GOALS = {
    "bottleneck": (Objective.BOTTLENECK, Clock.STEP, "best_bottleneck_f_plus_b"),
    "step_model": (Objective.STEP_TIME, Clock.STEP, "best_time_step_model"),
    "slot_model": (Objective.STEP_TIME, Clock.SLOT, "best_time_slot_model"),
}
IPU_KINDS = (ScheduleKind.GROUPED, ScheduleKind.INTERLEAVED, ScheduleKind.SEQUENTIAL)


def request_of(entry: dict[str, Any]) -> BalanceRequest:
    copies = entry["resident_copies_of_weights"]
    return BalanceRequest(
        forward_us=tuple(entry["layer_f"]),
        backward_us=tuple(entry["layer_b"]),
        stages=entry["stages"],
        micro_batches=entry["gac"],
        schedule=KINDS[entry["schedule"]],
        resident_bytes=tuple(copies * weight for weight in entry["layer_weight"]),
        stash_bytes=tuple(entry["layer_activation"]),
        capacity_bytes=entry["memory_cap"],
    )


def partitions(layers: int, stages: int) -> list[list[int]]:
    return [[0, *inner, layers] for inner in combinations(range(1, layers), stages - 1)]


def stages_of(bounds: list[int]) -> tuple[int, ...]:
    return tuple(
        stage
        for stage in range(len(bounds) - 1)
        for _ in range(bounds[stage], bounds[stage + 1])
    )


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("entry", FACTS["partition"], ids=label)
def test_optimum_and_all_its_partitions_are_the_established_ones(
    entry: dict[str, Any], goal: str
) -> None:
    objective, clock, key = GOALS[goal]
    request = replace(request_of(entry), objective=objective, clock=clock)
    capacity = request.capacity_bytes or float("inf")
    values = {}
    for bounds in partitions(request.layers, request.stages):
        candidate = evaluate(request, stages_of(bounds))
        assert candidate is not None
        if candidate.peak_bytes <= capacity:
            values[tuple(bounds)] = candidate.value(objective)
    assert len(values) == entry["feasible_partitions"]
    result = balance(request)
    if not values:
        assert not result.feasible
        return
    best = min(values.values())
    assert best == entry[key]
    argmin = [list(bounds) for bounds, value in values.items() if value == best]
    assert argmin == entry[f"argmin_{goal}"]
    assert result.stage_of_layer in [stages_of(bounds) for bounds in argmin]


def test_infeasible_names_the_smallest_excess_and_what_was_tried() -> None:
    entry = next(e for e in FACTS["partition"] if e["name"] == "infeasible")
    result = balance(request_of(entry))
    # Three layers of activations 9 beside one on the last IPU: 9 + 27 - 20.
    assert result.excess_bytes == 16
    tried = {fix.change: fix for fix in result.fixes}
    assert tried["recomputation on"].excess_bytes == 4
    assert not any(fix.fits for fix in result.fixes)


def test_memory_that_binds_is_named() -> None:
    entry = next(e for e in FACTS["partition"] if e["name"] == "memory-binds")
    result = balance(request_of(entry))
    assert result.binding.startswith("memory of stage")
    assert all(slack >= 0 for slack in result.memory_slack_bytes)


def test_best_single_move_reaches_the_value_it_promises() -> None:
    request = BalanceRequest((1.0,) * 6, (2.0,) * 6, 2, 4, current=(0, 0, 0, 0, 0, 1))
    result = balance(request)
    move = result.best_move
    assert move is not None
    assert (move.layer, move.from_stage, move.to_stage) == (4, 0, 1)
    moved = evaluate(request, (0, 0, 0, 0, 1, 1))
    assert moved is not None
    assert result.now is not None
    assert result.now.step_time_us - moved.step_time_us == pytest.approx(move.gain)


times = st.integers(1, 20).map(float)


@st.composite
def requests(draw: st.DrawFn, most: int = 9) -> BalanceRequest:
    """Return a small request with memory, copies and recomputation."""
    count = draw(st.integers(2, most))
    stages = draw(st.integers(2, min(count, 5)))
    kind = draw(st.sampled_from(IPU_KINDS))

    def column() -> tuple[float, ...]:
        return tuple(draw(st.lists(times, min_size=count, max_size=count)))

    mode = Recomputation.OFF
    if draw(st.booleans()):
        mode = (
            Recomputation.WITH_BACKPROPAGATE
            if kind is ScheduleKind.SEQUENTIAL
            else Recomputation.THEN_BACKPROPAGATE
        )
    return BalanceRequest(
        forward_us=column(),
        backward_us=column(),
        stages=stages,
        micro_batches=2 * stages * draw(st.integers(1, 2)),
        schedule=kind,
        recomputation=mode,
        resident_bytes=column(),
        stash_bytes=column(),
        working_bytes=column(),
        crossing_bytes=column(),
        input_bytes=draw(times),
        capacity_bytes=draw(st.none() | st.integers(20, 400).map(float)),
        copy_us=draw(
            st.sampled_from([None, lambda size, stage: (0.5 + stage % 2) * size])
        ),
        objective=draw(st.sampled_from(Objective)),
    )


@settings(max_examples=60)
@given(requests())
def test_programme_finds_what_brute_force_finds(request: BalanceRequest) -> None:
    capacity = request.capacity_bytes or float("inf")
    values = []
    for bounds in partitions(request.layers, request.stages):
        candidate = evaluate(request, stages_of(bounds))
        assert candidate is not None
        if candidate.peak_bytes <= capacity:
            values.append(candidate.value(request.objective))
    result = balance(request)
    assert result.feasible == bool(values)
    if not values:
        return
    assert result.best is not None
    assert result.best.value(request.objective) == pytest.approx(min(values))
    if result.runner_up:
        assert result.runner_up.value(request.objective) == pytest.approx(
            sorted(values)[1]
        )
    if request.objective is not Objective.STEP_TIME:
        costs = IntervalCosts.of(request)
        found = cut(costs, request.objective, request.capacity_bytes)
        assert found is not None
        value = costs.candidate(found).value(request.objective)
        assert value == pytest.approx(min(values))


@settings(max_examples=60)
@given(requests())
def test_time_of_a_partition_is_the_time_of_its_schedule(
    request: BalanceRequest,
) -> None:
    result = balance(replace(request, capacity_bytes=None))
    assert result.best is not None
    stages = range(request.stages)

    def per_stage(values: tuple[float, ...]) -> tuple[float, ...]:
        pairs = list(zip(values, result.stage_of_layer, strict=True))
        return tuple(sum(v for v, s in pairs if s == stage) for stage in stages)

    recompute = per_stage(request.forward_us)
    cuts = [
        (request.crossing_bytes[layer], result.stage_of_layer[layer + 1])
        for layer in range(request.layers - 1)
        if result.stage_of_layer[layer] != result.stage_of_layer[layer + 1]
    ]
    copy = max(request.copy_us(*cut) for cut in cuts) if request.copy_us else 0.0
    schedule = build_schedule(
        request.schedule,
        request.stages,
        request.micro_batches,
        recomputation=request.recomputation,
    )
    expected = pipeline_time_us(
        schedule,
        StageTimes(
            per_stage(request.forward_us),
            per_stage(request.backward_us),
            recompute,
            copy,
        ),
        request.clock,
    )
    assert result.step_time_us == pytest.approx(expected)


@settings(max_examples=60)
@given(requests(), st.sampled_from(Objective))
def test_never_worse_than_the_uniform_split(
    request: BalanceRequest, objective: Objective
) -> None:
    result = balance(replace(request, objective=objective, capacity_bytes=None))
    assert result.best is not None
    assert result.uniform is not None
    assert set(result.stage_of_layer) == set(range(request.stages))
    assert list(result.stage_of_layer) == sorted(result.stage_of_layer)
    assert result.best.value(objective) <= result.uniform.value(objective) + 1e-9


@settings(max_examples=50)
@given(requests(), st.integers(20, 200), st.integers(0, 100))
def test_more_memory_is_never_worse(
    request: BalanceRequest, capacity: int, more: int
) -> None:
    tight = balance(replace(request, capacity_bytes=float(capacity)))
    wide = balance(replace(request, capacity_bytes=float(capacity + more)))
    if tight.best is None:
        return
    assert wide.best is not None
    objective = request.objective
    assert wide.best.value(objective) <= tight.best.value(objective) + 1e-9


@settings(max_examples=50)
@given(st.lists(times, min_size=3, max_size=40), st.integers(2, 8))
def test_another_stage_never_raises_the_bottleneck(
    forward: list[float], stages: int
) -> None:
    stages = min(stages, len(forward) - 1)
    request = BalanceRequest(
        tuple(forward), tuple(forward), stages, 64, objective=Objective.BOTTLENECK
    )
    fewer = balance(request).best
    more = balance(replace(request, stages=stages + 1)).best
    assert fewer is not None
    assert more is not None
    assert more.bottleneck_us <= fewer.bottleneck_us + 1e-9


@settings(max_examples=50)
@given(requests(most=30))
def test_probing_and_programme_agree_on_the_bottleneck(
    request: BalanceRequest,
) -> None:
    plain = replace(
        request,
        objective=Objective.BOTTLENECK,
        recomputation=Recomputation.OFF,
        copy_us=None,
        working_bytes=(),
    )
    costs = IntervalCosts.of(plain)
    found = cut(costs, plain.objective, None)
    assert found is not None
    expected = fast_bottleneck(costs)
    assert costs.candidate(found).bottleneck_us == pytest.approx(expected)


@settings(max_examples=50)
@given(requests(most=30), st.data())
def test_locked_layers_stay(request: BalanceRequest, data: st.DataObject) -> None:
    free = balance(replace(request, capacity_bytes=None))
    layer = data.draw(st.integers(0, request.layers - 1))
    lowest = max(0, request.stages - request.layers + layer)
    stage = data.draw(st.integers(lowest, min(layer, request.stages - 1)))
    result = balance(replace(request, capacity_bytes=None, locked={layer: stage}))
    assert result.best is not None
    assert free.best is not None
    assert result.stage_of_layer[layer] == stage
    objective = request.objective
    if request.objective is not Objective.STEP_TIME:
        assert result.best.value(objective) >= free.best.value(objective) - 1e-9


@settings(max_examples=50)
@given(requests(most=30), st.data())
def test_layers_that_share_weights_are_in_one_stage(
    request: BalanceRequest, data: st.DataObject
) -> None:
    spare = request.layers - request.stages
    first = data.draw(st.integers(0, request.layers - 1))
    last = data.draw(st.integers(first, min(first + spare, request.layers - 1)))
    request = replace(request, capacity_bytes=None, together=((first, last),))
    result = balance(request)
    assert result.best is not None
    assert result.runner_up is None or (
        result.runner_up.stage_of_layer[first] == result.runner_up.stage_of_layer[last]
    )
    assert result.stage_of_layer[first] == result.stage_of_layer[last]


def test_more_stages_than_shared_weights_allow_are_a_problem() -> None:
    request = BalanceRequest((1.0,) * 4, (1.0,) * 4, 3, 6, together=((0, 2),))
    assert "share weights" in balance(request).problem


def test_impossible_locks_are_a_problem_not_an_exception() -> None:
    request = BalanceRequest((1.0,) * 4, (1.0,) * 4, 3, 6, locked={0: 2})
    assert "locked" in balance(request).problem


def test_too_many_stages_are_a_problem_not_an_exception() -> None:
    assert "1 to 2" in balance(BalanceRequest((1.0,) * 2, (1.0,) * 2, 3, 6)).problem


def test_search_comes_close_to_the_optimum_of_the_step_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = Random(5)
    gaps = []
    for _ in range(25):
        count, stages = draw.randint(10, 18), draw.randint(3, 5)
        request = BalanceRequest(
            forward_us=tuple(draw.uniform(1, 20) for _ in range(count)),
            backward_us=tuple(draw.uniform(1, 40) for _ in range(count)),
            stages=stages,
            micro_batches=4 * stages,
            crossing_bytes=tuple(draw.uniform(0, 20) for _ in range(count)),
            copy_us=lambda size, stage: size,
        )
        monkeypatch.setattr(cut_search, "_ALL_OF_THEM", 20_000)
        optimum = balance(request)
        monkeypatch.setattr(cut_search, "_ALL_OF_THEM", 0)
        found = balance(request)
        assert optimum.exact
        assert not found.exact
        gaps.append(found.step_time_us / optimum.step_time_us - 1)
    assert min(gaps) > -1e-9
    assert sum(gaps) / len(gaps) < 0.01
