"""Feeds, loops, compiled programs, cross-replica operations and pipelines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime import ipu_compiler, loops, optimizers, scopes
from ipu_runtime.config import IPUConfig, reset_ipu_configuration
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.ops import all_to_all_op, cross_replica_ops, rand_ops, replication_ops
from ipu_runtime.ops.pipelining_ops import PipelineSchedule
from ipu_runtime.pipelining.pipeline_op import OptimizerFunctionOutput, pipeline
from tests.runtime.estimators.estimator_models import batches, loss_of

pytestmark = pytest.mark.slow
v1 = tf.compat.v1


def _configure(ipus: int) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def _numbers(count: int = 12) -> Any:
    return tf.data.Dataset.range(count).map(lambda x: tf.cast(x, tf.float32))


def _run(
    build: Callable[[], Any], fetch: Callable[[Any], Any], ipus: int = 1, runs: int = 1
) -> Any:
    """Compile `build` for a device, run it, and return what is fetched."""
    _configure(ipus)
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(_numbers(), feed_name="in")
        with scopes.ipu_scope("/device:IPU:0"):
            program = ipu_compiler.compile(lambda: build(infeed))  # type: ignore[call-arg]
        fetches = fetch(program)
        with v1.Session() as session:
            session.run([infeed.initializer, v1.global_variables_initializer()])
            for _ in range(runs):
                session.run(program)
            return session.run(fetches)


def test_repeat_deals_batches_to_replicas_in_turn() -> None:
    queue = IPUOutfeedQueue("out")

    def build(infeed: IPUInfeedQueue) -> Any:
        return loops.repeat(3, lambda x: queue.enqueue(x), [], infeed)

    values = _run(build, lambda _: queue.dequeue(), ipus=2)
    assert values.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_a_body_is_called_as_it_is_written() -> None:
    # Autograph stops at the package, as it does at the real one.
    def body(x: Any) -> Any:
        return x + 1 if x < 5 else x

    @tf.function
    def program() -> Any:
        return loops.repeat(3, body, [tf.constant(0)])

    _configure(1)
    with pytest.raises(TypeError, match="Python `bool`"):
        IPUStrategy().run(program)


def test_an_outfeed_collects_over_runs_and_last_keeps_the_newest() -> None:
    every, last = IPUOutfeedQueue(), IPUOutfeedQueue(IPUOutfeedMode.LAST)

    def build(infeed: IPUInfeedQueue) -> Any:
        def body(x: Any) -> Any:
            return every.enqueue({"x": x}), last.enqueue(x * 10)

        return loops.repeat(2, body, [], infeed)

    def fetch(_: Any) -> Any:
        return every.dequeue(), last.dequeue()

    everything, newest = _run(build, fetch, runs=3)
    assert everything["x"].tolist() == [0, 1, 2, 3, 4, 5]
    assert newest == 50


def test_the_last_of_two_replicas_never_waits_for_a_value_the_other_took() -> None:
    queue = IPUOutfeedQueue(IPUOutfeedMode.LAST)

    def build(infeed: IPUInfeedQueue) -> Any:
        del infeed
        return loops.repeat(
            3000, lambda x: [x + 1.0, queue.enqueue(x)], [tf.constant(0.0)]
        )

    newest = _run(build, lambda _: queue.dequeue(), ipus=2)
    assert newest.tolist() == [2999, 2999]


@pytest.mark.parametrize(
    ("made_eagerly", "configured_last"), [(False, True), (True, True), (False, False)]
)
def test_replicas_are_those_of_the_device_when_the_program_runs(
    made_eagerly: bool, configured_last: bool
) -> None:
    reset_ipu_configuration()
    infeed = IPUInfeedQueue(_numbers()) if made_eagerly else None
    queue = IPUOutfeedQueue()
    with tf.Graph().as_default():
        feed = infeed or IPUInfeedQueue(_numbers())

        def body(x: Any) -> Any:
            return queue.enqueue(cross_replica_ops.cross_replica_sum(x))

        with scopes.ipu_scope("/device:IPU:0"):
            program = ipu_compiler.compile(lambda: loops.repeat(3, body, [], feed))
            total = ipu_compiler.compile(
                lambda x: cross_replica_ops.cross_replica_sum(x), [tf.constant(4.0)]
            )
        if not configured_last:
            _configure(4)
        results = queue.dequeue()
        if configured_last:
            _configure(4)
        with v1.Session() as session:
            session.run(feed.initializer)
            session.run(program)
            assert session.run(results).tolist() == [[6] * 4, [22] * 4, [38] * 4]
            assert session.run(total) == [16.0]


def test_a_program_that_ran_is_not_silently_kept_for_other_replicas() -> None:
    _configure(2)
    with tf.Graph().as_default(), scopes.ipu_scope("/device:IPU:0"):
        total = ipu_compiler.compile(
            lambda x: cross_replica_ops.cross_replica_sum(x), [tf.constant(4.0)]
        )
        with v1.Session() as session:
            assert session.run(total) == [8.0]
            _configure(4)
            with pytest.raises(RuntimeError, match="compiled for 2 replica"):
                session.run(total)


def test_loops_carry_values_and_check_them() -> None:
    _configure(1)
    with tf.Graph().as_default(), scopes.ipu_scope("/device:IPU:0"):
        total, count = ipu_compiler.compile(
            lambda: loops.repeat(4, lambda x, n: [x * 2.0, n + 1], [1.0, 0])
        )
        until = ipu_compiler.compile(
            lambda x: loops.while_loop(lambda i: i < 10, lambda i: i + 3, [x]),
            [tf.constant(0)],
        )
        with v1.Session() as session:
            assert session.run([total, count]) == [16.0, 4]
            assert session.run(until) == [12]
        with pytest.raises(TypeError, match="returned 1 tensor"):
            loops.repeat(2, lambda x, y: x, [1.0, 2.0])
        with pytest.raises(TypeError, match="returned int32"):
            loops.repeat(2, lambda x: tf.constant(1), [1.0])
        with pytest.raises(ValueError, match="followed by"):
            loops.repeat(2, lambda x: [tf.no_op(), x], [1.0])


def test_cross_replica_operations_reduce_over_replicas() -> None:
    queue = IPUOutfeedQueue()

    def build(infeed: IPUInfeedQueue) -> Any:
        def body(x: Any) -> Any:
            return queue.enqueue(
                {
                    "sum": cross_replica_ops.cross_replica_sum(x),
                    "mean": cross_replica_ops.cross_replica_mean(x),
                    "pairs": cross_replica_ops.cross_replica_sum(x, 2),
                    "index": replication_ops.replication_index(),
                    "all": all_to_all_op.all_gather(x, 4),
                }
            )

        return loops.repeat(1, body, [], infeed)

    values = _run(build, lambda _: queue.dequeue(), ipus=4)
    assert values["sum"].tolist() == [[6, 6, 6, 6]]
    assert values["mean"].tolist() == [[1.5] * 4]
    assert values["pairs"].tolist() == [[1, 1, 5, 5]]
    assert values["index"].tolist() == [[0, 1, 2, 3]]
    assert values["all"][0, 2].tolist() == [0, 1, 2, 3]


def test_sharding_uses_several_ipus_for_one_replica() -> None:
    queue = IPUOutfeedQueue()

    def build(infeed: IPUInfeedQueue) -> Any:
        def body(x: Any) -> Any:
            with scopes.ipu_shard(0):
                y = x + 1
            with scopes.ipu_shard(1):
                return queue.enqueue(y * 2)

        return loops.repeat(2, body, [], infeed)

    assert _run(build, lambda _: queue.dequeue(), ipus=4).tolist() == [[2, 4], [6, 8]]
    assert _run(build, lambda _: queue.dequeue(), ipus=2).tolist() == [2, 4]


def test_replicas_restart_from_the_first_one_in_every_program_run() -> None:
    queue = IPUOutfeedQueue()

    def build(infeed: IPUInfeedQueue) -> Any:
        def body(x: Any) -> Any:
            total = v1.get_variable(
                "total", [], initializer=v1.zeros_initializer(), use_resource=True
            )
            return queue.enqueue(total.assign_add(x, read_value=True))

        return loops.repeat(2, body, [], infeed)

    values = _run(build, lambda _: queue.dequeue(), ipus=2, runs=2)
    assert values.tolist() == [[0, 1], [2, 4], [6, 7], [12, 14]]


def test_compile_needs_an_ipu_scope() -> None:
    with tf.Graph().as_default(), pytest.raises(Exception, match="ipu_scope"):
        ipu_compiler.compile(lambda: tf.constant(1))


def test_eager_feeds_work_inside_functions() -> None:
    infeed, outfeed = IPUInfeedQueue(_numbers(3)), IPUOutfeedQueue()
    with pytest.raises(ValueError, match="which has not been enqueued"):
        outfeed.dequeue()

    @tf.function
    def step() -> None:
        outfeed.enqueue(infeed._dequeue() * 2)

    infeed.initializer  # noqa: B018 - reading it starts the data
    for _ in range(3):
        step()
    assert outfeed.dequeue().numpy().tolist() == [0, 2, 4]
    assert outfeed.dequeue().shape == [0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of range"):
        step()
    infeed.initializer  # noqa: B018
    step()
    assert [float(item) for item in outfeed] == [0]


def test_feed_rules() -> None:
    with pytest.raises(ValueError, match="drop_remainder=True"):
        IPUInfeedQueue(tf.data.Dataset.range(5).batch(2))
    with pytest.raises(tf.errors.FailedPreconditionError, match="int64"):
        IPUInfeedQueue(tf.data.Dataset.range(5)).initializer  # noqa: B018
    with pytest.raises(ValueError, match="from 1 to 255"):
        IPUInfeedQueue(_numbers(), prefetch_depth=256)
    with pytest.raises(ValueError, match="obsolete"):
        IPUInfeedQueue(_numbers()).get_next()
    with pytest.raises(ValueError, match="at least 1"):
        IPUOutfeedQueue(buffer_depth=0)
    with tf.Graph().as_default():
        queue = IPUOutfeedQueue()
        queue.enqueue(tf.constant(1))
        assert queue.enqueued
        with pytest.raises(ValueError, match="can only be enqueued once"):
            queue.enqueue(tf.constant(2))


def _pipeline_losses(ipus: int = 2, count: int = 4, **options: Any) -> Any:
    """Return what a small trained pipeline sends to the host, and its weights."""
    _configure(ipus)
    outfeed = IPUOutfeedQueue()
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(batches(4))

        def first(features: Any, labels: Any) -> Any:
            with v1.variable_scope("first", use_resource=True):
                w = v1.get_variable("w", [5, 3], initializer=v1.ones_initializer())
            return features @ w * 0.1, labels

        def second(hidden: Any, labels: Any) -> Any:
            with v1.variable_scope("second", use_resource=True):
                w = v1.get_variable(
                    "w", [3, 2], initializer=v1.glorot_uniform_initializer(seed=1)
                )
            return loss_of(labels, hidden @ w), labels

        def optimizer(loss: Any, labels: Any) -> OptimizerFunctionOutput:
            inner = optimizers.MapGradientOptimizer(
                v1.train.GradientDescentOptimizer(0.5), lambda gradient, _: gradient * 2
            )
            return OptimizerFunctionOutput(
                optimizers.CrossReplicaOptimizer(inner), loss
            )

        with scopes.ipu_scope("/device:IPU:0"):
            program = ipu_compiler.compile(
                lambda: pipeline(
                    [first, second],
                    gradient_accumulation_count=count,
                    repeat_count=2,
                    infeed_queue=infeed,
                    outfeed_queue=outfeed,
                    optimizer_function=optimizer,
                    **options,
                )
            )
        values = outfeed.dequeue()
        with v1.Session() as session:
            session.run([infeed.initializer, v1.global_variables_initializer()])
            session.run(program)
            return session.run([values, v1.trainable_variables()])


def test_pipeline_results_reach_the_host_as_asked_for() -> None:
    (losses, labels), whole = _pipeline_losses()
    assert losses.shape == (8,)
    assert labels.shape == (8, 4)
    loss_only, _ = _pipeline_losses(outfeed_loss=True)
    np.testing.assert_array_equal(loss_only, losses)
    (summed,), _ = _pipeline_losses(outfeed_mask=[False, True], accumulate_outfeed=True)
    np.testing.assert_allclose(summed, losses.reshape(2, 4).sum(axis=1), rtol=1e-6)
    (sequential, _), other = _pipeline_losses(
        pipeline_schedule=PipelineSchedule.Sequential
    )
    np.testing.assert_array_equal(sequential, losses)
    for one, two in zip(whole, other, strict=True):
        np.testing.assert_array_equal(one, two)


def test_accumulated_results_of_inference_are_a_list_also_of_one() -> None:
    outfeed = IPUOutfeedQueue()

    def build(infeed: IPUInfeedQueue) -> Any:
        return pipeline(
            [lambda x: x * 2, lambda x: x + 1],
            gradient_accumulation_count=4,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            accumulate_outfeed=True,
        )

    values = _run(build, lambda _: outfeed.dequeue(), ipus=2)
    assert isinstance(values, list)
    np.testing.assert_array_equal(values, [[1 + 3 + 5 + 7]])


class _Noting(v1.train.GradientDescentOptimizer):
    """Updates float16 weights with gradients of another type, and notes the type."""

    def __init__(self, seen: list[Any]) -> None:
        super().__init__(2.0**-12)
        self._seen = seen

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        self._seen += [gradient.dtype for gradient, _ in pairs]
        small = [(tf.cast(g * 2.0**-8, v.dtype), v) for g, v in pairs]
        return super().apply_gradients(small, *args, **kwargs)


def _in_pipeline(loss_of_weight: Any, optimizer: Any) -> Any:
    return lambda: pipeline(
        [lambda: tf.constant(1.0, tf.float16), loss_of_weight],
        gradient_accumulation_count=4,
        gradient_accumulation_dtype=tf.float32,
        outfeed_queue=IPUOutfeedQueue(),
        optimizer_function=lambda loss: OptimizerFunctionOutput(optimizer, loss),
    )


def _in_optimizer(loss_of_weight: Any, optimizer: Any) -> Any:
    def step() -> Any:
        loss = loss_of_weight(tf.constant(1.0, tf.float16))
        accumulating = optimizers.GradientAccumulationOptimizerV2(
            optimizer, 4, dtype=tf.float32
        )
        return accumulating.minimize(loss)

    return lambda: loops.repeat(4, step)


def _half_weight_trained_with(program: Any, optimizer: Any) -> Any:
    """Return a float16 weight after one update with four gradients of 40,000."""

    def loss_of_weight(one: Any) -> Any:
        weight = v1.get_variable("w", [], tf.float16, v1.zeros_initializer())
        return one * weight * 40_000

    _configure(2)
    with tf.Graph().as_default(), v1.variable_scope("", use_resource=True):
        with scopes.ipu_scope("/device:IPU:0"):
            compiled = ipu_compiler.compile(program(loss_of_weight, optimizer))
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(compiled)
            (weight,) = session.run(v1.trainable_variables())
    return weight


@pytest.mark.parametrize("program", [_in_pipeline, _in_optimizer])
def test_gradients_reach_the_optimizer_in_the_type_of_their_accumulator(
    program: Any,
) -> None:
    seen: list[Any] = []
    weight = _half_weight_trained_with(program, _Noting(seen))
    # The sum, 160,000, is no float16.
    assert seen == [tf.float32]
    assert weight == np.float16(-160_000 * 2.0**-20)


@pytest.mark.parametrize("program", [_in_pipeline, _in_optimizer])
def test_optimizers_that_cannot_cast_are_refused(program: Any) -> None:
    inner = v1.train.GradientDescentOptimizer(2.0**-20)
    optimizer = optimizers.CrossReplicaOptimizer(inner)
    with pytest.raises(TypeError, match=r"w:0 \(float16\) are accumulated in float32"):
        _half_weight_trained_with(program, optimizer)


def test_serialized_batches_are_more_micro_batches_of_one_update() -> None:
    options = {"device_mapping": [0, 0], "outfeed_loss": True}
    losses, whole = _pipeline_losses(
        pipeline_schedule=PipelineSchedule.Sequential, ipus=1, **options
    )
    serialized, parts = _pipeline_losses(
        count=2, batch_serialization_iterations=2, ipus=1, **options
    )
    np.testing.assert_array_equal(serialized, losses)
    for one, two in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, two)


def test_functions_of_one_stage_work_on_the_same_values() -> None:
    queue = IPUOutfeedQueue()

    def build(infeed: IPUInfeedQueue) -> Any:
        return pipeline(
            [
                lambda x: x + 1.0,
                [lambda x: x * 2.0, lambda x: x * 3.0],
                lambda a, b: [a, b],
            ],
            3,
            infeed_queue=infeed,
            outfeed_queue=queue,
            device_mapping=[0, [0, 1], 1],
        )

    doubled, tripled = _run(build, lambda _: queue.dequeue(), ipus=2)
    assert doubled.tolist() == [2, 4, 6]
    assert tripled.tolist() == [3, 6, 9]


def test_a_learning_rate_may_come_out_of_a_stage() -> None:
    queue = IPUOutfeedQueue()

    def last(x: Any) -> Any:
        weight = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        return weight + 0.0 * x, x + 1.0

    def update(loss: Any, rate: Any) -> OptimizerFunctionOutput:
        return OptimizerFunctionOutput(
            v1.train.GradientDescentOptimizer(rate * 2.0), loss
        )

    def build(infeed: IPUInfeedQueue) -> Any:
        return pipeline(
            [lambda x: x, last],
            4,
            infeed_queue=infeed,
            outfeed_queue=queue,
            optimizer_function=update,
        )

    weight = _run(build, lambda _: v1.global_variables()[0], ipus=2)
    # Four gradients of 1, at the rate that the last of the batches 0 to 3 asks for.
    assert weight == -4 * (3 + 1) * 2


def test_a_keras_optimizer_gets_its_state_inside_of_a_pipeline() -> None:
    _configure(2)
    weight = tf.Variable(0.0)
    momentum = keras.optimizers.SGD(1.0, momentum=0.5)
    infeed = IPUInfeedQueue(_numbers())

    @tf.function(jit_compile=True)
    def train() -> None:
        pipeline(
            [lambda x: x, lambda x: weight * x],
            4,
            repeat_count=2,
            infeed_queue=infeed,
            outfeed_queue=IPUOutfeedQueue(),
            optimizer_function=lambda loss: OptimizerFunctionOutput(
                momentum, loss, variables=[weight]
            ),
        )

    _ = infeed.initializer
    IPUStrategy().run(train)
    # The gradients of the batches 0 to 3, half of them again, and those of 4 to 7.
    assert weight == -6 + (-0.5 * 6 - 22)


def test_pipeline_reduction_methods_scale_the_update() -> None:
    start = np.ones([5, 3], "float32")
    moved = {
        method: _pipeline_losses(reduction_method=method, outfeed_loss=True)[1][0]
        for method in ("sum", "mean", "running_mean")
    }
    np.testing.assert_allclose(moved["mean"], moved["running_mean"], rtol=1e-5)
    ratio = np.abs(moved["sum"] - start).sum() / np.abs(moved["mean"] - start).sum()
    assert 2.5 < ratio < 5


def test_a_replicated_pipeline_stacks_its_results() -> None:
    (losses, labels), _ = _pipeline_losses(ipus=4)
    assert losses.shape == (8, 2)
    assert labels.shape == (8, 2, 4)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"pipeline_schedule": "Grouped"}, TypeError, "pipeline_schedule"),
        ({"recomputation_mode": "Auto"}, TypeError, "recomputation_mode"),
        ({"device_mapping": 3}, TypeError, "device_mapping"),
        ({"device_mapping": [0]}, ValueError, "1 entries for 2 stages"),
        ({"continuous_weight_updates": True}, NotImplementedError, "continuous"),
        ({"outfeed_mask": [True]}, ValueError, "1 entries for 2 outputs"),
        (
            {"outfeed_loss": True, "outfeed_mask": [True, True]},
            ValueError,
            "Only one",
        ),
        (
            {"batch_serialization_iterations": 2, "reduction_method": "mean"},
            ValueError,
            "reduction SUM",
        ),
    ],
)
def test_pipeline_rules(options: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        _pipeline_losses(**options)


def test_pipeline_counts_and_captures_are_checked() -> None:
    _configure(2)
    stages = [lambda x: x, lambda x: x]
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(_numbers())
        with pytest.raises(ValueError, match="gradient_accumulation_count"):
            pipeline(stages, infeed_queue=infeed)
        with pytest.raises(ValueError, match="at least two"):
            pipeline(stages[:1], 2, infeed_queue=infeed)
        with pytest.raises(tf.errors.FailedPreconditionError, match="multiple of 2"):
            pipeline(stages, 3, infeed_queue=infeed, outfeed_queue=IPUOutfeedQueue())
        with pytest.raises(ValueError, match="has tensor outputs"):
            pipeline(stages, 2, infeed_queue=infeed)
        outside = tf.constant(2.0)
        with pytest.raises(ValueError, match="Trying to capture the tensor"):
            pipeline(
                [lambda x: x * outside, lambda x: x],
                2,
                infeed_queue=infeed,
                outfeed_queue=IPUOutfeedQueue(),
            )


def test_optimizers_wrap_graph_optimizers_only() -> None:
    import keras

    with pytest.raises(ValueError, match=r"wraps tf\.compat\.v1\.train"):
        optimizers.CrossReplicaOptimizer(keras.optimizers.SGD())
    descent = v1.train.GradientDescentOptimizer(0.1)
    with pytest.raises(ValueError, match="positive integer"):
        optimizers.GradientAccumulationOptimizerV2(descent, 0)
    with pytest.raises(ValueError, match="supports GradientDescentOptimizer and"):
        optimizers.GradientAccumulationOptimizer(v1.train.AdamOptimizer(), 2)


def test_dropout_scales_what_it_keeps() -> None:
    kept = rand_ops.dropout(tf.ones([1000]), 0.25, seed=[1, 2]).numpy()
    np.testing.assert_allclose(np.unique(kept), [0, 4 / 3], rtol=1e-6)
    assert 650 < np.count_nonzero(kept) < 850
    with pytest.raises(ValueError, match="below 1"):
        rand_ops.dropout(tf.ones([3]), 1.0)
    with pytest.raises(ValueError, match="as many dimensions"):
        rand_ops.dropout(tf.ones([3, 2]), 0.5, noise_shape=[3])
