"""An experiment of a moment that has all that is hard to resume: statistics of
batches, dropout and an optimizer with values of its own."""

from __future__ import annotations

from pathlib import Path

from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec

EVERY_PIECE = "execution.checkpoint_every_s=0.000001"
"""Makes a checkpoint after every weight update."""
_PRESET = """
[experiment]
title = "Tiny"
seed = 7

[data]
dataset = "synthetic"
batch_size = 8
train_samples = 256
test_samples = 64
labels = "sparse"

[train]
optimizer = "adam"
learning_rate = 0.01
loss = "sparse_categorical_crossentropy"
epochs = 2

[execution]
steps_per_execution = "epoch"

[[model.layers]]
name = "input"
kind = "Input"
shape = [8]

[[model.layers]]
name = "dense"
kind = "Dense"
units = 16
activation = "relu"

[[model.layers]]
name = "normal"
kind = "BatchNormalization"

[[model.layers]]
name = "dropout"
kind = "Dropout"
rate = 0.25

[[model.layers]]
name = "dense_1"
kind = "Dense"
units = 4
activation = "softmax"
"""


def tiny_spec(directory: Path, *changes: str) -> ExperimentSpec:
    """Return the experiment with changes; its file is written to a directory."""
    preset = directory / "tiny.toml"
    preset.write_text(_PRESET)
    loaded = load_experiment(str(preset), changes)
    assert loaded.spec is not None, loaded.problems
    return loaded.spec
