"""TensorFlow's graphs and operations from inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf
from tensorflow.python.autograph.core import config as conversion
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.framework import ops
from tensorflow.python.framework.auto_control_deps import AutomaticControlDependencies
from tensorflow.python.framework.func_graph import FuncGraph as FuncGraph
from tensorflow.python.ops import gradients_util, handle_data_util
from tensorflow.python.ops.rnn_cell import LSTMStateTuple as LSTMStateTuple

from ipu_runtime.frameworks.private_names import NOT_INLINED

_AttrValue = tf.compat.v1.AttrValue


def set_attribute(operation: Any, name: str, value: bool | int | str) -> None:
    """Write an attribute of an operation."""
    if isinstance(value, bool):
        attribute = _AttrValue(b=value)
    elif isinstance(value, int):
        attribute = _AttrValue(i=value)
    else:
        attribute = _AttrValue(s=value.encode())
    operation._set_attr(name, attribute)


def keep_as_written(package: str) -> None:
    """Let no `tf.function` that calls a package convert the code of it."""
    rule = conversion.DoNotConvert(package)
    conversion.CONVERSION_RULES = (rule, *conversion.CONVERSION_RULES)


def wait_for(operation: Any, earlier: Sequence[Any]) -> None:
    """Let an operation that is in a graph already run after others."""
    operation._add_control_inputs(earlier)


def running_in_order(graph: Any) -> AbstractContextManager[Any]:
    """Return a context that orders side effects, if `graph` orders its own.

    Afterwards its `ops_which_must_run` are those that no output needs.
    """
    in_order = getattr(graph, "_add_control_dependencies", False)
    return AutomaticControlDependencies() if in_order else nullcontext()


def ordered_graph(name: str) -> Any:
    """Return a graph whose programs order their side effects."""
    graph = FuncGraph(name)
    graph._add_control_dependencies = True
    return graph


def copy_handle_data(source: Any, target: Any) -> None:
    """Let a handle know the shape and type of what another one stands for."""
    handle_data_util.copy_handle_data(source, target)


def outside_of_graphs() -> AbstractContextManager[Any]:
    """Return a context that runs eagerly, also for a caller that builds a graph."""
    return nullcontext() if tf.executing_eagerly() else context.eager_mode()


def eagerly() -> AbstractContextManager[None]:
    """Let code run at once, also in scripts of TensorFlow 1 and inside of graphs."""
    manager: AbstractContextManager[None] = context.eager_mode()
    return manager


def share_functions(source: Any, target: Any) -> None:
    """Let a graph call the functions that another one calls."""
    for function in source._functions.values():
        target._add_function_recursive(function)


def gradients_across(
    graph: Any, targets: Sequence[Any], sources: Sequence[Any], arriving: Sequence[Any]
) -> list[Any]:
    """Return gradients of tensors in `graph` as tensors of the current graph.

    Args:
        arriving: gradients of the targets; ones if there are none.
    """
    return list(
        gradients_util._GradientsHelper(
            targets, sources, grad_ys=arriving or None, src_graph=graph
        )
    )


def called_function(graph: Any) -> Any:
    """Make a function of a graph that is called rather than inlined."""
    name = f"__{graph.name}_{tf.compat.v1.get_default_graph().unique_name('ipu')}"
    unique = f"{name}_{id(graph)}".replace("/", "_")
    attributes = {NOT_INLINED: _AttrValue(b=True)}
    return atomic_function.from_func_graph(unique, graph, attributes)


def traced(function: Callable[..., Any], **options: Any) -> Any:
    """Return a TensorFlow function of Python code that needs no conversion.

    TensorFlow counts tracing by lines of code, so that many models in one process
    would look like one that is traced again and again: the warning is left out.
    """
    program = tf.function(function, autograph=False, **options)
    program._omit_frequent_tracing_warning = True
    return program


def wait_for_nothing_but(operation: Any, other: Any) -> None:
    """Let an operation that no session has run wait for another one alone."""
    operation._remove_all_control_inputs()
    operation._add_control_input(other)


def replace_input(operation: Any, tensor: Any) -> None:
    """Give an operation that no session has run another first input."""
    operation._update_input(0, tensor)


def iterator_resource(iterator: Any) -> Any:
    """Return the handle of an iterator that a graph initialises."""
    return iterator._iterator_resource


def made_eagerly(dataset: Any) -> bool:
    """Whether a data set belongs to no graph."""
    variant = tf.data.experimental.to_variant(dataset)
    return isinstance(variant, tf.__internal__.EagerTensor)


def custom_gradients() -> set[str]:
    """Return the names under which graphs have registered gradients of their own."""
    names = ops.gradient_registry.list()
    return {name for name in names if name.startswith("CustomGradient-")}


def forget_custom_gradients(kept: set[str]) -> None:
    """Let go of such gradients but for some; their graphs cannot be differentiated.

    TensorFlow keeps each with its graph for as long as the process lives, and every
    optimizer of Keras registers one where it adds up gradients.
    """
    for name in custom_gradients() - kept:
        del ops.gradient_registry._registry[name]
