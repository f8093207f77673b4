"""Files that TensorFlow writes for us."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from workbench.store_json import RecordError, explained

_REASONS = {f"; {os.strerror(number)}": number for number in errno.errorcode}
"""How TensorFlow's `IOError` ends what it says, by the number that it came from."""


@contextmanager
def explained_disk(path: Path) -> Iterator[None]:
    """Say of a disk what is wrong: TensorFlow speaks of nodes and their errors."""
    try:
        yield
    except tf.errors.OpError as error:
        said = str(error)
        number = next((_REASONS[text] for text in _REASONS if text in said), None)
        if number is None:
            raise
        # It writes `checkpoint` beside its place.
        if "RestoreV2" in said or "/checkpoint; " in said:
            reason = f"{path} cannot be read: {os.strerror(number)}"
            raise RecordError(reason) from error
        with explained(path):
            raise OSError(number, os.strerror(number)) from error
