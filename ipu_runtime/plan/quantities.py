"""Numbers with their units, in few characters."""

from __future__ import annotations

import math

_READABLE = 1e12
"""From here on nobody counts digits: a loss that has left all bounds."""
_WIDEST = 1e5


def microseconds(value: float) -> str:
    """Return a time that is given in microseconds, in the unit that suits it."""
    for limit, divisor, unit in ((1e3, 1.0, "us"), (1e6, 1e3, "ms")):
        if abs(value) < limit * 0.9995:
            return f"{_three_digits(value / divisor)} {unit}"
    return f"{_three_digits(value / 1e6)} s"


def byte_size(value: float) -> str:
    """Return a number of bytes in binary units."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1023.5:
            return f"{_three_digits(value)} {unit}" if unit != "B" else f"{value:.0f} B"
        value /= 1024
    return f"{_three_digits(value)} TiB"


def count(value: float) -> str:
    """Return a number with a unit of thousands: 251 k."""
    for limit, divisor, unit in ((1e4, 1.0, ""), (1e6, 1e3, " k"), (1e9, 1e6, " M")):
        if abs(value) < limit * 0.9995:
            return (
                f"{value:,.0f}" if not unit else _three_digits(value / divisor) + unit
            )
    return f"{_three_digits(value / 1e9)} G"


def four_digits(value: float, unit: str = "") -> str:
    """Return a number with four significant digits, for a sentence."""
    readable = 9_999.5 <= abs(value) < _READABLE
    text = f"{value:,.0f}" if readable else f"{value:.4g}"
    return f"{text} {unit}".strip()


def four_decimals(value: float | None, unknown: str = "") -> str:
    """Return a loss or an accuracy, for a column of them."""
    if value is None:
        return unknown
    return f"{value:.4f}" if abs(value) < _WIDEST else f"{value:.2g}"


def plural(number: int, word: str) -> str:
    """Return a number with its word: 1 replica, 2 replicas."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def share(value: float) -> str:
    """Return a fraction as a percentage."""
    percent = value * 100
    if 0 < percent < 1:
        return "<1 %"
    return f"{percent:.0f} %"


def change(new: float, old: float) -> str:
    """Return how much a figure differs from another: -3 %."""
    if not old or not math.isfinite(new / old):
        return ""
    percent = round((new / old - 1) * 100)
    return f"{percent:+d} %" if percent else ("=" if new == old else "±0 %")


def duration(seconds: float) -> str:
    """Return a time for people: 21 s, 3 min 05 s, 2 h 10 min."""
    if seconds < 99.5:
        return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.1f} s"
    if not math.isfinite(seconds):
        # Damaged records and modelled devices of the user's own may hold anything.
        return f"{seconds} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _three_digits(value: float) -> str:
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"
