"""`python -m ipu_runtime SCRIPT [ARGS...]`: run an unmodified IPU script."""

from __future__ import annotations

import sys

from ipu_runtime.script import run_script

USAGE = "usage: python -m ipu_runtime SCRIPT [ARGS...]"


def main() -> int:
    """Run the script that the command line names."""
    arguments = sys.argv[1:]
    if not arguments:
        print(USAGE, file=sys.stderr)
        return 2
    if arguments[0] in ("-h", "--help"):
        print(f"{USAGE}\n\nRuns an IPU script on the emulated IPU runtime.")
        return 0
    return run_script(arguments[0], arguments[1:])


if __name__ == "__main__":
    sys.exit(main())
