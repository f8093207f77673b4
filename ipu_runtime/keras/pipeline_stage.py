"""`PipelineStage`: say in which stage layers are created or called."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from ipu_runtime.engine.watch.interception import notice
from ipu_runtime.frameworks.patch_points import creation_patches
from ipu_runtime.frameworks.patching import applied, around
from ipu_runtime.strategies.strategy_stack import (
    current_stage,
    current_strategy,
    stage_entered,
)

STAGE_TAG = "_ipu_pipeline_stage"
"""Attribute of a layer, or of a call of one, that was made in a stage."""


class PipelineStage:
    """Put the layers that are created or called inside into a pipeline stage."""

    def __init__(self, stage: int) -> None:
        self._stage = stage
        self._entered: ExitStack | None = None

    def __enter__(self) -> PipelineStage:
        if self._stage < 0:
            raise ValueError(
                f"{self._stage} is not a valid pipeline stage: it must be 0 or more."
            )
        notice(f"PipelineStage({self._stage})")
        strategy = current_strategy()
        if strategy is None or not strategy.allows_pipeline_stages:
            raise RuntimeError(
                "PipelineStage may only be used from within an IPUStrategy context."
            )
        if current_stage() is not None:
            raise RuntimeError("Pipeline stages must not be nested.")
        with ExitStack() as entered:
            entered.enter_context(stage_entered(self._stage))
            entered.enter_context(applied(_tags))
            self._entered = entered.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._entered is not None
        self._entered.close()


def tagged_stage(node: Any) -> int | None:
    """Return the stage of a layer call: its own tag counts before the layer's."""
    stage = vars(node).get(STAGE_TAG)
    return vars(node.operation).get(STAGE_TAG) if stage is None else stage


def _tag(original: Any, made: Any, *args: Any, **kwargs: Any) -> None:
    """Construct a layer or a layer call, and tag it while a stage is active."""
    original(made, *args, **kwargs)
    stage = current_stage()
    if stage is not None:
        vars(made)[STAGE_TAG] = stage


_tags = creation_patches(around(_tag))
