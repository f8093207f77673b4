"""Plan and engine are asked the same question, and give the same answer.

The question is put to the engine through the public API, as a script would, and to the
plan by a request that is written here by hand. What somebody outside of the script is
told (`starting`) comes after all checks, so accepted settings need not run.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    current_interceptor,
    intercepted_by,
)
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.ops import pipelining_ops
from ipu_runtime.ops.pipelining_ops import PipelineSchedule, RecomputationMode
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.request import PipelineRequest, PlanRequest
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

    def configuring(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def calling(
        self, program: str, training: bool, settings: Mapping[str, Any]
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


COUNTS = st.one_of(st.integers(1, 24), st.sampled_from([32, 36, 40, 48]))
ASKED = st.builds(
    Asked,
    ipus=st.sampled_from([1, 2, 4]),
    stages=st.one_of(st.just(()), assignments(LAYERS), assignments(LAYERS)),
    mapping=st.one_of(st.just(()), st.lists(st.integers(0, 3), max_size=4).map(tuple)),
    schedule=st.sampled_from(list(PipelineSchedule)),
    mode=st.sampled_from(list(RecomputationMode)),
    recomputes=st.booleans(),
    io_tiles=st.sampled_from([0, 0, 32]),
    accumulation=COUNTS,
    per_execution=COUNTS,
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
    if asked.stages:
        assignments = model.get_pipeline_stage_assignment()
        for assignment, stage in zip(assignments, asked.stages, strict=True):
            assignment.pipeline_stage = stage
        model.set_pipeline_stage_assignment(assignments)
        model.set_pipelining_options(
            asked.accumulation,
            # None would leave what the call before has set.
            device_mapping=list(asked.mapping or range(max(asked.stages) + 1)),
            pipeline_schedule=asked.schedule,
            recomputation_mode=asked.mode,
        )
    else:
        model.set_gradient_accumulation_options(asked.accumulation)
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
    )


def first_error(problems: tuple[Problem, ...]) -> Problem | None:
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
    if wrong is None or wrong.where not in SUGGESTED:
        return
    for number in suggested(wrong):
        changed: dict[str, Any] = {SUGGESTED[wrong.where]: number}
        still = map(rule_of, check_request(replace(request, **changed)))
        assert rule_of(wrong) not in still, f"{wrong} names {number}"


def assert_functions_agree(asked: Asked) -> None:
    """Whoever brings functions has no layers, devices or epochs to be wrong."""
    asked = replace(asked, ipus=8, batches=64 * asked.accumulation)
    per_execution = asked.accumulation
    wrong = next(
        (
            item
            for item in check_request(
                replace(request_of(asked), steps_per_execution=per_execution)
            )
            if item.severity is Severity.ERROR
            and item.where not in ("ipu.auto_select_ipus", "data.batch_size")
            and not (
                item.where == "pipeline.stages" and "at least two" not in str(item)
            )
        ),
        None,
    )
    try:
        call_functions(asked)
    except Exception as error:
        answer = answer_of(error)
    else:
        answer = ("AcceptedError", "")
    assert answer == expected_of(wrong)


QUICK = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
THOROUGH = settings(QUICK, max_examples=2000)
FUNCTIONS = ASKED.filter(lambda asked: asked.stages and min(asked.stages) >= 0)


@given(ASKED)
@QUICK
def test_keras_and_the_plan_agree(asked: Asked) -> None:
    assert_same_answer(asked)


@given(FUNCTIONS)
@settings(QUICK, max_examples=50)
def test_pipelines_of_functions_and_the_plan_agree(asked: Asked) -> None:
    assert_functions_agree(asked)


@pytest.mark.thorough
@given(ASKED)
@THOROUGH
def test_keras_and_the_plan_agree_always(asked: Asked) -> None:
    assert_same_answer(asked)


def test_an_inner_interceptor_gives_the_outer_one_back() -> None:
    outer = StopsWhenChecked()
    with intercepted_by(outer):
        with intercepted_by(StopsWhenChecked()):
            pass
        assert current_interceptor() is outer
    assert current_interceptor() is None
