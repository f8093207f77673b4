"""Load TensorFlow without the messages that it writes before its log is set up."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_NOISE = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\)"
    rb"|[IW]\d{4} .*\] "
    rb"|To enable the following instructions:"
)


@contextmanager
def startup_noise_dropped() -> Iterator[None]:
    """Drop TensorFlow's first information and warning lines, and nothing else.

    They ignore TF_CPP_MIN_LOG_LEVEL, so it is honoured here: nothing is dropped below
    level 2. The native code writes to the descriptor, not to `sys.stderr`.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0") < "2":
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as written:
        original = os.dup(2)
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(original, 2)
            os.close(original)
            written.seek(0)
            kept = [line for line in written if not _NOISE.match(line)]
            os.write(2, b"".join(kept))
