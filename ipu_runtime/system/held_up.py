"""Lets signals end a process that waits for others inside of TensorFlow's own code.

Python acts on a signal when it is its turn again, which may be never; and TensorFlow
takes TERM for itself when it connects processes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_AGAIN_S = 0.2
_GRACE_S = 3.0
"""Time for Python to take note of an interrupt."""
_DEFAULT = 0
"""What C calls SIG_DFL."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let INT and TERM end the process at once, unless a script has its own way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    term = signal.getsignal(signal.SIGTERM)
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    done = threading.Event()
    if term is signal.SIG_DFL:
        threading.Thread(target=_give_back, args=(done,), daemon=True).start()
    try:
        yield
    finally:
        done.set()
        signal.signal(signal.SIGTERM, term)
        signal.signal(signal.SIGINT, interrupt)


def _give_back(done: threading.Event) -> None:
    """Undo that TERM is taken, whenever that happens; only C can from a thread."""
    library = ctypes.CDLL(None)
    while not done.wait(_AGAIN_S):
        library.signal(int(signal.SIGTERM), _DEFAULT)


def end_when_held_up() -> None:
    """From now on, end the process if it does not come to act on an interrupt."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    numbers, told = os.pipe()
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    if before != -1:
        # Somebody else listens, and there can be only one.
        signal.set_wakeup_fd(before)
        return
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    noted = threading.Event()

    def interrupted(number: int, frame: Any) -> None:
        noted.set()
        signal.default_int_handler(number, frame)

    def watch() -> None:
        while number := os.read(numbers, 1):
            own = signal.getsignal(signal.SIGINT) is interrupted
            if number[0] != signal.SIGINT or not own:
                continue
            if not noted.wait(_GRACE_S):
                sys.stderr.flush()
                os._exit(128 + signal.SIGINT)
            noted.clear()

    signal.signal(signal.SIGINT, interrupted)
    threading.Thread(target=watch, daemon=True).start()
