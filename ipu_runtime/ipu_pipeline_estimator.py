"""An estimator for pipelined models: `ipu.ipu_pipeline_estimator`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.engine.watch.interception import is_intercepted
from ipu_runtime.estimators.base_estimator import EstimatorBase
from ipu_runtime.estimators.intercepted_run import intercepted_spec
from ipu_runtime.estimators.ipu_pipeline_estimator_spec import IPUPipelineEstimatorSpec
from ipu_runtime.estimators.pipeline_loop import PipelineLoop
from ipu_runtime.estimators.tf_estimator import WarmStartSettings
from ipu_runtime.estimators.user_functions import parameter_names
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_run_config import RunConfig
from ipu_runtime.plan.rules.count_rules import check_updates
from ipu_runtime.plan.rules.pipeline_rules import check_shards

__all__ = ["IPUPipelineEstimator", "IPUPipelineEstimatorSpec"]

_ALLOWED = ("mode", "params", "config")


class IPUPipelineEstimator(EstimatorBase):
    """Trains, evaluates and predicts with stages instead of one model."""

    api = "ipu_pipeline_estimator"

    def __init__(
        self,
        model_fn: Callable[..., IPUPipelineEstimatorSpec],
        model_dir: str | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        warm_start_from: str | WarmStartSettings | None = None,
    ) -> None:
        super().__init__(model_fn, model_dir, config, params, warm_start_from)
        forbidden = [n for n in parameter_names(model_fn) if n not in _ALLOWED]
        if forbidden:
            raise ValueError(
                f"model_fn must not take {', '.join(forbidden)}: features and labels "
                f"go to the first stage. It may take {', '.join(_ALLOWED)}."
            )

    def _contents(self, mode: str, infeed: IPUInfeedQueue) -> PipelineLoop:
        spec = self._spec(mode)
        count = spec.gradient_accumulation_count
        whole_runs = self._config.ipu_run_config.counts_pipeline_runs
        if not whole_runs:
            raise_for(check_updates(self._loop, count))
        loop = PipelineLoop(spec, infeed, 1 if whole_runs else count)
        shards = self._config.ipu_run_config.num_shards
        raise_for(check_shards(loop.mapping, shards))
        return loop

    def _spec(self, mode: str) -> IPUPipelineEstimatorSpec:
        offered = {"mode": mode, "params": self.params, "config": self._config}
        names = parameter_names(self._model_fn)
        spec = self._model_fn(**{name: offered[name] for name in names})
        if not isinstance(spec, IPUPipelineEstimatorSpec):
            raise TypeError(
                "model_fn must return an IPUPipelineEstimatorSpec, but returned "
                f"{type(spec).__name__}."
            )
        return intercepted_spec(spec) if is_intercepted() else spec
