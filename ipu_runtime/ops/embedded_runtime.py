"""Run compiled programs as part of other ones: `ipu.ops.embedded_runtime`.

Files come from `ipu.application_compile_op`, in a format of the emulator's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.applications.application import run_application
from ipu_runtime.engine.applications.executable_file import (
    Executable,
    Signature,
    TensorInfo,
    read_executable,
)


class RuntimeContext:
    """A started program; `embedded_runtime_start` makes it."""

    def __init__(
        self,
        name: str,
        executable_file: Any,
        executable_proto: Executable,
        start_output: Any,
    ) -> None:
        self._name = name
        self._executable_file = executable_file
        self._executable = executable_proto
        self._start_output = start_output
        self.run = tf.function(self._results, autograph=False)
        """Takes one element, returns its results."""

    def start_output(self) -> Any:
        """Return the values that the program was started with."""
        return self._start_output

    def name(self) -> str:
        """Return the name of the engine."""
        return self._name

    def signature(self) -> Signature:
        """Return what goes into the program and comes out of it."""
        return self._executable.signature

    def output_types(self) -> list[Any]:
        """Return the types of what a call returns."""
        signature = self.signature()
        results = signature.streamed_outputs or signature.outputs
        return [tf.as_dtype(info.shape.element_type) for info in results]

    def _results(self, element: Sequence[Any]) -> list[Any]:
        return run_application(self._executable, self._start_output, element)


def embedded_runtime_start(
    executable_file: Any, inputs: Any, name: str, timeout: int | None = None
) -> RuntimeContext:
    """Load a program and give it the inputs that it keeps, as a list or by name.

    `timeout` is how long a device waits for more data; here nothing has to wait.
    """
    del timeout
    executable = read_executable(_path(executable_file))
    expected = executable.signature.inputs
    if isinstance(inputs, Mapping):
        for info in expected:
            if info.name not in inputs:
                raise ValueError(
                    f"Failed to find input tensor with name '{info.name}' in input "
                    "dictionary."
                )
        inputs = [inputs[info.name] for info in expected]
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"Expected the inputs to be a list, but they are {inputs!r}.")
    tensors = _checked("Embedded application runtime", inputs, expected)
    return RuntimeContext(name, executable_file, executable, tensors)


def embedded_runtime_call(inputs: Sequence[Any], context: RuntimeContext) -> list[Any]:
    """Return what the program makes of one element of its infeeds."""
    expected = context.signature().streamed_inputs
    element = _checked("Embedded application call", inputs, expected)
    return list(context.run(element))


def embedded_runtime_start_and_call(
    executable_file: Any, startup_inputs: Any, call_inputs: Sequence[Any], name: str
) -> tuple[list[Any], RuntimeContext]:
    """Load a program and call it once."""
    context = embedded_runtime_start(executable_file, startup_inputs, name)
    return embedded_runtime_call(call_inputs, context), context


def embedded_runtime_stop(context: RuntimeContext) -> None:
    """Raise: a started engine cannot be stopped."""
    raise NotImplementedError("Embedded runtime doesn't support stopping an engine.")


def _path(executable_file: Any) -> str:
    if tf.is_tensor(executable_file):
        static = tf.get_static_value(executable_file)
        if static is None:
            with tf.compat.v1.Session() as session:
                static = session.run(executable_file)
        executable_file = static.item() if hasattr(static, "item") else static
    if isinstance(executable_file, bytes):
        return executable_file.decode()
    return str(executable_file)


def _checked(
    who: str, given: Sequence[Any], expected: Sequence[TensorInfo]
) -> list[Any]:
    if len(given) != len(expected):
        raise ValueError(
            f"{who} expects {len(expected)} inputs, but {len(given)} were provided."
        )
    tensors = [tf.convert_to_tensor(item) for item in given]
    for index, (tensor, info) in enumerate(zip(tensors, expected, strict=True)):
        where = f"at position {index} ('{info.name}')"
        shape, wanted = list(tensor.shape), list(info.shape.dimensions)
        if shape != wanted:
            raise ValueError(
                f"Mismatched input shape {where}. Expected {wanted}, but input "
                f"{index} has shape {shape}."
            )
        if tensor.dtype.name != info.shape.element_type:
            raise TypeError(
                f"Mismatched input dtype {where}. Expected {info.shape.element_type}, "
                f"but input {index} has dtype {tensor.dtype.name}."
            )
    return tensors
