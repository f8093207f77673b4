"""Under one name every surface shows one number: they are read as they are printed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from ipu_runtime.engine.watch.observer import Progress
from tests.ui.conftest import MakeApp
from tests.ui.screen_text import screen_text
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.preset_store import list_presets
from workbench.experiment.tables import spec_to_tables
from workbench.headless import main as command_line
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.events import RunStatus
from workbench.runs.run_context import RunContext, RunControl
from workbench.runs.run_observer import RunObserver
from workbench.runs.run_record import RunRecord

EXAMPLES = Path(__file__).parents[2] / "examples"
PRESETS = [item.name for item in list_presets() if item.name != "mnist-cpu"]
OWN = {
    "lstm": """
import keras
def build():
    layers = [keras.Input((20, 8)), keras.layers.LSTM(16), keras.layers.Dense(4)]
    return keras.Sequential(layers)
""",
    "branches": """
import keras
def build():
    start = keras.Input((16, 16, 3))
    one = keras.layers.Conv2D(8, 3, padding="same")(start)
    two = keras.layers.Conv2D(8, 1, padding="same")(start)
    both = keras.layers.Flatten()(keras.layers.Add()([one, two]))
    return keras.Model(start, keras.layers.Dense(10, "softmax")(both))
""",
    "norms": """
import keras
def build():
    layers = [keras.Input((32,)), keras.layers.Dense(64), keras.layers.Dropout(0.1)]
    layers += [keras.layers.LayerNormalization(), keras.layers.Dense(1)]
    return keras.Sequential(layers)
""",
}
SMALL = ("--samples=64", "--batch-size=4", "--epochs=1")
SCRIPTS = {
    "mnist_steps.py": ("replicated", *SMALL),
    "mnist_sequential.py": ("--samples=64",),
    "cifar10_pipeline_estimator.py": SMALL,
}
UNITS = {"us": 1, "ms": 1e3, "s": 1e6, "k": 1e3, "M": 1e6, "%": 0.01, "": 1}
UNITS |= {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
PRINTED = r"(<?)([\d,]*\.?\d+)(?: (us|ms|s|k|M|%|B|KiB|MiB|GiB))?"
MEASURED_MS = 12.0
"""Of a step, in the records of runs."""
Shown = list[tuple[str, str, str]]
"""Surface, name and what it prints."""


def agrees(text: str, number: float) -> bool:
    """Tell whether a printed figure is a number, rounded to the digits it has."""
    found = re.fullmatch(PRINTED, text)
    assert found is not None, text
    unit = UNITS[found[3] or ""]
    if found[1]:
        return 0 < number < unit
    decimals = len(found[2].partition(".")[2])
    half = 0.5 * 10.0**-decimals
    return abs(float(found[2].replace(",", "")) * unit - number) <= 1.001 * half * unit


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """Run a command in this process; return what it prints, results and commentary."""
    arguments = list(words)
    command_line.main(arguments, {}, lambda args: pytest.fail("opened the app"))
    printed = capsys.readouterr()
    return printed.out, printed.err


def found(surface: str, text: str, **patterns: str) -> Shown:
    """Return the figures of a text; each name has to be there."""
    shown = []
    for name, pattern in patterns.items():
        pattern = pattern.replace(
            "#", PRINTED.replace("(", "(?:").replace("?:?:", "?:")
        )
        hits = re.findall(pattern, text, re.MULTILINE)
        assert hits, f"{surface} says nothing of {name}:\n{text}"
        shown += [(surface, name, " ".join(hit.split())) for hit in hits]
    return shown


def of_plan(capsys: pytest.CaptureFixture[str], source: str, piped: bool) -> Shown:
    """Return what `plan` prints as text."""
    text, _ = command(capsys, "plan", source)
    shown = found(
        "plan",
        text,
        ipu_us_per_batch=r"^  per batch +(#)  ",
        samples_per_second=r"^  samples/s +(#)$",
        memory_fraction=r"^  memory +(#)  fullest tile$",
        ipu_step_us=r"^  (?:step|total) +(#)  ",
    )
    if piped:
        shown += found(
            "plan",
            text,
            bubble_fraction=r"bubble: (#) of the cells",
            waiting_fraction=r"waiting: (#) of a step's time",
        )
    return shown


def of_gate(
    capsys: pytest.CaptureFixture[str], source: str, truth: Mapping[str, float]
) -> Shown:
    """Return what gates on every figure say that it is."""
    names = {"memory": "memory_fraction", "sum_over_tiles": "sum_over_tiles_bytes"}
    shown: Shown = []
    for name in ("memory", "sum_over_tiles", *truth):
        if name in names.values():
            continue
        unit = " %" if name == "memory" or name.endswith("fraction") else ""
        _, said = command(capsys, "plan", source, "--fail-if", f"{name} >= 0{unit}")
        text = found("gate", said, **{names.get(name, name): rf"^{name} is (#) \("})
        shown += text
    return shown


def of_sweep(
    capsys: pytest.CaptureFixture[str], source: str, truth: Mapping[str, float]
) -> None:
    """Hold a point of a planned sweep, which is plain data, against the plan."""
    words = ("sweep", source, "--grid", "experiment.seed=1", "--plan-only", "--json")
    text, _ = command(capsys, *words)
    (point,) = (
        row
        for line in text.splitlines()
        if (row := json.loads(line))["event"] == "point"
    )
    both = point["metrics"].keys() & truth.keys()
    assert both == truth.keys() - {"ipu_step_us", "sum_over_tiles_bytes"}
    assert {name: point["metrics"][name] for name in both} == {
        name: truth[name] for name in both
    }


def record(source: str) -> str:
    """Let the observer of every backend write the record of a run of one epoch."""
    loaded = load_experiment(source)
    spec = loaded.spec
    assert spec is not None
    kept = RunRecord.create(spec_to_tables(spec), loaded.preset.name)
    plan = plan_experiment(spec)
    context = RunContext(kept.append, RunControl(), kept.directory, plan)
    observer = RunObserver(context)
    observer.epoch_began()
    logs = {"loss": 0.5, "accuracy": 0.25}
    done = Progress("train", 1, 10, 10, logs, MEASURED_MS, plan.ipu_step_us)
    observer.progressed(done)
    observer.epoch_ended(1, logs)
    kept.finish(RunStatus.FINISHED)
    return kept.run_id


def of_runs(
    capsys: pytest.CaptureFixture[str], first: str, second: str, page: Path
) -> Shown:
    """Return what `runs show`, `runs compare --explain` and `report` print of a run."""
    text, _ = command(capsys, "runs", "show", first)
    row = next(line for line in text.splitlines() if re.match(r" +1 +0\.5 ", line))
    heads = "host_ms_per_batch", "ipu_us_per_batch", "host_samples_per_second"
    cells = re.split(r"  +", row.strip())[3:7]
    shown = [
        ("runs show", name, cell)
        for name, cell in zip((*heads, "samples_per_second"), cells, strict=True)
    ]
    text, _ = command(capsys, "runs", "compare", "--explain", first, second)
    shown += found(
        "runs compare",
        text,
        samples_per_second=r"^samples/s, modelled +(#)",
        host_samples_per_second=r"^samples/s, measured +(#)",
        ipu_us_per_batch=r"^per batch, modelled, us +(#)",
        host_ms_per_batch=r"^per batch, measured, ms +(#)",
    )
    shown += found(
        "explain",
        text,
        ipu_us_per_batch=rf"^{first} .*?  (#)  ",
        samples_per_second=rf"^{first} .*?  #  +(#)  ",
        memory_fraction=rf"^{first} .*?  #  +#  +(#)  ",
    )
    command(capsys, "report", first, "--html", str(page))
    html = unescape(re.sub(r"<[^>]*>", "\n", page.read_text(encoding="utf-8")))
    shown += found(
        "report",
        html,
        ipu_us_per_batch=r"; (#) per batch, ",
        samples_per_second=r" per batch, (#) samples/s; ",
        memory_fraction=r"memory (#) \(fullest tile\)",
        ipu_step_us=r"A step takes (#), modelled",
    )
    return shown


async def of_app(make_app: MakeApp, source: str, piped: bool) -> Shown:
    """Return what the areas of the app show."""
    app = make_app(preset="" if source.endswith(".toml") else source)
    texts: dict[str, str] = {}
    async with app.run_test(size=(200, 80)) as pilot:
        if source.endswith(".toml"):
            assert await app.experiment.load(source)
            await pilot.pause()
        for key, area in (("1", "start"), ("2", "configure"), ("3", "stages")):
            await pilot.press(key)
            await pilot.pause()
            texts[area] = screen_text(app)
        await pilot.press("6")
        await pilot.pause()
        report = screen_text(app)
    shown: Shown = []
    for area in ("start", "configure"):
        shown += found(
            area,
            texts[area],
            ipu_us_per_batch=r"per batch +(#)  ",
            samples_per_second=r"samples/s +(#)  ",
            memory_fraction=r"memory +(#)  ",
            bubble_fraction=r"bubble +(#)  ",
        )
    shown += found(
        "stages",
        texts["stages"],
        ipu_us_per_batch=r"modelled (#) per batch",
        samples_per_second=r"per batch +(#) samples/s",
        memory_fraction=r"samples/s.*  memory (#)  ",
    )
    shown += found(
        "report area",
        report,
        ipu_us_per_batch=r"per batch (#)   samples/s",
        samples_per_second=r"samples/s (#)  ",
        ipu_step_us=r"│ step +(#) │",
    )
    if piped:
        shown += found(
            "report area", report, waiting_fraction=r"│ waiting .*?(<?\d+ %)"
        )
    return shown


def figures(capsys: pytest.CaptureFixture[str], source: str) -> dict[str, Any]:
    """Return what `plan --json` prints, whose definitions hold among themselves."""
    text, _ = command(capsys, "plan", source, "--json")
    row: dict[str, Any] = json.loads(text)
    parts, size = row["step_parts_us"], row["request"]["batch_size"]
    step, tiles = row["ipu_step_us"], row["memory"]
    assert step == pytest.approx(sum(parts.values()))
    assert row["ipu_us_per_batch"] == pytest.approx(step / row["replicas"])
    per_sample = row["ipu_us_per_batch"] / size
    assert row["samples_per_second"] == pytest.approx(1e6 / per_sample)
    assert row["waiting_fraction"] == pytest.approx(parts["waiting_us"] / step)
    shares = (
        tile["fullest_tile_bytes"] / tile["tile_capacity_bytes"] for tile in tiles
    )
    assert row["memory_fraction"] == pytest.approx(max(shares))
    assert row["sum_over_tiles_bytes"] == max(tile["used_bytes"] for tile in tiles)
    return row


NAMES = (
    "samples_per_second",
    "ipu_us_per_batch",
    "ipu_step_us",
    "memory_fraction",
    "sum_over_tiles_bytes",
    "bubble_fraction",
    "waiting_fraction",
)


async def hold(
    capsys: pytest.CaptureFixture[str], make_app: MakeApp, source: str, page: Path
) -> None:
    """Hold every surface against `plan --json`."""
    row = figures(capsys, source)
    truth = {name: float(row[name]) for name in NAMES}
    piped = "schedule" in row
    shown = of_plan(capsys, source, piped)
    shown += of_gate(capsys, source, truth)
    of_sweep(capsys, source, truth)
    shown += of_runs(capsys, record(source), record(source), page)
    shown += await of_app(make_app, source, piped)
    measured = MEASURED_MS / row["replicas"]
    rate = row["request"]["batch_size"] / measured * 1e3
    truth |= {"host_ms_per_batch": measured, "host_samples_per_second": rate}
    wrong = [
        f"{surface}: {name} {text}, not {truth[name]:.6g}"
        for surface, name, text in shown
        if not agrees(text, truth[name])
    ]
    assert not wrong, "\n".join(wrong)


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


@pytest.mark.parametrize("preset", PRESETS)
async def test_presets_have_one_number_under_a_name(
    preset: str, capsys: pytest.CaptureFixture[str], make_app: MakeApp, tmp_path: Path
) -> None:
    await hold(capsys, make_app, preset, tmp_path / "page.html")


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
async def test_own_models_have_one_number_under_a_name(
    name: str, capsys: pytest.CaptureFixture[str], make_app: MakeApp, tmp_path: Path
) -> None:
    (tmp_path / f"{name}.py").write_text(OWN[name], encoding="utf-8")
    file = tmp_path / f"{name}.toml"
    source = f"{tmp_path / name}.py:build"
    command(capsys, "import", source, "--trust", "--output", str(file))
    await hold(capsys, make_app, str(file), tmp_path / "page.html")


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
async def test_captured_scripts_have_one_number_under_a_name(
    script: str, capsys: pytest.CaptureFixture[str], make_app: MakeApp, tmp_path: Path
) -> None:
    file = tmp_path / "captured.toml"
    words = (str(EXAMPLES / script), *SCRIPTS[script])
    command(capsys, "capture", *words, "--output", str(file))
    await hold(capsys, make_app, str(file), tmp_path / "page.html")
