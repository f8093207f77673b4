"""What of a pipeline's results goes to the host, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.pipeline.graph_pipeline import BuiltRun
from ipu_runtime.engine.build.programs.accumulation import chosen_dtype


@dataclass(frozen=True)
class ResultOptions:
    """What of a pipeline's results goes to the host."""

    outfeed: Any = None
    loss_only: bool = False
    accumulate: bool = False
    accumulate_dtype: Any = None
    mask: Sequence[bool] | None = None


def enqueue_results(run: BuiltRun, options: ResultOptions, training: bool) -> list[Any]:
    """Send results to the host, micro-batch by micro-batch or summed up."""
    results = [
        _selected(outputs, loss, options, training)
        for outputs, loss in zip(
            run.outputs, run.losses or [None] * len(run.outputs), strict=True
        )
    ]
    if not tf.nest.flatten(results[0]):
        return []
    if options.outfeed is None:
        raise ValueError(
            "The last computational stage has tensor outputs, but there is no "
            "`outfeed_queue` for them."
        )
    if options.accumulate:
        total = tf.nest.map_structure(
            lambda *parts: tf.add_n([_cast(part, options) for part in parts]), *results
        )
        return [options.outfeed.enqueue_more(total)]
    operations: list[Any] = []
    for result in results:
        with tf.control_dependencies(operations[-1:]):
            operations.append(options.outfeed.enqueue_more(result))
    return operations


def _selected(outputs: Any, loss: Any, options: ResultOptions, training: bool) -> Any:
    if options.loss_only:
        return loss
    if not training:
        if isinstance(outputs, dict):
            return outputs
        if tf.is_tensor(outputs):
            # Accumulators are made for a list of outputs, also for a list of one.
            return [outputs] if options.accumulate else outputs
        return list(outputs)
    flat = tf.nest.flatten(outputs)
    if options.mask is None:
        return flat
    if len(options.mask) != len(flat):
        raise ValueError(
            f"`outfeed_mask` has {len(options.mask)} entries for {len(flat)} outputs."
        )
    return [item for item, left in zip(flat, options.mask, strict=True) if not left]


def _cast(tensor: Any, options: ResultOptions) -> Any:
    return tf.cast(tensor, chosen_dtype(options.accumulate_dtype, tensor))
