"""What requests to a served model look like: `tf.estimator.export`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf


class ServingInputReceiver(NamedTuple):
    """What a serving request looks like, and the features made from it."""

    features: Any
    receiver_tensors: Any
    receiver_tensors_alternatives: Any = None


def build_raw_serving_input_receiver_fn(
    features: Any, default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Take requests as features that look like these, batch by batch."""
    named = features if isinstance(features, dict) else {"feature": features}

    def receiver() -> ServingInputReceiver:
        placeholders = {
            name: tf.compat.v1.placeholder(
                feature.dtype, [default_batch_size, *feature.shape[1:]], name
            )
            for name, feature in named.items()
        }
        return ServingInputReceiver(placeholders, placeholders)

    return receiver
