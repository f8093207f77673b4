"""Keeps what native libraries print apart from what the command says.

TensorFlow writes to descriptor 2 from C++, past Python. So our own messages go to a
duplicate of it, and the descriptor itself leads to the run's log.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType


class NativeLog:
    """A context in which descriptor 2 can be led to a file."""

    def __enter__(self) -> NativeLog:
        """Let Python's standard error write to a duplicate."""
        self._before = sys.stderr
        self._before.flush()
        self._duplicate = os.dup(2)
        sys.stderr = os.fdopen(
            self._duplicate, "w", buffering=1, encoding="utf-8", errors="replace"
        )
        return self

    def lead_to(self, path: Path) -> None:
        """Send what native code prints from now on to the end of a file."""
        try:
            log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:
            # A record that takes no log still has a run; its messages stay visible.
            return
        os.dup2(log, 2)
        os.close(log)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put everything back."""
        sys.stderr.flush()
        os.dup2(self._duplicate, 2)
        sys.stderr.close()
        sys.stderr = self._before
