"""The name of a model: a file, a model of `keras.applications`, or a function."""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import re
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ipu_runtime.plan.config.field import nearest
from ipu_runtime.plan.problem import Problem

SOURCE_FORMS = (
    "model.keras, .h5 or .json, keras:NAME, file.py:function or package.module:function"
)
FILE_ENDINGS = (".keras", ".h5", ".hdf5", ".json")
CAPTURE_ENDING = ".captured.json"
"""Of a file with a script's model as a plan sees it; it has no weights and no code."""
_APPLICATION = "keras:"
_FUNCTION = re.compile(r"(?P<place>.+):(?P<function>[A-Za-z_]\w*)", re.DOTALL)
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class SourceError(Exception):
    """A source that names no model, or whose model cannot be read."""

    def __init__(self, problem: str, hint: str = "", suggestion: str = "") -> None:
        self.problem, self.hint, self.suggestion = problem, hint, suggestion
        super().__init__(f"{problem}; {hint}" if hint else problem)

    def as_problem(self, field: str = "model.source") -> Problem:
        """Return it as a problem of the field."""
        suggestion = self.suggestion or None
        return Problem(field, self.problem, self.hint, suggestion=suggestion)


class SourceKind(Enum):
    """What a source is."""

    FILE = "file"
    CAPTURE = "capture"
    APPLICATION = "application"
    FUNCTION = "function"


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a model comes from, and what it is asked to be."""

    kind: SourceKind
    place: str
    """Path of a file, name of an application, or path or name of a module."""
    function: str = ""
    input_shape: tuple[int, ...] = ()
    """Shape of one sample; empty means the model's own."""
    classes: int = 0
    """Width of the last layer; 0 means the model's own."""
    dtype: str = "float32"
    """Type of layers that do not say theirs."""

    @property
    def text(self) -> str:
        """The source as it is written."""
        if self.kind is SourceKind.APPLICATION:
            return _APPLICATION + self.place
        return f"{self.place}:{self.function}" if self.function else self.place

    @property
    def title(self) -> str:
        """A short name for what it makes."""
        return self.function or Path(self.place).name.partition(".")[0]

    @property
    def is_code(self) -> bool:
        """Whether reading it runs code of the user's."""
        return self.kind is SourceKind.FUNCTION


def looks_like_source(text: str) -> bool:
    """Tell whether a command's argument names a model and no preset."""
    if text.startswith(_APPLICATION) or text.lower().endswith(FILE_ENDINGS):
        return True
    return looks_like_function(text)


def looks_like_function(text: str) -> bool:
    """Tell whether a text names a function of the user's, in a file or a module."""
    match = _FUNCTION.fullmatch(text)
    named = match is not None and _names_code(match["place"])
    return named and not text.startswith(_APPLICATION)


def parse_source(
    text: str,
    input_shape: tuple[int, ...] = (),
    classes: int = 0,
    dtype: str = "float32",
) -> ModelSource:
    """Return the source that a text names; files are looked up from this directory."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        # Experiments and records name it, and are UTF-8 themselves.
        raise SourceError("its name is not UTF-8", "give the file another") from error
    if text.startswith(_APPLICATION):
        name = text.removeprefix(_APPLICATION)
        _check_application(name)
        kind = SourceKind.APPLICATION
        return ModelSource(kind, name, "", input_shape, classes, dtype)
    if text.lower().endswith(FILE_ENDINGS):
        captured = text.lower().endswith(CAPTURE_ENDING)
        kind = SourceKind.CAPTURE if captured else SourceKind.FILE
        place = _absolute(text)
        return ModelSource(kind, place, "", input_shape, classes, dtype)
    match = _FUNCTION.fullmatch(text)
    if match is None or not _names_code(match["place"]):
        raise SourceError(f'"{text}" names no model', f"valid: {SOURCE_FORMS}")
    place = match["place"]
    place = _absolute(place) if place.endswith(".py") else place
    function = match["function"]
    kind = SourceKind.FUNCTION
    return ModelSource(kind, place, function, input_shape, classes, dtype)


def anchored(text: str, folder: Path) -> str:
    """Return a source whose file, if it names one, is looked up from a directory."""
    match = _FUNCTION.fullmatch(text)
    in_file = match is not None and match["place"].endswith(".py")
    if not in_file and not text.lower().endswith(FILE_ENDINGS):
        return text
    return str(folder.absolute() / os.path.expanduser(text))


def source_file(source: ModelSource) -> Path | None:
    """Return the file that a source stands in; nothing is imported to find it."""
    if source.kind is SourceKind.APPLICATION:
        return None
    in_file = source.kind in (SourceKind.FILE, SourceKind.CAPTURE)
    if in_file or source.place.endswith(".py"):
        return Path(source.place)
    inside = Path(*source.place.split("."))
    for folder in (os.getcwd(), *sys.path):
        for file in (inside.with_suffix(".py"), inside / "__init__.py"):
            if (Path(folder) / file).is_file():
                return Path(folder) / file
    raise SourceError(
        f"there is no module {source.place} in this directory or Python's path",
        "for example package.module:function, or file.py:function",
    )


def not_read(source: ModelSource) -> SourceError:
    """Return what to say of a model that is wanted as it was read before."""
    hint = f"for example with: ipu-workbench plan {source.text}"
    return SourceError(f"{source.text} has not been read yet", hint)


@functools.cache
def application_names() -> tuple[str, ...]:
    """Return the models of `keras.applications`, read from its text: Keras is slow."""
    keras = importlib.util.find_spec("keras")
    if keras is None or keras.origin is None:
        return ()
    listing = Path(keras.origin).parent / "applications" / "__init__.py"
    tree = ast.parse(listing.read_text(encoding="utf-8"))
    names = (
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )
    return tuple(sorted(name for name in names if name[:1].isupper()))


def _check_application(name: str) -> None:
    names = application_names()
    if name in names:
        return
    lowered = {known.lower(): known for known in names}
    guess = nearest(name.lower(), lowered)
    hint = f"did you mean {_APPLICATION}{lowered[guess]}?" if guess else ""
    suggestion = _APPLICATION + lowered[guess] if guess else ""
    hint = hint or f"valid: {', '.join(names)}"
    raise SourceError(f'keras.applications has no "{name}"', hint, suggestion)


def _names_code(place: str) -> bool:
    return place.endswith(".py") or _MODULE.fullmatch(place) is not None


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))
