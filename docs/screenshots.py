"""Makes the pictures of the README: `make screenshots`.

The runs are real ones on a part of MNIST, so measured times are those of the machine.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from pathlib import Path

from textual.pilot import Pilot

from workbench.settings import load_settings
from workbench.ui.app import WorkbenchApp
from workbench.ui.app_options import AppOptions

IMAGES = Path(__file__).parent / "images"
SIZE = (120, 40)
_PART_OF_MNIST = {
    "data.train_samples": 12288,
    "data.test_samples": 1024,
    "train.learning_rate": 0.02,
}
_WEB_FONT = re.compile(r"@font-face\s*\{.*?\}", re.DOTALL)


def save(app: WorkbenchApp, name: str) -> None:
    """Write the screen without anything that has to be fetched from elsewhere."""
    svg = _WEB_FONT.sub("", app.export_screenshot(title="ipu-workbench"))
    svg = svg.replace("font-family: Fira Code", "font-family: 'Fira Code'")
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / f"{name}.svg").write_text(svg, encoding="utf-8")


async def run_to_the_end(
    app: WorkbenchApp, pilot: Pilot[None], picture: str = ""
) -> None:
    """Start the experiment; take a picture in the middle if asked for."""
    await pilot.press("f5")
    run = app.runs.started[-1]
    while run.view.live:
        await pilot.pause(0.1)
        if picture and run.view.fraction > 0.6:
            app.main.area.refresh_area()
            await pilot.pause()
            save(app, picture)
            picture = ""
    if run.view.message:
        raise SystemExit(run.view.message)
    app.runs.look()
    await app.workers.wait_for_complete()


async def make_pictures() -> None:
    """Go through the areas."""
    app = WorkbenchApp(AppOptions(settings=load_settings()))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        save(app, "start")
        app.session.draft.set(_PART_OF_MNIST)
        await run_to_the_end(app, pilot, "run")
        save(app, "finished")
        app.session.draft.set({"train.learning_rate": 0.05})
        await run_to_the_end(app, pilot)
        app.session.draft.set({"pipeline.schedule": "Interleaved"})
        await run_to_the_end(app, pilot)
        runs = app.runs
        app.handlers.marked.keys[:] = [run.run_id for run in reversed(runs.records)]
        await pilot.press("5")
        await pilot.pause()
        save(app, "compare")
        await pilot.press("2", "o")
        await pilot.pause()
        save(app, "changed")
        await pilot.press("o", "R")
        app.session.draft.set_text("execution.gradient_accumulation", "6")
        await pilot.press(*["down"] * 22)
        await pilot.pause()
        save(app, "configure")
        await pilot.press("f", "3", "b")
        await app.workers.wait_for_complete()
        await pilot.pause()
        save(app, "stages")
        await pilot.press("k")
        await pilot.pause()
        save(app, "schedules")
        await pilot.press("escape", "6")
        await pilot.pause()
        save(app, "report")
        await pilot.press("7")
        await pilot.pause()
        save(app, "script")
        app.theme = "workbench-light"
        await pilot.press("3")
        await pilot.pause()
        save(app, "light")


def main() -> None:
    """Make all pictures in a home directory of their own."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with tempfile.TemporaryDirectory() as home:
        os.environ["IPU_WORKBENCH_HOME"] = home
        asyncio.run(make_pictures())


if __name__ == "__main__":
    main()
