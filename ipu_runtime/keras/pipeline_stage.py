"""`PipelineStage`: say in which stage layers are created or called."""

from __future__ import annotations

import functools
import inspect
from contextlib import ExitStack
from typing import Any

from ipu_runtime.engine.watch.interception import notice
from ipu_runtime.frameworks.patch_points import creation_patches
from ipu_runtime.strategies.strategy_stack import (
    current_stage,
    current_strategy,
    stage_entered,
)

_TAG = "_ipu_pipeline_stage"


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
            for tags in _tags:
                entered.enter_context(tags.applied())
            self._entered = entered.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._entered is not None
        self._entered.close()


def tagged_stage(node: Any) -> int | None:
    """Return the stage of a layer call: its own tag counts before the layer's."""
    stage = vars(node).get(_TAG)
    return vars(node.operation).get(_TAG) if stage is None else stage


def _tagging(original: Any) -> Any:
    """Return a constructor that tags what it makes while a stage is active."""

    @functools.wraps(original)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        stage = current_stage()
        if stage is not None:
            vars(self)[_TAG] = stage

    # Keras reads constructor arguments in two ways that must agree.
    construct.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    return construct


_tags = creation_patches(_tagging)
