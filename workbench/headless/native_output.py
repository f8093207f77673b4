"""Keeps what native libraries print apart from what the command says.

TensorFlow writes to descriptor 2 from C++, past Python. So our own messages go to a
duplicate of it, and the descriptor itself leads to the run's log.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType

from workbench.store_files import open_to_append


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

    def drop(self) -> None:
        """Let what native code prints from now on go nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)

    def lead_to(self, path: Path) -> None:
        """Send what native code prints from now on to the end of a record's file."""
        try:
            log = open_to_append(path, 0o600)
        except OSError:
            # A record that takes no log still has a run; its messages stay visible.
            return
        with log:
            os.dup2(log.fileno(), 2)

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
