"""The engine against stock Keras `fit`: same model, data and batch size."""

from __future__ import annotations

from collections.abc import Iterator

from bench.experiments import emulated_fit, experiment, prepared, stock_fit
from bench.figure import Figure
from bench.side_by_side import ratio

AREA = "engine, times stock Keras fit"
FOUR_STAGES = (
    "pipeline.stages=[0,0,1,1,2,2,3]",
    "ipu.auto_select_ipus=4",
    "execution.gradient_accumulation=16",
)
CASES = (
    ("CNN, one batch per execution", "mnist-ipu", (), 1.0),
    ("CNN, an epoch per execution", "mnist-ipu-faster", (), 1.0),
    ("CNN, two replicas", "mnist-ipu-replicated", (), 1.0),
    ("CNN, pipeline of 2 stages", "mnist-ipu-pipelined", (), 1.05),
    ("CNN, pipeline of 4 stages", "mnist-ipu-pipelined", FOUR_STAGES, 1.05),
)


def measure(quick: bool) -> Iterator[Figure]:
    """Yield how long training takes as a multiple of stock Keras' time."""
    rounds, batches = (3, 32) if quick else (7, 192)
    for name, preset, changes, limit in CASES:
        size = (f"data.train_samples={batches * 64}", "train.epochs=1")
        yield _case(name, preset, (*size, *changes), limit, rounds)
    dense = (
        f"data.train_samples={9_600 if quick else 32_000}",
        f"train.epochs={2 if quick else 4}",
        "data.preparation=trim",
        "train.steps_per_epoch=0",
    )
    yield _case("dense, 100 steps per execution", "mnist-dense", dense, 0.2, rounds)


def _case(
    name: str, preset: str, changes: tuple[str, ...], limit: float, rounds: int
) -> Figure:
    spec = experiment(preset, changes)
    data = prepared(spec)
    return ratio(
        AREA,
        name,
        emulated_fit(spec, data),
        stock_fit(spec, data),
        rounds=rounds,
        limit=limit,
    )
