"""Habits of Keras 2 scripts that Keras 3 can be taught without changing its own."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from ipu_runtime.compat.habits import RULES, Argument, Attribute, hint
from ipu_runtime.compat.layer_habits import accept_layer_habits
from ipu_runtime.compat.loss_scale_habits import accept_loss_scale_habits
from ipu_runtime.compat.model_habits import accept_model_habits
from ipu_runtime.compat.name_habits import accept_name_habits
from ipu_runtime.compat.optimizer_habits import accept_optimizer_habits
from ipu_runtime.compat.saving_habits import accept_saving_habits
from ipu_runtime.compat.tensor_habits import accept_tensor_habits
from ipu_runtime.compat.variable_habits import accept_variable_habits
from ipu_runtime.frameworks import habit_points
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.patching import Patch, around, defining, instead


def accept_old_habits() -> None:
    """Accept all of them; `habits.HABITS` names each one."""
    accept_variable_habits()
    accept_tensor_habits()
    accept_layer_habits()
    accept_optimizer_habits()
    accept_loss_scale_habits()
    accept_model_habits()
    accept_saving_habits()
    accept_name_habits()
    # Last, so that the functions above see the arguments as they are called today.
    _accept_rules()


def _accept_rules() -> None:
    """Accept the habits that only rename or drop, which are rows of the table."""
    arguments: dict[str, list[Argument]] = {}
    for rule in RULES:
        if isinstance(rule, Attribute):
            answer = instead(_older(rule))
            Patch(_found(rule.owner), rule.older, answer).install()
        else:
            arguments.setdefault(rule.function, []).append(rule)
    for function, rules in arguments.items():
        owner, method = function.rsplit(".", 1)
        definer = defining(_found(owner), method)
        stand_in = functools.partial(_call_as_today, rules)
        Patch(definer, method, around(stand_in)).install()


def _found(owner: str) -> Any:
    package, *names = owner.split(".")
    root = keras if package == "keras" else getattr(habit_points, package)
    return functools.reduce(getattr, names, root)


def _call_as_today(
    rules: Sequence[Argument], original: Any, *args: Any, **kwargs: Any
) -> Any:
    """Call a function of Keras with its arguments as they are today."""
    for rule in rules:
        if rule.older not in kwargs:
            continue
        value = kwargs[rule.older]
        if rule.values and value not in rule.values:
            continue
        hint(rule.habit)
        del kwargs[rule.older]
        if isinstance(rule.values, Mapping):
            kwargs[rule.older] = rule.values[value]
        elif rule.newer:
            kwargs[rule.newer] = value
    return original(*args, **kwargs)


def _older(rule: Attribute) -> Any:
    """Return what answers to an older name: a property, or a method."""

    def read(owner: Any) -> Any:
        hint(rule.habit)
        return getattr(owner, rule.newer)

    def write(owner: Any, value: Any) -> None:
        hint(rule.habit)
        setattr(owner, rule.newer, value)

    def call(owner: Any, *args: Any, **kwargs: Any) -> Any:
        return read(owner) if rule.newer else hint(rule.habit)

    return call if rule.method else property(read, write)
