"""One app of the server: a process that ends with its connection."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import Any

from textual_serve.app_service import AppService

_PATIENCE_S = 30.0
"""How long a live run may take to be stopped and kept."""


class GuardedApp(AppService):
    """Stops the live run and leaves when nobody looks any more."""

    _process: Any
    _task: Any

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        """Give the app its first size by the name that Python knows too."""
        environment = super()._build_environment(width, height)
        return {**environment, "LINES": str(height)}

    async def stop(self) -> None:
        """Tell the process that its terminal is gone, then insist."""
        process, self._process = self._process, None
        if process is None:
            return
        # Nobody reads what the app draws any more, and it must not wait for that.
        self._task.cancel()
        await asyncio.wait([self._task])
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGHUP)
        try:
            await asyncio.wait_for(process.communicate(), _PATIENCE_S)
        except TimeoutError:
            process.kill()
            await process.wait()
