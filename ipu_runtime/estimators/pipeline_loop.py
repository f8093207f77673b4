"""What an `IPUPipelineEstimator` runs in its loop: a pipeline, from fill to drain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.pipeline.graph_pipeline import build_run
from ipu_runtime.estimators.estimator_loop import HostSide, LoopContents
from ipu_runtime.estimators.ipu_pipeline_estimator_spec import IPUPipelineEstimatorSpec
from ipu_runtime.estimators.tf_estimator import ModeKeys
from ipu_runtime.frameworks.types import Operation, Structure, Tensor
from ipu_runtime.gradient_accumulation import (
    GradientAccumulationReductionMethod as Reduction,
)
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_runtime.pipelining.pipeline_op import prepare
from ipu_runtime.pipelining.pipeline_results import ResultOptions
from ipu_runtime.plan.placements import requested


class PipelineLoop(LoopContents):
    """The iterations of one mode: a run of the pipeline each."""

    spec: IPUPipelineEstimatorSpec

    def __init__(
        self, spec: IPUPipelineEstimatorSpec, infeed: IPUInfeedQueue, steps: int
    ) -> None:
        """Check the pipeline by the rules of the device.

        Args:
            spec: What the model function has returned.
            infeed: What the first stage takes.
            steps: Steps that the global step counts for a run.
        """
        self.spec = spec
        self.mode = spec.mode
        self.steps = steps
        self.batches = self.accumulation = spec.gradient_accumulation_count
        self.sums_micro_batches = Reduction.parse(spec.reduction_method).sums
        self.placements = requested(spec.pipeline_op_kwargs)
        self._outfeed = IPUOutfeedQueue(feed_name="results")
        training = spec.mode == ModeKeys.TRAIN
        self._pipeline = prepare(
            spec.computational_stages,
            spec.gradient_accumulation_count,
            results=ResultOptions(None if training else self._outfeed),
            infeed=infeed,
            optimizer_function=spec.optimizer_function if training else None,
            device_mapping=spec.device_mapping,
            reduction_method=spec.reduction_method,
            **spec.pipeline_settings,
        )
        self.schedule = self._pipeline.pipeline.schedule
        self.mapping = self._pipeline.mapping
        """The IPU of every stage."""

    def iteration(self) -> tuple[dict[str, Tensor], list[Operation]]:
        """Build one run; return scalars to report, and what must be run."""
        if not self._pipeline.training:
            _, operations = self._pipeline.run_once()
            return {}, operations
        run = build_run(self._pipeline.pipeline)
        self.peak_stash = run.peak_stash
        scalars = {"loss": _mean(run.losses)}
        scalars |= {name: _mean(parts) for name, parts in run.scalars.items()}
        update = run.update
        return scalars, [update if isinstance(update, tf.Operation) else update.op]

    def must_exchange(self, replicas: int) -> bool:
        """Tell whether replicas train."""
        return self._pipeline.training

    def host_side(self) -> HostSide:
        """Build what the host does with the results."""
        if self.mode == ModeKeys.TRAIN:
            return HostSide()
        outputs = self._outfeed.dequeue()
        if self.mode == ModeKeys.PREDICT:
            if isinstance(outputs, list) and len(outputs) == 1:
                outputs = outputs[0]
            if not (tf.is_tensor(outputs) or isinstance(outputs, dict)):
                raise ValueError(
                    "The last stage must return one tensor or a dict for prediction, "
                    f"but returned {len(outputs)} tensors."
                )
            return HostSide({"predictions": outputs})
        metrics = _call_metrics(self.spec.eval_metrics_fn, outputs)
        pairs = {name: value for name, value in metrics.items() if name != "loss"}
        after_loop = {
            f"{name}/update": pair[1] if isinstance(pair, tuple) else pair
            for name, pair in pairs.items()
        }
        loss = metrics["loss"]
        after_loop["loss"] = loss[1] if isinstance(loss, tuple) else loss
        finals = {
            name: pair[0] for name, pair in pairs.items() if isinstance(pair, tuple)
        }
        return HostSide(after_loop, finals)


def _mean(values: Sequence[Tensor]) -> Tensor:
    total = tf.add_n([tf.cast(tf.reduce_mean(item), tf.float32) for item in values])
    return total / float(len(values))


def _call_metrics(
    function: Callable[..., Any] | None, outputs: Structure
) -> dict[str, Any]:
    assert function is not None
    if isinstance(outputs, dict):
        metrics = function(**outputs)
    elif isinstance(outputs, list):
        metrics = function(*outputs)
    else:
        metrics = function(outputs)
    if not isinstance(metrics, dict):
        raise TypeError(
            f"eval_metrics_fn must return a dict, but returned {metrics!r}."
        )
    if "loss" not in metrics:
        raise KeyError("eval_metrics_fn must return a dict with 'loss' in it.")
    return metrics
