"""Runs commands in copies of a process that has loaded TensorFlow already.

Started with the shim in LD_PRELOAD. Reads a request per line, answers with a line: a
command takes a second instead of five, and there are thousands.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

SHIM = "IPU_WORKBENCH_FAULT_SHIM"
MODULES = "modules"
"""What a command has loaded, for the next ones."""


def _load() -> None:
    """Load what commands load themselves, without what TensorFlow prints of it."""
    from ipu_runtime.installing.quiet_import import startup_noise_dropped
    from ipu_runtime.system.environment import prepare_environment

    prepare_environment()
    with startup_noise_dropped():
        import workbench.backends.cpu
        import workbench.backends.ipu_estimator
        import workbench.backends.ipu_pipeline_estimator
        import workbench.backends.ipu_strategy
        import workbench.headless.main  # noqa: F401
    gc.collect()
    gc.freeze()


def _load_too(names: Path) -> None:
    """Load what a command has loaded besides, so that the next ones find it."""
    for name in names.read_text(encoding="utf-8").split():
        # Code that TensorFlow generates is a module of no file.
        with suppress(ImportError):
            importlib.import_module(name)


def _execute(request: dict[str, Any]) -> int:
    """Run a command as the process that the request asks for."""
    from workbench.headless.main import main

    known = set(sys.modules)
    files = [
        os.open(request["answers"] + name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        for name in ("/stdout", "/stderr", "/calls")
    ]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(files[0], 1)
    os.dup2(files[1], 2)
    os.environ["IPU_WORKBENCH_HOME"] = request["home"]
    shim = ctypes.CDLL(os.environ[SHIM])
    home = request["home"].encode()
    shim.fault_arm(home, ctypes.c_long(request["at"]), request["error"], files[2])
    try:
        code = main(request["arguments"], os.environ, lambda **_: 1)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    new = sys.modules.keys() - known
    Path(request["answers"], MODULES).write_text("\n".join(new), encoding="utf-8")
    return code


def serve() -> None:
    """Answer requests until there are no more."""
    _load()
    for line in sys.stdin:
        request = json.loads(line)
        process = os.fork()
        if not process:
            os._exit(_execute(request))
        _, status = os.waitpid(process, 0)
        if not status:
            _load_too(Path(request["answers"], MODULES))
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
