"""Functions whose code the device keeps once: `ipu.ops.functional_ops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def outlined_function(
    func: Callable[..., Any] | None = None,
    unique_sharding: bool = False,
    keep_input_layouts: bool | None = None,
    name: str | None = None,
) -> Any:
    """Return a function that computes the same; sharing code saves memory only."""
    del unique_sharding, keep_input_layouts, name
    return func if func is not None else lambda inner: inner


function = outlined_function
