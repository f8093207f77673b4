"""What was read from a source: the model as a plan sees it, kept as JSON."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ipu_runtime.plan.model.model_json import model_from_json, model_to_json
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.problem import Problem
from workbench.models.reading_cache import keep, kept

_FORMAT = 1
_READING = 8
"""Raised when reading finds out more, so that what is kept is read again."""


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """An input or an output of a model."""

    name: str
    shape: tuple[int, ...]
    """Of one sample."""
    dtype: str = "float32"
    activation: str = ""
    """Of an output: softmax, sigmoid, linear; empty if it is another or not known."""


@dataclass(frozen=True, slots=True)
class SourceModel:
    """A model that was read."""

    spec: ModelSpec | None
    """None when the plan does not know one of its layers: see `problems`."""
    problems: tuple[Problem, ...] = ()
    inputs: tuple[TensorFacts, ...] = ()
    outputs: tuple[TensorFacts, ...] = ()
    named_inputs: bool = False
    """Whether it takes a dictionary."""
    named_outputs: bool = False
    """Whether it returns a dictionary."""
    one_block: bool = False
    """Whether its layers cannot be put into stages, as with a subclass."""
    holds_code: bool = False
    """Whether it is a file that is more than data."""


def load_source_model(key: str) -> SourceModel | None:
    """Return what was read from a source with this content, if it is still kept."""
    try:
        return _parsed(kept(_name(key)))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        # Whatever is wrong with a cache, the model can be read again.
        return None


def _name(key: str) -> str:
    return f"{key}.{_READING}.json"


@functools.lru_cache(maxsize=16)
def _parsed(content: bytes) -> SourceModel:
    return source_model_from_json(json.loads(content))


def save_source_model(key: str, model: SourceModel) -> None:
    """Keep what was read."""
    keep(_name(key), json.dumps(source_model_to_json(model)))


def source_model_to_json(model: SourceModel) -> dict[str, Any]:
    """Return it in JSON's own types."""
    return {
        "format": _FORMAT,
        "spec": model_to_json(model.spec) if model.spec else None,
        "problems": [[item.where, item.problem, item.hint] for item in model.problems],
        "inputs": [asdict(item) for item in model.inputs],
        "outputs": [asdict(item) for item in model.outputs],
        "named_inputs": model.named_inputs,
        "named_outputs": model.named_outputs,
        "one_block": model.one_block,
        "holds_code": model.holds_code,
    }


def source_model_from_json(row: Mapping[str, Any]) -> SourceModel:
    """Return what the above has written."""
    if row["format"] != _FORMAT:
        raise ValueError("of another version")
    return SourceModel(
        spec=model_from_json(row["spec"]) if row["spec"] else None,
        problems=tuple(Problem(*item) for item in row["problems"]),
        inputs=tuple(map(_tensor, row["inputs"])),
        outputs=tuple(map(_tensor, row["outputs"])),
        named_inputs=row["named_inputs"],
        named_outputs=row["named_outputs"],
        one_block=row["one_block"],
        holds_code=row["holds_code"],
    )


def _tensor(row: Mapping[str, Any]) -> TensorFacts:
    return TensorFacts(**{**row, "shape": tuple(row["shape"])})
