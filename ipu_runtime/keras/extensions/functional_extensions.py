"""What Functional models can do on the IPU."""

from __future__ import annotations

from ipu_runtime.keras.extensions.extensions_base import KerasExtensionBase
from ipu_runtime.keras.extensions.pipeline_stage_assignment import PipelineStage

__all__ = ["FunctionalExtension", "PipelineStage"]


class FunctionalExtension(KerasExtensionBase):
    """Stages come from `PipelineStage` tags when the model is created."""
