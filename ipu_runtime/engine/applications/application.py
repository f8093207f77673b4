"""Compile a function with feeds into an application, and run one."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.applications.executable_file import (
    Executable,
    Shape,
    Signature,
    TensorInfo,
    write_executable,
)
from ipu_runtime.engine.applications.program_step import (
    application_traced,
    program_step,
)
from ipu_runtime.engine.build.replicas.device_loop import waiting_for_replicas
from ipu_runtime.engine.describe.placement import Placement, placed_on
from ipu_runtime.frameworks.tensorflow_graphs import ordered_graph
from ipu_runtime.frameworks.tensorflow_variables import shape_and_type


def compile_application(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    path: str,
    freeze_variables: bool,
    streamed: bool = False,
) -> Any:
    """Return a tensor with the path; the file is written when its value is computed.

    Frozen variables have the values that they have then.

    Args:
        streamed: whether arguments and results go in and out with every call, as if
            they came from an infeed and went to an outfeed.
    """
    source = _trace(function, arguments)
    step = program_step(source, len(arguments))
    inputs = [
        _info(_name(argument, f"input_{index}"), inside)
        for index, (argument, inside) in enumerate(
            zip(arguments, step.arguments, strict=True)
        )
        if not streamed
    ]
    frozen, values = [], []
    for outer, inside in step.captured:
        if outer.dtype == tf.resource:
            info = _variable_info(outer, inside)
            fixed = freeze_variables
        else:
            info = _info(_name(outer, "captured"), inside)
            fixed = tf.get_static_value(outer) is not None
        if fixed:
            frozen.append(info)
            values.append(_value(outer))
        else:
            inputs.append(info)
    called_with = step.arguments if streamed else step.streamed_inputs
    results = step.outputs if streamed else step.streamed_outputs
    signature = Signature(
        inputs=tuple(inputs),
        streamed_inputs=_infos("streamed_input", called_with),
        outputs=() if streamed else _infos("output", step.outputs),
        streamed_outputs=_infos("streamed_output", results),
        frozen=tuple(frozen),
    )
    graph = step.graph.as_graph_def().SerializeToString()

    def write(*arrays: Any) -> bytes:
        write_executable(path, Executable(signature, graph, arrays))
        return path.encode()

    return tf.numpy_function(write, values, tf.string)


def run_application(
    executable: Executable, startup: Sequence[Any], element: Sequence[Any]
) -> list[Any]:
    """Build a call into the current graph; return what comes out of it."""
    signature = executable.signature
    given = {
        info.node: _as_variable(tensor, info) if info.variable else tf.identity(tensor)
        for info, tensor in zip(
            (*signature.frozen, *signature.inputs, *signature.streamed_inputs),
            (*map(tf.constant, executable.values), *startup, *element),
            strict=True,
        )
    }
    results = signature.streamed_outputs or signature.outputs
    graph = tf.compat.v1.GraphDef.FromString(executable.graph)
    tensors = tf.graph_util.import_graph_def(
        graph, given, [info.node for info in results], name="application"
    )
    for tensor, info in zip(tensors, results, strict=True):
        tensor.set_shape(info.shape.dimensions)
    return list(tensors)


def _trace(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    # Loops inside run everything that is written down, as they do in a `tf.function`.
    graph = ordered_graph("application_program")
    with (
        graph.as_default(),
        application_traced(),
        waiting_for_replicas(),
        placed_on(Placement(replicas=1)),
    ):
        for argument in arguments:
            placeholder = tf.compat.v1.placeholder(argument.dtype, argument.shape)
            graph.inputs.append(placeholder)
        returned = function(*graph.inputs[: len(arguments)])
        graph.outputs = [
            tf.convert_to_tensor(item)
            for item in tf.nest.flatten(returned)
            if item is not None and not isinstance(item, tf.Operation)
        ]
    return graph


def _infos(prefix: str, tensors: Sequence[Any]) -> tuple[TensorInfo, ...]:
    return tuple(
        _info(f"{prefix}_{index}", tensor) for index, tensor in enumerate(tensors)
    )


def _info(name: str, tensor: Any) -> TensorInfo:
    shape = Shape(tuple(tensor.shape.as_list()), tensor.dtype.name)
    return TensorInfo(name, shape, tensor.name)


def _name(tensor: Any, otherwise: str) -> str:
    return otherwise if hasattr(tensor, "numpy") else str(tensor.op.name)


def _variable_info(handle: Any, inside: Any) -> TensorInfo:
    # An eager handle shows the variable's name, followed by a number, in its text only.
    shown = re.search(r'name="([^"]*?)(?:/\d+)?"', str(handle))
    name = _name(handle, shown[1] if shown else inside.op.name)
    kind = shape_and_type(handle)
    dimensions = tuple(dimension.size for dimension in kind.shape.dim)
    shape = Shape(dimensions, tf.as_dtype(kind.dtype).name)
    return TensorInfo(f"XLA_Args/{name}", shape, inside.name, variable=True)


def _value(tensor: Any) -> Any:
    if tensor.dtype != tf.resource:
        return tensor
    return tf.raw_ops.ReadVariableOp(
        resource=tensor, dtype=shape_and_type(tensor).dtype
    )


def _as_variable(tensor: Any, info: TensorInfo) -> Any:
    """Return the handle of a variable that has the value of a tensor."""
    handle = tf.raw_ops.VarHandleOp(
        dtype=tensor.dtype,
        shape=tensor.shape,
        shared_name=f"{info.name}/{uuid.uuid4().hex}",
    )
    written = tf.raw_ops.AssignVariableOp(resource=handle, value=tensor)
    with tf.control_dependencies([written]):
        # Imported operations wait for their inputs alone.
        return tf.identity(handle)
