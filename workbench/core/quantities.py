"""Numbers with their units, in few characters, as reports of the runtime have them."""

from ipu_runtime.reports.quantities import (
    byte_size,
    change,
    count,
    duration,
    microseconds,
    share,
)

__all__ = ["byte_size", "change", "count", "duration", "microseconds", "share"]
