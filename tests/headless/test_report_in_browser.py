"""Reports in a real browser: drawn, in light and dark, and complete in print."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.experiment.preset_store import load_preset
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.validation import validate
from workbench.runs.events import EpochEnded, Progressed, RunStatus
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import open_run
from workbench.views.run import report_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=900,3000",
)
Browser = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        command = [str(CHROMIUM), *FLAGS, profile, *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=120
        )

    return call


@pytest.fixture
def page(tmp_path: Path) -> str:
    spec, _ = validate(load_preset("mnist-ipu-pipelined").tables)
    assert spec is not None
    record = RunRecord.create(spec_to_tables(spec), "mnist-ipu-pipelined")
    for epoch in (1, 2, 3):
        for step in range(8, 120, 8):
            loss = 2.0 / (epoch + step / 117)
            record.append(Progressed(epoch, step, 117, loss, 0.5, 3.0, 222.0))
        record.append(EpochEnded(epoch, 2.0 / epoch, 0.6, 3.0, 222.0, 1.5))
    record.finish(RunStatus.FINISHED)
    file = tmp_path / "report.html"
    file.write_text(report_page(open_run(record.run_id)))
    return file.as_uri()


def _pixels(path: Path) -> Any:
    """Return a picture as an array of rows, columns and colours."""
    import tensorflow as tf

    return tf.io.decode_png(path.read_bytes(), channels=3).numpy()


@pytest.mark.parametrize(
    ("scheme", "ground"), [("1", (255, 255, 255)), ("0", (20, 23, 27))]
)
def test_it_is_drawn_in_light_and_in_dark(
    browser: Browser,
    page: str,
    tmp_path: Path,
    scheme: str,
    ground: tuple[int, int, int],
) -> None:
    picture = tmp_path / "picture.png"

    browser(
        f"--blink-settings=preferredColorScheme={scheme}",
        f"--screenshot={picture}",
        page,
    )

    pixels = _pixels(picture)
    assert tuple(pixels[2, 2]) == ground
    colours = {tuple(colour) for colour in pixels.reshape(-1, 3)[::7].tolist()}
    # Text is smoothed, and curves, bars and rules each bring a colour.
    assert len(colours) > 30
    written = (pixels != pixels[2, 2]).any(axis=2)
    assert not written[:, :10].any()
    assert not written[:, -10:].any(), "something is wider than the page"


def test_the_browser_reads_it_as_it_was_meant(browser: Browser, page: str) -> None:
    done = browser("--dump-dom", page)

    drawn = done.stdout
    assert drawn.count("<polyline") >= 3
    headings = re.findall(r"<h2>([^<]*)<", drawn)
    assert headings == [
        "Epochs",
        "Curves",
        "Plan",
        "Modelled figures",
        "Where a step's time goes",
        "Memory of a replica's IPUs",
        "Stages",
        "Timeline of one pipeline run",
        "What would help",
        "Problems",
        "Memory over the program of IPU 0, fullest of 2",
        "All settings",
    ]
    assert drawn.count("<title>IPU 0, stage 0: forward of micro-batch") == 8
    assert "Refused to" not in done.stderr


def test_it_prints_on_a_few_pages(browser: Browser, page: str, tmp_path: Path) -> None:
    printed = tmp_path / "report.pdf"

    browser(f"--print-to-pdf={printed}", "--no-pdf-header-footer", page)

    content = printed.read_bytes()
    pages = re.findall(rb"/Type /Page\b", content)
    assert 2 <= len(pages) <= 6
