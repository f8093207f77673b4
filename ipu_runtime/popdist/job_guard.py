"""Ends the instances of a job when the `poprun` that has started them is gone.

It is run as a file of its own: it reads the numbers of their process groups, and the
directories of the job; the end of its input is the end of `poprun`, whatever that died
of.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys


def main() -> None:
    """Wait for the end of the input, then leave no process and no directory."""
    lines = sys.stdin.read().splitlines()
    for group in filter(str.isdecimal, lines):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(group), signal.SIGKILL)
    for directory in filter(os.path.isabs, lines):
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
