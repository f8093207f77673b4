"""`ipu-workbench validate`: every published figure beside the model's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from workbench.headless.main import main


def _run(*arguments: str) -> int:
    return main(("validate", *arguments), {}, lambda **_: 0)


def _rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert _run("--json") == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_every_figure_has_a_row_with_its_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    *rows, last = _rows(capsys)
    assert Counter(row["event"] for row in rows) == {
        "throughput": 31,
        "ratio": 9,
        "memory": 6,
        "cycles": 8,
        "fitted": 4,
        "not_planned": 5,
    }
    assert all(
        row["error"] == pytest.approx(row["modelled"] / row["published"] - 1)
        for row in rows
        if row.get("error") is not None
    )
    sourced = {"throughput", "memory", "cycles", "fitted"}
    assert all(row["source"] for row in rows if row["event"] in sourced)
    held = [row["held"] for row in rows if row["event"] == "throughput"]
    assert last["event"] == "validated"
    assert last["held"] == sum(held)
    assert last["coverage"] == sum(held) / len(held) >= last["stated_coverage"]


def test_a_row_is_held_by_the_band_that_is_made_without_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [row for row in _rows(capsys) if row["event"] == "throughput"]
    for row in rows:
        band = row["band_without_it"]
        assert row["held"] == (band["low"] <= row["published"] <= band["high"])
        assert row["band"]["low"] < row["modelled"] < row["band"]["high"]


def test_the_text_says_what_the_rows_come_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    last = _rows(capsys)[-1]
    assert _run() == 0
    text = " ".join(capsys.readouterr().out.split())
    percent = f"{last['root_mean_square'] * 100:.1f} %"
    assert f"31 rows: {percent} off (root mean square)" in text
    assert f"{last['held']} of 31 lie in it" in text
    assert "for memory no coverage is stated" in text


@pytest.mark.parametrize("width", [80, 100])
def test_no_line_is_wider_than_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    assert _run() == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    (head,) = [line for line in lines if "framework" in line]
    assert ("batch" in head) == (width == 100)


def _with_hardware(
    path: Path, home: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "workbench", "validate", *options),
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "IPU_WORKBENCH_HARDWARE": str(path),
            "IPU_WORKBENCH_HOME": str(home),
        },
    )


@pytest.mark.slow
def test_hardware_of_the_users_own_is_what_is_held_against(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text("[constants.sigma]\nvalue = 100.0\n")
    found = _with_hardware(path, tmp_path, "--json")
    assert found.returncode == 0
    assert f"with the hardware of {path}" in found.stderr
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    errors = {row["name"]: row["error"] for row in rows if row["event"] == "throughput"}
    assert errors["bert-bow16-tf2"] > 0.1
    # Its own rows ask for another width than that of plan --band.
    assert rows[-1]["band_width_of_rows"] > 1.1 * rows[-1]["band_width"]
    assert rows[-1]["held_in_band"] < 0.9 * 31


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[systems.Bow-Pod16]\nipus = 2\n", "bert-bow16-tf2"),
        ("[constants.sigma]\nvalue = 'much'\n", "constants.sigma.value"),
    ],
)
def test_hardware_that_cannot_be_planned_is_named(
    tmp_path: Path, text: str, wanted: str
) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(text)
    found = _with_hardware(path, tmp_path)
    assert found.returncode == 2
    assert wanted in found.stderr
    assert "Traceback" not in found.stderr
    assert found.stdout == ""
