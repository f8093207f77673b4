"""An estimator for pipelined models: `ipu.ipu_pipeline_estimator`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.pipeline.graph_pipeline import build_run
from ipu_runtime.engine.build.replicas.device_loop import build_loop
from ipu_runtime.engine.build.tracing_context import MOST_SCALARS
from ipu_runtime.engine.describe.model_scope import ModelScope, model_scope
from ipu_runtime.engine.describe.placement import current_placement
from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.engine.run.estimator_program import EstimatorProgram
from ipu_runtime.engine.watch.interception import is_intercepted
from ipu_runtime.estimators.base_estimator import EstimatorBase
from ipu_runtime.estimators.intercepted_run import intercepted_spec
from ipu_runtime.estimators.ipu_pipeline_estimator_spec import IPUPipelineEstimatorSpec
from ipu_runtime.estimators.step_counter import count_steps
from ipu_runtime.estimators.tf_estimator import ModeKeys, WarmStartSettings
from ipu_runtime.estimators.user_functions import parameter_names
from ipu_runtime.gradient_accumulation import (
    GradientAccumulationReductionMethod as Reduction,
)
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_runtime.ipu_run_config import RunConfig
from ipu_runtime.pipelining.pipeline_op import PreparedPipeline, prepare
from ipu_runtime.pipelining.pipeline_results import ResultOptions
from ipu_runtime.plan.placements import requested
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

    def _build(self, mode: str, infeed: IPUInfeedQueue) -> EstimatorProgram:
        # Layers are made by stages, or already by the model function itself.
        with model_scope(self._config.tf_random_seed) as scope:
            return self._build_in(scope, self._spec(mode), infeed)

    def _build_in(
        self, scope: ModelScope, spec: IPUPipelineEstimatorSpec, infeed: IPUInfeedQueue
    ) -> EstimatorProgram:
        count = spec.gradient_accumulation_count
        whole_runs = self._config.ipu_run_config.counts_pipeline_runs
        if not whole_runs:
            raise_for(check_updates(self._loop, count))
        outfeed = IPUOutfeedQueue(feed_name="results")
        training = spec.mode == ModeKeys.TRAIN
        pipeline = prepare(
            spec.computational_stages,
            count,
            results=ResultOptions(None if training else outfeed),
            infeed=infeed,
            optimizer_function=spec.optimizer_function if training else None,
            device_mapping=spec.device_mapping,
            reduction_method=spec.reduction_method,
            **spec.pipeline_settings,
        )
        shards = self._config.ipu_run_config.num_shards
        raise_for(check_shards(pipeline.mapping, shards))
        steps_per_run = 1 if whole_runs else count
        return self._loop_program(scope, spec, pipeline, outfeed, steps_per_run)

    def _loop_program(
        self,
        scope: ModelScope,
        spec: IPUPipelineEstimatorSpec,
        pipeline: PreparedPipeline,
        outfeed: IPUOutfeedQueue,
        steps_per_run: int,
    ) -> EstimatorProgram:
        placement = current_placement()
        assert placement is not None
        units = tf.compat.v1.placeholder_with_default(
            tf.constant(self._loop // steps_per_run), [], name="runs"
        )
        names: list[str] = ["loss"] if pipeline.training else []
        stash: list[tuple[int, ...]] = []

        def body(index: Any, *sums: Any) -> tuple[list[Any], list[Any]]:
            if not pipeline.training:
                _, operations = pipeline.run_once()
                return [index + 1, *sums], operations
            run = build_run(pipeline.pipeline)
            stash.append(run.peak_stash)
            names.extend(run.scalars)
            means = [_mean(run.losses), *(_mean(part) for part in run.scalars.values())]
            means += [tf.constant(0.0)] * (len(sums) - len(means))
            update = run.update
            operation = update if isinstance(update, tf.Operation) else update.op
            # Sums of doubles are the same however the loop is cut into pieces.
            added = [
                old + tf.cast(new, tf.float64)
                for old, new in zip(sums, means, strict=True)
            ]
            counted = count_steps(steps_per_run, [operation])
            return [index + 1, *added], [operation, counted]

        loop = build_loop(
            lambda index, *_: index < units,
            body,
            [tf.constant(0), *[tf.constant(0.0, tf.float64)] * MOST_SCALARS],
            placement.replica_count,
            needs_exchange=lambda: pipeline.training,
        )
        sums = [
            tf.add_n(list(parts)) / float(len(parts))
            for parts in zip(*(item[1:] for item in loop.carried), strict=True)
        ]
        after_loop, finals = self._host_side(spec, outfeed)
        return EstimatorProgram(
            units,
            dict(zip(names, sums, strict=False)),
            loop.operation,
            steps_per_unit=steps_per_run,
            batches_per_unit=spec.gradient_accumulation_count,
            accumulation=spec.gradient_accumulation_count,
            sums_micro_batches=Reduction.parse(spec.reduction_method).sums,
            replicas=len(loop.carried),
            instance=loop.instance,
            broadcasts=loop.broadcasts,
            layer_uses=scope.layer_uses,
            hooks={
                ModeKeys.TRAIN: spec.training_hooks,
                ModeKeys.EVAL: spec.evaluation_hooks,
                ModeKeys.PREDICT: spec.prediction_hooks,
            }[spec.mode],
            after_loop=after_loop,
            finals=finals,
            schedule=pipeline.pipeline.schedule,
            placements=requested(spec.pipeline_op_kwargs),
            peak_stash=stash[0] if stash else (),
        )

    def _host_side(
        self, spec: IPUPipelineEstimatorSpec, outfeed: IPUOutfeedQueue
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fetches after each loop, and those at the end."""
        if spec.mode == ModeKeys.TRAIN:
            return {}, {}
        outputs = outfeed.dequeue()
        if spec.mode == ModeKeys.PREDICT:
            if isinstance(outputs, list) and len(outputs) == 1:
                outputs = outputs[0]
            if not (tf.is_tensor(outputs) or isinstance(outputs, dict)):
                raise ValueError(
                    "The last stage must return one tensor or a dict for prediction, "
                    f"but returned {len(outputs)} tensors."
                )
            return {"predictions": outputs}, {}
        metrics = _call_metrics(spec.eval_metrics_fn, outputs)
        pairs = {name: value for name, value in metrics.items() if name != "loss"}
        after_loop = {
            f"{name}/update": pair[1] if isinstance(pair, tuple) else pair
            for name, pair in pairs.items()
        }
        loss = metrics["loss"]
        after_loop["loss"] = loss[1] if isinstance(loss, tuple) else loss
        finals = {
            name: pair[0] for name, pair in pairs.items() if isinstance(pair, tuple)
        }
        return after_loop, finals

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


def _mean(values: Sequence[Any]) -> Any:
    total = tf.add_n([tf.cast(tf.reduce_mean(item), tf.float32) for item in values])
    return total / float(len(values))


def _call_metrics(function: Callable[..., Any] | None, outputs: Any) -> dict[str, Any]:
    assert function is not None
    if isinstance(outputs, dict):
        metrics = function(**outputs)
    elif isinstance(outputs, list):
        metrics = function(*outputs)
    else:
        metrics = function(outputs)
    if not isinstance(metrics, dict):
        raise TypeError(
            f"eval_metrics_fn must return a dict, but returned {metrics!r}."
        )
    if "loss" not in metrics:
        raise KeyError("eval_metrics_fn must return a dict with 'loss' in it.")
    return metrics
