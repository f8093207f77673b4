"""`ipu.distributed`: training with several processes; also `ipu.horovod`, as before."""

from __future__ import annotations

from typing import Any

from ipu_runtime.installing.public_modules import submodules
from ipu_runtime.popdist import (
    getInstanceIndex as rank,
)
from ipu_runtime.popdist import (
    getLocalInstanceIndex as local_rank,
)
from ipu_runtime.popdist import (
    getNumInstances as size,
)
from ipu_runtime.popdist import init
from ipu_runtime.system.instances import current_instance

__all__ = ["init", "local_rank", "local_size", "rank", "size"]

_COLLECTIVES = ("Average", "Sum", "allgather", "allreduce", "broadcast")
_submodule = submodules(__name__)


def local_size() -> int:
    """Return the number of processes on this host."""
    return current_instance().local_count


def __getattr__(name: str) -> Any:
    # TensorFlow is loaded for them.
    if name in _COLLECTIVES:
        return getattr(_submodule("host_collective_ops"), name)
    return _submodule(name)
