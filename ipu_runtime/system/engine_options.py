"""POPLAR_ENGINE_OPTIONS: a JSON object of texts, read when needed."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "POPLAR_ENGINE_OPTIONS"
_REPORTS = (
    "autoReport.all",
    "autoReport.outputGraphProfile",
    "autoReport.outputExecutionProfile",
    "autoReport.outputLoweredVars",
    "autoReport.outputArchive",
    "autoReport.outputSerializedGraph",
    "autoReport.outputDebugInfo",
)


class EngineOptionsError(ValueError):
    """POPLAR_ENGINE_OPTIONS cannot be read."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options that have an effect here."""

    report: bool = False
    """Whether every compiled program gets a report directory."""
    report_directory: Path = Path()
    allow_out_of_memory: bool = False


def current_engine_options() -> EngineOptions:
    """Return the options as the environment has them now."""
    return parse_engine_options(os.environ.get(VARIABLE, ""))


@functools.lru_cache(maxsize=8)
def parse_engine_options(text: str) -> EngineOptions:
    """Read the options; raises with what is wrong if they are not a JSON object."""
    if not text.strip():
        return EngineOptions()
    try:
        options = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EngineOptionsError(
            f"{VARIABLE} is not valid JSON ({error}): {text!r}"
        ) from None
    if not isinstance(options, dict):
        raise EngineOptionsError(
            f"{VARIABLE} must be a JSON object, for example "
            f'{{"autoReport.all": "true"}}, but it is {text!r}'
        )
    for name, value in options.items():
        if not isinstance(value, str):
            raise EngineOptionsError(
                f"{VARIABLE}: {name}: {value!r} must be a text, for example "
                f'"{json.dumps(value)}"'
            )
    return EngineOptions(
        report=any(_true(options.get(name)) for name in _REPORTS),
        report_directory=Path(options.get("autoReport.directory", ".")),
        allow_out_of_memory=_true(options.get("debug.allowOutOfMemory")),
    )


def _true(value: str | None) -> bool:
    return value is not None and value.lower() == "true"
