"""Which code of others may run here: a fact of this user and this machine.

[Note: trust]
A model or data may be a function, a model file may hold code, a record or a capture may
name a script. Whether such code runs is decided here and nowhere else, for commands and
the app alike. What says yes is never the thing itself (a preset, a record, an overlay),
but the user: by naming the file on the command line or in the app, with `--trust`, or
by answering a question. That is remembered for what the code was then, so that it is
asked once.

What is remembered is a hash of where the file is and what it holds, and of the modules
beside it that it imports, and those of them, as far as `import` statements name them
(and, for a model file, the modules of the classes that it names). Not covered is what
code finds in other ways: modules elsewhere on Python's path, names it makes up, data
that it reads. The place is part of it because of those: the same file elsewhere may
find others beside it.

It is kept in the state directory of the user (`XDG_STATE_HOME`), one file per hash, and
not where IPU_WORKBENCH_HOME leads: that may have come from elsewhere too.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from ipu_runtime.system.file_replacing import replace_file
from workbench.locations import NoHomeError, trust_directory
from workbench.models.model_source import (
    FILE_ENDINGS,
    ModelSource,
    SourceError,
    SourceKind,
    source_file,
)
from workbench.models.source_files import (
    checked_config,
    digest_of,
    holds_code,
    own_classes,
    read_source_file,
)

_MOST_MODULES = 2000
_trusted_here: set[str] = set()
"""Hashes of code that runs in this process, even where nothing can be remembered."""
_parent_decides = False


def is_trusted(file: Path) -> bool:
    """Tell whether the code of a file, as it is now, may run."""
    if _parent_decides:
        return True
    try:
        key = code_hash(file)
    except SourceError:
        return False
    return key in _trusted_here or _is_remembered(key)


def leave_to_parent() -> None:
    """Trust what this process is told to run: who has started it has asked."""
    global _parent_decides
    _parent_decides = True


def trust(file: Path) -> None:
    """Let the code of a module, script or model file run while it is the same."""
    key = code_hash(file)
    _trusted_here.add(key)
    if not _is_remembered(key):
        at = datetime.now(UTC).isoformat(timespec="seconds")
        # Who has no place to remember it is asked again.
        with suppress(OSError, NoHomeError):
            directory = trust_directory()
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(directory / key, f"{file.absolute()}\n{at}\n")


def may_run(source: ModelSource) -> bool:
    """Tell whether the code of a model or of data may run."""
    file = source_file(source)
    return file is not None and is_trusted(file)


def allow(source: ModelSource) -> None:
    """Let the code of a model or of data run while it is the same."""
    file = source_file(source)
    if file is not None:
        trust(file)


def needs_trust(source: ModelSource) -> bool:
    """Tell whether the user is to be asked before a source is read or run."""
    code = source.is_code
    if source.kind is SourceKind.FILE:
        code = holds_code(Path(source.place))
    file = source_file(source) if code else None
    return file is not None and file.exists() and not is_trusted(file)


def check_may_run(source: ModelSource) -> None:
    """Refuse code that nobody has allowed to run, or that is not there."""
    file = source_file(source)
    if file is not None and not is_trusted(file):
        code_hash(file)
        raise SourceError(
            f"{source.text} runs code, and you have not said yet that you trust it as "
            "it is now",
            "say --trust if you trust its author",
        )


def code_hash(file: Path) -> str:
    """Return a text that changes with the code of a file and of what it imports."""
    file = file.absolute()
    code = hashlib.sha256(f"{file}\n".encode(errors="surrogateescape"))
    for part in sorted(_with_imports(file)):
        code.update(f"{part}\n{digest_of(part)}\n".encode(errors="surrogateescape"))
    return code.hexdigest()


def _with_imports(file: Path) -> set[Path]:
    """Return a file and the modules that it imports from beside it, and they."""
    found, waiting = {file}, [file]
    while waiting and len(found) < _MOST_MODULES:
        part = waiting.pop()
        is_model = part.suffix.lower() in FILE_ENDINGS
        for name in (_classes if is_model else _imports)(part, digest_of(part)):
            new = set(_modules(name, part.parent, file.parent)) - found
            found |= new
            waiting += new
    return found


def _modules(name: str, folder: Path, root: Path) -> Iterator[Path]:
    """Return the files that an imported name can mean in the directory of a script.

    Args:
        name: Dotted; one dot more at its beginning for each package that it is in.
        folder: Of the module that imports it.
        root: Of the script, where Python looks for the rest.
    """
    parts = name.lstrip(".").split(".")
    for _ in range(len(name) - len(name.lstrip(".")) - 1):
        folder = folder.parent
    for start in (folder, root):
        place = start
        for part in filter(None, parts):
            place /= part
            for file in (place.with_suffix(".py"), place / "__init__.py"):
                if file.is_file():
                    yield file


@functools.lru_cache(maxsize=256)
def _imports(file: Path, digest: str) -> tuple[str, ...]:
    """Return the names that a module imports, and those it may take from them."""
    del digest
    try:
        tree = ast.parse(read_source_file(file))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ()  # It cannot run either.
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            dot = "." if node.module else ""
            names += [module, *(f"{module}{dot}{item.name}" for item in node.names)]
    return tuple(dict.fromkeys(names))


@functools.lru_cache(maxsize=16)
def _classes(file: Path, digest: str) -> tuple[str, ...]:
    """Return the modules of the classes that a model file names."""
    del digest
    try:
        config = checked_config(file, trust=True)
    except SourceError:
        return ()
    return tuple({module for module, _, _ in own_classes(config)})


def _is_remembered(key: str) -> bool:
    """Tell whether this user has trusted it; what others could write says nothing."""
    try:
        directory = trust_directory()
        owner, kept = os.lstat(directory), os.lstat(directory / key)
    except (OSError, NoHomeError):
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    ours = owner.st_uid == os.geteuid() and not owner.st_mode & others
    return ours and stat.S_ISDIR(owner.st_mode) and stat.S_ISREG(kept.st_mode)
