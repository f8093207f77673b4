"""What ctrl+c does: the first asks to stop, the second leaves at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from workbench.runs.run_context import RunControl


@contextmanager
def stop_on_interrupt(control: RunControl) -> Iterator[None]:
    """Let ctrl+c, a request to end or a lost terminal stop the run and keep it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        if control.stop.is_set():
            raise KeyboardInterrupt
        control.stop.set()
        control.resume()
        # On a terminal, below the progress bar.
        below = b"\n" if sys.stderr.isatty() else b""
        # Not through Python's stream: it may be in the middle of a write just now.
        with suppress(OSError):
            os.write(
                sys.stderr.fileno(), below + b"stopping; once more leaves at once\n"
            )

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # Under nohup the run is meant to outlive the terminal.
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
