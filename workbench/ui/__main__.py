"""The app without a command line, for servers that give it no terminal."""

from __future__ import annotations

import os
import sys

from workbench.ui.app import run_app

if __name__ == "__main__":
    # TensorFlow reads its log level when it is loaded.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.exit(run_app())
