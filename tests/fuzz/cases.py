"""How many cases there are, and what every case must end in.

`make test` tries a few cases of every property, always the same ones; `make fuzz`
tries about 10,000 new ones. IPU_WORKBENCH_FUZZ chooses: `test` or `fuzz`.
"""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from types import FrameType

from hypothesis import HealthCheck, Phase, settings

from workbench.headless.exit_codes import ExitCode
from workbench.headless.main import main

_LONGEST_S = 30
"""No case takes a tenth of it; a loaded machine may."""
_COMMON = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    # Looking for the smallest case takes longer than finding one.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
settings.register_profile(
    "test", _COMMON, max_examples=15, derandomize=True, database=None
)
settings.register_profile("fuzz", _COMMON, max_examples=400)
cases = settings.get_profile(os.environ.get("IPU_WORKBENCH_FUZZ", "test"))
"""Decorates every property."""


@dataclass(frozen=True)
class Outcome:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


class Hang(BaseException):
    """A case took so long that it would never have ended."""


def command(*arguments: str, environment: Mapping[str, str] | None = None) -> Outcome:
    """Run a command in this process and check that it ended as commands may end."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), in_time():
        try:
            code = main(list(arguments), environment or {}, _no_app)
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
    outcome = Outcome(code, out.getvalue(), err.getvalue())
    assert code in set(ExitCode), outcome
    # What does not fit is part of the plan's own text.
    said = outcome.err + (outcome.out if code == ExitCode.NO_FIT else "")
    assert code == ExitCode.DONE or said.strip(), outcome
    assert_harmless(outcome.out + outcome.err)
    return outcome


def assert_harmless(text: str) -> None:
    """Check that a terminal would show a text and do nothing else."""
    wrong = {c for c in text if (c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f"}
    assert not wrong, f"{wrong} in {text!r}"


@contextmanager
def in_time(seconds: int = _LONGEST_S) -> Iterator[None]:
    """Fail what hangs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(number: int, frame: FrameType | None) -> None:
        raise Hang(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _no_app(*, theme: str | None, ascii_only: bool) -> int:
    raise AssertionError("no command opens the app")
