"""`python -m ipu_runtime SCRIPT [ARGS...]`: run an unmodified IPU script."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

from ipu_runtime.installing.script import ScriptWatch, run_script

USAGE = "usage: python -m ipu_runtime [--record] [--custom-ops FILE] SCRIPT [ARGS...]"
_WATCHES = "ipu_runtime.script_watch"
"""Entry points of who can watch scripts; the runtime itself keeps no records."""


def main() -> int:
    """Run the script that the command line names."""
    arguments = sys.argv[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(
            f"{USAGE}\n\nRuns an IPU script on the emulated IPU runtime. FILE "
            "registers Python functions in place of compiled operations. --record "
            "keeps a run that `ipu-workbench runs` shows."
        )
        return 0
    custom_ops, watch = None, None
    if arguments[:1] == ["--record"]:
        arguments = arguments[1:]
        watch = _recording()
        if watch is None:
            print(
                "ipu_runtime: --record needs ipu-workbench, which is not installed",
                file=sys.stderr,
            )
            return 2
    if arguments[:1] == ["--custom-ops"] and len(arguments) > 1:
        custom_ops, arguments = arguments[1], arguments[2:]
    if not arguments or arguments[0].startswith("--custom-ops"):
        print(USAGE, file=sys.stderr)
        return 2
    return run_script(arguments[0], arguments[1:], custom_ops, watch)


def _recording() -> ScriptWatch | None:
    """Return what keeps a record of a script, if it is installed."""
    for found in entry_points(group=_WATCHES, name="record"):
        watch: ScriptWatch = found.load()()
        return watch
    return None


if __name__ == "__main__":
    sys.exit(main())
