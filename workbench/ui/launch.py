"""Opens the app in this terminal, safe from libraries that print and from its loss."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ipu_runtime.reports.plain_text import plain_line
from workbench.locations import data_directory
from workbench.scripts.script_command import ScriptCommand
from workbench.services.runs import Runs
from workbench.store_files import make_root, open_to_append
from workbench.store_json import explained
from workbench.ui.app import WorkbenchApp
from workbench.ui.app_options import AppOptions
from workbench.ui.themes import theme_problem


def run_app(
    theme: str | None = None,
    ascii_only: bool = False,
    script: ScriptCommand | None = None,
) -> int:
    """Open the app; what native libraries print goes to a file."""
    if problem := theme_problem(theme or ""):
        print(plain_line(f"--theme: {problem}"), file=sys.stderr)
        return 2  # As commands end that are called wrongly.
    ascii_only = ascii_only or plain_terminal(os.environ)
    options = AppOptions(
        theme=theme or "", ascii_only=ascii_only, script=script, obeys_signals=True
    )
    with native_output_to(data_directory() / "app.log"):
        app = WorkbenchApp(options)
        with survives_lost_terminal(app.runs):
            # Said plainly: on a dumb terminal two guesses would never agree.
            app.run(size=shutil.get_terminal_size())
    return app.return_code or 0


def plain_terminal(environment: Mapping[str, str]) -> bool:
    """Tell whether a terminal shows ASCII alone: a dumb one, or not UTF-8.

    A locale that is not said at all is taken to be UTF-8, as Python takes it.
    """
    if environment.get("TERM") == "dumb":
        return True
    said = [environment.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG")]
    if not said[0] and said[1:] in (["C.UTF-8", "C"], ["C.UTF-8", "POSIX"]):
        return True  # Python itself has set the second one.
    locale = next((text for text in said if text), "")
    return bool(locale) and "utf" not in locale.lower()


@contextmanager
def native_output_to(path: Path) -> Iterator[None]:
    """Send descriptors 1 and 2 to a file; the app writes to duplicates meanwhile."""
    with explained(path):
        make_root(path.parent)
        log = open_to_append(path, 0o600)
    saved = {name: getattr(sys, name) for name in ("__stdout__", "__stderr__")}
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    duplicates = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}
    screens = {
        name: open(duplicates[descriptor], "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        for name, descriptor in (("__stdout__", 1), ("__stderr__", 2))
    }
    try:
        for name, screen in screens.items():
            setattr(sys, name, screen)
        for descriptor in duplicates:
            os.dup2(log.fileno(), descriptor)
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for descriptor, duplicate in duplicates.items():
            os.dup2(duplicate, descriptor)
        for name, screen in screens.items():
            screen.flush()
            setattr(sys, name, saved[name])
        for descriptor in duplicates.values():
            os.close(descriptor)
        log.close()


_PATIENCE_S = 60.0
"""How long a run may take to end; then the app goes, and the run counts as killed."""


@contextmanager
def survives_lost_terminal(runs: Runs) -> Iterator[None]:
    """Stop the live run when the terminal goes away, and leave once it is kept.

    Nothing of Textual takes part: without a terminal it may wait for its own output.
    """

    def hang_up(number: int, frame: FrameType | None) -> None:
        threading.Thread(target=_stop_and_leave, args=(runs, number)).start()

    before = signal.signal(signal.SIGHUP, hang_up)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _stop_and_leave(runs: Runs, number: int) -> None:
    runs.hold_waiting()
    active = runs.active
    if active is not None:
        active.stop()
        active.ended.wait(_PATIENCE_S)
    os._exit(128 + number)
