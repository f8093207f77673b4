"""Habits of Keras 2 scripts that Keras 3 can be taught without changing its own."""

from __future__ import annotations

from ipu_runtime.compat.layer_habits import accept_layer_habits
from ipu_runtime.compat.loss_scale_habits import accept_loss_scale_habits
from ipu_runtime.compat.model_habits import accept_model_habits
from ipu_runtime.compat.name_habits import accept_name_habits
from ipu_runtime.compat.optimizer_habits import accept_optimizer_habits
from ipu_runtime.compat.saving_habits import accept_saving_habits
from ipu_runtime.compat.tensor_habits import accept_tensor_habits
from ipu_runtime.compat.variable_habits import accept_variable_habits


def accept_old_habits() -> None:
    """Accept all of them; `habits.HABITS` names each one."""
    accept_variable_habits()
    accept_tensor_habits()
    accept_layer_habits()
    accept_optimizer_habits()
    accept_loss_scale_habits()
    accept_model_habits()
    accept_saving_habits()
    accept_name_habits()
