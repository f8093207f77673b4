"""Values that a program keeps from iteration to iteration, zero when it starts."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.device_loop import run_before_program
from ipu_runtime.engine.build.replicas.replica_variables import PROGRAM_STATE
from ipu_runtime.frameworks.tensorflow_graphs import set_attribute
from ipu_runtime.frameworks.tensorflow_variables import plain_variable

_kept: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
"""Eager variables, by the graph of the function that uses them."""


class ProgramState:
    """A tensor that each replica has for itself.

    Inside of a `tf.function` it also outlasts the call, as a variable would.
    """

    def __init__(self, shape: Sequence[int], dtype: Any) -> None:
        self._dtype = dtype
        function = tf.compat.v1.get_default_graph()
        with tf.init_scope():
            if tf.executing_eagerly():
                # Not `tf.Variable`: functions refuse those when they are traced again.
                self._variable = plain_variable(tf.zeros(shape, dtype))
                _kept.setdefault(function, []).append(self._variable)
                return
        self._variable = None
        with tf.init_scope(), tf.control_dependencies(None):
            name = tf.compat.v1.get_default_graph().unique_name("program_state")
            self._handle = tf.raw_ops.VarHandleOp(
                dtype=dtype, shape=shape, shared_name=name, name=name
            )
            set_attribute(self._handle.op, PROGRAM_STATE, True)
            reset = tf.raw_ops.AssignVariableOp(
                resource=self._handle, value=tf.zeros(shape, dtype)
            )
        run_before_program(reset)

    def read(self) -> Any:
        """Return the value now."""
        if self._variable is not None:
            return self._variable.read_value()
        return tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=self._dtype)

    def write(self, value: Any) -> Any:
        """Return what writes a new value."""
        if self._variable is not None:
            return self._variable.assign(value)
        return tf.raw_ops.AssignVariableOp(resource=self._handle, value=value)
