"""What the process tells whoever started it."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes; scripts rely on them."""

    DONE = 0
    FAILED = 1
    """A run failed, or something could not be read or written."""
    USAGE = 2
    """The command line or the preset is wrong."""
    NO_FIT = 3
    """The experiment does not fit the emulated device."""
    GATE = 4
    """A condition of `plan --fail-if` holds."""
    INTERRUPTED = 130
