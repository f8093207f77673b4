"""Images as the device's convolutions like them: `ipu.ops.image_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_TYPES = (tf.float16, tf.float32, tf.uint8)


def normalise_image(
    image: Any,
    channel_offsets: Any,
    channel_scales: Any,
    scale: float = 1,
    name: str | None = None,
) -> Any:
    """Return `(image * scale - offset) * channel scale`, and zeros as fourth channel.

    Images of bytes become float16.
    """
    image = tf.convert_to_tensor(image)
    if image.dtype not in _TYPES:
        raise TypeError(
            "The input `image` to `normalise_image` must be either float16, float32 or "
            f"uint8, not {image.dtype.name}."
        )
    if image.shape.as_list()[-1] != 3:
        raise ValueError(
            "The input `image` to `normalise_image` must have 3 channels in its last "
            f"dimension, but its shape is {image.shape}."
        )
    dtype = tf.float16 if image.dtype == tf.uint8 else image.dtype
    image, offsets, scales = (
        tf.cast(item, dtype) for item in (image, channel_offsets, channel_scales)
    )
    normalised = (image * tf.cast(scale, dtype) - offsets) * scales
    padding = [[0, 0]] * (len(image.shape) - 1) + [[0, 1]]
    return tf.pad(normalised, padding, name=name)
