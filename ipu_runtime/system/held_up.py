"""Lets signals end a process that waits for others inside of TensorFlow's own code.

Python acts on a signal when it is its turn again, which may be never.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

_GRACE_S = 3.0
"""Time for Python to take note of an interrupt."""


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
