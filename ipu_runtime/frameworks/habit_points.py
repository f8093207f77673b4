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


def history_of(tensor: Any) -> Any:
    """Return which operation made a symbolic tensor; None if that is not known."""
    return getattr(tensor, "_keras_history", None)


def answer_to_older_name(layer_class: Any, name: property) -> None:
    """Let `_name` of layers be read and set."""
    layer_class._name = name


def learning_rate_setting(optimizer: Any) -> Any:
    """Return what an optimizer takes its learning rate from: a variable or schedule."""
    return optimizer._learning_rate
