"""Which pipeline stage a layer, a layer call or a nested model belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu_runtime.frameworks.keras_calls import layer_behind, nodes_of
from ipu_runtime.frameworks.types import Layer
from ipu_runtime.keras.pipeline_stage import PipelineStage

__all__ = [
    "Assignment",
    "FunctionalLayerPipelineStageAssignment",
    "FunctionalNestedModelPipelineStageAssignment",
    "ModelLayerPipelineStageAssignment",
    "NestedModelPipelineStageAssignment",
    "PipelineStage",
    "SequentialLayerPipelineStageAssignment",
    "SequentialNestedModelPipelineStageAssignment",
]


class _LayerAssignment:
    """A layer and its stage."""

    def __init__(self, layer: Layer, pipeline_stage: int | None = None) -> None:
        self._layer = layer
        self.pipeline_stage = pipeline_stage
        """The stage; None while the layer has none."""

    @property
    def layer(self) -> Any:
        """The layer that is assigned."""
        return self._layer

    @property
    def is_nested_model(self) -> bool:
        """Always false: this is about one layer."""
        return False


class SequentialLayerPipelineStageAssignment(_LayerAssignment):
    """The stage of a layer of a Sequential model."""

    def __str__(self) -> str:
        return f"Layer: {self.layer.name} Pipeline Stage: {self.pipeline_stage}"


class ModelLayerPipelineStageAssignment(_LayerAssignment):
    """The stage of one call of a layer of a subclassed model."""

    def __init__(
        self, layer: Layer, node_index: int, pipeline_stage: int | None = None
    ) -> None:
        super().__init__(layer, pipeline_stage)
        self._node_index = node_index

    @property
    def node_index(self) -> int:
        """Which call of the layer it is."""
        return self._node_index

    @property
    def inbound_layers(self) -> Any:
        """The layers that feed this call."""
        return _inbound_layers(self.layer, self._node_index)

    def __str__(self) -> str:
        return (
            f"Layer: {self.layer.name} ({self.node_index}) "
            f"Pipeline Stage: {self.pipeline_stage}"
        )


class FunctionalLayerPipelineStageAssignment(ModelLayerPipelineStageAssignment):
    """The stage of one call of a layer of a Functional model."""


class _NestedAssignment:
    """A model inside a model, and the stages of its layers."""

    def __init__(
        self, nested_model: Any, pipeline_stage_assignments: Sequence[Any]
    ) -> None:
        self._nested_model = nested_model
        self._assignments = list(pipeline_stage_assignments)

    @property
    def nested_model(self) -> Any:
        """The model that is called as a layer."""
        return self._nested_model

    @property
    def pipeline_stage_assignments(self) -> list[Any]:
        """The assignments of its layers, as a new list of the same objects."""
        return list(self._assignments)

    @property
    def is_nested_model(self) -> bool:
        """Always true."""
        return True

    def __str__(self) -> str:
        lines = [f"Nested Model: {self._title()}"]
        for assignment in self._assignments:
            lines += [f"  {line}" for line in str(assignment).splitlines()]
        return "\n".join(lines)

    def _title(self) -> str:
        return str(self._nested_model.name)


class SequentialNestedModelPipelineStageAssignment(_NestedAssignment):
    """The stages inside a model that is a layer of a Sequential model."""


class NestedModelPipelineStageAssignment(_NestedAssignment):
    """The stages inside one call of a model in a subclassed model."""

    def __init__(
        self,
        nested_model: Any,
        node_index: int,
        pipeline_stage_assignments: Sequence[Any],
    ) -> None:
        super().__init__(nested_model, pipeline_stage_assignments)
        self._node_index = node_index

    @property
    def node_index(self) -> int:
        """Which call of the nested model it is."""
        return self._node_index

    @property
    def inbound_layers(self) -> Any:
        """The layers that feed this call."""
        return _inbound_layers(self.nested_model, self._node_index)

    def _title(self) -> str:
        return f"{self._nested_model.name} ({self._node_index})"


class FunctionalNestedModelPipelineStageAssignment(NestedModelPipelineStageAssignment):
    """The stages inside one call of a model in a Functional model."""


Assignment = _LayerAssignment | _NestedAssignment


def _inbound_layers(layer: Layer, node_index: int) -> list[Any]:
    layers: list[Any] = []
    for symbol in nodes_of(layer)[node_index].arguments.keras_tensors:
        feeding = layer_behind(symbol)
        if not any(feeding is known for known in layers):
            layers.append(feeding)
    return layers
