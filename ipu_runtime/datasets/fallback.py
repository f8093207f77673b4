"""Packaged data for `keras.datasets` on machines that cannot download it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np

from ipu_runtime.datasets.packaged import ARRAY_NAMES, read_arrays
from ipu_runtime.frameworks.patching import around, patches_everywhere

Arrays = tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

_CONNECT_TIMEOUT_S = 2.0


def install_fallbacks() -> None:
    """Let MNIST and CIFAR-10 load without a network; Keras' own cache comes first."""
    from ipu_runtime.frameworks.keras_api import keras

    _replace(keras.datasets.mnist, _load_mnist)
    _replace(keras.datasets.cifar10, _load_cifar10)


def _replace(source: ModuleType, load: Callable[..., Arrays]) -> None:
    for patch in patches_everywhere(source, "load_data", around(load)):
        patch.install()


def _load_mnist(original: Callable[..., Arrays], path: str = "mnist.npz") -> Arrays:
    cached = _read(_cache() / path)
    if cached is not None:
        return cached
    downloaded = _downloaded("storage.googleapis.com", lambda: original(path=path))
    return downloaded or _packaged("mnist.npz", "MNIST (70,000 images)")


def _load_cifar10(original: Callable[..., Arrays]) -> Arrays:
    name = "cifar-10-batches-py"
    cached = any(
        (_cache() / folder / name / "test_batch").exists()
        for folder in (f"{name}-target", f"{name}-target_extracted")
    )
    if cached:
        return original()
    downloaded = _downloaded("www.cs.toronto.edu", original)
    if downloaded is not None:
        return downloaded
    (x_train, y_train), (x_test, y_test) = _packaged(
        "cifar10_sample.npz", "CIFAR-10 sample (3,200 images)"
    )
    return (x_train, y_train.reshape(-1, 1)), (x_test, y_test.reshape(-1, 1))


def _cache() -> Path:
    # Packaged data are also read by those who do not load Keras.
    from ipu_runtime.frameworks.keras_data import dataset_cache

    return dataset_cache()


def _read(file: Path) -> Arrays | None:
    """Return the arrays of a file, or None if it is missing or damaged."""
    if not file.is_file():
        return None
    try:
        arrays = read_arrays(file)
    except ValueError:
        return None
    x_train, y_train, x_test, y_test = (arrays[name] for name in ARRAY_NAMES)
    return (x_train, y_train), (x_test, y_test)


def _downloaded(host: str, load: Callable[[], Arrays]) -> Arrays | None:
    """Let Keras download, unless its host cannot even be reached quickly."""
    try:
        socket.create_connection((host, 443), timeout=_CONNECT_TIMEOUT_S).close()
    except OSError:
        return None
    try:
        return load()
    except Exception as error:  # Keras raises nothing more special.
        print(f"ipu_runtime: {error}", file=sys.stderr)
        return None


def _packaged(file: str, what: str) -> Arrays:
    print(
        f"ipu_runtime: the data set cannot be downloaded, using the packaged {what}",
        file=sys.stderr,
    )
    arrays = _read(Path(__file__).parent / file)
    if arrays is None:
        raise FileNotFoundError(f"the packaged data set {file} is missing or damaged")
    return arrays
