"""An estimator that runs whole loops on the device: `ipu.ipu_estimator`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ipu_runtime.engine.estimator_program import EstimatorProgram
from ipu_runtime.estimator_base import EstimatorBase
from ipu_runtime.estimator_functions import call_model_fn, split_element
from ipu_runtime.ipu_estimator_loop import LoopBuilder
from ipu_runtime.ipu_estimator_spec import IPUEstimatorSpec
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_run_config import RunConfig
from ipu_runtime.tf_estimator import EstimatorSpec, ModeKeys, WarmStartSettings

__all__ = ["IPUEstimator", "IPUEstimatorSpec"]


class IPUEstimator(EstimatorBase):
    """Trains, evaluates and predicts with a model function, loop by loop."""

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
        distributed = self._config.train_distribute or self._config.eval_distribute
        if distributed and self._loop > 1:
            raise NotImplementedError(
                "A distribution strategy needs iterations_per_loop 1, but it is "
                f"{self._loop}."
            )
        self._batch_sizes = {
            ModeKeys.TRAIN: self._local_size("train_batch_size", train_batch_size),
            ModeKeys.EVAL: self._local_size("eval_batch_size", eval_batch_size),
            ModeKeys.PREDICT: self._local_size(
                "predict_batch_size", predict_batch_size
            ),
        }
        if any(self._batch_sizes.values()) and "batch_size" in self._params:
            raise ValueError(
                "`params` must not have 'batch_size' when a batch size is given too."
            )

    def _local_size(self, name: str, size: int | None) -> int | None:
        if size is None:
            return None
        replicas = self._config.ipu_run_config.num_replicas
        if size < 1 or size % replicas:
            raise ValueError(
                f"{name} is {size}; it must be at least 1 and divisible by the "
                f"{replicas} replica(s)."
            )
        return size // replicas

    def _mode_params(self, mode: str) -> Mapping[str, Any]:
        size = self._batch_sizes[mode]
        return {**self._params, "batch_size": size} if size else self._params

    def _build(self, mode: str, infeed: IPUInfeedQueue) -> EstimatorProgram:
        def model(element: Any) -> IPUEstimatorSpec:
            return self._spec(mode, element)

        return LoopBuilder(model, mode, infeed, self._config).build()

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
