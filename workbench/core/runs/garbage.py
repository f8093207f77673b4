"""When Python looks for garbage: each look holds every thread, the screen's too."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_RARELY = 1000
"""Collections of the middle generation before one of everything; Python waits 10."""


@contextmanager
def kept_for_good() -> Iterator[None]:
    """Keep what is loaded inside out of garbage collection for good.

    TensorFlow leaves some 280,000 objects; going through them holds every thread for
    a quarter of a second, and a screen beside the run would feel stuck.
    """
    was_enabled = gc.isenabled()
    # Or garbage of runs before would be kept too.
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Look through everything rarely inside, and once at the end.

    A run's own graphs are large too: 50 ms for each look, once a second by default.
    What they held goes back to the system, or the next run would come on top of it.
    """
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, _RARELY)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
        gc.collect()
        # Only the C library of most Linux systems keeps what is freed, and has this.
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
