"""What Keras writes out in several operations and the device has as one.

PopLibs normalises, drops values and applies its activations in a call of their own.
Kinds list such calls; a traced layer must find them again, because Keras 3 writes out
what Keras 2 had as one operation: its `LayerNormalization` was a fused batch
normalisation, and is now a dozen sums, products and roots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ipu_runtime.engine.describe.loop_trips import origin
from ipu_runtime.engine.describe.matrix_ops import Extents, matrix_op
from ipu_runtime.engine.describe.op_table import CYCLES
from ipu_runtime.plan.model.operations import Operation, OpKind, joined

_AFFINE = frozenset(
    ("Mul", "AddV2", "Add", "Sub", "Neg", "Rsqrt", "Sqrt", "RealDiv", "Cast")
)
_FEWEST_TRANSPOSES = 3
"""Around the two products of an attention whose heads are moved apart."""


@dataclass(frozen=True)
class Composite:
    """Operations of TensorFlow that are something else on the device."""

    members: frozenset[str]
    """Names of what is replaced; their gradients are those of `operations`."""
    operations: tuple[Operation, ...]


def find_composites(
    operations: Sequence[Any], extents: Extents, value_bytes: Callable[[Any], int]
) -> dict[str, Composite]:
    """Return the composites among the operations of one graph by all their members."""
    search = _Search(operations, extents, value_bytes)
    found: dict[str, Composite] = {}
    for composite in (
        *search.scoped("stateless_dropout", OpKind.DROPOUT, "dropout"),
        *search.scoped("Gelu", OpKind.ACTIVATION, "gelu"),
        *search.silus(),
        *search.norms(),
        *search.attentions(),
    ):
        if not found.keys() & composite.members:
            found |= dict.fromkeys(composite.members, composite)
    return found


class _Search:
    """The operations of one graph, with the way from each to those that take it."""

    def __init__(
        self,
        operations: Sequence[Any],
        extents: Extents,
        value_bytes: Callable[[Any], int],
    ) -> None:
        self._operations = operations
        self._extents = extents
        self._value_bytes = value_bytes
        self._users: dict[str, list[Any]] = {item.name: [] for item in operations}
        for operation in operations:
            for source in _sources(operation):
                if source.op.name in self._users:
                    self._users[source.op.name].append(operation)

    def scoped(self, scope: str, kind: OpKind, name: str) -> Iterator[Composite]:
        """Find what a function of TensorFlow puts below a name scope of its own."""
        members: dict[str, list[Any]] = {}
        for operation in self._operations:
            before, inside, _ = f"/{operation.name}".partition(f"/{scope}/")
            if inside:
                members.setdefault(before, []).append(operation)
        for inner in members.values():
            yield self._composite(inner, self._whole(kind, name, inner[-1]))

    def silus(self) -> Iterator[Composite]:
        """Find x times the sigmoid of x, which `tf.nn.silu` gives its own gradient."""
        for product in self._operations:
            if product.type != "Mul":
                continue
            sources = _sources(product)
            for x, gate in (sources, sources[::-1]):
                if gate.op.type != "Sigmoid" or gate.op.name not in self._users:
                    continue
                members = [product, gate.op]
                (taken,) = _sources(gate.op)
                if taken is not x and taken.op.type == "Mul":
                    members.append(taken.op)
                    taken = next(
                        (each for each in _sources(taken.op) if each is x), taken
                    )
                if taken is x:
                    members += [
                        user
                        for user in product.outputs[0].consumers()
                        if user.type == "IdentityN"
                    ]
                    whole = self._whole(OpKind.ACTIVATION, "silu", product)
                    yield self._composite(members, whole)

    def norms(self) -> Iterator[Composite]:
        """Find a variance, and all that scales and shifts its tensor by it."""
        for variance in self._operations:
            x = self._variance_of(variance)
            if x is None:
                continue
            results = self._values(variance.outputs[0])
            inside = {variance.name, _sources(variance)[0].op.name}
            for operation in self._operations:
                # A script's own mean of the same is the one inside of its variance.
                mean = operation.type == "Mean" and _sources(operation)[0] is x
                same = mean and self._values(operation.outputs[0]) == results
                affine = operation.type in _AFFINE
                if same or (affine and self._belongs(operation, x, inside)):
                    inside.add(operation.name)
            members = [item for item in self._operations if item.name in inside]
            if not any(item.type in ("Rsqrt", "Sqrt") for item in members):
                continue
            users = self._users.get(x.op.name, ())
            if x.op.type == "Cast" and users and inside >= {it.name for it in users}:
                members.append(x.op)
                (x,) = x.op.inputs
            shape = (self._values(x), results)
            yield self._composite(
                members, Operation(OpKind.NORM, "normalise", shape, x.dtype.size)
            )

    def _variance_of(self, operation: Any) -> Any | None:
        """Return the tensor that an operation is the variance of, None if of none."""
        if operation.type != "Mean":
            return None
        squared = _sources(operation)[0].op
        if squared.name not in self._users:
            return None
        apart = squared
        if squared.type == "Square":
            apart = _sources(squared)[0].op
        if apart.type not in ("SquaredDifference", "Sub"):
            return None
        x, mean = _sources(apart)
        same = mean.op.type == "Mean" and _sources(mean.op)[0] is x
        return x if same and apart.name in self._users else None

    def _belongs(self, operation: Any, x: Any, inside: set[str]) -> bool:
        """Whether all that an operation takes is `x`, `inside`, or for all samples."""
        sources = _sources(operation)
        return any(source.op.name in inside for source in sources) and all(
            source is x
            or source.op.name in inside
            or (source.op.name not in self._users and self._values(source) >= 0)
            for source in sources
        )

    def attentions(self) -> Iterator[Composite]:
        """Find two products with a softmax between them, and what moves their heads."""
        for softmax in self._operations:
            if softmax.type != "Softmax":
                continue
            scores = self._product_before(softmax)
            context = self._product_after(softmax)
            if scores is None or context is None:
                continue
            size = self._values(softmax.outputs[0])
            other = [item for item in context.inputs if self._values(item) != size]
            apart = (*scores.inputs, *other[:1], context.outputs[0])
            turns = [
                *self._turns_before(scores),
                *self._turns_before(context),
                *self._turns_after(context),
            ]
            implied = "Einsum" in (scores.type, context.type)
            if len(turns) < _FEWEST_TRANSPOSES and not implied:
                continue
            # A product that is transposed is the product of swapped operands.
            turns += self._turns_after(scores)
            heads = Operation(
                OpKind.HEADS,
                "transposes",
                (sum(self._values(tensor) for tensor in apart),),
                self._value_bytes(scores),
            )
            product = self._product(scores)
            assert product is not None
            yield self._composite(
                [scores, *turns], heads, replace(product, rearranged=True)
            )

    def _turns_before(self, operation: Any) -> list[Any]:
        """Return the transposes of what an operation takes, all of a chain."""
        turns = [
            source.op
            for source in _sources(operation)
            if source.op.type == "Transpose" and source.op.name in self._users
        ]
        return turns + [more for turn in turns for more in self._turns_before(turn)]

    def _turns_after(self, operation: Any) -> list[Any]:
        """Return the transposes of what an operation makes, all of a chain."""
        users = self._users[operation.name]
        turns = [user for user in users if user.type == "Transpose"]
        return turns + [more for turn in turns for more in self._turns_after(turn)]

    def _product_before(self, operation: Any) -> Any | None:
        """Walk back over operations on as many values, to the product before them."""
        size = self._values(operation.outputs[0])
        for source in _sources(operation):
            if self._values(source) != size or source.op.name not in self._users:
                continue
            if self._product(source.op) is not None:
                return source.op
            if source.op.type in CYCLES or source.op.type == "Transpose":
                found = self._product_before(source.op)
                if found is not None:
                    return found
        return None

    def _product_after(self, operation: Any) -> Any | None:
        """Walk on over operations on as many values, to the product after them."""
        size = self._values(operation.outputs[0])
        for user in self._users[operation.name]:
            if self._product(user) is not None:
                return user
            same = self._values(user.outputs[0]) == size
            if same and (user.type in CYCLES or user.type == "Transpose"):
                found = self._product_after(user)
                if found is not None:
                    return found
        return None

    def _product(self, operation: Any) -> Operation | None:
        """Return a product of two tensors, neither of which all samples share."""
        found = matrix_op(operation, self._extents)
        if found is None or found[0] is not OpKind.PRODUCT or found[1][3] == 1:
            return None
        kind, shape = found
        return Operation(kind, operation.type, shape, self._value_bytes(operation))

    def _values(self, tensor: Any) -> int:
        return joined(self._extents(tensor))

    def _whole(self, kind: OpKind, name: str, operation: Any) -> Operation:
        shape = (self._values(operation.outputs[0]),)
        return Operation(kind, name, shape, self._value_bytes(operation))

    def _composite(self, members: Sequence[Any], *whole: Operation) -> Composite:
        return Composite(frozenset(item.name for item in members), whole)


def _sources(operation: Any) -> list[Any]:
    return [origin(tensor) for tensor in operation.inputs]
