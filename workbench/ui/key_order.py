"""Keys one after the other: none is passed on before the one before it has acted."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from textual.app import App
from textual.dom import DOMNode
from textual.events import Key
from textual.worker import WorkerState

_ROUNDS = 3
"""A key may cause a message, and that another one, before the focus moves."""
_LOOK_AGAIN_S = 0.05
"""How long a widget that goes away may owe an answer."""


class KeyOrder:
    """Holds keys back while the one before is on its way.

    Textual lets letters act in the widget that has the focus, and bound keys at the
    end of their way up to the app. Keys that arrive at once would overtake each other,
    and reach the widget that had the focus before.
    """

    def __init__(
        self, app: App[Any], pass_on: Callable[[Key], Awaitable[None]]
    ) -> None:
        self._app, self._pass_on = app, pass_on
        self._waiting: deque[Key] = deque()
        self._working = False

    def take(self, key: Key) -> None:
        """Pass a key on as soon as all before it have acted."""
        if key.key == "ctrl+j":
            # Enter as a terminal sends it that no app has set up yet.
            key = Key("enter", "\r")
        self._waiting.append(key)
        if not self._working:
            self._working = True
            self._app.run_worker(self._work(), group="keys")

    async def _work(self) -> None:
        try:
            while self._waiting:
                receiver = self._receiver
                await self._ask(self._app, self._pass_on, self._waiting.popleft())
                await self._settle(receiver)
        finally:
            self._working = False

    @property
    def _receiver(self) -> DOMNode:
        return self._app.focused or self._app.screen

    async def _settle(self, receiver: DOMNode) -> None:
        """Wait until nothing that a key has set off decides who gets the next one."""
        rounds = 0
        while rounds < _ROUNDS or receiver is not self._receiver:
            receiver = receiver if rounds == 0 else self._receiver
            # The way that a message takes from a widget to the app.
            for node in receiver.ancestors_with_self:
                await self._ask(node, _nothing)
            while self._dialog_is_due:
                await asyncio.sleep(0)
            rounds += 1

    @property
    def _dialog_is_due(self) -> bool:
        return any(item.state is WorkerState.PENDING for item in self._app.workers)

    async def _ask(
        self, node: DOMNode, action: Callable[..., Any], *arguments: Any
    ) -> None:
        """Let a node do something after all that it has been sent; wait for it."""
        done = asyncio.Event()

        async def act() -> None:
            try:
                result = action(*arguments)
                if result is not None:
                    await result
            finally:
                done.set()

        if node.call_later(act):
            while node.is_running and not done.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(done.wait(), _LOOK_AGAIN_S)


def _nothing() -> None:
    pass
