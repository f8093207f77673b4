"""Settings of an estimator's run that somebody outside wants otherwise."""

from __future__ import annotations

import copy
from typing import Any

from ipu_runtime.engine.describe.call_settings import (
    intercepted,
    intercepted_pipeline,
)
from ipu_runtime.engine.watch.interception import notice
from ipu_runtime.estimators.ipu_pipeline_estimator_spec import IPUPipelineEstimatorSpec
from ipu_runtime.estimators.tf_estimator import ModeKeys
from ipu_runtime.ipu_run_config import RunConfig

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
    changes = intercepted(CALLS[mode], mode == ModeKeys.TRAIN, now)
    if not changes:
        return config
    steps = changes["steps_per_execution"]
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
    own = ("gradient_accumulation_count", "device_mapping")
    arguments = dict(spec.pipeline_op_kwargs)
    arguments |= {name: getattr(spec, name) for name in own}
    arguments |= intercepted_pipeline(
        "IPUPipelineEstimatorSpec", spec.mode == ModeKeys.TRAIN, arguments
    )
    fields = {name: arguments.pop(name) for name in own}
    return spec._replace(**fields, pipeline_op_kwargs=arguments)


def _with_ipu(config: RunConfig, **changes: Any) -> RunConfig:
    changed = copy.copy(config)
    vars(changed)["_ipu"] = config.ipu_run_config._replace(**changes)
    return changed
