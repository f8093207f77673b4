"""A script's model and settings as they were captured, in a file of plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipu_runtime.system.file_replacing import replace_file
from workbench.models.model_source import SourceError
from workbench.models.source_files import read_source_file
from workbench.models.source_model import (
    SourceModel,
    source_model_from_json,
    source_model_to_json,
)


@dataclass(frozen=True, slots=True)
class CapturedModel:
    """What a script was about to run."""

    script: str
    """Absolute path."""
    arguments: tuple[str, ...]
    program: str
    """Which of its programs, for example `fit-1`."""
    model: SourceModel
    tables: Mapping[str, Any] = field(default_factory=dict)
    """The experiment as the script has it, to tell later what was changed."""


def write_capture(path: Path, captured: CapturedModel) -> None:
    """Write the file."""
    row = {
        "script": captured.script,
        "arguments": list(captured.arguments),
        "program": captured.program,
        "model": source_model_to_json(captured.model),
        "tables": captured.tables,
    }
    replace_file(path, json.dumps(row))


def read_capture(path: Path) -> CapturedModel:
    """Return what a file holds."""
    content = read_source_file(path)
    try:
        row = json.loads(content)
        return CapturedModel(
            row["script"],
            tuple(row["arguments"]),
            row["program"],
            source_model_from_json(row["model"]),
            dict(row["tables"]),
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        hint = "write it anew with: ipu-workbench capture SCRIPT --output FILE"
        raise SourceError(f"{path} holds no captured script", hint) from error
