"""Run an IPU script as `python script.py` would, with the emulator installed."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from ipu_runtime.environment import prepare_environment
from ipu_runtime.install import install


def run_script(script: str, arguments: Sequence[str]) -> int:
    """Run a script to its end and return the exit code Python would have given."""
    file = Path(script)
    if not file.is_file():
        print(f"ipu_runtime: {script}: no such script", file=sys.stderr)
        return 2
    # TensorFlow's own start-up messages are not what the script has to say.
    prepare_environment()
    install()
    sys.argv = [script, *arguments]
    sys.path[0:1] = [str(file.resolve().parent)]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as exit_request:
        return _exit_code(exit_request)
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        _print_traceback(error)
        return 1
    return 0


def _exit_code(exit_request: SystemExit) -> int:
    code = exit_request.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


def _print_traceback(error: BaseException) -> None:
    """Show the script's frames only: how it was started is not its concern."""
    frames = error.__traceback__
    runners = (__file__, runpy.__file__, "<frozen runpy>")
    while frames is not None and frames.tb_frame.f_code.co_filename in runners:
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)
