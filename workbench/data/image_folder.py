"""Images of the user's: a directory that has a directory for every class."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from ipu_runtime.datasets.machine_memory import memory_bytes
from workbench.data.dataset_facts import (
    DatasetError,
    DatasetFacts,
    as_arrays,
    part_counts,
)
from workbench.error_line import telling_line

_ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".png")
"""Those that Keras reads."""
_NEEDED = f"needed: a directory for each class, with {', '.join(_ENDINGS)} in it"
_MOST_OTHERS = 10_000
"""A whole disk, named by mistake, would be gone through for minutes."""
COLOR_MODES = {1: "grayscale", 3: "rgb", 4: "rgba"}
"""How Keras calls images of so many channels."""


def image_facts(folder: Path, test_share: float) -> DatasetFacts:
    """Return how many images and classes a directory has."""
    return _facts(folder, test_share, _stamp(folder))


def _stamp(folder: Path) -> tuple[int, ...]:
    """Return what changes when images or classes come or go."""
    parts = [folder, *image_parts(folder)]
    try:
        classes = [entry for part in parts for entry in os.scandir(part)]
        return tuple(entry.stat().st_mtime_ns for entry in classes)
    except OSError as error:
        raise _unreadable(folder, str(error.strerror)) from error


def _unreadable(folder: Path, reason: str) -> DatasetError:
    return DatasetError(str(folder), f"{folder} cannot be read: {reason}")


@lru_cache(maxsize=8)
def _facts(folder: Path, test_share: float, stamp: tuple[int, ...]) -> DatasetFacts:
    del stamp  # Part of the key: a form asks with every key.
    parts = [_images_by_class(part) for part in image_parts(folder)]
    names = [list(part) for part in parts]
    if names[0] != names[-1]:
        other = ", ".join(sorted(set(names[0]) ^ set(names[-1])))
        text = f"{folder}: train and test have not the same classes: {other}"
        raise DatasetError(str(folder), text)
    counts = [sum(part.values()) for part in parts]
    if not counts[0] or len(names[0]) < 2:
        raise DatasetError(
            str(folder),
            f"{folder} has {counts[0]} images in {len(names[0])} classes' directories",
            _NEEDED,
        )
    train, test = part_counts(counts, test_share)
    return DatasetFacts(train, test, None, len(names[0]), images=True)


def image_parts(folder: Path) -> list[Path]:
    """Return the directories of training and test images, or the one of both."""
    both = [folder / "train", folder / "test"]
    return both if all(part.is_dir() for part in both) else [folder]


def _images_by_class(folder: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    others = 0
    for name in sorted(os.listdir(folder)):
        if name.startswith(".") or not (folder / name).is_dir():
            continue
        counts[name] = 0
        for _, directories, files in os.walk(folder / name):
            images = sum(file.lower().endswith(_ENDINGS) for file in files)
            counts[name] += images
            others += len(directories) + len(files) - images
            if others > _MOST_OTHERS:
                text = f"{folder} is full of files that are no images"
                raise DatasetError(str(folder), text, _NEEDED)
    return counts


def load_images(
    folder: Path, facts: DatasetFacts, shape: tuple[int, ...]
) -> dict[str, Any]:
    """Return the images in the size of the model's input, and their class numbers."""
    size = 4 * (facts.train_samples + facts.test_samples)
    for extent in shape:
        size *= extent
    if size > memory_bytes():
        text = f"{folder} holds {size / 2**30:,.1f} GiB of images of this size"
        raise DatasetError(str(folder), f"{text}, more than this machine's memory")
    try:
        parts = [_decoded(part, shape) for part in image_parts(folder)]
    except Exception as error:  # TensorFlow has its own kinds for broken images.
        broken = next(_broken_images(folder), None)
        reason = f"{broken} is no image" if broken else telling_line(error)
        raise _unreadable(folder, reason) from error
    if sum(len(y) for _, y in parts) != facts.train_samples + facts.test_samples:
        raise DatasetError(str(folder), f"{folder} has changed since it was planned")
    # Late, because plans do without NumPy.
    from workbench.training.samples import share_out

    if len(parts) == 1:
        parts = list(share_out(parts[0], facts.test_samples))
    return as_arrays(*parts)


def _broken_images(folder: Path) -> Iterator[str]:
    """Yield the files that TensorFlow, which does not name them, takes for none."""
    import tensorflow as tf

    for place, _, files in os.walk(folder):
        for path in (os.path.join(place, file) for file in sorted(files)):
            if path.lower().endswith(_ENDINGS):
                try:
                    tf.io.decode_image(tf.io.read_file(path), expand_animations=False)
                except tf.errors.OpError:
                    yield os.path.relpath(path, folder)


def _decoded(folder: Path, shape: tuple[int, ...]) -> tuple[Any, Any]:
    # Late, because Keras loads TensorFlow.
    import keras
    import numpy as np

    batches = keras.utils.image_dataset_from_directory(
        str(folder),
        color_mode=COLOR_MODES[shape[-1]],
        image_size=shape[:2],
        shuffle=False,
        verbose=False,
    )
    images, labels = zip(*batches.as_numpy_iterator(), strict=True)
    return np.concatenate(images), np.concatenate(labels)
