"""What the model function of an `IPUPipelineEstimator` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.engine.watch.interception import notice
from ipu_runtime.estimators.tf_estimator import ModeKeys
from ipu_runtime.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_runtime.plan.placements import PLACEMENTS
from ipu_runtime.plan.rules.count_rules import ACCUMULATION, check_positive

Reduction = GradientAccumulationReductionMethod
_PREPARED = {
    "pipeline_schedule": "schedule",
    "recomputation_mode": "recomputation_mode",
    "gradient_accumulation_dtype": "dtype",
    "inputs": "inputs",
    "batch_serialization_iterations": "serialization",
    "forward_propagation_stages_poplar_options": "forward_options",
    "backward_propagation_stages_poplar_options": "backward_options",
    "weight_update_poplar_options": "update_options",
    "continuous_weight_updates": "continuous",
}
"""Arguments of the pipeline operation that matter here, and where they go."""
_NOT_BUILT = (
    "gradient_accumulation_for_captured_grads",
    *PLACEMENTS,
    "outfeed_loss",
    "name",
)
"""Others, which the program does not depend on."""


class _SpecFields(NamedTuple):
    mode: str
    computational_stages: Sequence[Any]
    gradient_accumulation_count: int
    eval_metrics_fn: Callable[..., Mapping[str, Any]] | None
    optimizer_function: Callable[..., Any] | None
    device_mapping: Sequence[int] | None
    loss_accumulator_dtype: Any
    training_hooks: tuple[Any, ...]
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]
    reduction_method: Reduction | str
    pipeline_op_kwargs: Mapping[str, Any]


class IPUPipelineEstimatorSpec(_SpecFields):
    """What the model function of a pipelined model returns."""

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        computational_stages: Sequence[Any],
        gradient_accumulation_count: int | None = None,
        eval_metrics_fn: Callable[..., Mapping[str, Any]] | None = None,
        optimizer_function: Callable[..., Any] | None = None,
        device_mapping: Sequence[int] | None = None,
        loss_accumulator_dtype: Any = None,
        training_hooks: Sequence[Any] | None = None,
        evaluation_hooks: Sequence[Any] | None = None,
        prediction_hooks: Sequence[Any] | None = None,
        reduction_method: Reduction | str = Reduction.SUM,
        **pipeline_op_kwargs: Any,
    ) -> IPUPipelineEstimatorSpec:
        notice("IPUPipelineEstimatorSpec")
        # The older API has another name for the count.
        older = pipeline_op_kwargs.pop("pipeline_depth", None)
        count = gradient_accumulation_count
        count = older if count is None else count
        if mode == ModeKeys.TRAIN and optimizer_function is None:
            raise ValueError("Training needs an `optimizer_function` in the spec.")
        if mode == ModeKeys.EVAL and eval_metrics_fn is None:
            raise ValueError("Evaluation needs an `eval_metrics_fn` in the spec.")
        raise_for(check_positive("gradient_accumulation_count", count, ACCUMULATION))
        if "accumulate_outfeed" in pipeline_op_kwargs:
            raise ValueError("`accumulate_outfeed` is set by the estimator itself.")
        unknown = set(pipeline_op_kwargs) - set(_PREPARED) - set(_NOT_BUILT)
        if unknown:
            raise TypeError(
                f"{', '.join(sorted(unknown))} is no argument of a pipeline."
            )
        return super().__new__(
            cls,
            mode,
            computational_stages,
            count,
            eval_metrics_fn,
            optimizer_function,
            device_mapping,
            loss_accumulator_dtype,
            tuple(training_hooks or ()),
            tuple(evaluation_hooks or ()),
            tuple(prediction_hooks or ()),
            reduction_method,
            pipeline_op_kwargs,
        )

    @property
    def pipeline_settings(self) -> dict[str, Any]:
        """The arguments of the pipeline that matter, by the engine's names."""
        return {
            _PREPARED[name]: value
            for name, value in self.pipeline_op_kwargs.items()
            if name in _PREPARED
        }
