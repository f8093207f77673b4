"""`ipu.serving`: write models for serving.

SavedModels have a compiled program among their assets, in the emulator's own format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.applications.application import compile_application
from ipu_runtime.engine.applications.served_model import (
    HostStep,
    checked_output_names,
    host_step,
    step_signature,
    write_served_model,
)
from ipu_runtime.installing.signatures import with_arguments_of
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_runtime.keras.extensions.extensions_base import KerasExtensionBase
from ipu_runtime.ops.pipelining_ops import PipelineSchedule


def export_single_step(
    predict_step: Callable[..., Any],
    export_dir: str,
    iterations: int,
    predict_step_signature: Any = None,
    input_dataset: Any = None,
    output_names: Any = None,
    preprocessing_step: Any = None,
    preprocessing_step_signature: Any = None,
    postprocessing_step: Any = None,
    postprocessing_step_signature: Any = None,
    purge_export_dir: bool = False,
) -> Any:
    """Write a SavedModel of a function; return the function that it serves.

    `iterations` is how many elements a device takes before it returns to the host.
    """
    del iterations
    specs, before = _signatures(
        predict_step,
        predict_step_signature,
        input_dataset,
        (preprocessing_step, preprocessing_step_signature),
    )
    examples = [tf.zeros(spec.shape, spec.dtype) for spec in specs]
    return write_served_model(
        export_dir,
        purge_export_dir,
        lambda path: compile_application(
            predict_step, examples, path, freeze_variables=True, streamed=True
        ),
        specs,
        before,
        host_step(
            "postprocessing_step", postprocessing_step, postprocessing_step_signature
        ),
        checked_output_names(output_names),
    )


def export_pipeline(
    computational_stages: Sequence[Callable[..., Any]],
    export_dir: str,
    iterations: int,
    inputs: Sequence[Any] | None = None,
    device_mapping: Sequence[int] | None = None,
    pipeline_schedule: PipelineSchedule | None = None,
    poplar_options: Any = None,
    name: str | None = None,
    predict_step_signature: Any = None,
    input_dataset: Any = None,
    output_names: Any = None,
    preprocessing_step: Any = None,
    preprocessing_step_signature: Any = None,
    postprocessing_step: Any = None,
    postprocessing_step_signature: Any = None,
    purge_export_dir: bool = False,
) -> Any:
    """Write a SavedModel of a pipeline; return the function that it serves.

    `iterations` is the number of micro-batches of a run on a device.
    """
    specs, before = _signatures(
        computational_stages[0],
        predict_step_signature,
        input_dataset,
        (preprocessing_step, preprocessing_step_signature),
        len(inputs or ()),
    )
    zeros = tuple(tf.zeros(spec.shape, spec.dtype) for spec in specs)
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(zeros))

    def run() -> None:
        # It needs the whole machinery of pipelines, which few exports do.
        from ipu_runtime.pipelining.pipeline_op import pipeline

        pipeline(
            computational_stages,
            iterations,
            inputs=inputs,
            infeed_queue=infeed,
            outfeed_queue=IPUOutfeedQueue(),
            device_mapping=device_mapping,
            pipeline_schedule=pipeline_schedule,
            forward_propagation_stages_poplar_options=poplar_options,
            name=name,
        )

    return write_served_model(
        export_dir,
        purge_export_dir,
        lambda path: compile_application(run, (), path, freeze_variables=True),
        specs,
        before,
        host_step(
            "postprocessing_step", postprocessing_step, postprocessing_step_signature
        ),
        checked_output_names(output_names),
    )


@with_arguments_of(KerasExtensionBase.export_for_ipu_serving, without=("self",))
def export_keras(model: Any, **arguments: Any) -> Any:
    """Export a model that was created under a strategy."""
    if not isinstance(model, KerasExtensionBase):
        raise ValueError(
            f"The model {model.name} was not created under an IPU strategy: create it "
            "inside `strategy.scope()`."
        )
    return model.export_for_ipu_serving(**arguments)


def _signatures(
    predict_step: Any,
    predict_step_signature: Any,
    input_dataset: Any,
    preprocessing: tuple[Any, Any],
    skipped: int = 0,
) -> tuple[list[tf.TensorSpec], HostStep | None]:
    """Return what the program takes, and the step before it.

    The data set describes what comes first: the preprocessing, or else the program.
    """
    function, signature = preprocessing
    name = "predict_step" if function is None else "preprocessing_step"
    given = predict_step_signature if function is None else signature
    if input_dataset is not None:
        if not isinstance(input_dataset, tf.data.Dataset):
            raise TypeError(
                f"`input_dataset` must be a tf.data.Dataset, not {input_dataset!r}."
            )
        if given is not None:
            raise ValueError(
                f"Only one of `{name}_signature` and `input_dataset` may be given."
            )
        given = tuple(tf.nest.flatten(input_dataset.element_spec))
    if function is None:
        predict_step_signature = given
    return (
        step_signature("predict_step", predict_step, predict_step_signature, skipped),
        host_step("preprocessing_step", function, given if function else None),
    )
