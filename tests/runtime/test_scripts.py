"""Unmodified scripts: import names, exit codes, tracebacks, packaged data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **environment},
    )


def script(tmp_path: Path, text: str) -> str:
    file = tmp_path / "script.py"
    file.write_text(text, encoding="utf-8")
    return str(file)


IMPORTS = """
import gc, os, sys
os.environ["SET_BEFORE_IMPORT"] = "yes"
assert "tensorflow" not in sys.modules, "nothing may be loaded before the script asks"
import tensorflow.compat.v1 as older
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu
from tensorflow.python.ipu import config, utils, ipu_strategy, scopes, loops
from tensorflow.python.ipu.scopes import ipu_scope
from tensorflow.python.ipu.ops import pipelining_ops
from tensorflow.python.ipu.ipu_session_run_hooks import IPULoggingTensorHook
from tensorflow.python.ipu.distributed import popdist_strategy
from tensorflow.python.ipu.keras.layers import Embedding, LSTM
from tensorflow.keras import ipu as keras_ipu
import ipu_tensorflow_addons.keras.layers as ipu_layers
import popdist, popdist.tensorflow
from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
from keras.optimizer_v2 import optimizer_v2
from tensorflow.python.keras.datasets import mnist
from tensorflow.python.keras.preprocessing.image import ImageDataGenerator
import keras as plain_keras
import ipu_runtime

assert ipu is ipu_runtime and ipu.config is config and ipu.utils is utils
assert ipu.pipelining_ops is ipu.ops.pipelining_ops is pipelining_ops
assert keras_ipu is tf.keras.ipu is plain_keras.ipu is keras.ipu is ipu.keras
assert ipu_layers.LSTM is LSTM and ipu_layers.Embedding is Embedding
assert isinstance(plain_keras.optimizers.SGD(), optimizer_v2.OptimizerV2)
assert ipu.utils.IPUConfig is config.IPUConfig
assert mnist is keras.datasets.mnist
assert keras.Input(shape=(80)).shape == (None, 80)
assert tf.estimator is tf.compat.v1.estimator is older.estimator
assert popdist.getNumInstances() == 1
assert gen_ipu_ops.ipu_event_trace().shape == (0,)
for name in ("tensorflow.python.ipu.nothing", "keras.ipu.nothing"):
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        assert name in str(error)
    else:
        raise AssertionError(name)
assert gc.isenabled() and gc.get_freeze_count() > 100_000, "TensorFlow is no garbage"
x, y = keras.datasets.cifar10.load_data()[0]
print(sys.argv[1:], __name__, x.shape[1:], y.shape[1:])
sys.exit(7)
"""


def test_scripts_find_every_name(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ipu_runtime", script(tmp_path, IMPORTS), "--a"]
    result = run(command, KERAS_HOME=str(tmp_path), TF_NUM_INTRAOP_THREADS="1")
    assert result.returncode == 7, result.stderr
    assert result.stdout == "['--a'] __main__ (32, 32, 3) (1,)\n"
    assert "using the packaged CIFAR-10 sample" in result.stderr


NOTEBOOK = """
import tensorflow as tf, keras
import tensorflow.keras as tf_keras
import ipu_runtime
ipu_runtime.install()
ipu_runtime.install()
from tensorflow.python import ipu
assert ipu.ops.pipelining_ops.PipelineSchedule.Grouped == 0
assert ipu.nn_ops is ipu.ops.nn_ops
assert ipu.distributed.popdist_strategy.PopDistStrategy
assert tf.keras.ipu is keras.ipu is tf_keras.ipu is ipu.keras
assert keras.ipu.extensions and keras.ipu.layers and keras.ipu.optimizers
assert tf.estimator.ModeKeys.TRAIN == "train"
assert keras.Input(shape=5).shape == tf_keras.Input(shape=5).shape == (None, 5)
try:
    ipu.vertex_edsl
except AttributeError as error:
    print(error)
try:
    tf.compat.v1.estimator.train_and_evaluate
except AttributeError as error:
    print(error)
"""


def test_installing_completes_what_is_loaded_already(tmp_path: Path) -> None:
    result = run([sys.executable, script(tmp_path, NOTEBOOK)])
    assert result.returncode == 0, result.stderr
    for name in ("vertex_edsl", "train_and_evaluate"):
        assert f"attribute '{name}'; the emulator does not have it" in result.stdout


OLDER = """
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.framework import ops
tf.disable_v2_behavior()

def total(x):
    return ipu.cross_replica_ops.cross_replica_sum(x)

def total_there(x):
    with tf.device("/device:IPU:0"):
        return total(x)

with tf.device("/device:IPU:0"):
    around = ipu.ipu_compiler.compile(total, [tf.constant(4.0)])
with ops.device("/device:IPU:0"):
    private = ipu.ipu_compiler.compile(total, [tf.constant(5.0)])
inside = ipu.ipu_compiler.compile(total_there, [tf.constant(6.0)])
with tf.device("cpu"):
    host = tf.constant(1.0)
config = ipu.utils.create_ipu_config()
ipu.utils.configure_ipu_system(ipu.utils.auto_select_ipus(config, 2))
with tf.Session() as session:
    print(*[float(x) for [x] in session.run([around, private, inside, [host]])])
"""


def test_scripts_of_the_older_api_place_compile_and_configure_in_their_order(
    tmp_path: Path,
) -> None:
    result = run([sys.executable, "-m", "ipu_runtime", script(tmp_path, OLDER)])
    assert result.returncode == 0, result.stderr
    assert result.stdout == "8.0 10.0 12.0 1.0\n"


def test_a_failing_script_shows_its_own_frames_only(tmp_path: Path) -> None:
    text = "def f():\n    raise ValueError('broken')\nf()\n"
    result = run([sys.executable, "-m", "workbench", "exec", script(tmp_path, text)])
    assert result.returncode == 1
    assert result.stderr.endswith("ValueError: broken\n")
    assert result.stderr.count("File") == 2


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("import sys; sys.exit('a reason')", 1, "a reason"),
        ("raise KeyboardInterrupt", 130, "line 1, in <module>\n"),
        ("x = (", 1, "SyntaxError"),
    ],
)
def test_exit_codes_are_those_of_python(
    tmp_path: Path, text: str, code: int, words: str
) -> None:
    result = run([sys.executable, "-m", "ipu_runtime", script(tmp_path, text)])
    assert result.returncode == code
    assert words in result.stderr


def test_usage_errors(tmp_path: Path) -> None:
    assert run([sys.executable, "-m", "ipu_runtime"]).returncode == 2
    missing = run([sys.executable, "-m", "ipu_runtime", "no_such_script.py"])
    assert missing.returncode == 2
    assert missing.stderr == "ipu_runtime: no_such_script.py: no such script\n"
    notebook = tmp_path / "steps.ipynb"
    notebook.write_text('{"cells": [{"execution_count": null}]}')
    refused = run([sys.executable, "-m", "workbench", "exec", str(notebook)])
    assert refused.returncode == 2
    assert "a notebook is no script" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_scripts_import_their_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("VALUE = 3\n", encoding="utf-8")
    text = "import sys\nfrom neighbour import VALUE\n"
    text += "print(VALUE, sys.argv[0], __file__)\n"
    file = script(tmp_path, text)
    given = os.path.relpath(file)
    result = run([sys.executable, "-m", "workbench", "exec", given])
    value, called, shown = result.stdout.split()
    assert (value, called) == ("3", given)
    assert os.path.isabs(shown)
    assert os.path.samefile(shown, file)


SPAWNING = """
import multiprocessing
import libpvti

def in_grandchild(answers):
    answers.put((__name__, libpvti.__name__))

def in_child(answers):
    multiprocessing.Process(target=in_grandchild, args=(answers,)).start()

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    answers = multiprocessing.Queue()
    multiprocessing.Process(target=in_child, args=(answers,)).start()
    print(*answers.get(timeout=60))
"""


def test_processes_that_a_script_spawns_find_the_emulator(tmp_path: Path) -> None:
    file = script(tmp_path, SPAWNING)
    done = run([sys.executable, "-m", "ipu_runtime", file])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("__mp_main__ ")
