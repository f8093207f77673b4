"""Where and how operations run: `ipu.scopes`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from ipu_runtime.engine.describe.placement import (
    Placement,
    current_placement,
    placed_on,
)
from ipu_runtime.system.device_state import device_ordinal


@contextmanager
def ipu_scope(device: str) -> Iterator[None]:
    """Build what is inside for an IPU device, with resource variables."""
    device_ordinal(device)
    import tensorflow as tf

    scope = tf.compat.v1.variable_scope(
        tf.compat.v1.get_variable_scope(), use_resource=True, auxiliary_name_scope=False
    )
    around = current_placement()
    if around is not None and around.compiling and not around.named:
        around.device, around.named = device, True
    same = around is not None and around.compiling and around.device == device
    with nullcontext() if same else placed_on(Placement(device)), scope:
        yield


@contextmanager
def ipu_shard(index: int | Sequence[int]) -> Iterator[None]:
    """Place operations on an IPU of a multi-IPU device; no effect on results."""
    from ipu_runtime.frameworks.shard_marks import shards_marked  # TensorFlow

    shards = [index] if isinstance(index, int) else list(index)
    placement = current_placement()
    if placement is not None:
        placement.shards.update(shards)
    with shards_marked(shards):
        yield


@contextmanager
def ipu_jit_scope(ipu_scope: int) -> Iterator[None]:
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
    """Choose how float16 results of operations that are made inside are rounded."""
    # Loads TensorFlow, which not every script that imports the scopes needs.
    from ipu_runtime.engine.numerics.half_models import half_scope

    with half_scope(stochastic=override, stochastic_updates=override):
        yield


@contextmanager
def partials_type(override_type: Any) -> Iterator[None]:
    """Choose the type of partial sums in products that are made inside."""
    if np.dtype(override_type) not in (np.dtype("float16"), np.dtype("float32")):
        raise ValueError(
            f"override_type is {override_type!r}; it must be np.float16 or np.float32."
        )
    # Loads TensorFlow, which not every script that imports the scopes needs.
    from ipu_runtime.engine.numerics.half_models import half_scope

    half = np.dtype(override_type) == np.dtype("float16")
    with half_scope(half_matmuls=half, half_convolutions=half):
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
