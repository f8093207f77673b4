"""`keras.engine.functional`: Keras 3 has the class, but not in public."""

from __future__ import annotations

from ipu_runtime.frameworks.habit_points import Functional

__all__ = ["Functional"]
