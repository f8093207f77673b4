"""A bar on standard error that shows how far a long command is."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from ipu_runtime.plan.quantities import duration

_WIDTH = 30
_INTERVAL_S = 0.1


class ProgressBar:
    """Redraws itself in place; off a terminal it stays silent."""

    def __init__(self, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._total, self._done, self._at_start = total, done, done
        self._began = self._drawn = time.monotonic()
        self._shown = self._stream.isatty()

    def advance(self, count: int = 1) -> None:
        """Note that more is done; most calls draw nothing."""
        self._done += count
        now = time.monotonic()
        if self._shown and now - self._drawn >= _INTERVAL_S:
            self._drawn = now
            self._stream.write(f"\r{self.line(now)}\x1b[K")
            self._stream.flush()

    def clear(self) -> None:
        """Make room for other output."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def line(self, now: float) -> str:
        """Return the bar: how much is done, how fast, and how long it still takes."""
        share = self._done / self._total if self._total else 1.0
        filled = int(share * _WIDTH)
        bar = "#" * filled + "-" * (_WIDTH - filled)
        rate = (self._done - self._at_start) / max(now - self._began, 1e-9)
        left = f", {duration((self._total - self._done) / rate)} left" if rate else ""
        speed = f"{rate:.0f}/s" if rate >= 1 else f"{duration(1 / rate)} each"
        speed = f"  {speed}" if rate else ""
        return f"[{bar}] {self._done:,}/{self._total:,}{speed}{left}"
