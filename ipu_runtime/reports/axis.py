"""Round numbers for the axes of drawings."""

from __future__ import annotations

import math


def round_ticks(low: float, high: float, count: int) -> list[float]:
    """Return about `count` round numbers inside a range, its ends at worst."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low]
    raw = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)] or [low, high]
