"""Compile a program into a file: `ipu.ops.application_compile_op`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.applications.application import compile_application


def experimental_application_compile_op(
    func: Callable[..., Any],
    inputs: Sequence[Any] | None = None,
    output_path: str | None = None,
    freeze_variables: bool = False,
    name: str | None = None,
) -> Any:
    """Return a string tensor with the path of the compiled program.

    The file is in a format of the emulator's own, for `ipu.embedded_runtime`; a
    temporary one if no path is given. Variables become inputs of the program, unless
    they are frozen with the values that they have when the operation is run.
    """
    name = name or "application_compile"
    if output_path is None:
        _, output_path = tempfile.mkstemp(prefix=name, suffix=".poplar_exec")
    arguments = [tf.convert_to_tensor(item) for item in inputs or ()]
    return compile_application(func, arguments, output_path, freeze_variables)
