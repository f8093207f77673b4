"""Loops on the device: `ipu.loops`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.device_loop import build_loop
from ipu_runtime.engine.build.tracing_context import counted_by
from ipu_runtime.engine.describe.call_settings import intercepted
from ipu_runtime.engine.describe.placement import Placement, current_placement
from ipu_runtime.engine.watch.interception import notice
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue


def repeat(
    n: Any,
    body: Callable[..., Any],
    inputs: Sequence[Any] | None = None,
    infeed_queue: IPUInfeedQueue | None = None,
    use_while_v1: bool = True,
) -> Any:
    """Run `body` n times; it gets the carried values, then the infeed's element."""
    del use_while_v1
    iterations = n if isinstance(n, int) else None
    notice("loops.repeat")
    # It is told and not changed: what the script feeds and fetches goes by it.
    intercepted("loops.repeat", True, {"iterations": n})
    return _loop(
        lambda index, *_: index < n, body, inputs, infeed_queue, None, iterations
    )


def while_loop(
    condition: Callable[..., Any],
    body: Callable[..., Any],
    inputs: Sequence[Any] | None = None,
    infeed_queue: IPUInfeedQueue | None = None,
    maximum_iterations: int | None = None,
    use_while_v1: bool = True,
) -> Any:
    """Run `body` while `condition` of the carried values holds."""
    del use_while_v1
    return _loop(
        lambda _, *carried: condition(*carried),
        body,
        inputs,
        infeed_queue,
        maximum_iterations,
        None,
    )


def _loop(
    condition: Callable[..., Any],
    body: Callable[..., Any],
    inputs: Any,
    infeed: IPUInfeedQueue | None,
    most: int | None,
    iterations: int | None,
) -> Any:
    values = [] if inputs is None else inputs
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    carried = [tf.convert_to_tensor(value) for value in values]

    def step(index: Any, *tensors: Any) -> tuple[list[Any], list[Any]]:
        arguments, keywords = list(tensors), {}
        if infeed is not None:
            element = infeed.take()
            if isinstance(element, dict) and all(isinstance(k, str) for k in element):
                keywords = element
            else:
                parts = element if isinstance(element, tuple) else (element,)
                arguments.extend(parts)
        with counted_by(index):
            outputs, operations = _split_results(body(*arguments, **keywords))
        return [index + 1, *_matching(outputs, carried)], operations

    def goes_on(index: Any, *tensors: Any) -> Any:
        wanted = condition(index, *tensors)
        return wanted if most is None else tf.logical_and(index < most, wanted)

    placement = current_placement() or Placement()
    loop = build_loop(
        goes_on,
        step,
        [tf.constant(0), *carried],
        placement.replica_count,
        iterations=iterations,
        broadcast_first=True,
    )
    results = loop.carried[0][1:]
    if not results:
        return loop.operation
    with tf.control_dependencies([loop.operation]):
        results = [tf.identity(result) for result in results]
    return results[0] if len(results) == 1 else results


def _split_results(results: Any) -> tuple[list[Any], list[Any]]:
    """Return the tensors and the operations that a body returned, in this order."""
    given = () if results is None else results
    items = list(given) if isinstance(given, (list, tuple)) else [given]
    is_operation = [isinstance(item, tf.Operation) for item in items]
    tensors = items[: is_operation.index(True)] if any(is_operation) else items
    operations = items[len(tensors) :]
    if not all(isinstance(item, tf.Operation) for item in operations):
        raise ValueError(
            "The body of a loop must return zero or more tensors followed by zero or "
            "more operations."
        )
    return [tf.convert_to_tensor(item) for item in tensors], operations


def _matching(outputs: Sequence[Any], carried: Sequence[Any]) -> list[Any]:
    if len(outputs) != len(carried):
        raise TypeError(
            f"The body of the loop returned {len(outputs)} tensor(s), but takes "
            f"{len(carried)} carried value(s)."
        )
    for output, value in zip(outputs, carried, strict=True):
        if output.dtype != value.dtype:
            raise TypeError(
                f"The body of the loop returned {output.dtype.name} for a carried "
                f"value of type {value.dtype.name}."
            )
    return list(outputs)
