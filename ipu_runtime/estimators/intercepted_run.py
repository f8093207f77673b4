"""Settings of an estimator's run that somebody outside wants otherwise."""

from __future__ import annotations

import copy
from typing import Any

from ipu_runtime.engine.watch.interception import changed_settings, notice
from ipu_runtime.estimators.ipu_pipeline_estimator_spec import IPUPipelineEstimatorSpec
from ipu_runtime.estimators.tf_estimator import ModeKeys
from ipu_runtime.ipu_run_config import RunConfig
from ipu_runtime.pipelining.intercepted_pipeline import (
    PipelineSettings,
    intercepted_pipeline,
)
from ipu_runtime.plan.placements import placements

CALLS = {
    ModeKeys.TRAIN: "train",
    ModeKeys.EVAL: "evaluate",
    ModeKeys.PREDICT: "predict",
}
"""The estimator's method behind every mode."""


def intercepted_config(config: RunConfig, mode: str) -> RunConfig:
    """Return the configuration with the length of loop that is wanted."""
    notice(f"estimator.{CALLS[mode]}")
    now = {"steps_per_execution": config.ipu_run_config.iterations_per_loop}
    changes = changed_settings(CALLS[mode], mode == ModeKeys.TRAIN, now)
    steps = changes.get("steps_per_execution")
    if steps is None:
        return config
    if not isinstance(steps, int):
        raise ValueError(
            f"An estimator has loops and no epochs: {steps!r} is no number of steps."
        )
    return _with_ipu(config, iterations_per_loop=steps)


def config_for_ipus(config: RunConfig, ipus: int) -> RunConfig:
    """Return the configuration with as many replicas as the selected IPUs hold."""
    return _with_ipu(config, num_replicas=ipus // config.ipu_run_config.num_shards)


def intercepted_spec(spec: IPUPipelineEstimatorSpec) -> IPUPipelineEstimatorSpec:
    """Return what a model function returned, with the pipeline that is wanted."""
    given = dict(spec.pipeline_op_kwargs)
    settings = intercepted_pipeline(
        "IPUPipelineEstimatorSpec",
        spec.mode == ModeKeys.TRAIN,
        PipelineSettings(
            spec.gradient_accumulation_count,
            given.get("pipeline_schedule"),
            given.get("recomputation_mode"),
            spec.device_mapping,
            placements(given),
        ),
    )
    given["pipeline_schedule"] = settings.schedule
    given["recomputation_mode"] = settings.recomputation_mode
    given |= settings.placements
    return spec._replace(
        gradient_accumulation_count=settings.count,
        device_mapping=settings.device_mapping,
        pipeline_op_kwargs=given,
    )


def _with_ipu(config: RunConfig, **changes: Any) -> RunConfig:
    changed = copy.copy(config)
    vars(changed)["_ipu"] = config.ipu_run_config._replace(**changes)
    return changed
