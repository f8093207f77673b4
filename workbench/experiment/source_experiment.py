"""An experiment around a model of the user's own, with values that can be run."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from workbench.experiment.preset_store import Preset
from workbench.models.model_source import parse_source


def source_preset(text: str) -> Preset:
    """Return a preset for a source: made-up data, and a short training."""
    source = parse_source(text)
    shown = source.text.rpartition(os.sep)[2]
    tables = {
        "experiment": {"name": source.title, "title": f"Own model {shown}"},
        "data": {
            "dataset": "synthetic",
            "batch_size": 8,
            "train_samples": 256,
            "test_samples": 64,
        },
        "model": {"source": source.text},
        "train": {"optimizer": "adam", "learning_rate": 0.001, "epochs": 1},
        "execution": {"api": "ipu_strategy", "steps_per_execution": "epoch"},
    }
    return Preset(source.title, Path(source.text), tables)


def without_counts(preset: Preset) -> Preset:
    """Return it for data of the user's own, which are taken whole."""
    counts = ("train_samples", "test_samples")
    data = preset.tables["data"]
    kept = {name: value for name, value in data.items() if name not in counts}
    return replace(preset, tables={**preset.tables, "data": kept})
