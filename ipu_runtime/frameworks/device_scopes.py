"""`tf.device` with a device that TensorFlow does not have."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tensorflow.python.eager import context
from tensorflow.python.framework import ops

_IPU = re.compile(r"(?:^|[/:])IPU:\d+$", re.IGNORECASE)
Enter = Callable[[str], AbstractContextManager[Any]]


def enter_ipus_with(enter: Enter) -> None:
    """Let `tf.device` of an IPU, eager or in a graph, enter this scope instead."""
    graph = ops.Graph
    graph.device = _or_ipu(graph.device, enter, 1)
    context.device = _or_ipu(context.device, enter, 0)


def _or_ipu(original: Any, enter: Enter, place: int) -> Any:
    @functools.wraps(original)
    def device(*args: Any) -> Any:
        name = args[place] if len(args) > place else None
        if isinstance(name, str) and _IPU.search(name):
            return enter(name)
        return original(*args)

    return device
