"""Work that some processes do not survive."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from workbench.runs.run_context import RunControl
from workbench.store_json import RecordError


def doubled(task: tuple[int, str], control: RunControl) -> int:
    """Double a number; `once` kills its process at the first attempt, `always` always.

    The second part is empty, `always`, or a file that tells the first attempt.
    """
    number, fate = task
    if fate == "always" or (fate and not Path(fate).exists()):
        if fate != "always":
            Path(fate).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * 2


def unwritten(task: int, control: RunControl) -> int:
    """Find the disk full."""
    raise RecordError(f"cannot write {task}")


def waiting(task: int, control: RunControl) -> int:
    """Tell that a task has begun, and once it is to stop."""
    # In one piece, for other processes tell it at the same time.
    os.write(1, b"begun\n")
    control.stop.wait()
    os.write(1, b"stopped\n")
    return task


def lost(task: tuple[int, str], why: str) -> int:
    """Tell a lost task by its sign."""
    del why
    return -task[0]
