"""Start of the `ipu-workbench` command."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    # TensorFlow reads its log level when it is loaded: missing GPUs are no error here.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Late, because the log level must be set first.
    from workbench.headless.main import main as run_command_line

    sys.exit(run_command_line(sys.argv[1:], os.environ, _open_app))


def _open_app(*, theme: str | None, ascii_only: bool) -> int:
    # Late, because no command needs Textual.
    from workbench.ui.app import run_app

    return run_app(theme=theme, ascii_only=ascii_only)


if __name__ == "__main__":
    main()
