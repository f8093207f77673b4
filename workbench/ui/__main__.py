"""The app without a command line, for servers that give it no terminal."""

from __future__ import annotations

import sys

from ipu_runtime.environment import prepare_environment
from workbench.ui.app import run_app

if __name__ == "__main__":
    prepare_environment()
    sys.exit(run_app())
