"""Compiled applications as files, in a format of the emulator's own.

A file is a zip archive: `head.json` says what goes in and out, `graph.pb` is the
program as a TensorFlow graph, and `values/N.npy` are the values that are frozen into
it. It is named `.poplar_exec` as scripts expect, but no device can load it.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

_FORMAT = "ipu-workbench executable"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape and type of a tensor, as the real signature names them."""

    dimensions: tuple[int, ...]
    element_type: str


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor that goes into an application, or comes out of it."""

    name: str
    shape: Shape
    node: str
    """Name of the tensor in the graph."""
    variable: bool = False
    """Whether the graph wants a variable with the value."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What goes in and out: at the start, and with every call."""

    inputs: tuple[TensorInfo, ...]
    streamed_inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    streamed_outputs: tuple[TensorInfo, ...]
    frozen: tuple[TensorInfo, ...]
    """Inputs whose values are in the file."""


@dataclass(frozen=True, slots=True)
class Executable:
    """A compiled application."""

    signature: Signature
    graph: bytes
    """A serialized `GraphDef`."""
    values: tuple[Any, ...]
    """The values of the frozen inputs."""


def write_executable(path: str, executable: Executable) -> None:
    """Write an application to a file."""
    head = {
        "format": _FORMAT,
        "version": _VERSION,
        "signature": asdict(executable.signature),
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("head.json", json.dumps(head, indent=1))
        archive.writestr("graph.pb", executable.graph)
        for index, value in enumerate(executable.values):
            array = io.BytesIO()
            np.save(array, value, allow_pickle=False)
            archive.writestr(f"values/{index}.npy", array.getvalue())


def read_executable(path: str) -> Executable:
    """Read an application; raises if the file is none."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no executable {path!r}.")
    try:
        with zipfile.ZipFile(path) as archive:
            head = json.loads(archive.read("head.json"))
            if (head["format"], head["version"]) != (_FORMAT, _VERSION):
                raise KeyError(head["format"])
            signature = Signature(
                **{
                    field: tuple(_info(item) for item in items)
                    for field, items in head["signature"].items()
                }
            )
            values = tuple(
                np.load(io.BytesIO(archive.read(f"values/{index}.npy")))
                for index in range(len(signature.frozen))
            )
            return Executable(signature, archive.read("graph.pb"), values)
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise ValueError(
            f"The file {path!r} is not an executable of the emulator ({error}); "
            "executables for real devices cannot run here."
        ) from None


def _info(item: dict[str, Any]) -> TensorInfo:
    shape = item.pop("shape")
    return TensorInfo(
        shape=Shape(tuple(shape["dimensions"]), shape["element_type"]), **item
    )
