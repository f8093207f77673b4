"""Stages that a script states as Python functions, traced into TensorFlow functions.

Every stage is traced once. Its forward function returns what the backward function
needs; with recomputation there is a third one, which computes that from the stage's
inputs again, with the random numbers and statistics of the forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.pipeline.graph_stage_functions import GraphStageFunctions
from ipu_runtime.engine.build.pipeline.schedule_executor import Tensors
from ipu_runtime.engine.build.pipeline.traced_stage import TracedStage
from ipu_runtime.engine.build.programs.gradient_capture import Captured


class GraphStages:
    """All stages of a pipeline as functions, for one pipeline run."""

    def __init__(
        self,
        stages: Sequence[TracedStage],
        loss: Any,
        variables: Sequence[Any],
        recomputes: bool,
        adjust: Callable[[Any, Any], Any],
    ) -> None:
        last = len(stages) - 1
        self._adjust = adjust
        self._stages = [
            GraphStageFunctions(
                stage,
                loss if index == last else None,
                variables,
                training=loss is not None,
                recomputes=recomputes and index != last,
            )
            for index, stage in enumerate(stages)
        ]
        self._kept: dict[tuple[int, int], Tensors] = {}
        self.captured: dict[int, Captured] = {}
        """Captured gradients of all stages, by micro-batch."""

    def variables(self, stage: int) -> list[Any]:
        """Return the variables that a stage has gradients for."""
        return self._stages[stage].variables

    def forward(
        self, stage: int, micro_batch: int, inputs: Tensors
    ) -> tuple[Tensors, Tensors]:
        """Run a stage."""
        arguments = [*inputs, tf.constant(micro_batch)]
        outputs, saved, kept = self._stages[stage].forward(arguments)
        self._kept[stage, micro_batch] = kept
        return outputs, saved

    def recompute(self, stage: int, micro_batch: int, inputs: Tensors) -> Tensors:
        """Run a stage again, with the draws of its forward pass."""
        kept = self._kept.pop((stage, micro_batch))
        arguments = [*inputs, tf.constant(micro_batch)]
        return self._stages[stage].recompute(arguments, kept)

    def backward(
        self, stage: int, micro_batch: int, saved: Tensors, output_gradients: Tensors
    ) -> tuple[Tensors, Tensors]:
        """Return gradients of a stage's inputs and variables."""
        functions = self._stages[stage]
        to_inputs, to_variables, captured = functions.backward(saved, output_gradients)
        self.captured.setdefault(micro_batch, {}).update(captured)
        adjusted = [
            self._adjust(gradient, variable)
            for gradient, variable in zip(
                to_variables, functions.variables, strict=True
            )
        ]
        return to_inputs, adjusted
