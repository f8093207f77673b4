"""The public names of the real packages, as `public_names.json` lists them.

The file has, by SDK and module, a signature for a function, signatures by method for a
class, `members` for an enumeration and `= module.name` for a second place of a name or
of a module. A default of `...` is one whose value is not known. What a module imports
only for its own use is left out. Here it decides which error a missing name gets;
`docs/coverage` compares all of it.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

IPU = "tensorflow.python.ipu"

ABSENT = "; the emulator does not have it"
"""What is said of names that the real packages have."""

_SECOND_PLACE = "= "


@functools.cache
def entries() -> tuple[tuple[str, str, str, Any], ...]:
    """Return the SDK, the module, the name and what the file says of it."""
    path = Path(__file__).with_name("public_names.json")
    by_sdk = json.loads(path.read_text(encoding="utf-8"))
    return tuple(
        (sdk, module, name, entry)
        for sdk, modules in by_sdk.items()
        for module, names in modules.items()
        for name, entry in names.items()
    )


def defined_at(entry: Any) -> str:
    """Return what an entry is a second place of; empty for a definition."""
    is_place = isinstance(entry, str) and entry.startswith(_SECOND_PLACE)
    return entry[len(_SECOND_PLACE) :] if is_place else ""


def is_real(dotted: str) -> bool:
    """Tell whether the real packages have a module or a name, or something in it."""
    return any(f"{name}.".startswith(f"{dotted}.") for name in _names())


def missing_attribute(module: str, name: str, dotted: str) -> AttributeError:
    """Return the error for `module.name`, which is `dotted` in the real packages."""
    absent = ABSENT if is_real(dotted) else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{absent}")


@functools.cache
def _names() -> frozenset[str]:
    """Return all names, and modules that are only known as second places."""
    return frozenset(
        dotted
        for _, module, name, entry in entries()
        for dotted in (f"{module}.{name}", defined_at(entry))
    )
