"""The one way to replace attributes of Keras, TensorFlow and other foreign code.

[Note: patches]
Keras has no hooks where the emulator has to step in: `fit` of models that exist
already, `Layer.__call__`, `tf.cast`, `tf.Session.run`. A `Patch` names one attribute
and how to make what stands in for it. It is either applied for the length of a `with`
block, as those of a strategy's scope are, or installed for as long as the process
lives, as the habits of older scripts are.

What holds, whichever threads apply and leave patches in whatever order:

- Every attribute has a stack of patches. The first one gets the attribute as it was
  found, each further one what the patch below it has made, so that a scope, a model
  function and a habit can all stand in for `Layer.__call__`.
- A patch that is applied again while it is applied counts its users, and leaves with
  the last of them.
- One that leaves from the middle of the stack is taken out, and those above it are
  made anew on what is below. Assigning the original back, as a `with` block around a
  plain assignment does, would drop what another thread has applied in the meantime.
- An attribute that a class has inherited, or that nobody has, is deleted at the end.
  That of an instance is written past its `__setattr__`, by which Keras tracks
  variables and layers.

A replaced attribute is seen by all threads. What it does must not be: a stand-in asks a
context variable whether it is meant, and calls the original otherwise.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

Replace = Callable[[Any], Any]
"""Takes the raw attribute, None if there is none, and returns what stands in for it."""

_MISSING = object()
_lock = threading.RLock()


class Patch:
    """One replaced attribute; it is put back when the last user has left."""

    def __init__(self, owner: Any, name: str, replace: Replace) -> None:
        """Take a class, a module or an instance, and the name of its attribute."""
        self._attribute = (owner, name)
        self._replace = replace
        self._users = 0
        self._installed = False

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Keep the attribute replaced inside; may be nested, and used by threads."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def install(self) -> None:
        """Replace the attribute for good; doing so again changes nothing."""
        with _lock:
            if not self._installed:
                self._installed = True
                self._enter()

    def _enter(self) -> None:
        with _lock:
            self._users += 1
            if self._users == 1:
                stack = _stacks.setdefault(self._key, [])
                below = self._found(replaced=bool(stack))
                stack.append(_Layer(self, below))
                self._write(below)

    def _leave(self) -> None:
        with _lock:
            self._users -= 1
            if self._users:
                return
            stack = _stacks[self._key]
            index = next(i for i, layer in enumerate(stack) if layer.patch is self)
            below = stack.pop(index).below
            self._restore(below)
            for layer in stack[index:]:
                layer.below = below
                below = layer.patch._write(below)
            if not stack:
                del _stacks[self._key]

    @property
    def _key(self) -> tuple[int, str]:
        owner, name = self._attribute
        return id(owner), name

    def _found(self, replaced: bool) -> Any:
        """Return the raw attribute as it is now, `_MISSING` if it is another's."""
        owner, name = self._attribute
        own = getattr(owner, "__dict__", None)
        if own is not None:
            return own.get(name, _MISSING)
        # TensorFlow's graphs have attributes, but no dictionary to find them in.
        return getattr(owner, name) if replaced else _MISSING

    def _write(self, below: Any) -> Any:
        owner, name = self._attribute
        original = getattr(owner, name, None) if below is _MISSING else below
        stand_in = self._replace(original)
        _set(owner, name, stand_in)
        return stand_in

    def _restore(self, below: Any) -> None:
        owner, name = self._attribute
        if below is not _MISSING:
            _set(owner, name, below)
        elif isinstance(owner, (type, ModuleType)):
            delattr(owner, name)
        else:
            object.__delattr__(owner, name)


@dataclass
class _Layer:
    patch: Patch
    below: Any
    """The raw attribute that the patch has replaced."""


_stacks: dict[tuple[int, str], list[_Layer]] = {}
"""The patches that are applied now, by the identity of their owner, which they keep."""


def _set(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, (type, ModuleType)):
        setattr(owner, name, value)
    else:
        object.__setattr__(owner, name, value)


@contextmanager
def applied(patches: Iterable[Patch]) -> Iterator[None]:
    """Keep several attributes replaced inside."""
    with ExitStack() as entered:
        for patch in patches:
            entered.enter_context(patch.applied())
        yield


def around(stand_in: Callable[..., Any]) -> Replace:
    """Let a function stand in for another one, which it is given first."""

    def replace(original: Any) -> Any:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            return stand_in(original, *args, **kwargs)

        # Keras reads constructor arguments from the signature and from the code of
        # the function that `__wrapped__` leads to; both must agree.
        call.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
        return call

    return replace


def instead(value: Any) -> Replace:
    """Let a value stand in for whatever is there, or is not."""
    return lambda original: value


def defining(owner: Any, name: str) -> Any:
    """Return the class that gives `owner` an attribute; a module gives its own."""
    classes = getattr(owner, "__mro__", (owner,))
    return next(item for item in classes if name in vars(item))


def patches_everywhere(
    module: ModuleType, name: str, replace: Replace, package: str = ""
) -> list[Patch]:
    """Replace a function of a module, also where others have imported it to.

    Args:
        module: that has the function.
        name: of the function, which is the same everywhere.
        replace: makes what stands in for it.
        package: that the others are in; empty: anywhere.
    """
    original = vars(module)[name]
    # A module may be there under several names.
    owners = {
        id(other): other
        for dotted, other in list(sys.modules.items())
        if dotted.startswith(package) and vars(other).get(name) is original
    }
    return [Patch(owner, name, replace) for owner in owners.values()]


def answering(
    module: ModuleType, names: Container[str], find: Callable[[str], Any]
) -> Patch:
    """Let a module answer to further names, which `find` returns when asked for."""

    def replace(own: Any) -> Any:
        def lookup(name: str) -> Any:
            if name in names:
                return find(name)
            if own is not None:
                return own(name)
            text = f"module {module.__name__!r} has no attribute {name!r}"
            raise AttributeError(text)

        return lookup

    return Patch(module, "__getattr__", replace)


def calling_frame(depth: int) -> FrameType:
    """Return who calls: 0 is the function that asks, 1 who has called that."""
    return sys._getframe(depth + 1)


def calling_module(depth: int) -> str:
    """Return the name of the module whose code calls, counted in the same way."""
    return str(calling_frame(depth + 1).f_globals.get("__name__", ""))
