"""Files that TensorFlow writes for us."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from workbench.core.runs.record_files import explained

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def explained_disk(path: Path) -> Iterator[None]:
    """Say of a full disk what it is: TensorFlow speaks of exhausted resources."""
    try:
        yield
    except tf.errors.OpError as error:
        for number in _NO_ROOM:
            if os.strerror(number) in str(error):
                with explained(path):
                    raise OSError(number, os.strerror(number)) from error
        raise
