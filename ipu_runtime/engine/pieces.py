"""How much work a program does between two looks at the outside world."""

from __future__ import annotations

_TARGET_S = 0.1
_GROWTH = 8


class PieceSize:
    """Learns how many batches take about a tenth of a second."""

    def __init__(self, unit: int) -> None:
        self._unit = unit
        self._units = 1
        self.compiled = False
        """Whether the program has run before."""

    def next(self, remaining: int) -> int:
        """Return how many of the remaining batches to do in one go."""
        return min(self._units * self._unit, remaining)

    def record(self, batches: int, seconds: float) -> None:
        """Take in how long a piece took; the first one only compiles."""
        if not self.compiled:
            self.compiled = True
            return
        wanted = int(_TARGET_S * batches / max(seconds, 1e-6) / self._unit)
        limit = max(1, batches // self._unit) * _GROWTH
        self._units = max(1, min(wanted, limit))
