"""An estimator that runs whole loops on the device: `ipu.ipu_estimator`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ipu_runtime.engine.device_loop import build_loop
from ipu_runtime.engine.estimator_program import EstimatorProgram
from ipu_runtime.engine.model_scope import model_scope
from ipu_runtime.engine.placement import current_placement
from ipu_runtime.engine.progress_scalars import MOST_SCALARS, collected_scalars
from ipu_runtime.estimator_base import EstimatorBase
from ipu_runtime.estimator_functions import call_model_fn, split_element
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu_runtime.ipu_run_config import RunConfig
from ipu_runtime.tf_estimator import EstimatorSpec, ModeKeys, WarmStartSettings

_WRITES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


class _SpecFields(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: Mapping[str, Any] | None
    eval_metrics: tuple[Callable[..., Any], Any] | None
    host_call: tuple[Callable[..., Any], Sequence[Any]] | None
    training_hooks: tuple[Any, ...]
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


class IPUEstimatorSpec(_SpecFields):
    """What a model function may return instead of a `tf.estimator.EstimatorSpec`."""

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Mapping[str, Any] | None = None,
        eval_metrics: tuple[Callable[..., Any], Any] | None = None,
        host_call: tuple[Callable[..., Any], Sequence[Any]] | None = None,
        training_hooks: Sequence[Any] | None = None,
        evaluation_hooks: Sequence[Any] | None = None,
        prediction_hooks: Sequence[Any] | None = None,
    ) -> IPUEstimatorSpec:
        _check_host_function("host_call", host_call, (list, tuple))
        _check_host_function("eval_metrics", eval_metrics, (list, tuple, dict))
        return super().__new__(
            cls,
            mode=mode,
            predictions=predictions,
            loss=loss,
            train_op=train_op,
            eval_metric_ops=eval_metric_ops,
            eval_metrics=eval_metrics,
            host_call=host_call,
            training_hooks=tuple(training_hooks or ()),
            evaluation_hooks=tuple(evaluation_hooks or ()),
            prediction_hooks=tuple(prediction_hooks or ()),
        )


def _check_host_function(name: str, pair: Any, kinds: tuple[type, ...]) -> None:
    if pair is None:
        return
    if not isinstance(pair, tuple):
        raise TypeError(f"`{name}` must be a tuple (function, tensors), not {pair!r}.")
    if len(pair) != 2:
        raise ValueError(f"`{name}` must have 2 parts, but has {len(pair)}.")
    if not callable(pair[0]):
        raise TypeError(f"The first part of `{name}` must be callable: {pair[0]!r}.")
    if not isinstance(pair[1], kinds):
        raise TypeError(f"The second part of `{name}` must be a list: {pair[1]!r}.")


class IPUEstimator(EstimatorBase):
    """Trains, evaluates and predicts with a model function, loop by loop."""

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: str | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
    ) -> None:
        super().__init__(model_fn, model_dir, config, params, warm_start_from)
        distributed = self._config.train_distribute or self._config.eval_distribute
        if distributed and self._loop > 1:
            raise NotImplementedError(
                "A distribution strategy needs iterations_per_loop 1, but it is "
                f"{self._loop}."
            )
        self._batch_sizes = {
            ModeKeys.TRAIN: self._local_size("train_batch_size", train_batch_size),
            ModeKeys.EVAL: self._local_size("eval_batch_size", eval_batch_size),
            ModeKeys.PREDICT: self._local_size(
                "predict_batch_size", predict_batch_size
            ),
        }
        if any(self._batch_sizes.values()) and "batch_size" in self._params:
            raise ValueError(
                "`params` must not have 'batch_size' when a batch size is given too."
            )

    def _local_size(self, name: str, size: int | None) -> int | None:
        if size is None:
            return None
        replicas = self._config.ipu_run_config.num_replicas
        if size < 1 or size % replicas:
            raise ValueError(
                f"{name} is {size}; it must be at least 1 and divisible by the "
                f"{replicas} replica(s)."
            )
        return size // replicas

    def _mode_params(self, mode: str) -> Mapping[str, Any]:
        size = self._batch_sizes[mode]
        return {**self._params, "batch_size": size} if size else self._params

    def _build(self, mode: str, infeed: IPUInfeedQueue) -> EstimatorProgram:
        return _ProgramBuilder(self, mode, infeed).build()

    def _serving_outputs(self, features: Any) -> Any:
        return self._spec(ModeKeys.PREDICT, features).predictions

    def _spec(self, mode: str, element: Any) -> IPUEstimatorSpec:
        """Call the model function on an element of the data."""
        features, labels = split_element(element)
        if mode == ModeKeys.PREDICT:
            labels = None
        params = self._mode_params(mode)
        spec = call_model_fn(
            self._model_fn, features, labels, mode, params, self._config
        )
        if isinstance(spec, IPUEstimatorSpec):
            return spec
        if isinstance(spec, EstimatorSpec):
            return IPUEstimatorSpec(
                spec.mode,
                spec.predictions,
                spec.loss,
                spec.train_op,
                spec.eval_metric_ops or None,
                training_hooks=[*spec.training_hooks, *spec.training_chief_hooks],
                evaluation_hooks=spec.evaluation_hooks,
                prediction_hooks=spec.prediction_hooks,
            )
        raise ValueError(
            "model_fn must return a tf.estimator.EstimatorSpec or an "
            f"IPUEstimatorSpec, but returned {type(spec).__name__}."
        )


class _ProgramBuilder:
    """Turns a model function into the loop of one mode."""

    def __init__(
        self, estimator: IPUEstimator, mode: str, infeed: IPUInfeedQueue
    ) -> None:
        self._estimator = estimator
        self._mode = mode
        self._infeed = infeed
        self._loop = estimator._loop
        self._spec: IPUEstimatorSpec | None = None
        self._names: list[str] = []
        self._outfeed = IPUOutfeedQueue(feed_name="results")
        self._last_metrics = IPUOutfeedQueue(IPUOutfeedMode.LAST, feed_name="metrics")
        self._host_feed = IPUOutfeedQueue(feed_name="host_call")

    def build(self) -> EstimatorProgram:
        units = tf.compat.v1.placeholder_with_default(
            tf.constant(self._loop), [], name="iterations"
        )
        seed = self._estimator.config.tf_random_seed
        scalars = _names_of_scalars(self._mode)
        placement = current_placement()
        assert placement is not None
        with model_scope(seed) as scope, collected_scalars() as extra:
            loop = build_loop(
                lambda index, *_: index < units,
                lambda index, *sums: self._body(index, sums, extra),
                [tf.constant(0), *[tf.constant(0.0)] * MOST_SCALARS],
                placement.replica_count,
                iterations=self._loop,
                needs_exchange=self._mode == ModeKeys.TRAIN,
            )
        names = [*scalars, *extra]
        if self._loop == 1:
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
            replicas=len(loop.carried),
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
        spec = self._spec = self._estimator._spec(self._mode, self._infeed._dequeue())
        _check_global_step_untouched()
        operations = {
            ModeKeys.TRAIN: self._train_operations,
            ModeKeys.EVAL: self._eval_operations,
            ModeKeys.PREDICT: self._predict_operations,
        }[self._mode](spec)
        values = [] if self._mode == ModeKeys.PREDICT else [spec.loss]
        values += list(extra.values())
        scalars = [tf.cast(tf.reduce_mean(value), tf.float32) for value in values]
        scalars += [tf.constant(0.0)] * (len(sums) - len(scalars))
        added = [old + new for old, new in zip(sums, scalars, strict=True)]
        return [index + 1, *added], operations

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
            operations.append(self._host_feed.enqueue(list(spec.host_call[1])))
        return operations

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
            return {}, {}, self._host_operation(spec)
        replicated = self._last_metrics._replicas > 1
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

    def _host_operation(self, spec: IPUEstimatorSpec) -> Any:
        if spec.host_call is None:
            return None
        tensors = [tensor[-1] for tensor in self._host_feed.dequeue()]
        result = spec.host_call[0](*tensors)
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


def _check_global_step_untouched() -> None:
    graph = tf.compat.v1.get_default_graph()
    step = tf.compat.v1.train.get_global_step()
    captured = {outer.name: inner.name for outer, inner in graph.captures}
    inner = captured.get(step.handle.name)
    for operation in graph.get_operations():
        if operation.type in _WRITES and operation.inputs[0].name == inner:
            raise ValueError(
                "Illegal increment of the `global_step` in model_fn: the estimator "
                "counts steps itself. Leave out `global_step` in minimize()."
            )
