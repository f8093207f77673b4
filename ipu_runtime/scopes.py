"""Where and how operations run: `ipu.scopes`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ipu_runtime.device_state import device_ordinal
from ipu_runtime.engine.placement import Placement, current_placement, placed_on


@contextmanager
def ipu_scope(device: str) -> Iterator[None]:
    """Build what is inside for an IPU device, with resource variables."""
    device_ordinal(device)
    import tensorflow as tf

    scope = tf.compat.v1.variable_scope(
        tf.compat.v1.get_variable_scope(), use_resource=True, auxiliary_name_scope=False
    )
    with placed_on(Placement(device)), scope:
        yield


@contextmanager
def ipu_shard(index: int | Sequence[int]) -> Iterator[None]:
    """Place operations on an IPU of a multi-IPU device; no effect on results."""
    placement = current_placement()
    if placement is not None:
        placement.shards.update([index] if isinstance(index, int) else index)
    yield


@contextmanager
def ipu_jit_scope(ipu_scope: int = 0) -> Iterator[None]:
    """Compile what is inside as one program; programs are compiled whole anyway."""
    del ipu_scope
    yield


@contextmanager
def frontend_attribute(
    attribute_name: str, attribute_value: str, restore_to: str | None = None
) -> Iterator[None]:
    """Attach an attribute for the compiler, which the emulator does not read."""
    del attribute_name, attribute_value, restore_to
    yield


@contextmanager
def stochastic_rounding(override: bool) -> Iterator[None]:
    """Choose stochastic rounding for what is inside; float32 does not round so."""
    del override
    yield


@contextmanager
def partials_type(override: Any) -> Iterator[None]:
    """Choose the type of intermediate results: float16 or float32."""
    if np.dtype(override) not in (np.dtype("float16"), np.dtype("float32")):
        raise ValueError(
            f"partials_type is {override!r}; it must be np.float16 or np.float32."
        )
    yield


@contextmanager
def outside_compilation_scope(name: str = "outside") -> Iterator[None]:
    """Run what is inside on the host; the emulated device shares its processor."""
    del name
    placement = current_placement()
    if placement is None or not placement.compiling:
        raise ValueError("outside_compilation_scope needs a program around it.")
    if placement.on_host:
        raise ValueError("outside_compilation_scope cannot be nested.")
    placement.on_host = True
    try:
        yield
    finally:
        placement.on_host = False
