"""`ipu.serving`: write models for serving."""

from __future__ import annotations

from typing import Any

from ipu_runtime.keras.extensions.base import BaseExtension


def export_keras(
    model: Any,
    export_dir: str,
    batch_size: int | None = None,
    output_names: Any = None,
    preprocessing_step: Any = None,
    preprocessing_step_signature: Any = None,
    postprocessing_step: Any = None,
    postprocessing_step_signature: Any = None,
    purge_export_dir: bool = False,
) -> Any:
    """Export a model that was created under a strategy."""
    if not isinstance(model, BaseExtension):
        raise ValueError(
            f"The model {model.name} was not created under an IPU strategy: create it "
            "inside `strategy.scope()`."
        )
    return model.export_for_ipu_serving(
        export_dir,
        batch_size,
        output_names,
        preprocessing_step,
        preprocessing_step_signature,
        postprocessing_step,
        postprocessing_step_signature,
        purge_export_dir,
    )
