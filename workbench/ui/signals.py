"""What requests from outside do to the app: a live run is stopped and kept."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from workbench.ui.controllers.run_board import RunBoard

_PATIENCE_S = 60.0
"""How long a run may take to end; then the app goes, and the run counts as killed."""


@contextmanager
def survives_lost_terminal(board: RunBoard) -> Iterator[None]:
    """Stop the live run when the terminal goes away, and leave once it is kept.

    Nothing of Textual takes part: without a terminal it may wait for its own output.
    """

    def hang_up(number: int, frame: FrameType | None) -> None:
        threading.Thread(target=_stop_and_leave, args=(board, number)).start()

    before = signal.signal(signal.SIGHUP, hang_up)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _stop_and_leave(board: RunBoard, number: int) -> None:
    board.hold_waiting()
    active = board.active
    if active is not None:
        active.stop()
        active.ended.wait(_PATIENCE_S)
    os._exit(128 + number)
