"""The tables of README and docs, made from presets, plan, code and stored runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ipu_runtime.compat.habits import HABITS
from ipu_runtime.plan.quantities import count
from presets import EXAMPLES
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment

MEASURED = Path(__file__).parent / "measured.json"


def examples() -> str:
    """The seed examples: the document's figures beside what a run here reached."""
    stored = json.loads(MEASURED.read_text(encoding="utf-8"))
    rows = [_example(name, stored["presets"].get(name)) for name in EXAMPLES]
    machine = stored["machine"]
    return markdown(
        (
            "preset",
            "document: accuracy",
            "ours: accuracy",
            "ours: test accuracy",
            "document: per batch",
            "modelled: per batch",
            "modelled: samples/s",
            "measured here: per batch",
        ),
        rows,
    ) + (
        f"\n\nMeasured on {machine['processor']} with TensorFlow "
        f"{machine['tensorflow']}; last epoch of each run. Measured times vary with "
        "what else the machine does; `make bench` compares side by side."
    )


def _example(name: str, run: dict[str, Any] | None) -> list[str]:
    spec, problems = validate(load_preset(name).tables)
    assert spec is not None, problems
    figures = spec.experiment.figures
    printed = figures[-1] if figures else None
    plan = plan_experiment(spec)
    modelled = rate = "-"
    if not plan.not_modelled:
        modelled = _microseconds(plan.ipu_us_per_batch)
        rate = count(plan.samples_per_second)
    return [
        f"`{name}`",
        _accuracy(printed.accuracy if printed else None),
        _accuracy(run["accuracy"] if run else None),
        _accuracy(run["test_accuracy"] if run else None),
        _microseconds(printed.step_us if printed else None),
        modelled,
        rate,
        f"{run['host_step_ms'] / plan.replicas:.2f} ms" if run else "-",
    ]


def commands() -> str:
    """Every command and what the help says of it."""
    told = subprocess.run(
        (sys.executable, "-m", "workbench", "--help"),
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    ).stdout
    rows = [line.split(maxsplit=1) for line in told.splitlines() if line[:4] == "    "]
    return markdown(
        ("command", "does"),
        [[f"`ipu-workbench {name}`", text] for name, text in rows],
    )


def modelled_config() -> str:
    """Which fields of IPUConfig change modelled figures, and how."""
    from ipu_runtime.plan.config.config_effects import MODELLED_CONFIG

    return markdown(
        ("field", "what it changes in the plan"),
        [[f"`{path}`", effect] for path, effect in MODELLED_CONFIG.items()],
    )


def layer_kinds() -> str:
    """The layers that presets can use."""
    from ipu_runtime.plan.layers.shapes import LAYER_KINDS

    return ", ".join(f"`{kind}`" for kind in sorted(LAYER_KINDS))


def keys() -> str:
    """Every key of the app, by where it applies."""
    from workbench.ui.actions import ACTIONS

    return markdown(
        ("where", "key", "does"),
        [
            [action.scope.value, f"`{action.keys}`", action.title]
            for action in ACTIONS
            if action.keys
        ],
    )


def habits() -> str:
    """What older scripts may write, and what replaces it."""
    rows = [[f"`{habit}`", wanted] for habit, wanted in HABITS.items()]
    return markdown(("older", "wanted today"), rows)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
        for line in lines
    )


def _accuracy(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _microseconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value / 1000:.3g} ms" if value >= 1000 else f"{value:.0f} us"
