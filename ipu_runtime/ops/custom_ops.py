"""Operations of a user's own: `ipu.ops.custom_ops`.

Libraries are compiled for the device or for another host, so Python functions stand in
for their operations: see `ipu_runtime.register_custom_op`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.programs.custom_op_calls import CustomOp

Outs = Mapping[str, Sequence[Any]]


def precompiled_user_op(
    inputs: Sequence[Any],
    library_path: str,
    gp_path: str = "",
    outs: Outs | None = None,
    name: str = "UserOp",
    op_name: str = "Build",
    separate_gradients: bool = False,
    inputs_with_gradients: Sequence[int] | None = None,
    attributes: str | None = None,
    gradient_attributes: str | None = None,
) -> Any:
    """Call the function that stands in for an operation on the device.

    `outs` has `output_types` and `output_shapes`; None means that there are no outputs.
    """
    del gp_path
    return CustomOp(
        library_path,
        op_name,
        outs or {},
        on_host=False,
        separate_gradients=separate_gradients,
        inputs_with_gradients=inputs_with_gradients,
        attributes=attributes,
        gradient_attributes=gradient_attributes,
    ).call(inputs, name)


def cpu_user_operation(
    inputs: Sequence[Any],
    library_path: str,
    outs: Outs | None = None,
    name: str = "UserOp",
    op_name: str = "Callback",
    separate_gradients: bool = False,
    inputs_with_gradients: Sequence[int] | None = None,
    attributes: str | None = None,
    gradient_attributes: str | None = None,
) -> Any:
    """Call the function that stands in for an operation on the host, with arrays."""
    return CustomOp(
        library_path,
        op_name,
        outs or {},
        on_host=True,
        separate_gradients=separate_gradients,
        inputs_with_gradients=inputs_with_gradients,
        attributes=attributes,
        gradient_attributes=gradient_attributes,
    ).call(inputs, name)


def codelet_expression_op(vertex_expression: Callable[..., Any], *args: Any) -> Any:
    """Return an elementwise expression of the arguments, of the first one's type.

    It has no gradient, on the device neither.
    """
    tensors = [tf.convert_to_tensor(argument) for argument in args]

    @tf.custom_gradient
    def expression(*values: Any) -> Any:
        def gradient(*_: Any) -> Any:
            raise LookupError("codelet_expression_op has no gradient.")

        return tf.cast(vertex_expression(*values), values[0].dtype), gradient

    return expression(*tensors)
