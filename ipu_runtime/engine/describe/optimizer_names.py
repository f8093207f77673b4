"""Which optimizer trains, told by the object or by the variables of a graph.

`PlanRequest` makes one name of every spelling, so what is returned here may be a class
name, the scope of a Keras optimizer or the slot of one of TensorFlow 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ipu_runtime.frameworks.types import Optimizer
from ipu_runtime.plan.request import optimizer_name

_SLOTS = frozenset(("momentum", "rmsprop", "adam", "adagrad", "adadelta", "ftrl"))
"""Slots of `tf.compat.v1.train` by the optimizer; other slots are averages."""
_NUMBER = re.compile(r"_\d+$")


def optimizer_of(optimizer: Optimizer) -> str:
    """Return the name of an optimizer, without what wraps it."""
    for inside in ("inner", "inner_optimizer"):
        if hasattr(optimizer, inside):
            return optimizer_of(getattr(optimizer, inside))
    name = optimizer_name(type(optimizer).__name__)
    return (
        "momentum" if name == "sgd" and getattr(optimizer, "momentum", None) else name
    )


def optimizer_among(variables: Iterable[str]) -> str:
    """Return the optimizer whose variables these are; without any it is SGD.

    `Optimizer.build` of Keras 3 names the first one `SCOPE/iteration`, and
    `Optimizer._slot_dict` of TensorFlow 1 names slots `VARIABLE/OPTIMIZER`, each with
    `_1`, `_2`, ... where a graph has the name already.
    """
    names = {name.removesuffix(":0") for name in variables}
    for name in sorted(names):
        before, _, last = name.rpartition("/")
        if last == "iteration" and before:
            found = optimizer_name(_NUMBER.sub("", before.rpartition("/")[2]))
            momentum = found == "sgd" and any(
                other.endswith("_momentum") for other in names
            )
            return "momentum" if momentum else found
        slot = optimizer_name(_NUMBER.sub("", last))
        if before in names and slot in _SLOTS:
            return slot
    return "sgd"
