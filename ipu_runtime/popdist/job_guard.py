"""Ends the instances of a job when the `poprun` that has started them is gone.

It is run as a file of its own: it reads the numbers of their process groups, and the
end of its input is the end of `poprun`, whatever that died of.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main() -> None:
    """Wait for the end of the input, then leave no process of the groups."""
    for line in sys.stdin.read().split():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(line), signal.SIGKILL)


if __name__ == "__main__":
    main()
