"""What Python, TensorFlow and Keras read from the environment."""

from __future__ import annotations

import os


def prepare_environment() -> None:
    """Set what must be set before TensorFlow and Keras are loaded.

    Missing GPUs are no error here, and only TensorFlow can be the backend of Keras,
    whatever the user has chosen for other programs.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    for name in ("HOME", "KERAS_HOME"):
        # Python and Keras would take the root and the current directory for it.
        if os.environ.get(name) == "":
            del os.environ[name]
