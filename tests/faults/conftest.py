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
    """Print how many faults there were and after how many all was well, by command."""
    figures: dict[str, list[int]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for key, value in getattr(report, "user_properties", ()):
                if key == FIGURE and report.when == "call":
                    name, held, faults, states = value
                    row = figures.setdefault(name, [0, 0, 0])
                    row[0] += held
                    row[1] += faults
                    # Those of the last one are those of all with this command.
                    row[2] = max(row[2], states)
    if figures:
        figures["all"] = [sum(column) for column in zip(*figures.values(), strict=True)]
    for name, (held, faults, states) in figures.items():
        terminalreporter.write_line(
            f"faults: {name}: all was well after {held} of {faults}, "
            f"which left {states} states to go on from"
        )
