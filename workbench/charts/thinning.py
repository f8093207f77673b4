"""Fewer points with the same outline, so that long runs draw as fast as short ones."""

from __future__ import annotations

from workbench.runs.series import Curve


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
