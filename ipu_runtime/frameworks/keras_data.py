"""What Keras does to data before it trains on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keras.src.backend.config import keras_home
from keras.src.trainers.data_adapters import array_slicing


def dataset_cache() -> Path:
    """Return the directory that Keras downloads data sets to."""
    return Path(keras_home()) / "datasets"


def split_for_validation(arrays: Any, fraction: float) -> tuple[Any, Any]:
    """Return the arrays without their last samples, and those."""
    kept, split = array_slicing.train_validation_split(
        arrays, validation_split=fraction
    )
    return kept, split
