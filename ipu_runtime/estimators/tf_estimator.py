"""The parts of `tf.estimator` that IPU scripts use; TensorFlow 2.21 has none of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ipu_runtime.estimators import serving_inputs
from ipu_runtime.installing.public_names import ABSENT

export = serving_inputs
CheckpointSaverHook = tf.compat.v1.train.CheckpointSaverHook
CheckpointSaverListener = tf.compat.v1.train.CheckpointSaverListener
FinalOpsHook = tf.compat.v1.train.FinalOpsHook
GlobalStepWaiterHook = tf.compat.v1.train.GlobalStepWaiterHook
LoggingTensorHook = tf.compat.v1.train.LoggingTensorHook
NanLossDuringTrainingError = tf.compat.v1.train.NanLossDuringTrainingError
NanTensorHook = tf.compat.v1.train.NanTensorHook
ProfilerHook = tf.compat.v1.train.ProfilerHook
SessionRunArgs = tf.compat.v1.train.SessionRunArgs
SessionRunContext = tf.compat.v1.train.SessionRunContext
SessionRunHook = tf.compat.v1.train.SessionRunHook
SessionRunValues = tf.compat.v1.train.SessionRunValues
StepCounterHook = tf.compat.v1.train.StepCounterHook
StopAtStepHook = tf.compat.v1.train.StopAtStepHook
SummarySaverHook = tf.compat.v1.train.SummarySaverHook


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module 'tf.estimator' has no attribute {name!r}{ABSENT}")


class ModeKeys:
    """What a model function is asked to build."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class WarmStartSettings(NamedTuple):
    """Where a new model takes the first values of its variables from."""

    ckpt_to_initialize_from: str
    vars_to_warm_start: Any = ".*"
    var_name_to_vocab_info: Mapping[str, Any] | None = None
    var_name_to_prev_var_name: Mapping[str, str] | None = None


class _SpecFields(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: Mapping[str, Any]
    export_outputs: Mapping[str, Any] | None
    training_chief_hooks: tuple[Any, ...]
    training_hooks: tuple[Any, ...]
    scaffold: Any
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


class EstimatorSpec(_SpecFields):
    """What a model function returns."""

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Mapping[str, Any] | None = None,
        export_outputs: Mapping[str, Any] | None = None,
        training_chief_hooks: Sequence[Any] | None = None,
        training_hooks: Sequence[Any] | None = None,
        scaffold: Any = None,
        evaluation_hooks: Sequence[Any] | None = None,
        prediction_hooks: Sequence[Any] | None = None,
    ) -> EstimatorSpec:
        check_mode_has_parts(mode, predictions, loss, train_op)
        return super().__new__(
            cls,
            mode=mode,
            predictions={} if predictions is None else predictions,
            loss=loss,
            train_op=train_op,
            eval_metric_ops=dict(eval_metric_ops or {}),
            export_outputs=export_outputs,
            training_chief_hooks=tuple(training_chief_hooks or ()),
            training_hooks=tuple(training_hooks or ()),
            scaffold=scaffold,
            evaluation_hooks=tuple(evaluation_hooks or ()),
            prediction_hooks=tuple(prediction_hooks or ()),
        )


def check_mode_has_parts(mode: str, predictions: Any, loss: Any, train_op: Any) -> None:
    """Raise if a model function leaves out what its mode needs."""
    modes = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)
    if mode not in modes:
        raise ValueError(f"mode is {mode!r}; valid modes are {', '.join(modes)}.")
    if mode == ModeKeys.TRAIN and train_op is None:
        raise ValueError("Missing train_op: training needs one in the EstimatorSpec.")
    if mode in (ModeKeys.TRAIN, ModeKeys.EVAL) and loss is None:
        raise ValueError(f"Missing loss: mode {mode!r} needs one in the EstimatorSpec.")
    if mode == ModeKeys.PREDICT and predictions is None:
        raise ValueError("Missing predictions: the EstimatorSpec has none.")


class RunConfig:
    """How an estimator runs: directories, seed, checkpoints and logging."""

    def __init__(
        self,
        model_dir: str | None = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: int | None = None,
        save_checkpoints_secs: float | None = None,
        session_config: Any = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: Any = None,
        device_fn: Callable[..., str] | None = None,
        protocol: str | None = None,
        eval_distribute: Any = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: int | None = None,
        session_creation_timeout_secs: int = 7200,
        checkpoint_save_graph_def: bool = True,
    ) -> None:
        if save_checkpoints_steps is not None and save_checkpoints_secs is not None:
            raise ValueError(
                "Only one of save_checkpoints_steps and save_checkpoints_secs may be "
                f"given, but they are {save_checkpoints_steps} and "
                f"{save_checkpoints_secs}."
            )
        if keep_checkpoint_max is not None and keep_checkpoint_max < 0:
            raise ValueError(
                f"keep_checkpoint_max is {keep_checkpoint_max}; it must be at least 0 "
                "(0 keeps all)."
            )
        if save_checkpoints_steps is None and save_checkpoints_secs is None:
            save_checkpoints_secs = 600
        self.model_dir = str(model_dir) if model_dir is not None else None
        self.tf_random_seed = tf_random_seed
        self.save_summary_steps = save_summary_steps
        self.save_checkpoints_steps = save_checkpoints_steps
        self.save_checkpoints_secs = save_checkpoints_secs
        self.session_config = session_config
        self.keep_checkpoint_max = keep_checkpoint_max
        self.keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self.log_step_count_steps = log_step_count_steps
        of_modes = experimental_distribute
        self.train_distribute = train_distribute or getattr(
            of_modes, "train_distribute", None
        )
        self.device_fn = device_fn
        self.protocol = protocol
        self.eval_distribute = eval_distribute or getattr(
            of_modes, "eval_distribute", None
        )
        self.experimental_distribute = experimental_distribute
        self.experimental_max_worker_delay_secs = experimental_max_worker_delay_secs
        self.session_creation_timeout_secs = session_creation_timeout_secs
        self.checkpoint_save_graph_def = checkpoint_save_graph_def
        self.is_chief = True
        self.num_worker_replicas = 1
