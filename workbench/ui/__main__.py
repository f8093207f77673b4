"""The app without a command line, for servers that give it no terminal."""

from __future__ import annotations

import os
import signal
import sys
import threading

from ipu_runtime.system.environment import prepare_environment
from workbench.ui.launch import run_app

_LOOK_EVERY_S = 1.0


def _leave_with(parent: int) -> None:
    """Lose the terminal when the server is gone, however it went."""
    never = threading.Event()
    while os.getppid() == parent:
        never.wait(_LOOK_EVERY_S)
    os.kill(os.getpid(), signal.SIGHUP)


if __name__ == "__main__":
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    prepare_environment()
    sys.exit(run_app())
