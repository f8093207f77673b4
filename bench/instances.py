"""Instances that train together: the CNN by how it is spread, and what sums cost.

Run under `poprun`, this file is what is measured.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.figure import Figure
from bench.side_by_side import of_samples

SCALING = "instances, the CNN with one batch of 64 for each replica"
SUMS = "instances, one sum over two of them"
SIZES = (1_000, 100_000, 1_000_000, 10_000_000)
_SPREADS = {"one replica": (1, 1), "two replicas": (1, 2), "two instances": (2, 2)}
_PREFIX = "[0] "
"""Before what `poprun` passes on of the first instance."""


def measure(quick: bool) -> Iterator[Figure]:
    """Yield how training scales over instances, and the time of sums by size."""
    jobs, batches, rounds = (1, 32, 3) if quick else (3, 192, 5)
    taken: dict[str, list[float]] = {name: [] for name in _SPREADS}
    for _ in range(jobs):
        for name, (instances, replicas) in _SPREADS.items():
            work = ("fit", str(batches), str(rounds))
            taken[name].append(statistics.median(_job(instances, replicas, work)))
    note = f"step {statistics.median(taken['two replicas']) / batches * 1e3:.1f} ms"
    for name, other, limit in (
        ("two instances, times two replicas in one", "two replicas", 1.15),
        ("two instances, times one replica", "one replica", None),
    ):
        pairs = zip(taken["two instances"], taken[other], strict=True)
        ratios = [mine / reference for mine, reference in pairs]
        yield of_samples(SCALING, name, ratios, "x", limit=limit, note=note)
    pairs = zip(taken["two replicas"], taken["one replica"], strict=True)
    ratios = [mine / reference for mine, reference in pairs]
    yield of_samples(SCALING, "two replicas in one, times one replica", ratios, "x")
    taken_s = _job(2, 2, ("sum", "20000000", str(rounds)))
    for place, size in enumerate(SIZES):
        own = taken_s[place * rounds : (place + 1) * rounds]
        milliseconds = [seconds * 1e3 for seconds in own]
        yield of_samples(SUMS, f"{size:,} floats", milliseconds, "ms")


def _job(instances: int, replicas: int, work: tuple[str, ...]) -> list[float]:
    """Return the seconds that the first instance has measured."""
    ran = subprocess.run(
        (
            *(sys.executable, "-m", "ipu_runtime.popdist.poprun"),
            *("--num-instances", str(instances), "--num-replicas", str(replicas)),
            *("--only-output-from-instance", "0", "--timeout", "600"),
            *("python", "-m", "bench.instances", *work),
        ),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [float(line.removeprefix(_PREFIX)) for line in ran.stdout.splitlines()]


def _fit_seconds(batches: int, rounds: int) -> list[float]:
    """Train the CNN on as many batches for each replica, however many there are."""
    from bench.experiments import experiment, prepared, timed_fit
    from ipu_runtime import popdist
    from ipu_runtime.config import IPUConfig
    from ipu_runtime.distributed.popdist_strategy import PopDistStrategy
    from ipu_runtime.popdist.tensorflow import set_ipu_config
    from workbench.runs.model_builder import build_keras_model, compile_arguments

    local, index = popdist.getNumLocalReplicas(), popdist.getInstanceIndex()
    own = batches * local * 64
    every = own * popdist.getNumInstances()
    spec = experiment("mnist-ipu-faster", [f"data.train_samples={every}"])
    data, mine = prepared(spec).train, slice(index * own, (index + 1) * own)
    config = IPUConfig()
    set_ipu_config(config, ipus_per_replica=1)
    config.configure_ipu_system()
    strategy = PopDistStrategy()
    with strategy.scope():
        model = build_keras_model(spec)
        arguments = {**compile_arguments(spec), "steps_per_execution": batches}
        model.compile(**arguments)
    fit = timed_fit(model, data.x[mine], data.y[mine], 64, scope=strategy.scope)
    return [_seconds(fit()) for _ in range(1 + rounds)][1:]


def _sum_seconds(floats: int, rounds: int) -> list[float]:
    """Sum buffers of all sizes over all instances, in loops as a training has them.

    Args:
        floats: how many go through each loop, at most 100 times.
    """
    import tensorflow as tf

    from ipu_runtime.system.cluster import join
    from ipu_runtime.system.instance_exchange import sum_over_instances

    instance, seconds = join(), []

    @tf.function(autograph=False)
    def repeated(value: tf.Tensor, times: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(
            lambda index, _: index < times,
            lambda index, old: (index + 1, sum_over_instances([old], instance)[0]),
            (tf.constant(0), value),
            parallel_iterations=1,
        )[1]

    for size in SIZES:
        zeros, times = tf.zeros([size]), min(100, floats // size)
        repeated(zeros, tf.constant(1))
        for _ in range(rounds):
            began = time.perf_counter()
            repeated(zeros, tf.constant(times))
            seconds.append((time.perf_counter() - began) / times)
    return seconds


def _seconds(measured: object) -> float:
    assert isinstance(measured, float)
    return measured


if __name__ == "__main__":
    kind, first, second = sys.argv[1:]
    work = {"fit": _fit_seconds, "sum": _sum_seconds}[kind]
    for seconds in work(int(first), int(second)):
        print(seconds)
