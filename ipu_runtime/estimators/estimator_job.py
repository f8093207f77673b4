"""The processes that run an estimator's programs together, mode by mode."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf

from ipu_runtime.estimators.tf_estimator import ModeKeys, RunConfig
from ipu_runtime.ipu_strategy import IPUStrategyV1
from ipu_runtime.strategies.replica_reductions import reductions_on_device
from ipu_runtime.system.emulated_device import device_instance
from ipu_runtime.system.instances import Instance


class EstimatorJob:
    """Who takes part, as the strategies of a run configuration say it."""

    def __init__(self, config: RunConfig) -> None:
        self._strategies = {
            ModeKeys.TRAIN: config.train_distribute,
            ModeKeys.EVAL: config.eval_distribute,
            ModeKeys.PREDICT: None,
        }
        for strategy in self._strategies.values():
            if not isinstance(strategy, (IPUStrategyV1, type(None))):
                raise ValueError(
                    "train_distribute and eval_distribute must be strategies of "
                    f"tensorflow.python.ipu, but one is {strategy!r}."
                )

    @property
    def distributed(self) -> bool:
        """Whether any mode has a strategy."""
        return any(self._strategies.values())

    def workers(self, mode: str) -> int:
        """Return the processes of a mode's strategy."""
        strategy = self._strategies[mode]
        return 1 if strategy is None else strategy.instance.count

    def instance(self, mode: str) -> Instance:
        """Return this process among those that run a mode's program together.

        Without a strategy they train together where they share the device.
        """
        strategy = self._strategies[mode]
        if strategy is not None:
            return strategy.instance
        return device_instance() if mode == ModeKeys.TRAIN else Instance()

    @property
    def is_first(self) -> bool:
        """Whether this process writes for all."""
        modes = (ModeKeys.TRAIN, ModeKeys.EVAL)
        return not any(self.instance(mode).index for mode in modes)

    def input_context(self, mode: str) -> Any:
        """Return which share of the data is this process's; None without strategy."""
        strategy = self._strategies[mode]
        if strategy is None:
            return None
        place, every = strategy.instance, strategy.num_replicas_in_sync
        return tf.distribute.InputContext(place.count, place.index, every)

    def reductions(self, mode: str) -> AbstractContextManager[None]:
        """Let a strategy's optimizers average gradients over all processes."""
        alone = self.workers(mode) == 1
        return nullcontext() if alone else reductions_on_device("mean")
