"""Commands whose calls fail, and how many of them held."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator

import pytest

from tests.faults.faulty_commands import FaultyCommands, compiled_shim, faulty_commands

FIGURE = "faults"


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCommands]:
    """Return what runs commands; it loads TensorFlow once."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs Linux and a C compiler: calls fail in a library of C")
    with faulty_commands(compiled_shim(compiler, tmp_path_factory.mktemp("shim"))) as c:
        yield c


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many faults there were and after how many all was well."""
    figures = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
        if name == FIGURE
    ]
    if figures:
        held, faults = (sum(column) for column in zip(*figures, strict=True))
        terminalreporter.write_line(f"faults: all was well after {held} of {faults}")
