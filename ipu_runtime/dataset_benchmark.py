"""How fast data can be fed: `ipu.dataset_benchmark`."""

from __future__ import annotations

import json
import time
from typing import Any

import tensorflow as tf

from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue


def infeed_benchmark(
    infeed_queue: IPUInfeedQueue,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    do_memcpy: bool = True,
) -> Any:
    """Return an operation whose value is JSON with the bandwidth of every epoch."""
    return _benchmark(
        infeed_queue.host_dataset,
        number_of_epochs,
        elements_per_epochs,
        print_stats,
        do_memcpy,
    )


def dataset_benchmark(
    dataset: Any,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    apply_debug_options: bool = True,
    do_memcpy: bool = True,
) -> Any:
    """Return an operation whose value is JSON with the bandwidth of every epoch."""
    del apply_debug_options  # They only make the feed faster.
    return _benchmark(
        dataset, number_of_epochs, elements_per_epochs, print_stats, do_memcpy
    )


def _benchmark(
    dataset: Any, epochs: int, elements: int, print_stats: bool, copies: bool
) -> Any:
    size = sum(
        spec.shape.num_elements() * spec.dtype.size
        for spec in tf.nest.flatten(dataset.element_spec)
    )
    total = dataset.take(epochs * elements)
    counted = total.enumerate().map(lambda index, _: index)
    if tf.executing_eagerly():
        return tf.constant(_measure(iter(counted), epochs, elements, size, print_stats))
    iterator = tf.compat.v1.data.make_one_shot_iterator(counted)
    del copies

    def epoch(stamps: Any, _: Any) -> Any:
        with tf.control_dependencies([stamps]):
            last = tf.while_loop(
                lambda index, _: index < elements,
                lambda index, _: (index + 1, iterator.get_next()),
                [tf.constant(0), tf.constant(0, tf.int64)],
                parallel_iterations=1,
            )[1]
        with tf.control_dependencies([last]):
            return tf.timestamp()

    start = tf.timestamp()
    stamps = tf.scan(epoch, tf.range(epochs), start, parallel_iterations=1)

    def report(first: Any, ends: Any) -> bytes:
        seconds, before = [], float(first)
        for end in ends:
            seconds.append(float(end) - before)
            before = float(end)
        return _report(seconds, elements, size, print_stats).encode()

    return tf.numpy_function(report, [start, stamps], tf.string, name="benchmark")


def _measure(
    elements_of: Any, epochs: int, elements: int, size: int, print_stats: bool
) -> str:
    seconds = []
    for _ in range(epochs):
        start = time.perf_counter()
        for _ in range(elements):
            next(elements_of)
        seconds.append(time.perf_counter() - start)
    return _report(seconds, elements, size, print_stats)


def _report(seconds: list[float], elements: int, size: int, show: bool) -> str:
    epochs = [
        {
            "epoch": index,
            "elements_processed": elements,
            "total_bytes_processed": elements * size,
            "time_elapsed": spent,
            "bandwidth": elements * size / max(spent, 1e-9) / 1e9,
        }
        for index, spent in enumerate(seconds)
    ]
    text = json.dumps({"epochs": epochs})
    if show:
        print(text)
    return text
