"""Where Keras keeps values: variables, random seeds and the names of layers."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from keras.src.backend.common import global_state
from keras.src.random.seed_generator import global_seed_generator

_NAMES = "object_name_uids"


def stored(variable: Any) -> Any:
    """Return the TensorFlow variable of a Keras variable, whatever scope is active."""
    return variable._value


def seed_generators(layer: Any) -> tuple[Any, ...]:
    """Return the seed generators that belong to a layer itself."""
    return tuple(layer._seed_generators)


def shared_seed_generator() -> Any:
    """Return the generator of everything that draws without one of its own."""
    return global_seed_generator()


@contextmanager
def fresh_layer_names() -> Iterator[None]:
    """Let the numbers in names of new layers start anew inside."""
    names = global_state.get_global_attribute(_NAMES)
    global_state.set_global_attribute(_NAMES, collections.defaultdict(int))
    try:
        yield
    finally:
        global_state.set_global_attribute(_NAMES, names)
