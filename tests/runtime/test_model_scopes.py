"""What is noticed of the layer calls of a model function."""

from __future__ import annotations

import threading
from collections.abc import Callable

import keras
import pytest
import tensorflow as tf

from ipu_runtime.engine.describe.model_scope import model_scope

pytestmark = pytest.mark.slow


class Block(keras.layers.Layer):
    def __init__(self, meet: Callable[[], object] = lambda: None) -> None:
        super().__init__(name="block")
        self.inner = keras.layers.Dense(2, name="inner")
        self.meet = meet

    def build(self, shape: object) -> None:
        self.inner.build(shape)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        self.meet()
        return self.inner(x)


def _names_of(build: Callable[[], object]) -> list[str]:
    """Return the layers whose calls are noticed while a function builds its graph."""
    with tf.Graph().as_default(), model_scope() as scope:
        build()
    return [use.layer.name for use in scope.layer_uses]


def _call(layer: keras.layers.Layer) -> object:
    return layer(tf.zeros((1, 2)))


def test_the_outermost_calls_are_noticed() -> None:
    assert _names_of(lambda: _call(Block())) == ["block"]


def test_a_scope_inside_of_another_notices_for_both() -> None:
    inside: list[str] = []

    def build() -> None:
        _call(keras.layers.Dense(2, name="before"))
        inside.extend(_names_of(lambda: _call(Block())))

    assert _names_of(build) == ["before", "block"]
    assert inside == ["block"]


def test_a_thread_notices_its_own_layers_while_another_is_in_a_call() -> None:
    meeting = threading.Barrier(2)
    names: dict[str, list[str]] = {}

    def outer() -> None:
        names["outer"] = _names_of(lambda: _call(Block(meeting_twice)))

    def meeting_twice() -> None:
        # In a layer's call: the other thread calls a layer, and leaves its scope.
        meeting.wait()
        meeting.wait()

    def other() -> None:
        meeting.wait()
        names["other"] = _names_of(lambda: _call(keras.layers.Dense(2, name="dense")))
        meeting.wait()

    threads = [threading.Thread(target=work) for work in (outer, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == {"outer": ["block"], "other": ["dense"]}


def test_nothing_stays_replaced() -> None:
    before = keras.layers.Layer.__call__
    _names_of(lambda: _call(Block()))
    assert keras.layers.Layer.__call__ is before
