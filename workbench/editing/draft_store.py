"""Changes that were never saved as a preset, kept until they are taken back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from workbench.editing.draft import Draft
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.model_tables import tables_for_file
from workbench.experiment.preset_store import Preset
from workbench.locations import drafts_directory
from workbench.store_files import make_root, names_in, remove_file
from workbench.store_json import RecordError, explained, load_json, replace_json

_FORMAT = 1
_MOST_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class KeptDraft:
    """The changes of one preset, with the preset as it was."""

    preset: Preset
    changes: Mapping[str, Any]


def keep_draft(draft: Draft) -> None:
    """Write the changes of a preset; without any, forget them."""
    preset, changes = draft.preset, draft.changes()
    path = drafts_directory() / f"{quote(preset.name, safe='')}.json"
    if not changes:
        with explained(path):
            remove_file(path)
        return
    content = {
        "format": _FORMAT,
        "preset": preset.name,
        "path": str(preset.path),
        "changes": changes,
        "tables": tables_for_file(preset.tables),
    }
    with explained(path):
        make_root(path.parent)
    replace_json(path, content)


def kept_drafts() -> tuple[list[KeptDraft], list[str]]:
    """Return what is kept, and the files that cannot be understood."""
    root = drafts_directory()
    found, damaged = [], []
    for file in (root / name for name in names_in(root) if name.endswith(".json")):
        draft = _read(file)
        if draft is None:
            damaged.append(str(file))
        else:
            found.append(draft)
    return found, damaged


def _read(file: Path) -> KeptDraft | None:
    try:
        row = load_json(file, _MOST_BYTES)
        preset = Preset(str(row["preset"]), Path(row["path"]), dict(row["tables"]))
        # A later version may know other fields.
        changes = {
            path: value
            for path, value in row["changes"].items()
            if path in FIELD_OF_PATH
        }
    except (RecordError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return KeptDraft(preset, changes)
