"""`python -m docs.unet`: read the U-Net of published.toml from Keras into unet.json.

Its croppings and transposed convolutions are no kinds of a preset, and reading a model
takes TensorFlow, which the tables should not need.
"""

from __future__ import annotations

import json
from typing import Any

from workbench.published.published_figure import DIRECTORY

MODEL = DIRECTORY / "unet.json"
_FILTERS = (64, 128, 256, 512)
_CROPPED = (392, 200, 104, 56)
"""Extents of what is handed over to the way up."""


def build() -> Any:
    """Return the model: pictures of 572 x 572, masks of 388 x 388, in float16."""
    # Late, as TensorFlow has to be taught first that it runs on IPUs.
    import keras
    from keras import layers

    def twice(x: Any, filters: int) -> Any:
        for _ in range(2):
            x = layers.Conv2D(filters, 3, activation="relu")(x)
        return x

    keras.backend.set_floatx("float16")
    image = x = layers.Input((572, 572, 1))
    handed_over = []
    for filters, extent in zip(_FILTERS, _CROPPED, strict=True):
        x = twice(x, filters)
        handed_over.append(layers.Cropping2D((x.shape[1] - extent) // 2)(x))
        x = layers.MaxPooling2D()(x)
    x = layers.Dropout(0.5)(twice(x, 2 * _FILTERS[-1]))
    for filters in reversed(_FILTERS):
        up = layers.Conv2DTranspose(filters, 2, strides=2, activation="relu")(x)
        x = twice(layers.concatenate([up, handed_over.pop()]), filters)
    return keras.Model(image, layers.Conv2D(2, 1)(x))


if __name__ == "__main__":
    import ipu_runtime

    ipu_runtime.install()
    from ipu_runtime.engine.describe.keras_reader import read_model
    from ipu_runtime.plan.model.model_json import model_to_json

    content = model_to_json(read_model(build()))
    MODEL.write_text(json.dumps(content, separators=(",", ":")) + "\n", "utf-8")
