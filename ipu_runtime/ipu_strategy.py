"""`ipu.ipu_strategy`: create and run models on the emulated IPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import tensorflow as tf

from ipu_runtime.keras.extensions.creation import extending_models
from ipu_runtime.strategies.dataset_iterators import device_dataset_iterators
from ipu_runtime.strategies.older_keras import refusing_older_keras
from ipu_runtime.strategies.replica_programs import ReplicaPrograms
from ipu_runtime.strategies.replica_reductions import reduce_over_replicas, reducing
from ipu_runtime.strategies.strategy_stack import strategy_entered
from ipu_runtime.system.instances import Instance

_FUNCTIONS = (
    tf.types.experimental.GenericFunction,
    tf.types.experimental.ConcreteFunction,
)


class IPUStrategyV1(tf.distribute.Strategy):
    """A strategy for one device of one or more IPUs.

    It is a `tf.distribute.Strategy` by type; TensorFlow itself keeps using its default
    strategy inside the scope, because all emulated IPUs live on the host.
    """

    allows_pipeline_stages = True

    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        cpu_device: str = "/device:CPU:0",
        enable_dataset_iterators: bool = True,
        enable_keras_extensions: bool = True,
    ) -> None:
        super().__init__(tf.distribute.get_strategy().extended)
        self.ipu_device = ipu_device
        """The device that models and `run` use."""
        self.cpu_device = cpu_device
        self.enable_dataset_iterators = enable_dataset_iterators
        self.enable_keras_extensions = enable_keras_extensions
        self._programs = ReplicaPrograms()

    @contextmanager
    def scope(self) -> Iterator[IPUStrategyV1]:
        """Let models, variables and dataset iterators made inside belong to the IPU."""
        with ExitStack() as entered:
            entered.enter_context(strategy_entered(self))
            entered.enter_context(refusing_older_keras())
            if self.enable_keras_extensions:
                entered.enter_context(extending_models())
            if self.enable_dataset_iterators:
                entered.enter_context(device_dataset_iterators())
            yield self

    def run(
        self,
        fn: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Any = None,
    ) -> Any:
        """Run a `tf.function` as one program on all replicas of the device.

        Returns what the first replica returns. Every call starts all replicas from
        the variables as the host sees them.
        """
        del options  # It tunes strategies with several hosts.
        if not isinstance(fn, _FUNCTIONS):
            if tf.executing_eagerly():
                raise ValueError(
                    "IPUStrategy.run(...) does not support eager execution: decorate "
                    f"{getattr(fn, '__name__', fn)!r} with tf.function."
                )
            fn = tf.function(fn)
        keywords = dict(kwargs or {})
        if reducing():
            return fn(*args, **keywords)
        with self.scope():
            return self._programs.run(
                fn, args, keywords, self.ipu_device, self.instance
            )

    def experimental_run_v2(self, *_: Any, **__: Any) -> None:
        """Raise: it was renamed to `run` long ago."""
        raise RuntimeError("experimental_run_v2 has been removed: use `run`.")

    def reduce(self, reduce_op: Any, value: Any, axis: Any) -> Any:
        """Reduce over replicas inside `run`; the host has one value, which it keeps."""
        return reduce_over_replicas(reduce_op, value, axis)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """Return the one local value as a tuple."""
        return (value,)

    @property
    def num_replicas_in_sync(self) -> int:
        """Always 1, so that Keras does not divide losses by the replicas."""
        return 1

    @property
    def supports_loss_scaling(self) -> bool:
        """Always true."""
        return True

    @property
    def instance(self) -> Instance:
        """This process alone, whoever has started it."""
        return Instance()

    def loss_scale(self, local_replicas: int) -> int:
        """Return the replicas by which losses are divided: they are not."""
        del local_replicas
        return 1


IPUStrategy = IPUStrategyV1
