"""Smoothing of noisy curves."""

from __future__ import annotations

from collections.abc import Sequence

LEVELS: tuple[float, ...] = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)
"""Weights that one key steps through; 0 shows what was measured."""


def smooth(values: Sequence[float], weight: float) -> tuple[float, ...]:
    """Return the running mean in which older values count `weight` times less.

    The start is corrected for the missing past, so that a curve begins at its first
    value and not near zero.
    """
    if not 0.0 <= weight < 1.0:
        raise ValueError(f"weight must be at least 0 and below 1, but is {weight}")
    if weight == 0.0:
        return tuple(values)
    smoothed = []
    total, share = 0.0, 0.0
    for value in values:
        total = weight * total + (1.0 - weight) * value
        share = weight * share + (1.0 - weight)
        smoothed.append(total / share)
    return tuple(smoothed)


def next_level(weight: float, step: int) -> float:
    """Return the neighbouring level, staying inside the range."""
    nearest = min(range(len(LEVELS)), key=lambda index: abs(LEVELS[index] - weight))
    return LEVELS[min(max(nearest + step, 0), len(LEVELS) - 1)]
