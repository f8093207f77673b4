"""The loop that an `IPUEstimator` runs on the device, and the host's side of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.device_loop import build_loop
from ipu_runtime.engine.build.tracing_context import (
    MOST_SCALARS,
    collected_scalars,
)
from ipu_runtime.engine.describe.model_scope import model_scope
from ipu_runtime.engine.describe.placement import current_placement
from ipu_runtime.engine.run.estimator_program import EstimatorProgram
from ipu_runtime.estimators.ipu_estimator_spec import IPUEstimatorSpec
from ipu_runtime.estimators.step_counter import check_step_untouched, count_steps
from ipu_runtime.estimators.tf_estimator import ModeKeys
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu_runtime.ipu_run_config import RunConfig


class LoopBuilder:
    """Turns a model function into the loop of one mode."""

    def __init__(
        self,
        model: Callable[[Any], IPUEstimatorSpec],
        mode: str,
        infeed: IPUInfeedQueue,
        config: RunConfig,
    ) -> None:
        self._model = model
        self._mode = mode
        self._infeed = infeed
        self._loop = config.ipu_run_config.iterations_per_loop
        self._seed = config.tf_random_seed
        self._spec: IPUEstimatorSpec | None = None
        self._names: list[str] = []
        self._outfeed = IPUOutfeedQueue(feed_name="results")
        self._last_metrics = IPUOutfeedQueue(IPUOutfeedMode.LAST, feed_name="metrics")
        self._host_feed = IPUOutfeedQueue(feed_name="host_call")
        self._summaries = IPUOutfeedQueue(IPUOutfeedMode.LAST, feed_name="summaries")

    def build(self) -> EstimatorProgram:
        """Build the loop in the current graph."""
        units = tf.compat.v1.placeholder_with_default(
            tf.constant(self._loop), [], name="iterations"
        )
        scalars = _names_of_scalars(self._mode)
        placement = current_placement()
        assert placement is not None
        with model_scope(self._seed) as scope, collected_scalars() as extra:
            loop = build_loop(
                lambda index, *_: index < units,
                lambda index, *sums: self._body(index, sums, extra),
                [tf.constant(0), *[tf.constant(0.0, tf.float64)] * MOST_SCALARS],
                placement.replica_count,
                iterations=self._loop,
                needs_exchange=lambda: self._must_exchange(placement.replica_count()),
            )
        names = [*scalars, *extra]
        if self._loop == 1 and self._mode == ModeKeys.TRAIN:
            # A loop of one step reports the loss of one replica while it trains.
            loop_sums = loop.carried[0][1:]
        else:
            loop_sums = [
                tf.add_n(list(parts)) / float(len(parts))
                for parts in zip(*(item[1:] for item in loop.carried), strict=True)
            ]
        assert self._spec is not None
        after_loop, finals, host_operation = self._host_side()
        return EstimatorProgram(
            units,
            dict(zip(names, loop_sums, strict=False)),
            loop.operation,
            accumulation=loop.accumulation,
            sums_micro_batches=loop.sums,
            replicas=len(loop.carried),
            instance=loop.instance,
            broadcasts=loop.broadcasts,
            layer_uses=scope.layer_uses,
            hooks=_hooks_of(self._spec, self._mode),
            after_loop=after_loop,
            finals=finals,
            host_operation=host_operation,
        )

    def _body(
        self, index: Any, sums: Sequence[Any], extra: Mapping[str, Any]
    ) -> tuple[list[Any], list[Any]]:
        spec = self._spec = self._model(self._infeed.take())
        check_step_untouched()
        operations = {
            ModeKeys.TRAIN: self._train_operations,
            ModeKeys.EVAL: self._eval_operations,
            ModeKeys.PREDICT: self._predict_operations,
        }[self._mode](spec)
        values = [] if self._mode == ModeKeys.PREDICT else [spec.loss]
        values += list(extra.values())
        scalars = [tf.cast(tf.reduce_mean(value), tf.float32) for value in values]
        scalars += [tf.constant(0.0)] * (len(sums) - len(scalars))
        # Sums of doubles are the same however the loop is cut into pieces.
        scalars = [tf.cast(scalar, tf.float64) for scalar in scalars]
        added = [old + new for old, new in zip(sums, scalars, strict=True)]
        return [index + 1, *added], operations

    def _must_exchange(self, replicas: int) -> bool:
        """Tell whether the loop must; hosts can exchange gradients after it too."""
        assert self._spec is not None
        on_host = self._spec.host_call is not None and replicas == 1
        return self._mode == ModeKeys.TRAIN and not on_host

    def _train_operations(self, spec: IPUEstimatorSpec) -> list[Any]:
        if spec.loss is None or spec.train_op is None:
            raise ValueError("model_fn must return a loss and a train_op for training.")
        train_op = spec.train_op
        operations = [train_op if _is_operation(train_op) else train_op.op]
        if spec.host_call is not None:
            if self._loop > 1:
                raise ValueError(
                    "host_call needs iterations_per_loop 1, but it is "
                    f"{self._loop}: the host is not asked inside a loop."
                )
            if spec.host_call[1]:
                operations.append(self._host_feed.enqueue(list(spec.host_call[1])))
        summaries = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SUMMARIES)
        if summaries:
            operations.append(self._summaries.enqueue(summaries))
        return [*operations, count_steps(1, operations)]

    def _eval_operations(self, spec: IPUEstimatorSpec) -> list[Any]:
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

    def _predict_operations(self, spec: IPUEstimatorSpec) -> list[Any]:
        if spec.predictions is None:
            raise ValueError("model_fn must return predictions for prediction.")
        return [self._outfeed.enqueue(spec.predictions)]

    def _host_side(self) -> tuple[dict[str, Any], dict[str, Any], Any]:
        """Return fetches after each loop, final fetches and the host's operation."""
        spec = self._spec
        assert spec is not None
        if self._mode == ModeKeys.PREDICT:
            return {"predictions": self._outfeed.dequeue()}, {}, None
        if self._mode == ModeKeys.TRAIN:
            self._collect_summaries()
            return {}, {}, self._host_operation(spec)
        replicated = self._last_metrics.replicas > 1
        if spec.eval_metrics is None:
            values = self._last_metrics.dequeue()
            if replicated:
                values = {k: tf.reduce_mean(v, axis=0) for k, v in values.items()}
            return {}, values, None
        function, _ = spec.eval_metrics
        tensors = self._outfeed.dequeue()
        named = isinstance(tensors, dict)
        metrics = function(**tensors) if named else function(*tensors)
        updates = {f"{name}/update": pair[1] for name, pair in metrics.items()}
        return updates, {name: pair[0] for name, pair in metrics.items()}, None

    def _collect_summaries(self) -> None:
        """Let the host's hooks find what the loop summarized last."""
        if self._summaries.enqueued:
            for summary in self._summaries.dequeue():
                tf.compat.v1.add_to_collection(
                    tf.compat.v1.GraphKeys.SUMMARIES, tf.reshape(summary, [-1])[0]
                )

    def _host_operation(self, spec: IPUEstimatorSpec) -> Any:
        if spec.host_call is None:
            return None
        function, given = spec.host_call
        tensors = [tensor[-1] for tensor in self._host_feed.dequeue()] if given else []
        result = function(*tensors)
        if not (_is_operation(result) or tf.is_tensor(result)):
            raise TypeError(
                "The function of host_call must return a Tensor or an Operation, but "
                f"returned {result!r}."
            )
        return result


def _names_of_scalars(mode: str) -> list[str]:
    return [] if mode == ModeKeys.PREDICT else ["loss"]


def _hooks_of(spec: IPUEstimatorSpec, mode: str) -> tuple[Any, ...]:
    return {
        ModeKeys.TRAIN: spec.training_hooks,
        ModeKeys.EVAL: spec.evaluation_hooks,
        ModeKeys.PREDICT: spec.prediction_hooks,
    }[mode]


def _is_operation(value: Any) -> bool:
    return isinstance(value, tf.Operation)
