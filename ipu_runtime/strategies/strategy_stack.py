"""Which strategy and which pipeline stage the code that runs now is inside of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ipu_runtime.system.device_state import device_ordinal

if TYPE_CHECKING:
    from ipu_runtime.ipu_strategy import IPUStrategyV1

_strategy: ContextVar[IPUStrategyV1 | None] = ContextVar("strategy", default=None)
_stage: ContextVar[int | None] = ContextVar("stage", default=None)
_noticed: ContextVar[list[int]] = ContextVar("noticed")
_extensions: ContextVar[bool] = ContextVar("extensions", default=True)
_device_iterators: ContextVar[bool] = ContextVar("device_iterators", default=True)


def current_strategy() -> IPUStrategyV1 | None:
    """Return the strategy whose scope is active in this thread."""
    return _strategy.get()


def default_device_ordinal() -> int:
    """Return the number of the current strategy's device, or 0."""
    strategy = _strategy.get()
    return device_ordinal(strategy.ipu_device) if strategy else 0


def current_stage() -> int | None:
    """Return the stage that new layers and layer calls belong to, if any."""
    return _stage.get()


def extensions_wanted() -> bool:
    """Tell whether a new Keras model should be extended for the IPU."""
    strategy = _strategy.get()
    return bool(strategy and strategy.enable_keras_extensions and _extensions.get())


def device_iterators_wanted() -> bool:
    """Tell whether `iter(dataset)` should feed the device rather than the host."""
    strategy = _strategy.get()
    return bool(
        strategy and strategy.enable_dataset_iterators and _device_iterators.get()
    )


@contextmanager
def strategy_entered(strategy: IPUStrategyV1) -> Iterator[None]:
    """Make `strategy` the current one."""
    token = _strategy.set(strategy)
    try:
        yield
    finally:
        _strategy.reset(token)


@contextmanager
def stage_entered(stage: int) -> Iterator[None]:
    """Make `stage` the current one."""
    _noticed.get([]).append(stage)
    token = _stage.set(stage)
    try:
        yield
    finally:
        _stage.reset(token)


@contextmanager
def noticing_stages() -> Iterator[list[int]]:
    """Collect the stages that code inside enters."""
    stages: list[int] = []
    token = _noticed.set(stages)
    try:
        yield stages
    finally:
        _noticed.reset(token)


@contextmanager
def plain_models() -> Iterator[None]:
    """Let the runtime and Keras make models of their own inside a strategy's scope."""
    token = _extensions.set(False)
    try:
        yield
    finally:
        _extensions.reset(token)


@contextmanager
def host_iterators() -> Iterator[None]:
    """Let the runtime itself read data sets inside a strategy's scope."""
    token = _device_iterators.set(False)
    try:
        yield
    finally:
        _device_iterators.reset(token)
