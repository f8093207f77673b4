"""How a Python function is called in place of a compiled operation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.system.custom_op_libraries import registered_op, required_op


@dataclass(frozen=True)
class CustomOp:
    """An operation as a script asks for it."""

    library_path: str
    op_name: str
    outs: Mapping[str, Sequence[Any]]
    on_host: bool
    """Whether the function gets arrays rather than tensors."""
    separate_gradients: bool
    inputs_with_gradients: Sequence[int] | None
    attributes: str | None
    gradient_attributes: str | None

    def __post_init__(self) -> None:
        for field in ("attributes", "gradient_attributes"):
            value = getattr(self, field)
            if value and not isinstance(value, str):
                raise ValueError(f"`{field}` must be a str, but is {value!r}.")

    def call(self, inputs: Sequence[Any], name: str) -> Any:
        """Return the outputs; an operation if there are none, in a graph."""
        function = required_op(self.library_path, self.op_name)
        tensors = [tf.convert_to_tensor(item) for item in inputs]
        gradient = registered_op(self.library_path, f"{self.op_name}_grad")
        with tf.name_scope(name):
            if not self._specs():
                return self._forward(function, tensors)
            if gradient is None and not self.on_host:
                return self._forward(function, self._cut_off(tensors))
            return self._with_gradient(function, gradient, tensors)

    def _with_gradient(
        self, function: Any, gradient: Any, tensors: Sequence[Any]
    ) -> list[Any]:
        @tf.custom_gradient
        def operation(*inputs: Any) -> Any:
            outputs = self._forward(function, inputs)

            def backward(*upstream: Any) -> Any:
                if gradient is None:
                    required_op(self.library_path, f"{self.op_name}_grad")
                return self._backward(gradient, upstream, inputs, outputs)

            return outputs, backward

        return list(operation(*tensors))

    def _forward(self, function: Any, inputs: Sequence[Any]) -> Any:
        return self._run(
            lambda *values: function(
                *values, **_accepted(function, attributes=self.attributes or "")
            ),
            inputs,
            self._specs(),
        )

    def _backward(
        self,
        gradient: Any,
        upstream: Sequence[Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
    ) -> list[Any]:
        wanted = self._indices(inputs)
        sizes = len(upstream), len(upstream) + len(inputs)
        keywords = _accepted(gradient, attributes=self.gradient_attributes or "")

        def run(specs: list[Any], **more: Any) -> list[Any]:
            def call(*flat: Any) -> Any:
                parts = flat[: sizes[0]], flat[sizes[0] : sizes[1]], flat[sizes[1] :]
                return gradient(*(list(part) for part in parts), **keywords, **more)

            return list(self._run(call, [*upstream, *inputs, *outputs], specs))

        specs = [tf.TensorSpec(inputs[i].shape, inputs[i].dtype) for i in wanted]
        if self.separate_gradients:
            found = [
                run([spec], input_index=index)[0]
                for index, spec in zip(wanted, specs, strict=True)
            ]
        else:
            found = run(specs)
        by_input = dict(zip(wanted, found, strict=True))
        return [by_input.get(index) for index in range(len(inputs))]

    def _run(
        self, function: Callable[..., Any], inputs: Sequence[Any], specs: list[Any]
    ) -> Any:
        """Call a function with tensors or arrays; check what it returns."""
        if not self.on_host:
            return self._checked(function(*inputs), specs, tf.convert_to_tensor)

        def on_arrays(*arrays: Any) -> list[Any]:
            return self._checked(function(*arrays), specs, np.asarray)

        returned = tf.numpy_function(on_arrays, inputs, [spec.dtype for spec in specs])
        if isinstance(returned, tf.Operation):
            return returned
        results = tf.nest.flatten(returned)
        for result, spec in zip(results, specs, strict=True):
            result.set_shape(spec.shape)
        return results

    def _checked(
        self, returned: Any, specs: list[Any], convert: Callable[..., Any]
    ) -> list[Any]:
        items = [] if returned is None else returned
        items = list(items) if isinstance(items, (list, tuple)) else [items]
        what = f"The function for {self.op_name!r} of {self.library_path}"
        if len(items) != len(specs):
            raise ValueError(
                f"{what} returned {len(items)} results; there must be {len(specs)}."
            )
        results = []
        for index, (item, spec) in enumerate(zip(items, specs, strict=True)):
            kind = spec.dtype.as_numpy_dtype if convert is np.asarray else spec.dtype
            result = convert(item, kind)
            if not spec.shape.is_compatible_with(result.shape):
                raise ValueError(
                    f"{what} returned the shape {tuple(result.shape)} as result "
                    f"{index}; it must be {tuple(spec.shape)}."
                )
            results.append(result)
        return results

    def _specs(self) -> list[Any]:
        return [
            tf.TensorSpec(tf.TensorShape(shape), tf.as_dtype(dtype))
            for shape, dtype in zip(
                self.outs.get("output_shapes", ()),
                self.outs.get("output_types", ()),
                strict=True,
            )
        ]

    def _indices(self, inputs: Sequence[Any]) -> list[int]:
        given = self.inputs_with_gradients
        return list(range(len(inputs)) if given is None else given)

    def _cut_off(self, tensors: Sequence[Any]) -> list[Any]:
        """Return the inputs, without a way back to those that want no gradient."""
        wanted = self._indices(tensors)
        return [
            tensor if index in wanted else tf.stop_gradient(tensor)
            for index, tensor in enumerate(tensors)
        ]


def _accepted(function: Callable[..., Any], **keywords: Any) -> dict[str, Any]:
    """Return the keywords that a function has parameters for."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in keywords.items() if name in parameters}
