"""Replace attributes of foreign classes for as long as somebody needs it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Patch:
    """One replaced attribute; it is put back when the last user has left."""

    def __init__(self, owner: Any, name: str, replace: Callable[[Any], Any]) -> None:
        """Args:
        replace: takes the raw attribute, returns what stands in for it.
        """
        self._owner = owner
        self._name = name
        self._replace = replace
        self._users = 0
        self._original: Any = None
        self._inherited = False
        self._lock = threading.Lock()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Keep the attribute replaced inside; may be nested, and used by threads."""
        with self._lock:
            if self._users == 0:
                self._inherited = self._name not in vars(self._owner)
                self._original = (
                    getattr(self._owner, self._name)
                    if self._inherited
                    else vars(self._owner)[self._name]
                )
                setattr(self._owner, self._name, self._replace(self._original))
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._restore()

    def _restore(self) -> None:
        if self._inherited:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._original)
