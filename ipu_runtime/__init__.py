"""An emulated Graphcore IPU runtime on TensorFlow and Keras.

Importing this package loads neither: `install()` and the public submodules do. The
package is also what `tensorflow.python.ipu` stands for once it is installed, so its
submodules are reached as attributes, and those of `ops` without the `ops`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ipu_runtime.install import install
from ipu_runtime.public_modules import ABSENT_MODULES, module_of

__all__ = ["install"]


def __getattr__(name: str) -> Any:
    if name == "outlined_function":
        return import_module("ipu_runtime.ops.functional_ops").outlined_function
    module = module_of(name)
    if module is None:
        absent = "; the emulator does not have it" if name in ABSENT_MODULES else ""
        raise AttributeError(f"module 'ipu' has no attribute {name!r}{absent}")
    return import_module(module)
