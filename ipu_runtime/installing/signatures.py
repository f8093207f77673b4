"""Functions that take what another one takes, and hand it on."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from inspect import Parameter, Signature
from typing import Any


def with_arguments_of(
    other: Callable[..., Any],
    *,
    without: Collection[str] = (),
    after: str = "self",
    **defaults: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function with `**` the arguments of another one, besides its own.

    Callers and `help` see them all: the function's own stand behind `after`, and
    `defaults` replace those of the other. The function gets every argument by name.
    """
    theirs = inspect.signature(other)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        own = [
            parameter
            for name, parameter in inspect.signature(function).parameters.items()
            if name != "self" and parameter.kind is not Parameter.VAR_KEYWORD
        ]
        parameters = []
        for name, parameter in theirs.parameters.items():
            if name not in without:
                default = defaults.get(name, parameter.default)
                parameters.append(parameter.replace(default=default))
            if name == after:
                parameters += own
        return taking(theirs.replace(parameters=parameters))(function)

    return decorate


def taking(
    signature: Signature,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function with `**` a signature; it gets every argument by name."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            try:
                given = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{function.__qualname__}() {error}") from None
            given.apply_defaults()
            # `bind` puts what no parameter takes below the name of the `**`.
            further = given.arguments.pop("kwargs", {})
            return function(**given.arguments, **further)

        called.__signature__ = signature  # type: ignore[attr-defined]
        return called

    return decorate
