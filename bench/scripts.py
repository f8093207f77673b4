"""What it costs a script that its run is recorded."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from unittest import mock

from bench.experiments import emulated_fit, experiment, prepared
from bench.figure import Figure
from bench.side_by_side import Work, of_samples, ratio
from workbench.scripts.recording import ScriptRecording


def measure(quick: bool) -> Iterator[Figure]:
    """Yield a recorded epoch against an unrecorded one, and what a record costs once.

    Processor time counts, of all threads: the record is written beside the script, so
    that nobody waits for it, and a busy machine would hide so small a difference.
    """
    size = f"data.train_samples={3072 if quick else 6144}"
    spec = experiment("mnist-ipu-faster", [size, "train.epochs=1"])
    fit = emulated_fit(spec, prepared(spec))
    once: list[float] = []

    def recorded() -> float:
        began = time.process_time()
        recording = ScriptRecording()
        recording.began(__file__, [])
        around = time.process_time() - began
        took = _processor_time(fit)
        began = time.process_time()
        recording.ended(0, None)
        once.append((around + time.process_time() - began) * 1e3)
        return took

    with (
        tempfile.TemporaryDirectory() as home,
        mock.patch.dict(os.environ, {"IPU_WORKBENCH_HOME": home}),
    ):
        yield ratio(
            "scripts",
            "processor time of a recorded epoch against an unrecorded one",
            recorded,
            lambda: _processor_time(fit),
            rounds=7 if quick else 21,
            limit=1.02,
        )
    name = "processor time of opening and closing a record"
    yield of_samples("scripts", name, once, "ms", limit=100)


def _processor_time(work: Work) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
