"""Peak memory of training, each side in a process of its own."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator

from bench.experiments import emulated_fit, experiment, prepared, stock_fit
from bench.figure import Figure
from bench.side_by_side import of_samples

CHANGES = ("data.train_samples=6400", "train.epochs=1")
SIDES = {"stock": stock_fit, "emulated": emulated_fit}


def measure(quick: bool) -> Iterator[Figure]:
    """Yield the peak of emulated training as a multiple of stock training's."""
    ratios = [_peak("emulated") / _peak("stock") for _ in range(1 if quick else 3)]
    yield of_samples(
        "memory", "peak resident memory, times stock", ratios, "x", limit=1.15
    )


def _peak(side: str) -> float:
    told = subprocess.run(
        (sys.executable, "-m", "bench.memory", side),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(told.stdout.split()[-1])


def _train(side: str) -> int:
    spec = experiment("mnist-ipu-faster", CHANGES)
    fit = SIDES[side](spec, prepared(spec))
    fit()
    fit()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    print(_train(sys.argv[1]))
