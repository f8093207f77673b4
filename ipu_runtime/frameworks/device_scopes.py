"""Devices that TensorFlow does not have, in `tf.device` and where it lists devices."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tensorflow.python.eager import context
from tensorflow.python.framework import config, ops

from ipu_runtime.frameworks.patching import Patch, around, calling_frame

_IPU = re.compile(r"(?:^|[/:])IPU:\d+$", re.IGNORECASE)
Enter = Callable[[str], AbstractContextManager[Any]]


def enter_ipus_with(enter: Enter) -> None:
    """Let `tf.device` of an IPU, eager or in a graph, enter this scope instead."""
    for owner, place in ((ops.Graph, 1), (context, 0)):
        Patch(owner, "device", around(_or_ipu(enter, place))).install()


def list_ipus_too(physical: Callable[[], int], logical: Callable[[], int]) -> None:
    """Let `tf.config` list so many IPUs beside TensorFlow's own devices, for scripts.

    Keras asks too: with any device that is no CPU, `resolve_auto_jit_compile` turns on
    XLA for stock models, and `backend.tensorflow.nn` leaves out what CPUs need.
    """
    for name, count, device in (
        ("list_physical_devices", physical, _physical_device),
        ("get_visible_devices", physical, _physical_device),
        ("list_logical_devices", logical, _logical_device),
    ):
        Patch(context.Context, name, around(_and_ipus(count, device))).install()


def _and_ipus(
    count: Callable[[], int], device: Callable[[int], Any]
) -> Callable[..., list[Any]]:
    def devices(original: Any, of: Any, device_type: str | None = None) -> list[Any]:
        listed = list(original(of, device_type))
        if device_type in (None, "IPU") and not _asked_by_a_framework():
            listed += [device(ordinal) for ordinal in range(count())]
        return listed

    return devices


def _asked_by_a_framework() -> bool:
    """Tell whether Keras or TensorFlow itself called `tf.config`, or its context."""
    # 1 is who stands in for a method of the context, 2 what `around` has made of it.
    frame = calling_frame(3)
    while frame.f_globals.get("__name__") == config.__name__ and frame.f_back:
        frame = frame.f_back
    caller = str(frame.f_globals.get("__name__", ""))
    return caller.startswith(("keras.", "tensorflow."))


def _physical_device(ordinal: int) -> Any:
    return context.PhysicalDevice(f"/physical_device:IPU:{ordinal}", "IPU")


def _logical_device(ordinal: int) -> Any:
    return context.LogicalDevice(f"/device:IPU:{ordinal}", "IPU")


def _or_ipu(enter: Enter, place: int) -> Callable[..., Any]:
    def device(original: Any, *args: Any) -> Any:
        name = args[place] if len(args) > place else None
        if isinstance(name, str) and _IPU.search(name):
            return enter(name)
        return original(*args)

    return device
