"""Opens the app in this terminal, safe from libraries that print and from its loss."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping

from ipu_runtime.reports.plain_text import plain_line
from workbench.locations import data_directory
from workbench.scripts.script_command import ScriptCommand
from workbench.ui.app import WorkbenchApp
from workbench.ui.app_options import AppOptions
from workbench.ui.native_log import native_output_to
from workbench.ui.signals import survives_lost_terminal
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
        with survives_lost_terminal(app.runs.board):
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
