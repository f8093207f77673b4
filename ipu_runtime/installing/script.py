"""Run an IPU script as `python script.py` would, with the emulator installed."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import runpy
import sys
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Protocol

from ipu_runtime.installing.install import install
from ipu_runtime.installing.spawned import reach_spawned
from ipu_runtime.reports.plain_text import plain_line
from ipu_runtime.system.environment import prepare_environment

Failed = Callable[[BaseException], int | None]
"""Told of an error; returns the exit code if it has explained it."""


class ScriptWatch(Protocol):
    """Somebody who is told when a script begins and how it ends."""

    def began(self, script: str, arguments: Sequence[str]) -> None:
        """The script is there and about to run."""

    def ended(self, code: int, error: BaseException | None) -> None:
        """It has ended with this exit code, and with what it has raised."""


def run_script(
    script: str,
    arguments: Sequence[str],
    custom_ops: str | None = None,
    watch: ScriptWatch | None = None,
    failed: Failed = lambda error: None,
) -> int:
    """Run a script to its end and return the exit code Python would have given.

    Args:
        custom_ops: a Python file that is run first; it registers functions for
            operations of compiled libraries.
        watch: is told of the script's beginning and end.
        failed: told of an error; returns the exit code if it has explained it.
    """
    file = Path(script)
    for name, what in ((script, "script"), (custom_ops, "file for --custom-ops")):
        if name is not None and not os.path.isfile(name):
            text = f"ipu_runtime: {name}: no such {what}"
            print(plain_line(text), file=sys.stderr)
            return 2
    if file.suffix == ".ipynb":
        print(
            f"ipu_runtime: {plain_line(script)}: a notebook is no script; open it with "
            "Jupyter and begin with: import ipu_runtime; ipu_runtime.install()",
            file=sys.stderr,
        )
        return 2
    # TensorFlow's own start-up messages are not what the script has to say.
    prepare_environment()
    install()
    reach_spawned()
    sys.argv = [script, *arguments]
    sys.path[0:1] = [str(file.resolve().parent)]
    if watch is None:
        return _run(file, custom_ops, failed)[0]
    watch.began(script, arguments)
    code, error = _run(file, custom_ops, failed)
    watch.ended(code, error)
    return code


def _run(
    file: Path, custom_ops: str | None, failed: Failed
) -> tuple[int, BaseException | None]:
    """Return the exit code and what the script has raised."""
    try:
        if custom_ops is not None:
            _load(Path(custom_ops))
        _run_main(file)
    except SystemExit as exit_request:
        return _exit_code(exit_request), exit_request
    except KeyboardInterrupt as interrupt:
        _print_traceback(interrupt)
        return 130, interrupt
    except BaseException as error:
        code = failed(error)
        if code is not None:
            return code, error
        _print_traceback(error)
        return 1, error
    return 0, None


def _run_main(file: Path) -> None:
    """Run a file as Python does: `sys.argv[0]` is as given and `__file__` absolute.

    That of runpy is absolute in both, so it runs archives only.
    """
    path = str(file.absolute())
    if zipfile.is_zipfile(file):
        runpy.run_path(path, run_name="__main__")
        return
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    code = loader.source_to_code(loader.get_data(path), path)
    before, module = sys.modules["__main__"], ModuleType("__main__")
    vars(module).update(__file__=path, __cached__=None, __loader__=loader)
    sys.modules["__main__"] = module
    try:
        exec(code, vars(module))
    finally:
        sys.modules["__main__"] = before


def _load(file: Path) -> None:
    """Import a file under its own name, so that its functions keep what they use."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)


def _exit_code(exit_request: SystemExit) -> int:
    code = exit_request.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    # A script may have closed its streams; without one Python writes where C does.
    with suppress(OSError, ValueError):
        if sys.stderr is None:
            os.write(2, f"{code}\n".encode(errors="backslashreplace"))
        else:
            print(code, file=sys.stderr)
    return 1


def _print_traceback(error: BaseException) -> None:
    """Show the script's frames only: how it was started is not its concern.

    Python's own function does it, or the script's: it writes to closed streams too.
    """
    frames = error.__traceback__
    while frames is not None and _starts_scripts(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    shown = error.with_traceback(frames)
    try:
        sys.excepthook(type(error), shown, frames)
    except Exception as broken:
        sys.__excepthook__(type(broken), broken, broken.__traceback__)
        sys.__excepthook__(type(error), shown, frames)


def _starts_scripts(filename: str) -> bool:
    return filename in (__file__, runpy.__file__) or filename.startswith("<frozen ")
