"""Scripts of ours, captured, and with settings laid over them from outside.

A run with changes must learn exactly what a copy of the script learns that has the
same changes written in.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_runtime
from ipu_runtime.engine.describe.call_settings import intercepted_pipeline
from ipu_runtime.engine.watch.interception import intercepted_by
from ipu_runtime.estimators.base_estimator import EstimatorBase
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.validation import validate
from workbench.models.captured_model import CapturedModel, write_capture
from workbench.models.model_source import parse_source
from workbench.models.source_reading import read_source
from workbench.overlays.capture import Capture
from workbench.overlays.captured_tables import captured_source, captured_tables
from workbench.overlays.overlay import Overlay
from workbench.overlays.script_lines import ScriptStopped, code_of
from workbench.planning.balancing import balanced_experiment
from workbench.planning.experiment_plan import plan_request

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
MNIST = ("--samples", "64", "--batch-size", "4", "--epochs", "1")
CIFAR = ("--samples", "16", "--batch-size", "1", "--epochs", "1")
LOOP = ("--samples", "128", "--batch-size", "4", "--steps", "3", "--runs", "2")


@pytest.fixture(scope="module")
def mnist() -> Any:
    ipu_runtime.install()
    return tf.keras.datasets.mnist.load_data()


@pytest.fixture(autouse=True)
def _examples(mnist: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(tf.keras.datasets.mnist, "load_data", lambda: mnist)


def _main(module: Any, arguments: tuple[str, ...]) -> Any:
    """Run an example as its command line does; its seed is always the same."""
    keras.utils.set_random_seed(3)
    ipu_runtime.utils.reset_ipu_seed(3)
    sys.argv = [module.__file__, *arguments]
    return module.main()


def _copy(name: str, folder: Path, replacements: Mapping[str, str]) -> Any:
    """Return an example in which some text is replaced."""
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    for old, new in replacements.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file = folder / f"{name}_copy.py"
    file.write_text(text, encoding="utf-8")
    found = importlib.util.spec_from_file_location(file.stem, file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def _overlaid(
    name: str, arguments: tuple[str, ...], changes: Mapping[str, Any]
) -> tuple[Any, Overlay]:
    module = importlib.import_module(name)
    overlay = Overlay(changes, code_of(str(module.__file__)), lambda text: None)
    with intercepted_by(overlay):
        return _main(module, arguments), overlay


PIPELINE = """        stages = model.get_pipeline_stage_assignment()
        for item, stage in zip(stages, [0, 0, 0, 0, 1, 1, 1]):
            item.pipeline_stage = stage
        model.set_pipeline_stage_assignment(stages)
"""


@pytest.mark.parametrize(
    ("name", "arguments", "changes", "replacements"),
    [
        pytest.param(
            "mnist_steps",
            ("ipu", *MNIST),
            {
                "pipeline.stages": [0, 0, 0, 0, 1, 1, 1],
                "execution.gradient_accumulation": 4,
                "execution.steps_per_execution": "epoch",
                "ipu.auto_select_ipus": 2,
            },
            {
                "    with select_ipus(1).scope():\n"
                "        return learn(build_model(), train, test, args)\n": (
                    "    with select_ipus(2).scope():\n"
                    f"        model = build_model()\n{PIPELINE}"
                    "        model.set_pipelining_options(4)\n"
                    "        return learn(model, train, test, args, args.batch_size)\n"
                )
            },
            id="single-to-pipeline",
        ),
        pytest.param(
            "mnist_steps",
            ("replicated", *MNIST),
            {"execution.metric_reduction": "sum", "ipu.io_tiles.num_io_tiles": 32},
            {
                'replicated_metric_reduction_method="mean"': (
                    'replicated_metric_reduction_method="sum"'
                ),
                "    config.configure_ipu_system()": (
                    "    config.io_tiles.num_io_tiles = 32\n"
                    "    config.configure_ipu_system()"
                ),
            },
            id="replicated",
        ),
        pytest.param(
            "mnist_steps",
            ("pipelined", *MNIST),
            {
                "pipeline.schedule": "Interleaved",
                "pipeline.stages": [0, 0, 1, 1, 1, 1, 1],
                "execution.gradient_accumulation": 2,
                "execution.accumulation_reduction": "mean",
            },
            {
                "        model = build_pipeline()\n": (
                    "        model = build_model()\n"
                    + PIPELINE.replace("0, 0, 0, 0", "0, 0, 1, 1")
                ),
                "schedules[args.schedule]": "schedules.Interleaved",
                "gradient_accumulation_steps_per_replica=count": (
                    "gradient_accumulation_steps_per_replica=2, "
                    'gradient_accumulation_reduction_method="mean"'
                ),
            },
            id="pipelined",
        ),
        pytest.param(
            "mnist_custom_loop",
            LOOP,
            {"ipu.auto_select_ipus": 2},
            {"auto_select_ipus = 1": "auto_select_ipus = 2"},
            id="custom-loop",
        ),
    ],
)
def test_changes_from_outside_are_the_changes_of_a_copy(
    name: str,
    arguments: tuple[str, ...],
    changes: Mapping[str, Any],
    replacements: Mapping[str, str],
    tmp_path: Path,
) -> None:
    overlaid, overlay = _overlaid(name, arguments, changes)
    assert overlaid == _main(_copy(name, tmp_path, replacements), arguments)
    assert {item.field for item in overlay.applied} == set(changes)
    assert not overlay.refused


@pytest.mark.parametrize(
    ("name", "changes", "replacements"),
    [
        pytest.param(
            "cifar10_pipeline_estimator",
            {
                "execution.gradient_accumulation": 2,
                "pipeline.schedule": "Sequential",
                # Where things live changes no result.
                "pipeline.offload_gradient_accumulation_buffers": True,
            },
            {
                'params["count"] if training': "2 if training",
                "PipelineSchedule.Grouped": "PipelineSchedule.Sequential",
            },
            id="pipeline-estimator",
        ),
        pytest.param(
            "cifar10_ipu_estimator",
            {"execution.steps_per_execution": 4},
            {
                "estimator = make_estimator(args, steps, args.model_dir)": (
                    "estimator = make_estimator(args, 4, args.model_dir)"
                )
            },
            id="estimator",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_an_estimator_with_changes_is_as_a_copy(
    name: str,
    changes: Mapping[str, Any],
    replacements: Mapping[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trained: list[dict[str, Any]] = []

    def keep_weights(estimator: Any, *_: Any, **__: Any) -> dict[str, float]:
        """Instead of an evaluation, which says less and takes longer."""
        names = estimator.get_variable_names()
        trained.append({key: estimator.get_variable_value(key) for key in names})
        return {"loss": 0.0, "accuracy": 0.0}

    monkeypatch.setattr(EstimatorBase, "evaluate", keep_weights)
    _, overlay = _overlaid(name, CIFAR, changes)
    _main(_copy(name, tmp_path, replacements), CIFAR)
    overlaid, written = trained
    assert any("kernel" in key for key in overlaid)
    np.testing.assert_equal(overlaid, written)
    assert {item.field for item in overlay.applied} == set(changes)


COMPILED = """
import random
import tensorflow as tf
from ipu_runtime.engine.describe.call_settings import intercepted_pipeline
from ipu_runtime.engine.watch.interception import intercepted_by
from workbench.overlays.overlay import Overlay
from workbench.overlays.script_lines import code_of
import mnist_compiled_loop as script
import compiled_copy as copy

overlay = Overlay({"ipu.auto_select_ipus": 2}, code_of(script.__file__), print)
arguments = ["--samples", "64", "--batch-size", "4", "--steps", "3", "--runs", "2"]
random.seed(1)
with tf.Graph().as_default(), intercepted_by(overlay):
    overlaid = script.main(arguments)
random.seed(1)
with tf.Graph().as_default():
    written = copy.main(arguments)
assert overlaid == written, (overlaid, written)
assert len(overlay.applied) == 1
"""


@pytest.mark.thorough
def test_a_compiled_loop_with_changes_is_as_a_copy(tmp_path: Path) -> None:
    # Behaviour of version 1 lasts for a whole process.
    text = (EXAMPLES / "mnist_compiled_loop.py").read_text(encoding="utf-8")
    changed = text.replace("auto_select_ipus = 1", "auto_select_ipus = 2")
    assert changed != text
    (tmp_path / "compiled_copy.py").write_text(changed, encoding="utf-8")
    driver = tmp_path / "driver.py"
    driver.write_text(COMPILED, encoding="utf-8")
    paths = os.pathsep.join([str(EXAMPLES), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "ipu_runtime", str(driver)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _captured(
    name: str, arguments: tuple[str, ...], folder: Path
) -> tuple[Capture, ExperimentSpec]:
    """Capture an example, write it down, and read it as a command would."""
    module = importlib.import_module(name)
    capture = Capture(code_of(str(module.__file__)))
    with intercepted_by(capture), pytest.raises(ScriptStopped):
        _main(module, arguments)
    assert capture.program is not None
    tables, _ = captured_tables(capture, "title", "name")
    file = folder / "model.captured.json"
    model = captured_source(capture.program)
    write_capture(file, CapturedModel("script", arguments, "fit-1", model, tables))
    source = parse_source(str(file))
    read_source(source, lambda text: None, trust=False, calls=False)
    spec, problems = validate({**tables, "model": {"source": source.text}})
    assert spec is not None, problems
    return capture, spec


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mnist_steps", ("faster", *MNIST)),
        ("mnist_steps", ("replicated", *MNIST)),
        ("mnist_steps", ("pipelined", *MNIST)),
        ("mnist_sequential", ("--steps-per-epoch", "20", "--steps-per-execution", "5")),
        ("mnist_custom_loop", LOOP),
        ("cifar10_ipu_estimator", CIFAR),
        ("cifar10_pipeline_estimator", CIFAR),
        ("graph_network", ("--ipus", "2", "--pipelined")),
    ],
)
def test_a_capture_plans_as_the_script_does(
    name: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    capture, spec = _captured(name, arguments, tmp_path)
    assert capture.program is not None
    request = capture.program.request
    assert request is not None
    # One device may be a number or a list, which says the same.
    config = {key: value for key, value in request.config.items() if "auto" not in key}
    planned = plan_request(spec)
    fields = {key: value for key, value in planned.config.items() if "auto" not in key}
    assert fields == config
    assert replace(planned, config={}) == replace(request, config={})


def test_a_capture_has_the_steps_of_a_loop(tmp_path: Path) -> None:
    _, spec = _captured("mnist_custom_loop", LOOP, tmp_path)
    assert plan_request(spec).steps_per_execution == 3


def test_weights_that_replicas_share_are_offloaded_unless_a_script_says_no() -> None:
    for given, offloaded in ((None, True), (False, False)):
        capture = Capture(code_of(__file__))
        asked = {
            "gradient_accumulation_count": 4,
            "replicated_weight_sharding": True,
            "offload_weights": given,
        }
        with intercepted_by(capture):
            intercepted_pipeline("pipelining_ops.pipeline", True, asked)
        assert capture.settings["replicated_weight_sharding"]
        assert capture.settings["offload_weights"] is offloaded


def test_a_captured_script_can_be_balanced(tmp_path: Path) -> None:
    _, spec = _captured("mnist_steps", ("faster", *MNIST), tmp_path)
    balanced = balanced_experiment(spec, 2)
    assert balanced.result.feasible
    assert len(balanced.result.stage_of_layer) == 7
    assert "ipu.auto_select_ipus=2" in balanced.changes
