"""A script of an older time runs unmodified, and is told what has changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ipu_runtime.compat.habits import HABITS, RULES, Argument, Attribute

pytestmark = pytest.mark.slow

SCRIPT = """
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
strategy = ipu.ipu_strategy.IPUStrategy()

x = np.ones((8, 4), dtype=np.float)
labels = np.arange(8, dtype=np.int) % 2
assert x.dtype == np.float_ and np.product([2, 3]) == 6

with strategy.scope():
    inputs = keras.Input(shape=4)
    outputs = tf.nn.softmax(keras.layers.Dense(2)(tf.nn.relu(inputs)))
    model = keras.Model(inputs, outputs)
    optimizer = keras.optimizers.Adam(lr=0.01, decay=1e-3)
    model.compile(optimizer, "sparse_categorical_crossentropy")
    saving = keras.callbacks.ModelCheckpoint("ckpt/{epoch:02d}", period=2,
                                             save_weights_only=True)
    model.fit(x, labels, batch_size=4, epochs=2, verbose=0, callbacks=[saving])
    model.save_weights("last")
    model.load_weights(tf.train.latest_checkpoint("ckpt"))
for weight in model.trainable_variables:
    print(weight.name, weight.dtype.size * np.prod(weight.shape))
try:
    np.nothing
except AttributeError as error:
    print(error)
"""


def test_an_older_script_runs_and_is_told_what_to_write_today(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "ipu_runtime", str(file)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "dense/kernel:0 32",
        "dense/bias:0 8",
        "module 'numpy' has no attribute 'nothing'",
    ]
    for hint in (
        "NumPy 1's `np.int` is accepted here; NumPy 2 wants",
        "Keras 2's `Input(shape=80)` is accepted here; Keras 3 wants `Input(shape=(80,",
        "Keras 2's `Optimizer(lr=)` is accepted here; Keras 3 wants `learning_rate=`.",
        "Keras 2's `Optimizer(decay=)`",
        "Keras 2's `TensorFlow function of a Keras tensor`",
        "Keras 2's `ModelCheckpoint(path)`",
        "Keras 2's `ModelCheckpoint(period=)`",
        "Keras 2's `save_weights(path)`",
        "Keras 2's `variable.name`",
        "Keras 2's `variable.dtype.size`",
    ):
        assert hint in result.stderr


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.habit}, {rule.older}")
def test_a_rule_belongs_to_a_habit_that_is_told(rule: Argument | Attribute) -> None:
    assert rule.habit in HABITS
