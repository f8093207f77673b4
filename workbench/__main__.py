"""Start of the `ipu-workbench` command."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    # TensorFlow reads its log level when it is loaded: only errors, unless asked.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    from workbench.headless.main import main as run_command_line

    sys.exit(run_command_line(sys.argv[1:], os.environ))


if __name__ == "__main__":
    main()
