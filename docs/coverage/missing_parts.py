"""What an object of the emulator lacks of a public name of the real packages."""

from __future__ import annotations

import dis
import functools
import inspect
import re
from collections.abc import Collection, Iterator
from inspect import Parameter, Signature
from typing import Any

from docs.coverage.real_api import PublicName

_DOTTED_DEFAULT = re.compile(r"=[A-Za-z_]\w*\.[\w.]+")


def differences(real: PublicName, ours: Any) -> list[str]:
    """Return what the emulator's object lacks, in words; nothing if it has all."""
    if real.is_class and not inspect.isclass(ours):
        return ["is no class"]
    members = getattr(ours, "__members__", {})
    found = _listed("no members", [m for m in real.members if m not in members])
    lacking = [name for name in real.signatures if name and not _has(ours, name)]
    found += _listed("no methods or properties", lacking)
    for method, text in real.signatures.items():
        if method not in lacking and text != "property":
            prefix = "" if method in ("", "__init__") else f"{method}: "
            compared = argument_differences(_signature(text), _called(ours, method))
            found += [prefix + difference for difference in compared]
    return found


def argument_differences(real: Signature, ours: Signature) -> Iterator[str]:
    """Yield what a caller who knows the real signature cannot do with ours."""
    named = [p for p in real.parameters.values() if not _is_variable(p)]
    shared = [(p, ours.parameters[p.name]) for p in named if p.name in ours.parameters]
    kinds = {parameter.kind for parameter in ours.parameters.values()}
    missing = [p.name for p in named if p.name not in ours.parameters]
    any_keyword = Parameter.VAR_KEYWORD in kinds
    yield from _listed("only through **:" if any_keyword else "no argument", missing)
    expected, found = _by_place(real, ours), _by_place(ours, real)
    moved = [n for i, n in enumerate(expected) if found[i : i + 1] != [n]]
    yield from _listed("in another place:", moved)
    needed = [p.name for p, o in shared if _is_optional(p) and not _is_optional(o)]
    needed += [o.name for o in ours.parameters.values() if _is_extra(o, real)]
    yield from _listed("needs", needed)
    for theirs, own in shared:
        if _is_optional(theirs) and not _same(theirs.default, own.default):
            yield f"{own.name} is {own.default!r} by default, not {theirs.default!r}"
    for parameter in real.parameters.values():
        if _is_variable(parameter) and parameter.kind not in kinds:
            yield f"no {str(parameter).partition(':')[0]}"


def _has(ours: Any, name: str) -> bool:
    """Tell whether instances have a name: from a class, or from a constructor."""
    missing = object()
    if inspect.getattr_static(ours, name, missing) is not missing:
        return True
    if name in getattr(ours, "__dataclass_fields__", ()):
        return True
    return any(
        instruction.opname == "STORE_ATTR" and instruction.argval == name
        for cls in ours.__mro__
        if inspect.isfunction(constructor := vars(cls).get("__init__"))
        for instruction in dis.get_instructions(constructor)
    )


def _called(ours: Any, method: str) -> Signature:
    """Return the arguments that a caller gives."""
    if not method:
        return inspect.signature(ours)
    if method == "__init__" and ours.__init__ is object.__init__:
        return inspect.signature(ours)
    signature = inspect.signature(getattr(ours, method))
    if inspect.isfunction(inspect.getattr_static(ours, method)):
        without_self = list(signature.parameters.values())[1:]
        signature = signature.replace(parameters=without_self)
    return signature


def _by_place(signature: Signature, other: Signature) -> list[str]:
    """Return the arguments that can be given by place and that the other has too."""
    return [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD
        and name in other.parameters
    ]


def _is_variable(parameter: Parameter) -> bool:
    return parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _is_optional(parameter: Parameter) -> bool:
    return parameter.default is not Parameter.empty


def _is_extra(parameter: Parameter, real: Signature) -> bool:
    """Tell whether a caller has to give an argument that the real one does not know."""
    known = parameter.name in real.parameters or _is_variable(parameter)
    return not known and not _is_optional(parameter)


def _same(theirs: Any, own: Any) -> bool:
    """Tell whether two defaults are equal as far as the real one is known."""
    if theirs is ... or own is Parameter.empty:
        return True
    if isinstance(theirs, list) and isinstance(own, tuple):
        # A default that cannot be changed by accident; callers see no difference.
        own = list(own)
    return bool(theirs == own and isinstance(theirs, bool) == isinstance(own, bool))


def _listed(what: str, names: Collection[str]) -> list[str]:
    return [f"{what} {', '.join(names)}"] if names else []


@functools.cache
def _signature(text: str) -> Signature:
    """Read `(a, b=1, *, c=None, **rest)`; what `x.y` is by default is not known."""
    names: dict[str, Any] = {}
    exec(f"def f{_DOTTED_DEFAULT.sub('=...', text)}: ...", names)
    return inspect.signature(names["f"])
