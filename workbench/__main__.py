"""Start of the `ipu-workbench` command."""

from __future__ import annotations

import os
import sys

from ipu_runtime.environment import prepare_environment


def main() -> None:
    """Run the command line and exit with its code."""
    prepare_environment()
    _open_streams()
    # Late, because the environment must be set first.
    from workbench.headless.main import main as run_command_line

    sys.exit(run_command_line(sys.argv[1:], os.environ, _open_app))


def _open_streams() -> None:
    """Let every text be written, whatever the locale, and even to closed streams."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, stream)
        stream.reconfigure(errors="replace")


def _open_app(*, theme: str | None, ascii_only: bool) -> int:
    # Late, because no command needs Textual.
    from workbench.ui.app import run_app

    return run_app(theme=theme, ascii_only=ascii_only)


if __name__ == "__main__":
    main()
