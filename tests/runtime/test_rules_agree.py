"""Plan and engine are asked the same question, and give the same answer.

The question is put to the engine through the public API, as a script would, and to the
plan by a request that is written here by hand. What somebody outside of the script is
told (`starting`) comes after all checks, so accepted settings need not run.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ipu_runtime.config import IPUConfig
from ipu_runtime.engine.describe.keras_reader import read_model
from ipu_runtime.engine.watch.interception import (
    Program,
    intercepted_by,
)
from ipu_runtime.ipu_estimator import IPUEstimator, IPUEstimatorSpec
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_runtime.ipu_pipeline_estimator import (
    IPUPipelineEstimator,
    IPUPipelineEstimatorSpec,
)
from ipu_runtime.ipu_run_config import IPURunConfig, RunConfig
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.ops import pipelining_ops
from ipu_runtime.ops.pipelining_ops import PipelineSchedule, RecomputationMode
from ipu_runtime.optimizers import GradientAccumulationOptimizerV2
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.request import PipelineRequest, PlanRequest
from ipu_runtime.plan.rules.count_rules import check_attached
from ipu_runtime.plan.rules.replica_counts import ipus_per_replica, shard_count
from ipu_runtime.plan.rules.request_checks import check_request
from ipu_runtime.plan.schedule.schedule import (
    Recomputation,
    ScheduleKind,
    automatic_recomputation,
)

pytestmark = pytest.mark.slow

LAYERS, BATCH = 6, 2
SUGGESTED = {
    "ipu.auto_select_ipus": "ipus",
    "execution.gradient_accumulation": "gradient_accumulation",
    "execution.steps_per_execution": "steps_per_execution",
}


@dataclass(frozen=True)
class Asked:
    """Settings of one call, right or wrong."""

    ipus: int
    stages: tuple[int, ...]
    """Empty: not pipelined."""
    mapping: tuple[int, ...]
    """Empty: not given."""
    schedule: PipelineSchedule
    mode: RecomputationMode
    recomputes: bool
    io_tiles: int
    accumulation: int
    per_execution: int
    batches: int
    training: bool


class AcceptedError(Exception):
    """All checks are behind the call."""


class StopsWhenChecked:
    """Lets nothing run."""

    wants_layers = False

    def calling(
        self, call: str, training: bool, settings: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        return {}

    def starting(self, program: Program) -> None:
        raise AcceptedError

    def noticed(self, what: str) -> None:
        pass


def assignments(count: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Mostly steps of one, as people write them; sometimes anything."""
    steps = st.lists(st.sampled_from([0, 0, 1]), min_size=count - 1, max_size=count - 1)
    walks = steps.map(lambda own: tuple(np.cumsum([0, *own]).tolist()))
    anything = st.lists(st.integers(0, 4), min_size=count, max_size=count).map(tuple)
    return st.one_of(walks, walks, walks, anything)


COUNTS = st.one_of(st.integers(1, 24), st.sampled_from([0, 32, 36, 40, 48]))
ASKED = st.builds(
    Asked,
    ipus=st.sampled_from([1, 2, 4, 8]),
    stages=st.one_of(st.just(()), assignments(LAYERS), assignments(LAYERS)),
    mapping=st.one_of(st.just(()), st.lists(st.integers(0, 3), max_size=4).map(tuple)),
    schedule=st.sampled_from(list(PipelineSchedule)),
    mode=st.sampled_from(list(RecomputationMode)),
    recomputes=st.booleans(),
    io_tiles=st.sampled_from([0, 0, 32]),
    accumulation=COUNTS,
    per_execution=COUNTS.filter(bool),
    batches=st.integers(1, 96),
    training=st.booleans(),
)


@functools.cache
def branched_model() -> Any:
    """Return a model whose fifth layer takes the second and the fourth."""
    with IPUStrategy().scope():
        inputs = keras.Input((4,))
        first = keras.layers.Dense(4)(inputs)
        second = keras.layers.Dense(4)(first)
        x = keras.layers.Dense(4)(keras.layers.Dense(4)(second))
        x = keras.layers.Add()([second, x])
        return keras.Model(inputs, keras.layers.Dense(1)(x))


@functools.cache
def spec() -> ModelSpec:
    return read_model(branched_model())


def configure(asked: Asked) -> None:
    config = IPUConfig()
    config.auto_select_ipus = asked.ipus
    config.allow_recompute = asked.recomputes
    config.io_tiles.num_io_tiles = asked.io_tiles
    config.configure_ipu_system()


def call_keras(asked: Asked) -> None:
    """Do what a script does."""
    configure(asked)
    model = branched_model()
    model.compile("sgd", "mse", steps_per_execution=asked.per_execution)
    model.reset_pipeline_stage_assignment()
    # Setters refuse what no call can use.
    accumulation = asked.accumulation if asked.training else 1
    if asked.stages:
        model.set_pipelining_options(
            accumulation,
            # None would leave what the call before has set.
            device_mapping=list(asked.mapping or range(max(asked.stages) + 1)),
            pipeline_schedule=asked.schedule,
            recomputation_mode=asked.mode,
        )
        assignments = model.get_pipeline_stage_assignment()
        for assignment, stage in zip(assignments, asked.stages, strict=True):
            assignment.pipeline_stage = stage
        model.set_pipeline_stage_assignment(assignments)
    else:
        model.set_gradient_accumulation_options(accumulation)
    samples = asked.batches * BATCH
    x, y = np.zeros((samples, 4), np.float32), np.zeros((samples, 1), np.float32)
    call = model.fit if asked.training else model.evaluate
    call(x, y, batch_size=BATCH, verbose=0)


def call_functions(asked: Asked) -> None:
    """Build a pipeline of functions, as scripts of TensorFlow 1 do."""
    configure(asked)
    count = max(asked.stages) + 1

    def optimizer_function(x: Any) -> Any:
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        return pipelining_ops.OptimizerFunctionOutput(optimizer, x)

    def last(x: Any) -> Any:
        return x * tf.compat.v1.get_variable("w", [])

    with tf.Graph().as_default():
        pipelining_ops.pipeline(
            [*[tf.identity] * (count - 1), last],
            asked.accumulation,
            inputs=[tf.constant(1.0)],
            outfeed_queue=IPUOutfeedQueue(),
            optimizer_function=optimizer_function if asked.training else None,
            device_mapping=list(asked.mapping) or None,
            pipeline_schedule=asked.schedule,
            recomputation_mode=asked.mode,
        )


def call_estimator(asked: Asked, shards: int, model_dir: str) -> None:
    """Train as scripts of TensorFlow 1 do."""
    options = IPUConfig()
    options.auto_select_ipus = shards
    options.allow_recompute = asked.recomputes
    options.io_tiles.num_io_tiles = asked.io_tiles
    run = IPURunConfig(asked.per_execution, options, num_shards=shards)
    build = pipeline_estimator if asked.stages else estimator
    built = build(asked, RunConfig(run, model_dir=model_dir))

    def input_fn() -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensors((0.0, 0.0)).repeat()
        return data.batch(BATCH, drop_remainder=True)

    built.train(input_fn, steps=asked.batches)


def pipeline_estimator(asked: Asked, config: RunConfig) -> IPUPipelineEstimator:
    count = max(asked.stages) + 1

    def first(x: Any, _: Any) -> Any:
        return x

    def last(x: Any) -> Any:
        return tf.reduce_mean(x * tf.compat.v1.get_variable("w", []))

    def optimizer_function(x: Any) -> Any:
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        return pipelining_ops.OptimizerFunctionOutput(optimizer, x)

    def model_fn(mode: str) -> IPUPipelineEstimatorSpec:
        return IPUPipelineEstimatorSpec(
            mode,
            [first, *[tf.identity] * (count - 2), last][-count:],
            asked.accumulation,
            optimizer_function=optimizer_function,
            device_mapping=list(asked.mapping) or None,
            pipeline_schedule=asked.schedule,
            recomputation_mode=asked.mode,
        )

    return IPUPipelineEstimator(model_fn, config=config)


def estimator(asked: Asked, config: RunConfig) -> IPUEstimator:
    def model_fn(features: Any, labels: Any, mode: str) -> IPUEstimatorSpec:
        loss = tf.reduce_mean(features * tf.compat.v1.get_variable("w", []))
        plain = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        own = GradientAccumulationOptimizerV2(plain, asked.accumulation)
        return IPUEstimatorSpec(mode, loss=loss, train_op=own.minimize(loss))

    return IPUEstimator(model_fn, config=config)


def request_of(asked: Asked) -> PlanRequest:
    kind = ScheduleKind(asked.schedule.name)
    recomputation = Recomputation.OFF
    if asked.recomputes and asked.mode is RecomputationMode.Auto:
        recomputation = automatic_recomputation(kind)
    elif asked.recomputes:
        recomputation = Recomputation(asked.mode.name)
    pipeline = PipelineRequest(asked.stages, kind, recomputation, asked.mapping)
    return PlanRequest(
        spec(),
        batch_size=BATCH,
        batches=asked.batches,
        steps_per_execution=asked.per_execution,
        gradient_accumulation=asked.accumulation if asked.training else 1,
        training=asked.training,
        ipus=asked.ipus,
        pipeline=pipeline if asked.stages else None,
        config={"io_tiles.num_io_tiles": asked.io_tiles},
        system="Pod16",
    )


def first_error(problems: Iterable[Problem]) -> Problem | None:
    errors = (item for item in problems if item.severity is Severity.ERROR)
    return next(errors, None)


def answer_of(error: BaseException) -> tuple[str, str]:
    return type(error).__name__, getattr(error, "message", None) or str(error)


def expected_of(problem: Problem | None) -> tuple[str, str]:
    return (problem.exception, problem.message) if problem else ("AcceptedError", "")


def suggested(problem: Problem) -> set[int]:
    """Return every count that a problem names as valid."""
    named = re.search(r"try ([\d, or]+)", problem.hint)
    numbers = {int(number) for number in re.findall(r"\d+", named[1] if named else "")}
    return numbers | (
        {problem.suggestion} if isinstance(problem.suggestion, int) else set()
    )


def rule_of(problem: Problem) -> str:
    return re.sub(r"\d+", "N", problem.problem)


def assert_same_answer(asked: Asked) -> None:
    request = request_of(asked)
    wrong = first_error(check_request(request))
    with intercepted_by(StopsWhenChecked()), pytest.raises(Exception) as raised:  # noqa: PT011
        call_keras(asked)
    assert answer_of(raised.value) == expected_of(wrong)
    assert_suggestions_are_valid(request, wrong)


def assert_suggestions_are_valid(request: PlanRequest, wrong: Problem | None) -> None:
    """What a text names keeps its rule, and what one key takes all of the field."""
    if wrong is None or wrong.where not in SUGGESTED:
        return

    def still_wrong(number: object) -> list[Problem]:
        changed: dict[str, Any] = {SUGGESTED[wrong.where]: number}
        found = check_request(replace(request, **changed))
        return [item for item in found if item.severity is Severity.ERROR]

    for number in suggested(wrong):
        rules = map(rule_of, still_wrong(number))
        assert rule_of(wrong) not in rules, f"{wrong} names {number}"
    if wrong.suggestion is not None:
        left = [item for item in still_wrong(wrong.suggestion)]
        assert wrong.where not in [item.where for item in left], f"{wrong}: {left}"


def is_of_functions(problem: Problem) -> bool:
    """Whoever brings functions has no layers to be in a wrong stage."""
    return problem.where != "pipeline.stages" or "at least two" in problem.problem


def assert_functions_agree(asked: Asked) -> None:
    """Whoever brings functions has no epochs to be wrong either."""
    count = max(asked.accumulation, 1)
    asked = replace(asked, batches=64 * count, accumulation=count)
    request = replace(request_of(asked), steps_per_execution=count)
    problems = filter(is_of_functions, check_request(replace(request, ipus=16)))
    # How many IPUs it takes is known when a program is built, after all else.
    attached = check_attached(asked.ipus, shard_count(request.pipeline))
    wrong = first_error([*problems, *attached])
    try:
        call_functions(asked)
    except Exception as error:
        answer = answer_of(error)
    else:
        answer = ("AcceptedError", "")
    if wrong is not None and wrong.where == "execution.steps_per_execution":
        # There is no epoch that a run of functions has to share out evenly.
        assert answer[0] == wrong.exception
        assert answer[1].startswith(wrong.problem)
        return
    assert answer == expected_of(wrong)


def assert_estimators_agree(asked: Asked, model_dir: str) -> None:
    """Whoever brings an estimator says its shards, which are taken as right here."""
    # Few steps are whole loops, or loops whole updates, by accident.
    if asked.batches % 4:
        asked = replace(asked, batches=asked.batches * asked.per_execution)
    if asked.batches % 3:
        times = max(asked.accumulation, 1)
        asked = replace(
            asked,
            per_execution=asked.per_execution * times,
            batches=asked.batches * times,
        )
    request = request_of(asked)
    shards = ipus_per_replica(request.pipeline)
    api = "ipu_pipeline_estimator" if asked.stages else "ipu_estimator"
    request = replace(
        request, api=api, ipus=shards, batches=asked.batches, training=True
    )
    request = replace(request, gradient_accumulation=asked.accumulation)
    wrong = first_error(filter(is_of_functions, check_request(request)))
    with intercepted_by(StopsWhenChecked()), pytest.raises(Exception) as raised:  # noqa: PT011
        call_estimator(asked, shards, model_dir)
    assert answer_of(raised.value) == expected_of(wrong)
    assert_suggestions_are_valid(request, wrong)


QUICK = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
# 2,000 in all, in about two minutes.
KERAS = settings(QUICK, max_examples=1400)
FUNCTIONS = settings(QUICK, max_examples=350)
ESTIMATORS = settings(QUICK, max_examples=250)
WITH_STAGES = ASKED.filter(lambda asked: asked.stages and min(asked.stages) >= 0)


@given(ASKED)
@QUICK
def test_keras_and_the_plan_agree(asked: Asked) -> None:
    assert_same_answer(asked)


@given(WITH_STAGES)
@settings(QUICK, max_examples=50)
def test_pipelines_of_functions_and_the_plan_agree(asked: Asked) -> None:
    assert_functions_agree(asked)


@given(asked=ASKED)
@settings(QUICK, max_examples=50)
def test_estimators_and_the_plan_agree(asked: Asked, tmp_path: Path) -> None:
    assert_estimators_agree(asked, str(tmp_path))


@pytest.mark.thorough
@given(ASKED)
@KERAS
def test_keras_and_the_plan_agree_always(asked: Asked) -> None:
    assert_same_answer(asked)


@pytest.mark.thorough
@given(WITH_STAGES)
@FUNCTIONS
def test_pipelines_of_functions_and_the_plan_agree_always(asked: Asked) -> None:
    assert_functions_agree(asked)


@pytest.mark.thorough
@given(asked=ASKED)
@ESTIMATORS
def test_estimators_and_the_plan_agree_always(asked: Asked, tmp_path: Path) -> None:
    assert_estimators_agree(asked, str(tmp_path))
