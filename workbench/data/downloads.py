"""Data sets that are downloaded when they are asked for."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from workbench.data.dataset_facts import DatasetError

_PERCENT = re.compile(r"(\d+)/(\d+)")


def download_cifar10(tell: Callable[[str], None]) -> dict[str, npt.NDArray[Any]]:
    """Return all of CIFAR-10 from Keras' cache, downloading it first if needed."""
    # Late, because Keras loads TensorFlow.
    import keras

    tell("loading all of CIFAR-10; the first time it is downloaded (170 MB)")
    try:
        with contextlib.redirect_stdout(_Progress(tell)):
            train, test = keras.datasets.cifar10.load_data()
    except OSError as error:
        raise _no_network(error) from error
    except Exception as error:
        # Keras wraps failed downloads into a plain Exception.
        if "fetch" not in str(error) and "URL" not in str(error):
            raise
        raise _no_network(error) from error
    (x_train, y_train), (x_test, y_test) = train, test
    return {
        "x_train": x_train,
        "y_train": y_train[:, 0],
        "x_test": x_test,
        "y_test": y_test[:, 0],
    }


def _no_network(error: BaseException) -> DatasetError:
    return DatasetError(
        "cifar10-full",
        f"all of CIFAR-10 cannot be downloaded: {error}",
        "without a network use cifar10, the packaged sample",
    )


class _Progress(io.TextIOBase):
    """Takes the place of standard output while Keras draws its progress bar."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._last = -1

    def write(self, text: str) -> int:
        """Tell every further five percent."""
        numbers = _PERCENT.search(text)
        if numbers and int(numbers[2]):
            percent = 100 * int(numbers[1]) // int(numbers[2])
            if percent // 5 > self._last // 5:
                self._last = percent
                self._tell(f"downloading CIFAR-10: {percent} %")
        return len(text)
