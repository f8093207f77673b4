"""Start of the `ipu-workbench` command."""

from __future__ import annotations

# What signal itself is made of: signal loads ten modules, and ctrl+c may come then.
import _signal as signal  # type: ignore[import-not-found]
import gc
import os
import sys

# As typing has it, which is still to be loaded when ctrl+c may come.
TYPE_CHECKING = False


def _leave(number: int, frame: object) -> None:
    """Leave at once: nothing has begun yet, so nothing is to be kept."""
    if sys.stderr is not None:
        os.write(2, b"interrupted\n")
    os._exit(130)


_is_worker = "multiprocessing.spawn" in sys.modules
if signal.getsignal(signal.SIGINT) is signal.default_int_handler and not _is_worker:
    # Until everything is loaded, ctrl+c would end in the middle of an import.
    signal.signal(signal.SIGINT, _leave)

if TYPE_CHECKING:
    from workbench.scripts.script_command import ScriptCommand


def main() -> None:
    """Run the command line and exit with its code."""
    _open_streams()
    # Modules and plans are no garbage; looking through them every 700 objects takes
    # one part in twelve of a command's time.
    gc.set_threshold(20_000)
    # Late, so that ctrl+c while they load is one line; the environment comes first.
    from ipu_runtime.system.environment import prepare_environment

    prepare_environment()
    from workbench.headless.main import load_commands
    from workbench.headless.main import main as run_command_line

    load_commands(sys.argv[1:])
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(run_command_line(sys.argv[1:], os.environ, _open_app))


def _open_streams() -> None:
    """Let every text be written, whatever the locale, and even to closed streams.

    A descriptor that is closed would be the next file's, and that file would get what
    libraries print.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            # The lowest that is free, which is this one.
            os.open(os.devnull, os.O_RDWR)
            mode = "w" if descriptor else "r"
            stream = open(descriptor, mode, encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, stream)
        if descriptor:
            stream.reconfigure(errors="replace")


def _open_app(
    *, theme: str | None, ascii_only: bool, script: ScriptCommand | None = None
) -> int:
    # Late, because no command needs Textual.
    from workbench.ui.launch import run_app

    return run_app(theme=theme, ascii_only=ascii_only, script=script)


if __name__ == "__main__":
    main()
