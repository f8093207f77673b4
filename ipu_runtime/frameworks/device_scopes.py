"""Devices that TensorFlow does not have, in `tf.device` and where it lists devices."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tensorflow.python.eager import context
from tensorflow.python.framework import config, ops

_IPU = re.compile(r"(?:^|[/:])IPU:\d+$", re.IGNORECASE)
Enter = Callable[[str], AbstractContextManager[Any]]


def enter_ipus_with(enter: Enter) -> None:
    """Let `tf.device` of an IPU, eager or in a graph, enter this scope instead."""
    graph = ops.Graph
    graph.device = _or_ipu(graph.device, enter, 1)
    context.device = _or_ipu(context.device, enter, 0)


def list_ipus_too(physical: Callable[[], int], logical: Callable[[], int]) -> None:
    """Let `tf.config` list so many IPUs beside TensorFlow's own devices, for scripts.

    Keras asks too: with any device that is no CPU, `resolve_auto_jit_compile` turns on
    XLA for stock models, and `backend.tensorflow.nn` leaves out what CPUs need.
    """
    kind = context.Context
    kind.list_physical_devices = _and_ipus(
        kind.list_physical_devices, physical, _physical_device
    )
    kind.get_visible_devices = _and_ipus(
        kind.get_visible_devices, physical, _physical_device
    )
    kind.list_logical_devices = _and_ipus(
        kind.list_logical_devices, logical, _logical_device
    )


def _and_ipus(
    original: Any, count: Callable[[], int], device: Callable[[int], Any]
) -> Any:
    @functools.wraps(original)
    def devices(of: Any, device_type: str | None = None) -> list[Any]:
        listed = list(original(of, device_type))
        if device_type in (None, "IPU") and not _asked_by_a_framework():
            listed += [device(ordinal) for ordinal in range(count())]
        return listed

    return devices


def _asked_by_a_framework() -> bool:
    """Tell whether Keras or TensorFlow itself called `tf.config`, or its context."""
    frame = sys._getframe(2)
    while frame.f_globals.get("__name__") == config.__name__ and frame.f_back:
        frame = frame.f_back
    caller = str(frame.f_globals.get("__name__", ""))
    return caller.startswith(("keras.", "tensorflow."))


def _physical_device(ordinal: int) -> Any:
    return context.PhysicalDevice(f"/physical_device:IPU:{ordinal}", "IPU")


def _logical_device(ordinal: int) -> Any:
    return context.LogicalDevice(f"/device:IPU:{ordinal}", "IPU")


def _or_ipu(original: Any, enter: Enter, place: int) -> Any:
    @functools.wraps(original)
    def device(*args: Any) -> Any:
        name = args[place] if len(args) > place else None
        if isinstance(name, str) and _IPU.search(name):
            return enter(name)
        return original(*args)

    return device
