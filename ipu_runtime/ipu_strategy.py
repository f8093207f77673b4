"""`ipu.ipu_strategy`: create and run models on the emulated IPU."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import tensorflow as tf

from ipu_runtime.dataset_iterators import device_dataset_iterators
from ipu_runtime.device_state import current_state
from ipu_runtime.keras.extensions.creation import extending_models
from ipu_runtime.strategy_stack import strategy_entered

logger = logging.getLogger("tensorflow")

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
        self._warned = False

    @contextmanager
    def scope(self) -> Iterator[IPUStrategyV1]:
        """Let models, variables and dataset iterators made inside belong to the IPU."""
        with ExitStack() as entered:
            entered.enter_context(strategy_entered(self))
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
        """Run a `tf.function` as one program, and return what it returns."""
        del options  # It tunes strategies with several hosts.
        if tf.executing_eagerly() and not isinstance(fn, _FUNCTIONS):
            raise ValueError(
                "IPUStrategy.run(...) does not support eager execution: decorate "
                f"{getattr(fn, '__name__', fn)!r} with tf.function."
            )
        keywords = dict(kwargs or {})
        self._warn_about_replicas()
        with self.scope():
            if isinstance(fn, tf.types.experimental.GenericFunction):
                traced = fn.get_concrete_function(*args, **keywords)
                _check_types(traced.inputs[: _explicit(traced)], "input")
                _check_types(traced.outputs, "output")
            return fn(*args, **keywords)

    def experimental_run_v2(self, *_: Any, **__: Any) -> None:
        """Raise: it was renamed to `run` long ago."""
        raise RuntimeError("experimental_run_v2 has been removed: use `run`.")

    def reduce(self, reduce_op: Any, value: Any, axis: Any) -> Any:
        """Return the value unchanged: the host holds one value, already reduced."""
        del axis  # There is one value, which has no axis of replicas.
        if str(reduce_op).rpartition(".")[2].upper() not in ("SUM", "MEAN"):
            raise ValueError(
                f"Only SUM and MEAN are supported on the IPU, not {reduce_op!r}."
            )
        return value

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

    def loss_scale(self, local_replicas: int) -> int:
        """Return the replicas by which losses are divided: they are not."""
        del local_replicas
        return 1

    def _warn_about_replicas(self) -> None:
        ipus = current_state().ipus(self.ipu_device)
        if ipus > 1 and not self._warned:
            self._warned = True
            logger.warning(
                "IPUStrategy.run executes one replica in the emulator: %d of the %d "
                "IPUs of %s stay idle.",
                ipus - 1,
                ipus,
                self.ipu_device,
            )


IPUStrategy = IPUStrategyV1


def _explicit(traced: Any) -> int:
    """Return how many inputs are arguments; the others are captured variables."""
    return len(traced.inputs) - len(traced.captured_inputs)


def _check_types(tensors: Sequence[Any], what: str) -> None:
    if any(tensor.dtype == tf.float64 for tensor in tensors):
        raise TypeError(f"Unsupported data type for {what}: float64")
