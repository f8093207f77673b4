"""What is drawn of a curve: fewer points with the same outline, or a calmer one."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.runs.series import Curve

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


def thin(curve: Curve, points: int) -> Curve:
    """Return at most `points` points that keep the ends, peaks and troughs."""
    count = len(curve.xs)
    if points < 4:
        raise ValueError(f"points must be at least 4, but is {points}")
    if count <= points:
        return curve
    buckets = (points - 2) // 2
    kept = {0, count - 1}
    for bucket in range(buckets):
        begin, end = bucket * count // buckets, (bucket + 1) * count // buckets
        indices = range(begin, end)
        kept.add(min(indices, key=curve.ys.__getitem__))
        kept.add(max(indices, key=curve.ys.__getitem__))
    order = sorted(kept)
    return Curve(
        tuple(curve.xs[index] for index in order),
        tuple(curve.ys[index] for index in order),
    )
