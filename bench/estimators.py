"""The estimators against the Keras path: same model, data and batch size."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.experiments import experiment
from bench.figure import Figure
from bench.side_by_side import of_samples
from workbench.backends import backend_of
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.events import EpochEnded, Event
from workbench.runs.run_context import RunContext, RunControl

AREA = "estimators, times the Keras path on the CPU"
_CASES = (
    ("IPUEstimator", "cifar10-ipu-estimator"),
    ("IPUPipelineEstimator", "cifar10-ipu-pipeline-estimator"),
)


def measure(quick: bool) -> Iterator[Figure]:
    """Yield the step time of later epochs as a multiple of plain Keras'."""
    rounds, samples = (1, 640) if quick else (3, 1600)
    for name, preset in _CASES:
        ratios = [
            _step_ms(preset, samples, []) / _step_ms(preset, samples, _ON_CPU)
            for _ in range(rounds)
        ]
        yield of_samples(AREA, name, ratios, "x", limit=1.1)


_ON_CPU = [
    "execution.api=cpu",
    "pipeline.stages=[]",
    "execution.gradient_accumulation=1",
]


def _step_ms(preset: str, samples: int, changes: list[str]) -> float:
    """Train three epochs and return the step time of those after the first."""
    spec = experiment(
        preset,
        [
            f"data.train_samples={samples}",
            "train.epochs=3",
            "train.evaluate=false",
            "execution.steps_per_execution=epoch",
            *changes,
        ],
    )
    events: list[Event] = []
    with tempfile.TemporaryDirectory() as directory:
        plan = plan_experiment(spec)
        context = RunContext(events.append, RunControl(), Path(directory), plan)
        backend_of(spec.execution.api)(spec, context)
    epochs = [event for event in events if isinstance(event, EpochEnded)]
    return statistics.median(event.host_step_ms for event in epochs[1:])
