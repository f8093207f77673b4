"""Let processes that a script starts with `multiprocessing` find the emulator too."""

from __future__ import annotations

from typing import Any

from ipu_runtime.frameworks.patching import Patch, around
from ipu_runtime.installing.install import install
from ipu_runtime.system.environment import prepare_environment

_KEY = "ipu_runtime"


def reach_spawned() -> None:
    """Send the emulator along with what every new process is prepared with.

    A spawned process is a new Python that runs the script's module again, so that
    nothing of this one is there. It ignores keys that it does not know, but unpickles
    them first.
    """
    # Most scripts start no process.
    from multiprocessing import spawn

    Patch(spawn, "get_preparation_data", around(_with_emulator)).install()


def _with_emulator(original: Any, name: str) -> dict[str, Any]:
    return {**original(name), _KEY: _Installer()}


class _Installer:
    """Becomes the installed emulator where it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return install_in_spawned, ()


def install_in_spawned() -> None:
    """Install the emulator in a new process, and let those it starts have it too."""
    prepare_environment()
    install()
    reach_spawned()
