"""Every preset in a form that trains in a second or two."""

from __future__ import annotations

import re
from pathlib import Path

from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.preset_store import packaged_directory

SMALL = {
    "mnist-cpu": ("data.train_samples=200", "train.epochs=2"),
    "mnist-ipu": ("data.train_samples=200",),
    "mnist-ipu-faster": ("data.train_samples=200", "data.batch_size=16"),
    "mnist-ipu-replicated": ("data.train_samples=200", "data.batch_size=16"),
    "mnist-ipu-pipelined": (
        "data.train_samples=300",
        "data.batch_size=16",
        "train.epochs=2",
    ),
    "mnist-dense": (
        "data.train_samples=200",
        "train.steps_per_epoch=10",
        "execution.steps_per_execution=5",
        "train.epochs=2",
    ),
    "mnist-padded": ("data.train_samples=200",),
    "cifar10-ipu-strategy": ("data.train_samples=96",),
    "mnist-dense-8-stages": (
        "data.batch_size=16",
        "data.train_samples=256",
        "data.test_samples=128",
    ),
}
"""Changes that make presets small; they stay what they are otherwise."""

NARROW = {
    "resnet50-pod16": (
        (r"224, 224", "32, 32"),
        ("float16", "float32"),
        ("auto_select_ipus = 16", "auto_select_ipus = 2"),
        ("train_samples = 128", "train_samples = 16"),
        # The stem, two of the four groups and the head; one block repeats.
        (r'(?s)\[\[[^\[]*name = "conv4_1".*wide = 2048 \}\n\n', ""),
        ("repeat = 3", "repeat = 1"),
        ("narrow = 64, wide = 256", "narrow = 8, wide = 16"),
        ("narrow = 128, wide = 512", "narrow = 12, wide = 24"),
    ),
    "bert-large-pod16": (
        ("train_samples = 32", "train_samples = 16"),
        ("repeat = 24", "repeat = 2"),
        (r"stages = \[[^]]*\]", f"stages = {[layer * 4 // 19 for layer in range(19)]}"),
        ("128", "8"),
        ("1024", "16"),
        ("4096", "32"),
        ("num_heads = 16, key_dim = 64", "num_heads = 2, key_dim = 8"),
        ("30522", "100"),
        ("float16", "float32"),
        ("auto_select_ipus = 16", "auto_select_ipus = 4"),
    ),
}
"""What to replace in presets whose models are too large: the same kinds of layers,
narrower, and fewer of the blocks that repeat."""

INSTANCES = {
    "mnist-popdist": ("data.train_samples=256", "data.batch_size=16"),
    "resnet50-pod64": (
        "model.layers[0].shape=[32,32,3]",
        "model.dtype=float32",
        "ipu.auto_select_ipus=4",
        "data.batch_size=2",
        "data.train_samples=16",
    ),
}
"""Presets that several processes run."""

ESTIMATORS = {
    "cifar10-ipu-estimator": ("data.train_samples=96", "train.epochs=2"),
    "cifar10-ipu-estimator-replica": ("data.train_samples=128",),
    "cifar10-ipu-pipeline-estimator": (
        "data.train_samples=160",
        "data.batch_size=8",
        "execution.gradient_accumulation=4",
    ),
    "cifar10-estimator-cnn": (
        "data.train_samples=64",
        "train.steps_per_epoch=6",
        "execution.steps_per_execution=6",
    ),
}


def small_preset(name: str, directory: Path, *changes: str) -> ExperimentSpec:
    """Return a preset in its small form; narrow ones are written to a directory."""
    if name in NARROW:
        loaded = load_experiment(_narrow(name, directory), changes)
    else:
        common = ("data.test_samples=64", "train.epochs=1")
        own = (SMALL | ESTIMATORS | INSTANCES)[name]
        loaded = load_experiment(name, (*common, *own, *changes))
    assert loaded.spec is not None, loaded.problems
    return loaded.spec


def _narrow(name: str, directory: Path) -> str:
    text = packaged_directory().joinpath(f"{name}.toml").read_text(encoding="utf-8")
    for large, small in NARROW[name]:
        text, replaced = re.subn(large, small, text)
        assert replaced, large
    preset = directory / f"{name}.toml"
    preset.write_text(text, encoding="utf-8")
    return str(preset)
