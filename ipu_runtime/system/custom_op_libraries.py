"""Python functions that stand in for the operations of compiled libraries.

A script names a library by its path and an operation by its name; the library cannot
run here, so a user registers a function for it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Function = Callable[..., Any]

_functions: dict[tuple[str, str], Function] = {}


def register_custom_op(
    library: str, operation: str, gradient: Function | None = None
) -> Callable[[Function], Function]:
    """Return a decorator that lets a function stand in for an operation.

    For `custom_ops.precompiled_user_op` the function takes tensors and returns one or
    a list of them; for `custom_ops.cpu_user_operation` the same with NumPy arrays. It
    also gets the text `attributes` if it has a parameter of that name.

    Args:
        library: file name of the library; directories do not matter.
        operation: the `op_name` that scripts use.
        gradient: takes the lists `gradients`, `inputs` and `outputs`, and returns the
            gradients of the inputs; with `separate_gradients` it also takes
            `input_index`, and returns the gradient of that input. Without one,
            TensorFlow differentiates what the function does with tensors.
    """

    def register(function: Function) -> Function:
        name = Path(library).name
        _functions[name, operation] = function
        if gradient is not None:
            _functions[name, f"{operation}_grad"] = gradient
        return function

    return register


def registered_op(library_path: str, operation: str) -> Function | None:
    """Return the function that stands in for an operation, if there is one."""
    return _functions.get((Path(library_path).name, operation))


def required_op(library_path: str, operation: str) -> Function:
    """Return the function that stands in for an operation, or say how to make one."""
    function = registered_op(library_path, operation)
    if function is None:
        name = Path(library_path).name
        raise NotImplementedError(
            f"The operation {operation!r} of {name} is compiled code, which the "
            "emulator cannot run. Register a Python function for it: "
            f"ipu_runtime.register_custom_op({name!r}, {operation!r})(function), in "
            "the script or in a file that is given as --custom-ops FILE."
        )
    return function
