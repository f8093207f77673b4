"""Printing, queues, counters, barriers and placement inside of programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime import ipu_compiler, loops, scopes, sharding
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.ops import control_flow_ops, internal_ops
from ipu_runtime.ops.pipelining_ops import PipelineSchedule
from ipu_runtime.pipelining.pipeline_op import OptimizerFunctionOutput, pipeline
from tests.runtime.ops.replicated import configure, on_replicas

pytestmark = pytest.mark.slow
v1 = tf.compat.v1


def test_fifo_returns_what_came_some_iterations_ago_on_every_replica() -> None:
    rows = np.arange(1, 13, dtype=np.float32)
    late = on_replicas(
        lambda row: [internal_ops.fifo(row, 2), internal_ops.fifo(row, 0)],
        rows,
        replicas=2,
        times=6,
    )
    by_time = rows.reshape(6, 2)
    np.testing.assert_array_equal(late[0][2:], by_time[:4])
    np.testing.assert_array_equal(late[0][:2], 0)
    np.testing.assert_array_equal(late[1], by_time)


def test_fifo_starts_empty_in_every_run_of_a_program() -> None:
    configure(1)
    with tf.Graph().as_default(), scopes.ipu_scope("/device:IPU:0"):
        x = v1.placeholder(tf.float32, [2])
        program = ipu_compiler.compile(
            lambda x: loops.repeat(3, lambda z: internal_ops.fifo(z + 1, 2), [x]), [x]
        )
        with v1.Session() as session:
            results = [session.run(program, {x: [5, 6]})[0] for _ in range(2)]
    # 0, then 0, then the first input plus one.
    np.testing.assert_array_equal(results, [[6, 7]] * 2)


def test_fifo_works_in_functions_and_has_no_gradient() -> None:
    @tf.function
    def late(values: Any) -> Any:
        results = tf.TensorArray(tf.float32, 4)
        for index in tf.range(4):
            results = results.write(index, internal_ops.fifo(values[index], 1))
        return results.stack()

    configure(1)
    assert IPUStrategy().run(late, [tf.range(4.0)]).numpy().tolist() == [0, 0, 1, 2]
    value = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(value)
        result = internal_ops.fifo(value, 1)
    assert tape.gradient(result, value) is None


def _pipelined(schedule: Any, training: bool) -> Any:
    """Return the counters that two stages see, over two runs of six micro-batches."""
    configure(2)
    with tf.Graph().as_default():
        data = tf.data.Dataset.range(12).map(lambda x: tf.cast(x, tf.float32))
        infeed, outfeed = IPUInfeedQueue(data), IPUOutfeedQueue()

        def first(x: Any) -> Any:
            weight = v1.get_variable("weight", initializer=1.0, use_resource=True)
            return x * weight, internal_ops.get_current_iteration_counter()

        def second(x: Any, seen: Any) -> Any:
            here = internal_ops.get_current_iteration_counter()
            return [x, seen, here] if training else [seen, here]

        def update(loss: Any, *_: Any) -> OptimizerFunctionOutput:
            return OptimizerFunctionOutput(v1.train.GradientDescentOptimizer(0.0), loss)

        with scopes.ipu_scope("/device:IPU:0"):
            program = ipu_compiler.compile(
                lambda: pipeline(
                    [first, second],
                    4,
                    repeat_count=2,
                    infeed_queue=infeed,
                    outfeed_queue=outfeed,
                    optimizer_function=update if training else None,
                    pipeline_schedule=schedule,
                )
            )
        results = outfeed.dequeue()
        with v1.Session() as session:
            session.run([infeed.initializer, v1.global_variables_initializer()])
            session.run(program)
            return [item.tolist() for item in session.run(results)[-2:]]


@pytest.mark.parametrize("training", [False, True])
def test_the_iteration_counter_starts_again_with_every_update(training: bool) -> None:
    counters = _pipelined(PipelineSchedule.Grouped, training)
    assert counters == [[0, 1, 2, 3] * 2] * 2


def test_the_iteration_counter_counts_loops_and_needs_one() -> None:
    counted = on_replicas(
        lambda row: internal_ops.get_current_iteration_counter(),
        np.ones(3, np.float32),
        1,
        3,
    )
    assert counted.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="inside a stage of"):
        internal_ops.get_current_iteration_counter()


def test_printed_tensors_go_to_the_standard_error(capfd: Any) -> None:
    configure(1)
    with tf.Graph().as_default(), scopes.ipu_scope("/device:IPU:0"):
        values = tf.range(20)

        def body(values: Any) -> Any:
            return values + 1, internal_ops.print_tensor(values, "numbers")

        program = ipu_compiler.compile(body, [values])
        with v1.Session() as session:
            (result,) = session.run(program)
    assert result[0] == 1
    written = capfd.readouterr().err
    assert "numbers:" in written
    assert " ".join(str(number) for number in range(20)) in written


def test_compiled_functions_can_print(capfd: Any) -> None:
    @tf.function(jit_compile=True)
    def show(x: Any) -> Any:
        internal_ops.print_tensor(x, "inside")
        return x * 2

    configure(1)
    assert float(IPUStrategy().run(show, [tf.constant(4.0)])) == 8
    assert "inside: 4" in capfd.readouterr().err


def test_stages_print_every_micro_batch(capfd: Any) -> None:
    configure(2)
    outfeed = IPUOutfeedQueue()

    @tf.function
    def run(x: Any) -> None:
        def first(x: Any) -> Any:
            internal_ops.print_tensor(x, "stage")
            return x + 1

        pipeline([first, lambda x: x], 2, inputs=[x], outfeed_queue=outfeed)

    IPUStrategy().run(run, [tf.constant(7.0)])
    assert capfd.readouterr().err.count("stage: 7") == 2


def test_copies_and_barriers_keep_values_and_gradients() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        copies = [internal_ops.remap(x), internal_ops.remap_deduce(x)]
        for together in (False, True):
            barred = control_flow_ops.barrier({"a": x * 2, "b": x}, together)
            copies += [barred["a"], barred["b"]]
        total = tf.add_n(copies)
    np.testing.assert_array_equal(total, x * 8)
    np.testing.assert_array_equal(tape.gradient(total, x), [8, 8])


def test_nothing_passes_a_barrier_before_all_are_there() -> None:
    with tf.Graph().as_default():
        slow, quick = tf.constant(1.0) + 1, tf.constant(2)
        _, quick_after = control_flow_ops.barrier([slow, quick])
        assert slow.op in sharding.dependencies([quick_after])


def test_placement_can_be_asked_for_and_given_to_gradients() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.constant(2.0)
        with scopes.ipu_shard(1):
            y = x * 3
        with scopes.ipu_shard([0, 1]):
            z = y + 1
        (gradient,) = v1.gradients(z, [x], colocate_gradients_with_ops=True)
        assert sharding.get_sharding(y.op) == [1]
        assert sharding.get_sharding(z.op) == [0, 1]
        assert sharding.get_sharding(x.op) is None
        assert sharding.get_sharding(gradient.op) is None
        assert not sharding.has_attr(gradient.op, "_XlaSharding")
        sharding.propagate_sharding(graph)
        assert sharding.get_sharding(gradient.op) == [1]
        assert sharding.get_shard_from_colocation(gradient.op) == y.op.get_attr(
            "_XlaSharding"
        )
    assert sharding.enable_sharded_gradient_tape() is None  # type: ignore[func-returns-value]
