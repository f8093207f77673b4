"""Which replica runs: `ipu.ops.replication_ops`."""

from __future__ import annotations

from typing import Any

from ipu_runtime.engine.build.replicas.collectives import replica_index


def replication_index(name: str | None = None) -> Any:
    """Return the index of this replica as an int32 scalar."""
    del name
    return replica_index()
