"""The engine against stock Keras `fit` on models that it was not tuned for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.experiments import timed_fit
from bench.figure import Figure
from bench.side_by_side import ratio

AREA = "own models, best of either side, times stock Keras fit"
STEPS_PER_EXECUTION = 16
LIMITS = {"transformer": 0.85}


def measure(quick: bool) -> Iterator[Figure]:
    """Yield how long training takes as a multiple of stock Keras' time."""
    # They load TensorFlow, which other parts of the benchmark must not pay for.
    from bench.untuned_models import UNTUNED
    from ipu_runtime.config import IPUConfig
    from ipu_runtime.ipu_strategy import IPUStrategy

    rounds, batches = (3, 64) if quick else (9, 128)
    strategy = IPUStrategy()

    def configured() -> Any:
        config = IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        return strategy.scope()

    for name, untuned in UNTUNED.items():
        stock = untuned.compiled(STEPS_PER_EXECUTION)
        with configured():
            emulated = untuned.compiled(STEPS_PER_EXECUTION)
        x, y = untuned.data(stock, batches)
        yield ratio(
            AREA,
            name,
            timed_fit(emulated, x, y, untuned.batch_size, scope=configured),
            timed_fit(stock, x, y, untuned.batch_size),
            rounds=rounds,
            limit=LIMITS.get(name, 1.0),
            best=True,
        )
