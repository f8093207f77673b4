"""Questions about placement: `ipu.sharding`."""

from __future__ import annotations

from typing import Any


def dependencies(roots: Any) -> list[Any]:
    """Return the operations that the given ones need, themselves included."""
    from ipu_runtime.engine.replication import in_order

    items = roots if isinstance(roots, (list, tuple)) else [roots]
    return list(in_order([getattr(item, "op", item) for item in items]))
