"""Traces that a script writes with `libpvti`, switched on by the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import sys
import libpvti as pvti

assert "tensorflow" not in sys.modules
channel = pvti.createTraceChannel("application")
other = pvti.createTraceChannel("other")
with pvti.Tracepoint(channel, "outer"):
    pvti.Tracepoint.begin(channel, "inner")
    pvti.Tracepoint.event(channel, "moment")
    pvti.Tracepoint.end(channel, "inner")
    pvti.Tracepoint.event(other, "elsewhere")

class Worker:
    def work(self, n):
        return n + 1

worker = Worker()
pvti.instrument(worker, ["work"], channel)
assert worker.work(1) == 2
pvti.disableTraceChannel(channel)
pvti.Tracepoint.event(channel, "silent")
series = pvti.Graph("loss", "%").addSeries("training")
series.add(0.5)
pvti.HeatmapDouble("weights", [0, 1, 10], "2^x").add([0.5, 0.7, 2, 10, -1])
print(pvti.getCurrentTraceFilename())
print(pvti.listTraceChannel())
"""


def _traced(tmp_path: Path, options: str | None) -> list[str]:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    environment.pop("PVTI_OPTIONS", None)
    if options is not None:
        environment["PVTI_OPTIONS"] = options
    result = subprocess.run(
        [sys.executable, "-m", "ipu_runtime", "script.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.splitlines()


def _events(file: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return events


def test_a_trace_holds_what_happened_in_order(tmp_path: Path) -> None:
    options = json.dumps({"enable": "true", "directory": "reports"})
    name, channels = _traced(tmp_path, options)
    (file,) = (tmp_path / "reports").iterdir()
    assert name == os.path.join("reports", file.name)
    events = _events(file)
    assert [(event["ph"], event["name"]) for event in events] == [
        ("B", "outer"),
        ("B", "inner"),
        ("i", "moment"),
        ("E", "inner"),
        ("i", "elsewhere"),
        ("E", "outer"),
        ("B", "Worker.work"),
        ("E", "Worker.work"),
        ("C", "loss (%)"),
        ("C", "weights (2^x)"),
    ]
    times = [event["ts"] for event in events]
    assert times == sorted(times)
    assert events[0]["cat"] == "application"
    assert events[-2]["args"] == {"training": 0.5}
    assert events[-1]["args"] == {"0 to 1": 2, "1 to 10": 1}
    assert "['application', False], ['other', True]" in channels


def test_options_that_cannot_be_read_mean_defaults(tmp_path: Path) -> None:
    _traced(tmp_path, "yes")
    (file,) = tmp_path.glob("*.json")
    assert len(_events(file)) == 10


@pytest.mark.parametrize("options", [None, '{"enable": false}'])
def test_nothing_is_written_unless_asked_for(
    tmp_path: Path, options: str | None
) -> None:
    name, channels = _traced(tmp_path, options)
    assert name == ""
    assert "True" not in channels
    assert not list(tmp_path.glob("*.json"))


def test_channels_can_be_chosen(tmp_path: Path) -> None:
    _traced(tmp_path, '{"channels": ["other"]}')
    (file,) = tmp_path.glob("*.json")
    marked = [event["name"] for event in _events(file) if event["ph"] != "C"]
    assert marked == ["elsewhere"]
