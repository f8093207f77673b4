"""How fast the plan is, and how it grows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import cycle

import numpy as np

from bench.figure import Figure
from bench.side_by_side import of_samples, ratio, seconds
from ipu_runtime.plan.balance.partition import BalanceRequest, balance
from ipu_runtime.plan.schedule.building import build_schedule
from ipu_runtime.plan.schedule.schedule import ScheduleKind
from ipu_runtime.plan.schedule.timeline import StageTimes, build_timeline
from workbench.experiment.overrides import set_value
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment
from workbench.sweeps.sweep_grid import parse_grid, points
from workbench.sweeps.sweep_point import plan_point

AREA = "plan (no TensorFlow)"
TASKS = ((8, 64), (64, 1024), (64, 8192))
"""Stages and micro-batches; the last makes a million tasks."""

LAYERS = ((300, 16), (1000, 64), (2000, 64))
"""Layers and stages."""


def measure(quick: bool) -> Iterator[Figure]:
    """Yield the figures of planning, timelines, balancing and sweeps."""
    rounds = 3 if quick else 7
    yield _command(rounds)
    yield _replanning(rounds * 10)
    # The largest only show how it grows.
    for tasks, times in zip(TASKS, (rounds, rounds, rounds // 3), strict=True):
        yield _timeline(*tasks, times)
    for layers, times in zip(LAYERS, (rounds, rounds, rounds // 3), strict=True):
        yield _balancing(*layers, times)
    yield _sweep(2_000 if quick else 10_000)


def _command(rounds: int) -> Figure:
    plan = (sys.executable, "-m", "workbench", "plan", "mnist-ipu", "--json")
    numpy = (sys.executable, "-c", "import numpy")

    def start(command: tuple[str, ...]) -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return ratio(
        AREA,
        "`plan` against `import numpy`",
        lambda: start(plan),
        lambda: start(numpy),
        rounds=rounds,
        limit=3.0,
    )


def _replanning(rounds: int) -> Figure:
    tables = load_preset("mnist-ipu-pipelined").tables
    sizes = cycle((32, 64, 16, 128))

    def replan() -> None:
        changed = set_value(tables, "data.batch_size", next(sizes))
        spec, problems = validate(changed)
        assert spec is not None, problems
        plan_experiment(spec)

    samples = [seconds(replan) * 1e3 for _ in range(rounds)]
    return of_samples(AREA, "plan again after one field", samples, "ms", limit=5.0)


def _timeline(stages: int, micro_batches: int, rounds: int) -> Figure:
    times = StageTimes((1.0,) * stages, (2.0,) * stages, (0.0,) * stages, 0.1)
    tasks = 2 * stages * micro_batches

    def draw() -> None:
        schedule = build_schedule(ScheduleKind.GROUPED, stages, micro_batches)
        build_timeline(schedule, times)

    samples = [seconds(draw) for _ in range(rounds)]
    limit = 0.5 if tasks == 131_072 else None
    return of_samples(AREA, f"timeline of {tasks:,} tasks", samples, "s", limit=limit)


def _balancing(layers: int, stages: int, rounds: int) -> Figure:
    random = np.random.default_rng(layers)
    forward = tuple(random.uniform(1, 10, layers))
    request = BalanceRequest(
        forward_us=forward,
        backward_us=tuple(2 * time for time in forward),
        stages=stages,
        micro_batches=2 * stages,
    )
    samples = [seconds(lambda: balance(request)) for _ in range(rounds)]
    limit = 1.5 if layers == 1000 else None
    name = f"balance {layers:,} layers over {stages} stages"
    return of_samples(AREA, name, samples, "s", limit=limit)


def _sweep(size: int) -> Figure:
    axes, problems = parse_grid(
        [
            "data.batch_size=" + ",".join(str(8 * n) for n in range(1, size // 20 + 1)),
            "execution.gradient_accumulation=4,8,12,16,20",
            "pipeline.schedule=Grouped,Interleaved",
            "train.optimizer=sgd,adam",
        ]
    )
    assert not problems, problems
    tables = load_preset("mnist-ipu-pipelined").tables
    every = list(points(axes))
    took = seconds(lambda: [plan_point(tables, point) for point in every])
    rate = len(every) / took
    return of_samples(
        AREA,
        "plan-only sweep on one core",
        [rate],
        "points/s",
        limit=500.0,
        more_is_better=True,
        note=f"{len(every):,} points in {took:.1f} s",
    )
