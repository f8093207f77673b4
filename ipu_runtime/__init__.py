"""An emulated Graphcore IPU runtime on TensorFlow and Keras.

Importing this package loads neither: `install()` and the public submodules do. The
package is also what `tensorflow.python.ipu` stands for once it is installed, so its
submodules are reached as attributes, and those of `ops` without the `ops`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ipu_runtime.installing.install import install
from ipu_runtime.installing.public_modules import module_of
from ipu_runtime.installing.public_names import IPU, missing_attribute
from ipu_runtime.system.custom_op_libraries import register_custom_op

__all__ = ["install", "register_custom_op"]


def __getattr__(name: str) -> Any:
    if name == "outlined_function":
        return import_module("ipu_runtime.ops.functional_ops").outlined_function
    module = module_of(name)
    if module is None:
        raise missing_attribute("ipu", name, f"{IPU}.{name}")
    return import_module(module)
