"""Writes a script's record beside the script, which never waits for a disk."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from workbench.runs.events import Event
from workbench.runs.run_record import RunRecord
from workbench.scripts.script_log import ScriptLog
from workbench.store_json import RecordError

_EVERY_S = 0.1
"""Numbers are in the record after this time."""

Work = Callable[[], None]


def _nothing() -> None:
    """Wake the thread."""


class RecordThread:
    """Takes events and output from any thread; a disk that fails ends the record only.

    What cannot be written is said once on standard error.
    """

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._log = ScriptLog(record.log)
        self._waiting: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._told_of_output = False
        self._events: list[tuple[Event, float]] = []
        self._closing = threading.Event()
        self.problem = ""
        """Why nothing can be written any more; empty while all is well."""
        self._thread = threading.Thread(target=self._work, name="record", daemon=True)
        self._thread.start()

    def put(self, work: Work) -> None:
        """Take something to do in the record."""
        if not self.problem:
            self._waiting.put(work)

    def keep(self, text: str) -> None:
        """Take a piece of output."""
        if self.problem:
            return
        self._log.add(text)
        if not self._told_of_output:
            self._told_of_output = True
            self._waiting.put(_nothing)

    def send(self, event: Event) -> None:
        """Take an event."""
        self.put(partial(self._events.append, (event, time.time())))

    def close(self) -> None:
        """Write what is left."""
        self._closing.set()
        self._waiting.put(_nothing)
        self._thread.join()

    def give_up(self, error: RecordError) -> None:
        """Say once why the record ends; the script goes on."""
        if not self.problem:
            self.problem = f"the record is not complete: {error}"
            # The script may have closed it.
            with suppress(OSError, ValueError):
                print(f"ipu-workbench: {self.problem}", file=sys.__stderr__, flush=True)

    def _work(self) -> None:
        while not self.problem:
            items = [self._waiting.get()]
            # Many things at once cost one look at the disk.
            self._closing.wait(_EVERY_S)
            closing = self._closing.is_set()
            self._told_of_output = False
            while not self._waiting.empty():
                items.append(self._waiting.get())
            try:
                for work in items:
                    work()
                self._record.append_all(self._events)
                self._events.clear()
                self._log.write(rest=closing)
            except RecordError as error:
                self.give_up(error)
            if closing:
                return
