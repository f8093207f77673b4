"""The data sets that come with the package, as plain arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ipu_runtime.datasets.unreadable import UNREADABLE

Array = npt.NDArray[np.generic]

ARRAY_NAMES = ("x_train", "y_train", "x_test", "y_test")
FILES = {"mnist": "mnist.npz", "cifar10": "cifar10_sample.npz"}


def load_packaged(name: str) -> dict[str, Array]:
    """Return the arrays of a packaged data set: images as bytes, class numbers."""
    return read_arrays(Path(__file__).parent / FILES[name])


def read_arrays(file: Path) -> dict[str, Array]:
    """Return the four arrays of a file; ValueError if it does not hold them."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in ARRAY_NAMES}
    except UNREADABLE as error:
        needed = ", ".join(ARRAY_NAMES)
        text = f"{file} cannot be read as arrays {needed}: {error}"
        raise ValueError(text) from error
