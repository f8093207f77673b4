"""How the app feels: time to the first frame, and how free it is while training."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.figure import Figure
from bench.side_by_side import of_samples, ratio

AREA = "app"
_PROBE_S = 0.005
_IMPORTS = {
    "empty": "from textual.app import App",
    "ours": "from workbench.ui.app import WorkbenchApp as App",
}
# Textual sends Ready when the first frame has been displayed.
_FIRST_FRAME = """
class Leaving(App):
    def on_ready(self):
        self.exit()
Leaving().run(headless=True, size=(120, 40))
"""
_ALL_SHOWN = """
async def leave(pilot):
    await pilot.pause()
    pilot.app.exit()
App().run(headless=True, size=(120, 40), auto_pilot=leave)
"""


def measure(quick: bool) -> Iterator[Figure]:
    """Yield the figures of the app, without a terminal."""
    rounds = 4 if quick else 11
    yield _opening("first frame", _FIRST_FRAME, rounds, limit=2.5)
    yield _opening("first plan shown", _ALL_SHOWN, rounds, limit=None)
    with tempfile.TemporaryDirectory() as home:
        os.environ["IPU_WORKBENCH_HOME"] = home
        gaps, busy, repaints = asyncio.run(_while_training())
    yield of_samples(
        AREA,
        "longest gap of the event loop while mnist-dense trains",
        [max(gaps)],
        "ms",
        limit=100.0,
        note=f"{len(gaps):,} probes, the loop computes for at most {busy:.0f} ms",
    )
    yield of_samples(AREA, "key to repaint while it trains", repaints, "ms")


def _opening(name: str, program: str, rounds: int, limit: float | None) -> Figure:
    return ratio(
        AREA,
        f"{name} against an empty Textual app",
        lambda: _open(_IMPORTS["ours"] + program),
        lambda: _open(_IMPORTS["empty"] + program),
        rounds=rounds,
        limit=limit,
    )


def _open(program: str) -> None:
    """Start an app in a process of its own, which leaves it by itself."""
    with tempfile.TemporaryDirectory() as home:
        subprocess.run(
            (sys.executable, "-c", program),
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "IPU_WORKBENCH_HOME": str(Path(home))},
        )


async def _while_training() -> tuple[list[float], float, list[float]]:
    """Train `mnist-dense` in the app.

    Return the gaps of the loop, the most that it computed in one, and key times, in ms.
    """
    from workbench.ui.app import WorkbenchApp
    from workbench.ui.app_options import AppOptions

    app = WorkbenchApp(AppOptions(preset="mnist-dense"))
    gaps: list[float] = []
    busy: list[float] = []
    repaints: list[float] = []
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f5")
        await _until(pilot, lambda: _training(app))
        probe = asyncio.create_task(_probe(app, gaps, busy))
        while _training(app):
            repaints.append(await _key_time(app))
        await probe
    return gaps, max(busy), repaints


def _training(app: Any) -> bool:
    run = app.runs.active
    return run is not None and run.view.progress is not None


async def _until(pilot: Any, condition: Callable[[], object]) -> None:
    while not condition():
        await pilot.pause(0.02)


async def _probe(app: Any, gaps: list[float], busy: list[float]) -> None:
    while _training(app):
        began, used = time.perf_counter(), time.thread_time()
        await asyncio.sleep(_PROBE_S)
        gaps.append((time.perf_counter() - began - _PROBE_S) * 1e3)
        # The rest of a gap is the wait for a processor or for the training.
        busy.append((time.thread_time() - used) * 1e3)


async def _key_time(app: Any) -> float:
    """Return the time from a key to the end of the repaint that follows it, in ms."""
    repainted = asyncio.Event()
    began = time.perf_counter()
    app.simulate_key("m")
    app.call_after_refresh(repainted.set)
    await repainted.wait()
    took = (time.perf_counter() - began) * 1e3
    await asyncio.sleep(0.2)
    return took
