"""The modelled hardware: a table of data that users can add to."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ipu_runtime.plan.config.file_reading import read_file
from ipu_runtime.plan.config.toml_reading import TomlError, read_toml

_MOST_BYTES = 2**20
_SMALLEST, _LARGEST = 1e-6, 1e15
"""Numbers outside are mistakes, and would overflow or divide by nothing."""


class IpuType(NamedTuple):
    """One generation of the chip."""

    name: str
    title: str
    version: str
    """Poplar's target name: ipu1, ipu2 or ipu21."""
    tiles: int
    clock_hz: float
    tile_bytes: int
    fp16_tflops: float
    fp32_tflops: float
    macs_fp16_partials_fp16: int
    """Multiply-adds per tile and cycle of the matrix unit."""
    macs_fp32: int
    host_gb_s: float
    """From the host to one IPU, each way."""
    machine_host_gb_s: float
    """From the host to all IPUs of one machine together."""
    remote_gb_s: float
    """Streaming memory of one machine."""
    confidence: str
    origin: str

    @property
    def memory_bytes(self) -> int:
        """Memory of all tiles."""
        return self.tiles * self.tile_bytes


class System(NamedTuple):
    """IPUs that are sold together."""

    name: str
    ipu: IpuType
    ipus: int
    ipus_per_machine: int
    hosts: int = 1
    """What it is sold with."""

    def usual_hosts(self, ipus: int) -> int:
        """Return how many of its hosts feed so many of its IPUs."""
        return max(1, -(-self.hosts * ipus // self.ipus))


class Constant(NamedTuple):
    """A number of the cost model, with what it rests on."""

    value: float
    unit: str
    confidence: str
    """H read in a source, M derived, L a modelling choice."""
    origin: str
    group: str = ""
    """What its error counts as: compute, exchange, sync, host, links, code, memory."""


class ErrorShare(NamedTuple):
    """How far off figures of one confidence may be."""

    share: float
    origin: str


class CodeSize(NamedTuple):
    """Bytes of code of one class of operations."""

    state: int
    exchange: int
    control: int
    vertex_bytes_per_tile: int


class OptimizerCost(NamedTuple):
    """What a weight update costs per variable."""

    passes: int
    supersteps: int
    slots: int
    """State values per weight value."""
    confidence: str
    reductions: int = 0


_DIVIDED_BY = (IpuType, System, Constant)
"""Kinds whose numbers cannot be nothing."""


@dataclass(frozen=True, eq=False)
class HardwareTable:
    """All of hardware.toml; compared by identity, so that it can be a key."""

    ipus: Mapping[str, IpuType]
    systems: Mapping[str, System]
    constants: Mapping[str, Constant]
    code: Mapping[str, CodeSize]
    optimizers: Mapping[str, OptimizerCost]
    errors: Mapping[str, ErrorShare]
    """By confidence."""

    @functools.cached_property
    def values(self) -> Mapping[str, float]:
        """The constants' values by name."""
        return {name: constant.value for name, constant in self.constants.items()}

    def system(self, name: str) -> System | None:
        """Find a system by its name, whatever its case, blanks and hyphens."""
        return self._by_folded_name.get(_folded(name))

    @functools.cached_property
    def _by_folded_name(self) -> Mapping[str, System]:
        return {_folded(name): system for name, system in self.systems.items()}


class HardwareFileError(ValueError):
    """A hardware file that cannot be read; the message says where and why."""


def find_system(name: str, path: str = "") -> System | None:
    """Find a system in the table, with the additions of the file at `path`."""
    return load_table(path).system(name)


def systems(path: str = "") -> tuple[System, ...]:
    """List the systems of the table."""
    return tuple(load_table(path).systems.values())


@functools.lru_cache(maxsize=8)
def load_table(path: str = "") -> HardwareTable:
    """Read the packaged table and merge the file at `path` into it."""
    packaged = Path(__file__).with_name("hardware.toml")
    merged = read_toml(packaged.read_text(encoding="utf-8"))
    if path:
        try:
            added = read_toml(read_file(Path(path), _MOST_BYTES).decode())
        except OSError as error:
            raise HardwareFileError(f"{path}: {error.strerror}") from error
        except (UnicodeDecodeError, TomlError) as error:
            raise HardwareFileError(f"{path}: {error}") from error
        merged = _merge(merged, added, path)
    ipus = _entries(merged, "ipus", IpuType, path)
    found = {}
    for name, entry in merged["systems"].items():
        kind = entry.get("ipu")
        if kind not in list(ipus):
            raise HardwareFileError(
                f"{path}: systems.{name}.ipu: {kind!r} is not one of {sorted(ipus)}"
            )
        found[name] = _make(
            System, {**entry, "name": name, "ipu": ipus[kind]}, f"systems.{name}", path
        )
    return HardwareTable(
        ipus=ipus,
        systems=found,
        constants=_entries(merged, "constants", Constant, path),
        code=_entries(merged, "code", CodeSize, path),
        optimizers=_entries(merged, "optimizers", OptimizerCost, path),
        errors=_entries(merged, "errors", ErrorShare, path),
    )


def _folded(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _merge(base: dict[str, Any], added: dict[str, Any], path: str) -> dict[str, Any]:
    merged = {section: dict(entries) for section, entries in base.items()}
    for section, entries in added.items():
        if section not in merged or not isinstance(entries, dict):
            raise HardwareFileError(
                f"{path}: {section}: not a table of this file, use one of "
                f"{', '.join(merged)}"
            )
        for name, entry in entries.items():
            if not isinstance(entry, dict):
                raise HardwareFileError(f"{path}: {section}.{name}: must be a table")
            # A new chip may state only what differs from the one it is like.
            like = entry.get("like", name)
            if like not in list(merged[section]) and "like" in entry:
                raise HardwareFileError(
                    f"{path}: {section}.{name}.like: there is no {like!r}"
                )
            known = merged[section].get(like, {})
            changes = {key: value for key, value in entry.items() if key != "like"}
            merged[section][name] = {**known, **changes}
    return merged


def _entries(tables: dict[str, Any], section: str, kind: type, path: str) -> Any:
    made = {}
    for name, entry in tables[section].items():
        named = {**entry, "name": name} if kind is IpuType else entry
        made[name] = _make(kind, named, f"{section}.{name}", path)
    return made


def _make(kind: type, entry: Mapping[str, Any], where: str, path: str) -> Any:
    known = {
        name: getattr(annotation, "__forward_arg__", "")
        for name, annotation in kind.__annotations__.items()
    }
    for key, value in entry.items():
        if key not in known:
            raise HardwareFileError(f"{path}: {where}.{key}: unknown entry")
        wanted = _wanted(known[key], value, positive=kind in _DIVIDED_BY)
        if wanted:
            raise HardwareFileError(
                f"{path}: {where}.{key}: must be {wanted}, not {value!r}"
            )
    try:
        return kind(**entry)
    except TypeError as error:
        raise HardwareFileError(f"{path}: {where}: {error}") from error


def _wanted(annotation: str, value: Any, *, positive: bool) -> str:
    """Return what the value should have been; empty if it is that."""
    if annotation == "str":
        return "" if isinstance(value, str) else "a text"
    if annotation not in ("int", "float"):
        return ""
    whole = annotation == "int"
    number = type(value) is int or (type(value) is float and not whole)
    low = 0 if not positive else (1 if whole else _SMALLEST)
    if number and low <= value <= _LARGEST:
        return ""
    return f"a {'whole ' if whole else ''}number from {low:g} to {_LARGEST:g}"
