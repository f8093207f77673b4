"""`python -m bench.soak [--runs 20] [--minutes 10]`: does memory grow from run to run?

Runs follow each other in one process, each in a thread of its own and with its events
kept, as the app's queue does it. After the third run every kind has been there, and
memory may grow by a tenth at most.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import threading
import time

# Before TensorFlow is loaded: its start-up lines and hints are no figures.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from bench.experiments import experiment
from workbench.runs.events import Event, RunStatus
from workbench.runs.run_context import RunControl
from workbench.runs.run_view import RunView
from workbench.runs.runner import run_experiment

KINDS = ("mnist-ipu-pipelined", "cifar10-ipu-estimator", "mnist-cpu")
SETTLED = 3
MOST_GROWTH = 1.10
CHANGES = ("data.train_samples=2000", "data.test_samples=640", "train.epochs=100000")


def main() -> int:
    """Run one after the other; the exit code tells whether memory has stayed."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=10.0)
    args = parser.parse_args()
    seconds = 60 * args.minutes / args.runs
    monitors, sizes = [], []
    with tempfile.TemporaryDirectory() as home:
        os.environ["IPU_WORKBENCH_HOME"] = home
        for number in range(args.runs):
            kind = KINDS[number % len(KINDS)]
            monitors.append(_run(kind, seconds))
            gc.collect()
            sizes.append(_resident_mb())
            points = monitors[-1].events_seen
            print(f"run {number + 1:2} {kind:22} {points:6} events {sizes[-1]:7.0f} MB")
    growth = max(sizes[SETTLED:], default=0.0) / sizes[SETTLED - 1]
    print(f"{growth:.3f} times what it was after run {SETTLED}, at most {MOST_GROWTH}")
    return 0 if growth <= MOST_GROWTH else 1


def _run(kind: str, seconds: float) -> RunView:
    """Train for a while, then stop; return what the app would keep of it."""
    spec, control = experiment(kind, CHANGES), RunControl()
    monitor = RunView(kind, spec.train.epochs)
    ended: list[RunStatus] = []

    def emit(event: Event) -> None:
        monitor.add(event, time.time())

    def work() -> None:
        ended.append(run_experiment(spec, control, emit, preset=kind))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(seconds)
    control.stop.set()
    thread.join()
    if ended != [RunStatus.STOPPED]:
        sys.exit(f"{kind}: {monitor.message or 'ended before its time'}")
    return monitor


def _resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    sys.exit(main())
