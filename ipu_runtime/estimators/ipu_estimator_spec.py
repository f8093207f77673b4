"""What the model function of an `IPUEstimator` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


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
            mode,
            predictions,
            loss,
            train_op,
            eval_metric_ops,
            eval_metrics,
            host_call,
            tuple(training_hooks or ()),
            tuple(evaluation_hooks or ()),
            tuple(prediction_hooks or ()),
        )


def _check_host_function(name: str, pair: Any, kinds: tuple[type, ...]) -> None:
    if pair is None:
        return
    if not isinstance(pair, tuple):
        raise TypeError(f"`{name}` must be a tuple (function, tensors), not {pair!r}.")
    if len(pair) != 2:
        raise ValueError(f"`{name}` must have 2 parts, but has {len(pair)}.")
    function, tensors = pair
    if not callable(function):
        raise TypeError(f"The first part of `{name}` must be callable: {function!r}.")
    if not isinstance(tensors, kinds):
        raise TypeError(f"The second part of `{name}` must be a list: {tensors!r}.")
