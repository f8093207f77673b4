"""Call the functions that a user hands to an estimator, with what they accept."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.tensorflow_graphs import made_eagerly


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names that a function or `functools.partial` still takes."""
    signature = inspect.signature(function)
    bound = function.keywords if isinstance(function, functools.partial) else {}
    return tuple(
        name
        for name, parameter in signature.parameters.items()
        if name not in bound and parameter.kind is not parameter.VAR_POSITIONAL
    )


def call_input_fn(
    input_fn: Callable[..., Any],
    mode: str,
    params: Mapping[str, Any],
    config: Any,
    input_context: Any,
) -> Any:
    """Return the dataset that an input function makes."""
    offered = {
        "mode": mode,
        "params": params,
        "config": config,
        "input_context": input_context,
    }
    names = parameter_names(input_fn)
    if "batch_size" in params and "params" not in names:
        raise ValueError(
            "input_fn must take `params`, because the estimator was given a batch "
            "size, which is passed as params['batch_size']."
        )
    dataset = input_fn(**{name: offered[name] for name in names if name in offered})
    if not isinstance(dataset, (tf.data.Dataset, tf.compat.v1.data.Dataset)):
        raise ValueError(
            f"input_fn must return Dataset, but returned {type(dataset).__name__}."
        )
    if made_eagerly(dataset):
        raise ValueError(
            "input_fn must make its Dataset itself: one that was made outside belongs "
            "to no graph."
        )
    return dataset


def split_element(element: Any) -> tuple[Any, Any]:
    """Return features and labels of a dataset's element."""
    if not isinstance(element, tuple):
        return element, None
    if len(element) == 1:
        return element[0], None
    if len(element) == 2:
        return element[0], element[1]
    raise ValueError(
        f"A dataset element must be features or (features, labels), but has "
        f"{len(element)} parts."
    )


def call_model_fn(
    model_fn: Callable[..., Any],
    features: Any,
    labels: Any,
    mode: str,
    params: Mapping[str, Any],
    config: Any,
) -> Any:
    """Return what a model function makes of one batch."""
    names = parameter_names(model_fn)
    arguments: dict[str, Any] = {"features": features}
    if "labels" in names:
        arguments["labels"] = labels
    elif labels is not None:
        raise ValueError("model_fn does not take labels, but input_fn returns labels.")
    for name, value in (("mode", mode), ("params", params), ("config", config)):
        if name in names:
            arguments[name] = value
    return model_fn(**arguments)
