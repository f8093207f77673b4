"""Report directories, cached executables and events of programs that ran."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime import utils
from ipu_runtime.compat.plugin.poplar.ops import gen_ipu_ops
from ipu_runtime.config import reset_ipu_configuration
from ipu_runtime.engine.describe.function_program import plan_function
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.plan.layers.tensors import streamed_bytes
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.request import PlanRequest

pytestmark = pytest.mark.slow

X = np.zeros((8, 4), np.float32)
Y = np.zeros((8, 2), np.float32)


@pytest.fixture(autouse=True)
def _clean_system() -> Iterator[None]:
    reset_ipu_configuration()
    yield
    reset_ipu_configuration()


@pytest.fixture
def model() -> keras.Model:
    with IPUStrategy().scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse", steps_per_execution=4)
    return model


def test_training_and_evaluation_get_a_report_each(
    model: keras.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(options))
    model.fit(X, Y, batch_size=2, epochs=3, verbose=0)
    model.fit(X, Y, batch_size=2, epochs=3, verbose=0)
    model.evaluate(X, Y, batch_size=2, verbose=0)
    directories = sorted(tmp_path.glob("tf_report__*__*"))
    assert len(directories) == 2
    train, evaluation = directories
    assert {file.name for file in train.iterdir()} == {
        "execution.json",
        "framework.json",
        "memory.json",
        "plan.json",
        "report.html",
    }
    plan = json.loads((train / "plan.json").read_text())
    execution = json.loads((train / "execution.json").read_text())
    assert plan["request"]["batch_size"] == 2
    assert plan["ipu_step_us"] > 0
    assert execution["steps_per_replica"] == 12
    assert execution["executions"] == 3
    assert execution["modelled_ipu_us_per_step"] == plan["ipu_step_us"]
    page = (train / "report.html").read_text()
    assert "dense" in page
    assert "time of a step (the replica takes one batch) on the IPU, modelled" in page
    assert "http" not in page.replace("http-equiv", "")
    assert (
        json.loads((evaluation / "plan.json").read_text())["request"]["training"]
        is False
    )


def test_a_report_counts_the_steps_that_were_run(
    model: keras.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(options))
    model.fit(X, Y, batch_size=2, initial_epoch=1, epochs=3, verbose=0)
    (directory,) = tmp_path.glob("tf_report__*__*")
    execution = json.loads((directory / "execution.json").read_text())
    assert execution["steps_per_replica"] == 8
    assert execution["executions"] == 2


def test_no_reports_unless_asked_for(
    model: keras.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POPLAR_ENGINE_OPTIONS", raising=False)
    monkeypatch.chdir(tmp_path)
    model.predict(X, batch_size=2, verbose=0)
    assert list(tmp_path.iterdir()) == []


def test_a_cached_executable_loads_quicker(
    model: keras.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_POPLAR_FLAGS", f"--executable_cache_path={tmp_path}")
    model.fit(X, Y, batch_size=2, verbose=0)
    first = model.ipu_profile().compile_s
    assert len(list(tmp_path.glob("*.poplar_exec"))) == 1
    model.compile("sgd", "mse", steps_per_execution=4)
    model.fit(X, Y, batch_size=2, verbose=0)
    assert 0 < model.ipu_profile().compile_s < first
    assert len(list(tmp_path.glob("*.poplar_exec"))) == 1


def test_events_are_traced_and_forgotten_after_reading(model: keras.Model) -> None:
    options = utils.create_ipu_config(profiling=True, profile_execution=True)
    utils.configure_ipu_system(utils.auto_select_ipus(options, 1))
    model.fit(X, Y, batch_size=2, verbose=0)
    events = gen_ipu_ops.ipu_event_trace()
    assert [name for name, _ in utils.extract_compile_reports(events)] == ["train"]
    executed = utils.extract_execute_reports(events)
    assert json.loads(executed[0][1])["steps_per_replica"] == 4
    assert gen_ipu_ops.ipu_event_trace().shape == (0,)


def test_synthetic_data_leaves_zeros(
    model: keras.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_synthetic_data")
    history = model.fit(X + 1, Y, batch_size=2, epochs=2, verbose=0)
    assert history.history == {"loss": [0.0, 0.0]}
    assert model.evaluate(X + 1, Y, batch_size=2, verbose=0) == 0.0
    predicted = model.predict(X + 1, batch_size=2, verbose=0)
    assert predicted.shape == (8, 2)
    assert not predicted.any()


def test_a_program_of_the_scripts_own_counts_the_samples_that_it_takes() -> None:
    element = tf.zeros((8, 5)), tf.zeros((8,), tf.int32)
    batches = tf.data.Dataset.from_tensors(element).repeat()

    @tf.function
    def learn(iterator: Any) -> Any:
        total = tf.constant(0.0)
        for _ in tf.range(10):
            x, _ = next(iterator)
            total += tf.reduce_sum(tf.matmul(x, tf.ones((5, 5))))
        return total

    with IPUStrategy().scope():
        graph = learn.get_concrete_function(iter(batches)).graph
    request, plan = _planned(graph)
    assert (request.batch_size, request.batches) == (8, 10)
    assert streamed_bytes(request.model, 8, label_values=0) == 8 * (5 + 1) * 4
    assert plan.samples_per_second == pytest.approx(8 / plan.ipu_step_us * 1e6)
    assert len(_remarks(request)) == 1


def test_a_program_without_data_sets_says_what_counts_as_a_sample() -> None:
    square = tf.function(lambda x: tf.matmul(x, x))
    request, _ = _planned(square.get_concrete_function(tf.zeros((5, 5))).graph)
    assert request.batch_size == 1
    assert any("counts as one sample" in text for text in _remarks(request))


def _planned(graph: Any) -> tuple[PlanRequest, Plan]:
    planned = plan_function("learn", graph, replicas=1, shards=1)
    assert planned.request is not None
    assert planned.plan is not None
    return planned.request, planned.plan


def _remarks(request: PlanRequest) -> tuple[str, ...]:
    (layer,) = request.model.stage_layers
    assert layer.traced is not None
    return layer.traced.remarks
