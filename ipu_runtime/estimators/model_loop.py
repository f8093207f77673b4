"""What an `IPUEstimator` runs in its loop: a model function, on one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.tracing_context import collected_scalars
from ipu_runtime.estimators.estimator_loop import (
    HostSide,
    LoopContents,
    check_step_untouched,
)
from ipu_runtime.estimators.ipu_estimator_spec import IPUEstimatorSpec
from ipu_runtime.estimators.tf_estimator import ModeKeys
from ipu_runtime.frameworks.types import Operation, Structure, Tensor
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue


class ModelLoop(LoopContents):
    """The iterations of one mode, by what the model function returns."""

    spec: IPUEstimatorSpec

    def __init__(
        self,
        model: Callable[[Structure], IPUEstimatorSpec],
        mode: str,
        infeed: IPUInfeedQueue,
        iterations: int,
    ) -> None:
        self._model = model
        self.mode = mode
        self._infeed = infeed
        self._length = self.iterations = iterations
        # A loop of one step reports the loss of one replica while it trains.
        self.shows_first_replica = iterations == 1 and mode == ModeKeys.TRAIN
        self._outfeed = IPUOutfeedQueue(feed_name="results")
        self._last_metrics = IPUOutfeedQueue(IPUOutfeedMode.LAST, feed_name="metrics")
        self._host_feed = IPUOutfeedQueue(feed_name="host_call")
        self._summaries = IPUOutfeedQueue(IPUOutfeedMode.LAST, feed_name="summaries")

    def iteration(self) -> tuple[dict[str, Tensor], list[Operation]]:
        """Build one iteration; return scalars to report, and what must be run."""
        with collected_scalars() as extra:
            spec = self.spec = self._model(self._infeed.take())
        check_step_untouched()
        operations = {
            ModeKeys.TRAIN: self._train_operations,
            ModeKeys.EVAL: self._eval_operations,
            ModeKeys.PREDICT: self._predict_operations,
        }[self.mode](spec)
        scalars = {} if self.mode == ModeKeys.PREDICT else {"loss": spec.loss}
        scalars |= extra
        return {
            name: tf.cast(tf.reduce_mean(value), tf.float32)
            for name, value in scalars.items()
        }, operations

    def must_exchange(self, replicas: int) -> bool:
        """Tell whether the loop must; hosts can exchange gradients after it too."""
        on_host = self.spec.host_call is not None and replicas == 1
        return self.mode == ModeKeys.TRAIN and not on_host

    def _train_operations(self, spec: IPUEstimatorSpec) -> list[Operation]:
        if spec.loss is None or spec.train_op is None:
            raise ValueError("model_fn must return a loss and a train_op for training.")
        train_op = spec.train_op
        operations = [train_op if _is_operation(train_op) else train_op.op]
        if spec.host_call is not None:
            if self._length > 1:
                raise ValueError(
                    "host_call needs iterations_per_loop 1, but it is "
                    f"{self._length}: the host is not asked inside a loop."
                )
            if spec.host_call[1]:
                operations.append(self._host_feed.enqueue(list(spec.host_call[1])))
        summaries = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SUMMARIES)
        if summaries:
            operations.append(self._summaries.enqueue(summaries))
        return operations

    def _eval_operations(self, spec: IPUEstimatorSpec) -> list[Operation]:
        if spec.loss is None:
            raise ValueError("model_fn must return a loss for evaluation.")
        if bool(spec.eval_metric_ops) == bool(spec.eval_metrics):
            raise ValueError(
                "model_fn must return exactly one of eval_metric_ops and eval_metrics "
                "for evaluation."
            )
        if spec.eval_metrics:
            return [self._outfeed.enqueue(spec.eval_metrics[1])]
        updates = {name: pair[1] for name, pair in (spec.eval_metric_ops or {}).items()}
        return [self._last_metrics.enqueue(updates)]

    def _predict_operations(self, spec: IPUEstimatorSpec) -> list[Operation]:
        if spec.predictions is None:
            raise ValueError("model_fn must return predictions for prediction.")
        return [self._outfeed.enqueue(spec.predictions)]

    def host_side(self) -> HostSide:
        """Build what the host does with the results."""
        if self.mode == ModeKeys.PREDICT:
            return HostSide({"predictions": self._outfeed.dequeue()})
        if self.mode == ModeKeys.TRAIN:
            self._collect_summaries()
            return HostSide(operation=self._host_operation())
        if self.spec.eval_metrics is None:
            values = self._last_metrics.dequeue()
            if self._last_metrics.replicas > 1:
                values = {k: tf.reduce_mean(v, axis=0) for k, v in values.items()}
            return HostSide(finals=values)
        function, _ = self.spec.eval_metrics
        tensors = self._outfeed.dequeue()
        named = isinstance(tensors, dict)
        metrics = function(**tensors) if named else function(*tensors)
        return HostSide(
            {f"{name}/update": pair[1] for name, pair in metrics.items()},
            {name: pair[0] for name, pair in metrics.items()},
        )

    def _collect_summaries(self) -> None:
        """Let the host's hooks find what the loop summarized last."""
        if self._summaries.enqueued:
            for summary in self._summaries.dequeue():
                tf.compat.v1.add_to_collection(
                    tf.compat.v1.GraphKeys.SUMMARIES, tf.reshape(summary, [-1])[0]
                )

    def _host_operation(self) -> Any:
        if self.spec.host_call is None:
            return None
        function, given = self.spec.host_call
        tensors = [tensor[-1] for tensor in self._host_feed.dequeue()] if given else []
        result = function(*tensors)
        if not (_is_operation(result) or tf.is_tensor(result)):
            raise TypeError(
                "The function of host_call must return a Tensor or an Operation, but "
                f"returned {result!r}."
            )
        return result


def _is_operation(value: Any) -> bool:
    return isinstance(value, tf.Operation)
