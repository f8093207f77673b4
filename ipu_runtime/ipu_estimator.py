"""An estimator that runs whole loops on the device: `ipu.ipu_estimator`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.estimators.base_estimator import EstimatorBase
from ipu_runtime.estimators.ipu_estimator_spec import IPUEstimatorSpec
from ipu_runtime.estimators.model_loop import ModelLoop
from ipu_runtime.estimators.tf_estimator import (
    EstimatorSpec,
    ModeKeys,
    WarmStartSettings,
)
from ipu_runtime.estimators.user_functions import call_model_fn, split_element
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_run_config import RunConfig
from ipu_runtime.plan.rules.count_rules import BATCH_SIZE, check_positive

__all__ = ["IPUEstimator", "IPUEstimatorSpec"]


class IPUEstimator(EstimatorBase):
    """Trains, evaluates and predicts with a model function, loop by loop."""

    api = "ipu_estimator"

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: str | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
    ) -> None:
        super().__init__(model_fn, model_dir, config, params, warm_start_from)
        if self._job.distributed and self._loop > 1:
            raise NotImplementedError(
                f"iterations_per_loop > 1 (got {self._loop}) not supported with "
                "distribution: it must be 1."
            )
        self._batch_sizes = {
            ModeKeys.TRAIN: self._local_size("train", ModeKeys.TRAIN, train_batch_size),
            ModeKeys.EVAL: self._local_size("eval", ModeKeys.EVAL, eval_batch_size),
            ModeKeys.PREDICT: self._local_size(
                "predict", ModeKeys.PREDICT, predict_batch_size
            ),
        }
        if any(self._batch_sizes.values()) and "batch_size" in self._params:
            raise ValueError(
                "`params` must not have 'batch_size' when a batch size is given too."
            )

    def _local_size(self, call: str, mode: str, size: int | None) -> int | None:
        if size is None:
            return None
        workers = self._job.workers(mode)
        replicas = self._config.ipu_run_config.num_replicas
        raise_for(check_positive(f"{call}_batch_size", size, BATCH_SIZE))
        if size % (workers * replicas):
            raise ValueError(
                f"{call}_batch_size (got {size}) must be divisible by num_workers * "
                f"num_replicas ({workers} * {replicas})."
            )
        return size // (workers * replicas)

    def _check_replicas_free(self, changed: bool) -> None:
        if changed and any(self._batch_sizes.values()):
            raise ValueError(
                "The estimator's batch sizes are shared out among the replicas that "
                "the script asks for: other IPUs need the script to be changed."
            )

    def _mode_params(self, mode: str) -> Mapping[str, Any]:
        size = self._batch_sizes[mode]
        return {**self._params, "batch_size": size} if size else self._params

    def _contents(self, mode: str, infeed: IPUInfeedQueue) -> ModelLoop:
        return ModelLoop(partial(self._spec, mode), mode, infeed, self._loop)

    def _serving_outputs(self, features: Any) -> Any:
        return self._spec(ModeKeys.PREDICT, features).predictions

    def _spec(self, mode: str, element: Any) -> IPUEstimatorSpec:
        """Call the model function on an element of the data."""
        features, labels = split_element(element)
        if mode == ModeKeys.PREDICT:
            labels = None
        params = self._mode_params(mode)
        spec = call_model_fn(
            self._model_fn, features, labels, mode, params, self._config
        )
        if isinstance(spec, IPUEstimatorSpec):
            return spec
        if isinstance(spec, EstimatorSpec):
            return IPUEstimatorSpec(
                spec.mode,
                spec.predictions,
                spec.loss,
                spec.train_op,
                spec.eval_metric_ops or None,
                training_hooks=[*spec.training_hooks, *spec.training_chief_hooks],
                evaluation_hooks=spec.evaluation_hooks,
                prediction_hooks=spec.prediction_hooks,
            )
        raise ValueError(
            "model_fn must return a tf.estimator.EstimatorSpec or an "
            f"IPUEstimatorSpec, but returned {type(spec).__name__}."
        )
