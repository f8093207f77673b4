"""Run a function on replicas that each have their own number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_runtime import ipu_compiler, loops, scopes
from ipu_runtime.config import IPUConfig
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue


def configure(ipus: int) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def on_replicas(
    body: Callable[[Any], Any], rows: Any, replicas: int, times: int = 1
) -> Any:
    """Return what `body` gives on each row, as [time, replica, ...] or [time, ...].

    Replica r of R gets the rows r, r + R, and so on.
    """
    configure(replicas)
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(rows))
        outfeed = IPUOutfeedQueue()
        with scopes.ipu_scope("/device:IPU:0"):
            program = ipu_compiler.compile(
                lambda: loops.repeat(
                    times, lambda row: outfeed.enqueue(body(row)), [], infeed
                )
            )
        results = outfeed.dequeue()
        with tf.compat.v1.Session() as session:
            session.run(
                [infeed.initializer, tf.compat.v1.global_variables_initializer()]
            )
            session.run(program)
            return session.run(results)
