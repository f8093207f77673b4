"""`ipu.distributed.popdist_strategy`: replicas of all processes train one model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import tensorflow as tf

from ipu_runtime import popdist
from ipu_runtime.config import IPUConfig
from ipu_runtime.ipu_strategy import IPUStrategyV1
from ipu_runtime.strategies.replica_reductions import reducing
from ipu_runtime.system.cluster import join
from ipu_runtime.system.device_state import current_state
from ipu_runtime.system.instance_exchange import (
    in_session,
    mean_over_instances,
    take_from,
)
from ipu_runtime.system.instances import Instance


class PopDistStrategy(IPUStrategyV1):
    """Divides losses by the replicas of all processes, and sums their gradients.

    Variables that are made in its scope begin with the values of the first process.
    """

    allows_pipeline_stages = False

    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        add_ipu_cross_replica_reductions: bool = True,
        enable_dataset_iterators: bool = True,
        enable_keras_extensions: bool = True,
    ) -> None:
        super().__init__(
            ipu_device,
            enable_dataset_iterators=enable_dataset_iterators,
            enable_keras_extensions=enable_keras_extensions,
        )
        self._instance = join()
        if self._instance.count > 1 and not add_ipu_cross_replica_reductions:
            raise NotImplementedError(
                "The emulator has no add_ipu_cross_replica_reductions=False with "
                f"several instances; there are {self._instance.count}."
            )
        if self._instance.count > 1 and not enable_keras_extensions:
            tf.get_logger().warning(
                "Without enable_keras_extensions, `fit` runs on the host in each of "
                "the %d instances for itself; `strategy.run` trains them together.",
                self._instance.count,
            )
        self._reduce_on_ipu = add_ipu_cross_replica_reductions

    @property
    def instance(self) -> Instance:
        """This process among those that train together."""
        return self._instance

    @property
    def num_replicas_in_sync(self) -> int:
        """Replicas of all processes."""
        if popdist.isPopdistEnvSet():
            return popdist.getNumTotalReplicas()
        return current_state().ipus(self.ipu_device)

    def loss_scale(self, local_replicas: int) -> int:
        """Divide losses by all replicas, so that summed gradients are a mean."""
        self._check_replicas(local_replicas)
        return local_replicas * self._instance.count if self._reduce_on_ipu else 1

    @contextmanager
    def scope(self) -> Iterator[IPUStrategyV1]:
        """Let all processes have the first one's variables, besides the usual."""
        if self._instance.count == 1:
            with super().scope():
                yield self
            return
        with ExitStack() as entered:
            entered.enter_context(super().scope())
            # A session has no values yet: programs take them before they first run.
            if not in_session():
                entered.enter_context(tf.variable_creator_scope(self._begin_equal))
            yield self

    def run(
        self,
        fn: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Any = None,
    ) -> Any:
        """Run a function on all replicas of all processes; not in sessions."""
        if self._instance.count > 1 and in_session():
            raise NotImplementedError(
                f"The emulator has no {type(self).__name__}.run with several instances "
                f"in sessions of TensorFlow 1; there are {self._instance.count}. Use "
                "ipu_compiler.compile with ipu.optimizers.CrossReplicaOptimizer."
            )
        return super().run(fn, args, kwargs, options)

    def reduce(self, reduce_op: Any, value: Any, axis: Any) -> Any:
        """Reduce over all replicas inside `run`; over the processes on the host."""
        reduced = super().reduce(reduce_op, value, axis)
        if reducing() or self._instance.count == 1:
            return reduced
        flat = [tf.convert_to_tensor(item) for item in tf.nest.flatten(reduced)]
        means = mean_over_instances(flat, self._instance)
        factor = 1 if str(reduce_op).upper().endswith("MEAN") else self._instance.count
        return tf.nest.pack_sequence_as(reduced, [mean * factor for mean in means])

    def update_ipu_config(self, config: IPUConfig) -> None:
        """Put this process's place in the job into a configuration."""
        distribution = config.experimental.multi_replica_distribution
        distribution.process_count = popdist.getNumInstances()
        distribution.process_index = popdist.getInstanceIndex()

    def _begin_equal(self, make: Any, **arguments: Any) -> Any:
        """Make a variable with the value that the first process gives to its own."""
        initial = arguments["initial_value"]
        initial = initial() if callable(initial) else initial
        tensor = tf.convert_to_tensor(initial, arguments.get("dtype"))
        arguments["initial_value"] = take_from(0, tensor, self._instance)
        return make(**arguments)

    def _check_replicas(self, local_replicas: int) -> None:
        expected = self._instance.local_replicas
        if self._instance.count > 1 and local_replicas != expected:
            raise ValueError(
                f"The model has {local_replicas} replica(s) in this instance, but "
                f"poprun was started for {expected}: configure the device with "
                "popdist.tensorflow.set_ipu_config, and let --ipus-per-replica be the "
                f"IPUs of the model (it is {self._instance.ipus_per_replica})."
            )
