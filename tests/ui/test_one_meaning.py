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
UNNAMED = PRINTED.replace("(", "(?:").replace("?:?:", "?:")
TIME, BYTES, SHARE = r"[\d,.]+ [mu]?s", r"[\d,.]+ [KMG]?i?B", r"<?\d+ %"
LONG = rf"{TIME}|\d+ min \d+ s"
BAR = "[█▉▊▋▌▍▎▏]*"
PEAK = {
    "peak_bytes": "sum over tiles (#), of it #",
    "always_live_bytes": ", of it (#) always live; ",
}
MEASURED_MS = 12.0
"""Of a step, in the records of runs."""
Shown = list[tuple[str, str, str]]
"""Surface, name and what it prints."""


def agrees(text: str, number: float) -> bool:
    """Tell whether a printed figure is a number, rounded to the digits it has."""
    if long := re.fullmatch(r"(\d+) min (\d+) s", text):
        return abs(60 * int(long[1]) + int(long[2]) - number / 1e6) <= 0.5
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
        hits = re.findall(pattern.replace("#", UNNAMED), text, re.MULTILINE)
        assert hits, f"{surface} says nothing of {name}:\n{text}"
        shown += [(surface, name, " ".join(hit.split())) for hit in hits]
    return shown


def seen(surface: str, text: str, patterns: Mapping[str, str]) -> Shown:
    """Return the same of names for which a surface need not have room."""
    return [
        item
        for name, pattern in patterns.items()
        if re.search(pattern.replace("#", UNNAMED), text, re.MULTILINE)
        for item in found(surface, text, **{name: pattern})
    ]


def of_plan(
    capsys: pytest.CaptureFixture[str],
    source: str,
    piped: bool,
    truth: Mapping[str, float],
) -> Shown:
    """Return what `plan` prints as text."""
    text, _ = command(capsys, "plan", source, "--memory")
    shown = found(
        "plan",
        text,
        ipu_us_per_batch=r"^  per batch +(#)  ",
        samples_per_second=r"^  samples/s +(#)$",
        memory_fraction=r"^  memory +(#)  fullest tile$",
        ipu_step_us=r"^  (?:step|total) +(#)  ",
        epoch_us=rf"^  epoch +({LONG})  ",
        compile_us=rf"^  compilation +({LONG})  ",
        **{name: rf"^  {part} +(#) +#  " for part, name in parts(truth)},
        **of_ipus(truth, rf"^ +NUMBER  +(bytes)  +{BYTES}  +(full)  "),
    )
    shown += found("plan", " ".join(text.split()), **PEAK)
    if piped:
        shown += found(
            "plan",
            text,
            bubble_fraction=r"bubble: (#) of the cells",
            waiting_fraction=r"waiting: (#) of a step's time",
            stage_imbalance=r"slowest is (#) times the mean",
        )
    times = rf"  +({TIME})  +({TIME})  "
    for name in timed_rows(truth):
        row = rf"^  {name[6:]}  +\S+  +\S+  +[\d,]+"
        if not name.startswith("layer_"):
            row = rf"^ +{name[5:]} +\d+"
        shown += of_passes("plan", text, name, row + times)
    return shown


def parts(truth: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return the parts of a step that take time, with the names of their figures."""
    names = [name for name, value in truth.items() if name.startswith("part_") if value]
    return [(name[5:-3], name) for name in names]


def of_ipus(truth: Mapping[str, float], row: str) -> dict[str, str]:
    """Return how the sum over tiles and the fullest tile stand in rows of IPUs."""
    patterns = {}
    for name in truth:
        if found := re.fullmatch(r"ipu(\d+)_(bytes|full)", name):
            other = row.replace("NUMBER", found[1]).replace(f"({found[2]})", "(@)")
            other = other.replace("(bytes)", BYTES).replace("(full)", SHARE)
            own = BYTES if found[2] == "bytes" else SHARE
            patterns[name] = other.replace("@", own)
    return patterns


def timed_rows(truth: Mapping[str, float]) -> list[str]:
    """Return the names of layers and stages, whose passes have times."""
    ending = "_forward_us"
    return [name.removesuffix(ending) for name in truth if name.endswith(ending)]


def of_passes(surface: str, text: str, name: str, row: str, unit: str = "") -> Shown:
    """Return the times forward and backward of a row, if it is there."""
    return [
        (surface, f"{name}_{way}_us", f"{time}{unit}")
        for hit in re.findall(row.replace("#", UNNAMED), text, re.MULTILINE)
        for way, time in zip(("forward", "backward"), hit, strict=True)
    ]


def of_gate(
    capsys: pytest.CaptureFixture[str], source: str, truth: Mapping[str, float]
) -> Shown:
    """Return what gates on every figure say that it is."""
    names = {"memory": "memory_fraction", "sum_over_tiles": "sum_over_tiles_bytes"}
    names["compile_s"] = "compile_us"
    shown: Shown = []
    for name in ("memory", "sum_over_tiles", "compile_s", *NAMES):
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
    assert both == {*NAMES} - {"ipu_step_us", "sum_over_tiles_bytes"}
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
    capsys: pytest.CaptureFixture[str],
    first: str,
    second: str,
    page: Path,
    truth: Mapping[str, float],
) -> Shown:
    """Return what `runs show`, `runs compare --explain` and `report` print of a run."""
    text, _ = command(capsys, "runs", "show", first)
    row = next(line for line in text.splitlines() if re.match(r" +1 +0\.50", line))
    heads = "host_us_per_batch", "ipu_us_per_batch", "host_samples_per_second"
    cells = re.split(r"  +", row.strip())[3:7]
    shown = [
        ("runs show", name, cell)
        for name, cell in zip((*heads, "samples_per_second"), cells, strict=True)
    ]
    text, _ = command(capsys, "runs", "compare", "--explain", first, second)
    shown += found(
        "runs compare",
        text,
        samples_per_second=r"^ +samples/s, modelled +(#)",
        host_samples_per_second=r"^ +samples/s, measured +(#)",
        ipu_us_per_batch=r"^ +per batch, modelled, us +(#)",
        host_ms_per_batch=r"^ +per batch, measured, ms +(#)",
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
    html = re.sub(r"\s*\n\s*", "\n", html)
    shown += found(
        "report",
        html,
        ipu_us_per_batch=r"^per batch(?:, modelled)?\n+(#)$",
        samples_per_second=r"^samples/s(?:, modelled)?\n+(#)$",
        memory_fraction=r"memory (#) \(fullest tile\)",
        ipu_step_us=r"^(?:step|total)\n+(#)$",
        compile_us=rf"^compilation\n({LONG})$",
        **PEAK,
        **{name: rf"^{part}\n(#)\n#\n" for part, name in parts(truth)},
        **of_ipus(truth, rf"^NUMBER\n(bytes)\n{BYTES}\n(full)\n"),
    )
    for name in timed_rows(truth):
        row = rf"^{name[5:]}\n\d+\n({TIME})\n({TIME})\n"
        if name.startswith("layer_"):
            row = rf"^{name[6:]}\n\S+\n\S+\n[\d,]+\n({TIME})\n({TIME})\n"
        shown += of_passes("report", html, name, row)
    return shown


async def of_app(
    make_app: MakeApp, source: str, piped: bool, truth: Mapping[str, float]
) -> Shown:
    """Return what the areas of the app show, Compare of the two runs in its list."""
    app = make_app(preset="" if source.endswith(".toml") else source)
    texts: dict[str, str] = {}
    async with app.run_test(size=(200, 80)) as pilot:
        if source.endswith(".toml"):
            assert await app.handlers.load(source)
            await pilot.pause()
        for key, area in (("1", "start"), ("2", "configure"), ("3", "stages")):
            await pilot.press(key)
            await pilot.pause()
            texts[area] = screen_text(app)
        await pilot.press("6")
        await pilot.pause()
        report = screen_text(app)
        for key in ("1", "tab", "space", "down", "space", "5"):
            await pilot.press(key)
            await pilot.pause()
        compared = screen_text(app)
    shown: Shown = []
    part = {name: rf"│ {each} +(#) +# +{BAR}" for each, name in parts(truth)}
    memory = rf"│ +NUMBER +(bytes)(?: +{BYTES})? +(full) "
    for area in ("start", "configure"):
        shown += found(
            area,
            texts[area],
            ipu_us_per_batch=r"per batch +(#)  ",
            samples_per_second=r"samples/s +(#)  ",
            memory_fraction=r"memory +(#)  ",
            **({"bubble_fraction": r"bubble +(#)  "} if piped else {}),
            epoch_us=rf"epoch +({LONG})  ",
            compile_us=rf"compilation +({LONG}) ",
            **part,
        )
        shown += seen(area, texts[area], of_ipus(truth, memory))
    shown += found(
        "compare",
        compared,
        samples_per_second=r"samples/s, modelled +(#)",
        host_samples_per_second=r"samples/s, measured +(#)",
        ipu_us_per_batch=r"per batch, modelled, us +(#)",
        host_ms_per_batch=r"per batch, measured, ms +(#)",
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
        ipu_us_per_batch=r"│ per batch +(#)  ",
        samples_per_second=r"│ samples/s +(#)  ",
        memory_fraction=r"│ memory +(#)  ",
        ipu_step_us=r"│ (?:step|total) +(#)  ",
        **part,
    )
    panel = (row.rpartition("││")[2].strip("│ ") for row in report.splitlines())
    (peak,) = found("report area", " ".join(panel), ipu0_bytes=PEAK["peak_bytes"])
    shown.append(peak)
    for name, ending in (("bytes", "sum over tiles"), ("full", "fullest tile")):
        (columns,) = re.findall(rf"│ {ending}  +(\S.*?) +│$", report, re.MULTILINE)
        shown += [
            ("report area", f"ipu{ipu}_{name}", text)
            for ipu, text in enumerate(re.split("  +", columns))
        ]
    for name in timed_rows(truth):
        row = rf"stage {name[5:]} .*fwd {BAR} +(#)  bwd {BAR} +(#) "
        if name.startswith("layer_"):
            row = rf" {name[6:]} +[A-Z]\S+ +\S+ +\S+ +(#) +(#) +{BYTES} "
        shown += of_passes("stages", texts["stages"], name, row, " us")
    if piped:
        shown += found("stages", texts["stages"], stage_imbalance=r"balance (#) ")
        shown += found(
            "report area", report, waiting_fraction=r"│ waiting .*?(<?\d+ %)"
        )
    return shown


def figures(capsys: pytest.CaptureFixture[str], source: str) -> dict[str, Any]:
    """Return what `plan --json` prints, whose definitions hold among themselves."""
    text, _ = command(capsys, "plan", source, "--json", "--memory")
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


def details(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of parts: of the step, layers, stages and IPUs."""
    truth = {"epoch_us": row["epoch_us"], "compile_us": 1e6 * row["compile_s"]}
    truth |= {f"part_{name}": us for name, us in row["step_parts_us"].items()}
    for item in row["memory"]:
        full = item["fullest_tile_bytes"] / item["tile_capacity_bytes"]
        truth |= {f"ipu{item['ipu']}_bytes": item["used_bytes"]}
        truth |= {f"ipu{item['ipu']}_full": full}
    fullest = max(row["memory_walk"], key=lambda walk: truth[f"ipu{walk['ipu']}_full"])
    truth |= {name: fullest[name] for name in ("peak_bytes", "always_live_bytes")}
    named = [(f"layer_{item['name']}", item) for item in row["layers"]]
    if "schedule" in row:
        named += [(f"stage{item['index']}", item) for item in row["stages"]]
        busy = [sum(item[f"{way}_us"] for way in PASSES) for item in row["stages"]]
        truth["stage_imbalance"] = max(busy) * len(busy) / sum(busy)
    for name, item in named:
        truth[f"{name}_forward_us"] = item["forward_us"]
        truth[f"{name}_backward_us"] = item["backward_us"]
    return truth


PASSES = ("forward", "backward", "recompute")
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
    of_sweep(capsys, source, truth)
    truth |= details(row)
    piped = "schedule" in row
    shown = of_plan(capsys, source, piped, truth)
    shown += of_gate(capsys, source, truth)
    shown += of_runs(capsys, record(source), record(source), page, truth)
    shown += await of_app(make_app, source, piped, truth)
    measured = MEASURED_MS / row["replicas"]
    rate = row["request"]["batch_size"] / measured * 1e3
    truth |= {"host_ms_per_batch": measured, "host_samples_per_second": rate}
    truth["host_us_per_batch"] = 1e3 * measured
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
