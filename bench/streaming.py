"""What it costs that somebody listens to a run."""

from __future__ import annotations

from collections.abc import Iterator

from bench.experiments import emulated_fit, experiment, prepared
from bench.figure import Figure
from bench.side_by_side import ratio
from ipu_runtime.engine.watch.observer import Progress, observed_by


class _Listener:
    """Takes what a run tells and does nothing with it."""

    def compiling(self, program: str) -> None:
        """A program is about to be built."""

    def compiled(
        self, program: str, seconds: float, ipu_compile_s: float, executor: str = ""
    ) -> None:
        """It is built."""

    def progressed(self, progress: Progress) -> None:
        """A piece is done."""

    def should_stop(self) -> bool:
        """Never stop."""
        return False


def measure(quick: bool) -> Iterator[Figure]:
    """Yield the time of an observed epoch as a multiple of an unobserved one."""
    size = f"data.train_samples={3072 if quick else 6144}"
    spec = experiment("mnist-ipu-faster", [size, "train.epochs=1"])
    fit = emulated_fit(spec, prepared(spec))

    def observed() -> object:
        with observed_by(_Listener()):
            return fit()

    yield ratio(
        "events",
        "an epoch with a listener against one without",
        observed,
        fit,
        rounds=3 if quick else 7,
        limit=1.1,
    )
