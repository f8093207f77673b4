"""Places inside Keras and TensorFlow where habits of older scripts are accepted."""

from __future__ import annotations

from typing import Any

from keras.src.backend import compute_output_spec as compute_output_spec
from keras.src.backend.common import KerasVariable as KerasVariable
from keras.src.legacy.saving import legacy_h5_format as legacy_h5_format
from keras.src.losses import losses as losses
from keras.src.models.functional import Functional as Functional
from keras.src.ops.node import KerasHistory as KerasHistory
from keras.src.optimizers.base_optimizer import BaseOptimizer as BaseOptimizer
from keras.src.optimizers.loss_scale_optimizer import (
    LossScaleOptimizer as LossScaleOptimizer,
)
from keras.src.saving import saving_api as saving_api
from keras.src.utils.naming import uniquify as uniquify
from tensorflow.python.checkpoint import checkpoint_management as checkpoint_management
from tensorflow.python.util import dispatch as dispatch
from tensorflow.python.util.tf_export import (
    get_canonical_name_for_symbol as get_canonical_name_for_symbol,
)

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.patching import Patch, Replace, defining, instead
from ipu_runtime.frameworks.types import KerasModel, Layer, Optimizer, Tensor


def history_of(tensor: Tensor) -> Any:
    """Return which operation made a symbolic tensor; None if that is not known."""
    return getattr(tensor, "_keras_history", None)


def learning_rate_setting(optimizer: Optimizer) -> Any:
    """Return what an optimizer takes its learning rate from: a variable or schedule."""
    return optimizer._learning_rate


def own_metrics(layer: Layer) -> list[Any]:
    """Return the metrics of a layer itself, as the list that more are added to."""
    metrics: list[Any] = layer._metrics
    return metrics


def has_compiled_loss(model: KerasModel) -> bool:
    """Whether a model is compiled with a loss."""
    return model._compile_loss is not None


def trainable_when_compiled(model: KerasModel) -> dict[Layer, bool]:
    """Return which layers were trainable when a model was compiled."""
    return dict(vars(model).get("_compiled_trainable_state", {}))


def direction_patch(replace: Replace) -> Patch:
    """Replace what guesses whether a checkpoint's metric shall grow or shrink."""
    return Patch(keras.callbacks.ModelCheckpoint, "_set_monitor_op", replace)


def checkpoint_patch(replace: Replace) -> Patch:
    """Replace what writes a checkpoint, after an epoch or a batch."""
    return Patch(keras.callbacks.ModelCheckpoint, "_save_model", replace)


def update_step_patch(replace: Replace) -> Patch:
    """Replace what an optimizer does with clipped gradients."""
    name = "_backend_update_step"
    return Patch(defining(keras.optimizers.Optimizer, name), name, replace)


def current_rate_patch(replace: Replace) -> Patch:
    """Replace what asks a schedule for the learning rate."""
    return Patch(BaseOptimizer, "_get_current_learning_rate", replace)


def unsummed_patch(optimizer: Optimizer) -> Patch:
    """Let an optimizer take gradients that are summed over replicas already."""
    return Patch(optimizer, "_all_reduce_sum_gradients", instead(list))
