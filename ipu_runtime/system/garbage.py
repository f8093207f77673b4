"""When Python looks for garbage: each look holds every thread, the screen's too."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType

_RARELY = 1000
"""Collections of the middle generation before one of everything; Python waits 10."""


@contextmanager
def frozen_from_collection() -> Iterator[None]:
    """Keep what is loaded inside out of garbage collection for good.

    TensorFlow leaves some 280,000 objects. Going through them holds every thread for a
    quarter of a second, a screen beside the run too; and again and again while they
    are loaded, it is a third of that time.
    """
    was_enabled = gc.isenabled()
    # Or garbage of runs before would be frozen too.
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
    before = _graphs().custom_gradients() if "tensorflow" in sys.modules else set()
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
        if "tensorflow" in sys.modules:
            _graphs().forget_custom_gradients(before)
        gc.collect()
        # Only the C library of most Linux systems keeps what is freed, and has this.
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def _graphs() -> ModuleType:
    # Late: it loads TensorFlow, which most processes never need.
    from ipu_runtime.frameworks import tensorflow_graphs

    return tensorflow_graphs
