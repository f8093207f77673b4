"""What Functional models can do on the IPU."""

from __future__ import annotations

from ipu_runtime.keras.extensions.base import BaseExtension


class FunctionalExtension(BaseExtension):
    """Stages come from `PipelineStage` tags when the model is created."""
