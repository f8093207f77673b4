"""Which values the option methods of extended models refuse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_runtime.plan.rules.count_rules import ACCUMULATION, check_positive

_SET_BY_KERAS = (
    "computational_stages",
    "repeat_count",
    "inputs",
    "infeed_queue",
    "outfeed_queue",
    "optimizer_function",
)
_NOT_WITH_KERAS = ("outfeed_loss", "outfeed_mask", "batch_serialization_iterations")


def check_accumulation(steps: Any) -> None:
    """Raise unless the number of accumulation steps is a positive whole number."""
    if steps is not None:
        name = "gradient_accumulation_steps_per_replica"
        raise_for(check_positive(name, steps, ACCUMULATION))


def check_device_mapping(mapping: Any) -> None:
    """Raise unless the mapping is a list of whole numbers."""
    if mapping is None:
        return
    valid = isinstance(mapping, list) and all(isinstance(ipu, int) for ipu in mapping)
    if not valid:
        raise ValueError(
            "Expected `device_mapping` to be a list of integers, one IPU per pipeline "
            f"stage, but received {mapping!r} instead."
        )


def check_pipelining_kwargs(kwargs: Mapping[str, Any]) -> None:
    """Raise for arguments of `pipeline` that Keras decides itself."""
    if "gradient_accumulation_count" in kwargs:
        raise ValueError(
            "Found `gradient_accumulation_count` in `pipelining_kwargs`. Set "
            "`gradient_accumulation_steps_per_replica` instead."
        )
    _refuse(kwargs, _SET_BY_KERAS, "automatically set by Keras")
    _refuse(kwargs, _NOT_WITH_KERAS, "not compatible with Keras")
    _refuse(
        kwargs,
        ("experimental_normalize_gradients",),
        "no longer available: set `gradient_accumulation_reduction_method` to 'mean'",
    )


def check_accumulation_kwargs(kwargs: Mapping[str, Any]) -> None:
    """Raise for arguments of the accumulation optimizer that Keras decides itself."""
    _refuse(kwargs, ("opt",), "automatically set by Keras")
    if "num_mini_batches" in kwargs:
        raise ValueError(
            "Found `num_mini_batches` in `gradient_accumulation_optimizer_kwargs`. Set "
            "`gradient_accumulation_steps_per_replica` instead."
        )
    _refuse(
        kwargs,
        ("experimental_normalize_gradients",),
        "no longer available: set `gradient_accumulation_reduction_method` to 'mean'",
    )


def check_infeed_kwargs(kwargs: Mapping[str, Any]) -> None:
    """Raise for arguments of the infeed queue that Keras decides itself."""
    names = ("dataset", "infeed_spec", "element_spec", "_internal_id")
    _refuse(kwargs, names, "automatically set by Keras")
    IPUInfeedQueue(tf.data.Dataset.from_tensors(0), **kwargs)  # It checks the others.


def check_outfeed_kwargs(kwargs: Mapping[str, Any]) -> None:
    """Raise for arguments of the outfeed queue that Keras cannot work with."""
    _refuse(kwargs, ("outfeed_mode", "device_ordinal"), "not compatible with Keras")
    IPUOutfeedQueue(**kwargs)


def _refuse(kwargs: Mapping[str, Any], names: Iterable[str], why: str) -> None:
    for name in names:
        if name in kwargs:
            raise ValueError(f"Found `{name}` among the arguments: it is {why}.")
