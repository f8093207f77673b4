"""Questions about placement: `ipu.sharding`.

Placement has no effect on results; `ipu.scopes.ipu_shard` is what places operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ipu_runtime.engine.build.replicas.replication import in_order
from ipu_runtime.frameworks.private_names import COLOCATION
from ipu_runtime.frameworks.shard_marks import SHARDING, set_sharding, shards_of


def get_sharding(op: Any) -> list[int] | None:
    """Return the IPUs that an operation is placed on; None if it is not placed."""
    return shards_of(op)


def has_attr(o: Any, attr_name: str) -> bool:
    """Tell whether an operation has an attribute."""
    return attr_name in o.node_def.attr


def dependencies(roots: Any) -> set[Any]:
    """Return the operations that the given ones need, themselves included."""
    items = roots if isinstance(roots, (list, tuple, set)) else [roots]
    return set(in_order([getattr(item, "op", item) for item in items]))


def get_shard_from_colocation(op: Any) -> bytes | None:
    """Return the sharding of an operation that the given one belongs to, serialized.

    Those that it shares a device with are asked first, then those that it reads from.
    """
    for other in (*_beside(op), *(tensor.op for tensor in op.inputs)):
        if has_attr(other, SHARDING):
            serialized: bytes = other.get_attr(SHARDING)
            return serialized
    return None


def _beside(op: Any) -> Iterator[Any]:
    for group in op.colocation_groups():
        # A group may be named after an operation of another graph.
        with suppress(KeyError):
            yield op.graph.get_operation_by_name(group.decode().removeprefix("loc:@"))


def propagate_sharding(g: Any) -> None:
    """Place backward operations beside the forward operations they belong to."""
    waiting = [
        operation
        for operation in g.get_operations()
        if has_attr(operation, COLOCATION) and not has_attr(operation, SHARDING)
    ]
    found = True
    while found:
        found = False
        for operation in list(waiting):
            serialized = get_shard_from_colocation(operation)
            if serialized is not None:
                set_sharding(operation, serialized)
                waiting.remove(operation)
                found = True


def enable_sharded_gradient_tape() -> None:
    """Allow gradients of a `tf.GradientTape` to be placed beside the forward pass.

    Nothing has to be done for it here: gradients are computed wherever the host is.
    """
