"""Files that an experiment names, and how they reach machines that have not got them.

They are gathered in one directory, which Ray copies to every machine and starts work
in. The experiment names them relative to it then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from workbench.data.dataset_facts import NAMED
from workbench.locations import hardware_file
from workbench.models.model_source import (
    SourceError,
    looks_like_source,
    parse_source,
)

_FIELDS = (("model", "source"), ("data", "dataset"))
_HARDWARE = "IPU_WORKBENCH_HARDWARE"


@dataclass(frozen=True, slots=True)
class ShippedFiles:
    """What is copied, and the names that it has on the other side."""

    directory: Path
    names: Mapping[str, str]
    """By what an experiment says."""
    environment: Mapping[str, str]

    def relocated(self, tables: Mapping[str, Any]) -> dict[str, Any]:
        """Return an experiment that finds its files on the other side."""
        moved = dict(tables)
        for section, key in _FIELDS:
            table = moved.get(section, {})
            said = _written_out(table.get(key, ""))
            if said in self.names:
                moved[section] = {**table, key: self.names[said]}
        return moved


@contextmanager
def shipped_files(experiments: Iterable[Mapping[str, Any]]) -> Iterator[ShippedFiles]:
    """Gather the files of experiments; links suffice, as Ray follows them."""
    with TemporaryDirectory(prefix="ipu-workbench-") as folder:
        directory = Path(folder)
        names: dict[str, str] = {}
        for tables in experiments:
            for section, key in _FIELDS:
                said = _written_out(tables.get(section, {}).get(key, ""))
                if said and said not in NAMED and said not in names:
                    name = _gathered(said, directory, str(len(names)))
                    names |= {said: name} if name else {}
        environment = {}
        if hardware_file():
            _link(Path(hardware_file()), directory / "hardware.toml")
            environment[_HARDWARE] = "hardware.toml"
        yield ShippedFiles(directory, names, environment)


def _written_out(said: str) -> str:
    """Return what a field names in one way, however it is written."""
    if not said or said in NAMED:
        return said
    try:
        if looks_like_source(said):
            return parse_source(said).text
    except SourceError:
        # Whoever runs the experiment says what is wrong with it.
        return ""
    return os.path.abspath(os.path.expanduser(said))


def _gathered(said: str, directory: Path, number: str) -> str:
    """Link what a field names; return its new name, or nothing if it has no file."""
    file, function = Path(said), ""
    if looks_like_source(said):
        source = parse_source(said)
        function = source.function
        if function and not source.place.endswith(".py"):
            # A module keeps its name; one that is installed is not ours to copy.
            _link_code(Path.cwd(), directory)
            return ""
        file = Path(source.place)
    if not file.exists():
        return ""
    beside = directory / number
    beside.mkdir()
    if function:
        _link_code(file.parent, beside)
    _link(file, beside / file.name)
    return f"{number}/{file.name}" + (f":{function}" if function else "")


def _link_code(folder: Path, target: Path) -> None:
    """Link the modules and packages of a directory, and nothing else of it."""
    for item in folder.iterdir():
        if item.suffix == ".py" or (item / "__init__.py").is_file():
            _link(item, target / item.name)


def _link(file: Path, link: Path) -> None:
    if not link.exists():
        link.symlink_to(file.absolute())
