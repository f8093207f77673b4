"""Sessions of estimators: what is saved, restored, counted and watched in them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.replica_variables import FirstValues
from ipu_runtime.estimators.estimator_loop import EstimatorProgram
from ipu_runtime.estimators.model_directory import model_saver, newest_checkpoint
from ipu_runtime.estimators.tf_estimator import SessionRunHook, WarmStartSettings
from ipu_runtime.ipu_run_config import RunConfig

logger = logging.getLogger("tensorflow")
v1 = tf.compat.v1
_LARGEST_WRITTEN_GRAPH = 8_000_000


@dataclass(frozen=True)
class LoopEnd:
    """What the host does after each loop of training: show the loss."""

    loss: Any
    """The mean over the loop, as hooks see it."""
    _loss_value: Any

    @classmethod
    def build(cls) -> LoopEnd:
        """Build the host's part in the current graph."""
        loss_value = v1.placeholder_with_default(0.0, [], name="loss_value")
        loss = tf.identity(loss_value, name="loss")
        summary = tf.raw_ops.ScalarSummary(tags="loss", values=loss)
        v1.add_to_collection(v1.GraphKeys.SUMMARIES, summary)
        return cls(loss, loss_value)

    def run(self, step_context: Any, loss: float, host_operation: Any) -> None:
        """Run the host's operation with all hooks watching."""
        fetches = [item for item in (self.loss, host_operation) if item is not None]
        step_context.run_with_hooks(fetches, {self._loss_value: loss})


@dataclass(frozen=True)
class TrainingWatch:
    """Who watches a training besides the estimator itself."""

    hooks: Sequence[Any] = ()
    saving_listeners: Sequence[Any] = ()
    stops_at_nan: bool = True


def training_session(
    config: RunConfig,
    model_dir: str,
    program: EstimatorProgram,
    loss: Any,
    watch: TrainingWatch,
    warm_start_from: str | WarmStartSettings | None,
) -> Any:
    """Return a session that goes on from the newest checkpoint and writes others.

    Of several processes the first one reads and writes them, for all.
    """
    first = program.instance.index == 0
    path = newest_checkpoint(model_dir) if first else None
    if first and not path and warm_start_from:
        _warm_start(warm_start_from)
    saver = model_saver(
        path,
        max_to_keep=config.keep_checkpoint_max,
        keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
    )

    def restore(scaffold: Any, session: Any) -> None:
        saver.restore(session, path)

    # Not by `checkpoint_dir`: a session begins anew where it cannot read there.
    scaffold = v1.train.Scaffold(saver=saver, init_fn=restore if path else None)
    saver_hooks = [
        v1.train.CheckpointSaverHook(
            model_dir,
            save_secs=config.save_checkpoints_secs,
            save_steps=config.save_checkpoints_steps,
            scaffold=scaffold,
            listeners=list(watch.saving_listeners),
            save_graph_def=config.checkpoint_save_graph_def and _small_graph(),
        )
    ]
    every = config.log_step_count_steps
    return v1.train.MonitoredTrainingSession(
        summary_dir=model_dir if first else None,
        scaffold=scaffold,
        hooks=[
            _BroadcastHook(program),
            *([v1.train.NanTensorHook(loss)] if watch.stops_at_nan else []),
            *([_loss_logging(loss, every)] if every else []),
            *watch.hooks,
            *program.hooks,
        ],
        chief_only_hooks=saver_hooks if first else [],
        save_checkpoint_secs=0,
        save_summaries_steps=config.save_summary_steps,
        log_step_count_steps=every,
        config=config.session_config,
    )


def restored_session(
    config: RunConfig, program: EstimatorProgram, hooks: Sequence[Any], path: str | None
) -> Any:
    """Return a session with the values of a checkpoint, or initial ones without.

    Several processes that run the program together have those of the first one.
    """
    path = path if program.instance.index == 0 else None
    creator = v1.train.ChiefSessionCreator(
        v1.train.Scaffold(saver=model_saver(path)),
        config=config.session_config,
        checkpoint_filename_with_path=path,
    )
    every_hook = [_BroadcastHook(program), *hooks, *program.hooks]
    return v1.train.MonitoredSession(creator, every_hook)


class _BroadcastHook(SessionRunHook):
    """Brings every replica to the state of the first once variables have values."""

    def __init__(self, program: EstimatorProgram) -> None:
        self._operations = list(program.broadcasts)
        handles = [variable.handle for variable in v1.global_variables()]
        first = program.replicas * program.instance.index
        self._first_values = FirstValues(handles, program.instance, first)

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._first_values.take(session)
        session.run(self._operations)


def _loss_logging(loss: Any, every: int) -> Any:
    tensors = {"loss": loss, "step": v1.train.get_global_step()}
    return v1.train.LoggingTensorHook(tensors, every_n_iter=every)


def _small_graph() -> bool:
    """Tell whether writing the graph as text is worth it; data inside make it huge."""
    constants = sum(
        tensor.shape.num_elements() * tensor.dtype.size
        for operation in v1.get_default_graph().get_operations()
        if operation.type == "Const"
        for tensor in operation.outputs
        if tensor.dtype.size is not None
    )
    if constants <= _LARGEST_WRITTEN_GRAPH:
        return True
    logger.info(
        "The graph holds %d MB of constants; graph.pbtxt and .meta are left out",
        constants // 1_000_000,
    )
    return False


def _warm_start(source: str | WarmStartSettings) -> None:
    if not isinstance(source, WarmStartSettings):
        source = WarmStartSettings(str(source))
    v1.train.warm_start(
        source.ckpt_to_initialize_from,
        source.vars_to_warm_start,
        source.var_name_to_vocab_info,
        source.var_name_to_prev_var_name,
    )
