"""Model files, looked at before Keras is: what they hold, and whether it is data."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from ipu_runtime.datasets.machine_memory import memory_bytes
from ipu_runtime.datasets.unreadable import UNREADABLE, check_packing, content_of
from ipu_runtime.plan.config.file_reading import read_file
from workbench.models.model_source import ModelSource, SourceError, source_file

_CONFIG = "config.json"
_COMPILED = "compile_config"
_MOST_CONFIG_BYTES = 64 * 2**20
_TRUST = "--trust runs it, which is as safe as running a program of its author"
_CODE_LAYERS = (
    "__lambda__",
    "Lambda",
    "TFSMLayer",
    "TorchModuleWrapper",
    "JaxLayer",
    "FlaxLayer",
)
"""Classes of Keras that run, or load, code that the file names."""
_LIBRARIES = ("keras", "builtins")
_DATA_MODULES = (
    "activations",
    "constraints",
    "dtype_policies",
    "initializers",
    "layers",
    "losses",
    "metrics",
    "models",
    "ops",
    "optimizers",
    "quantizers",
    "random",
    "regularizers",
)
"""Parts of Keras whose objects do nothing when they are made."""


def content_key(source: ModelSource) -> str:
    """Return a text that changes whenever the model of a source may."""
    file = source_file(source)
    facts = [
        source.kind.value,
        digest_of(file) if file else source.place,
        source.function,
        list(source.input_shape),
        source.classes,
        _keras_version(),
    ]
    facts += [source.dtype] if source.dtype != "float32" else []
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def digest_of(file: Path) -> str:
    """Return a text that changes with what a file holds."""
    return _digest(file, _stamp(file))


@functools.cache
def _keras_version() -> str:
    # Late, because it takes a tenth of the time of a whole `plan` to load.
    import importlib.metadata

    return importlib.metadata.version("keras")


def _stamp(file: Path) -> tuple[int, ...]:
    """Return what changes when a file is written."""
    try:
        status = file.stat()
    except (OSError, ValueError):
        return ()
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


@functools.lru_cache(maxsize=256)
def _digest(file: Path, stamp: tuple[int, ...]) -> str:
    """Return the hash of a file; a form asks for it with every key."""
    del stamp
    return hashlib.sha256(read_source_file(file)).hexdigest()


def read_source_file(path: Path) -> bytes:
    """Return the bytes of a regular file; a pipe or a device is never opened."""
    try:
        return read_file(path, memory_bytes())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SourceError(f"{path} cannot be read: {reason}") from error


def checked_config(path: Path, *, trust: bool) -> dict[str, Any]:
    """Return the configuration in a model file, refused if it is more than data."""
    content = read_source_file(path)
    try:
        if path.suffix.lower() == ".keras":
            config = _archived(content, path)
        elif path.suffix.lower() == ".json":
            config = json.loads(content)
        else:
            config = _of_hdf5(content)
    except UNREADABLE as error:
        text = str(error).partition("\n")[0] or type(error).__name__
        raise SourceError(f"{path} is no Keras model: {text}") from error
    if not isinstance(config, dict) or "config" not in config:
        raise SourceError(f"{path} is no Keras model: it holds no configuration")
    # How it was compiled is the experiment's affair, and never looked at.
    config.pop(_COMPILED, None)
    if not trust:
        reason = next(_code_in(config), None)
        if reason is not None:
            raise SourceError(f"{path} holds {reason}, which is code", _TRUST)
    state = next(_states_in(config), None)
    if state is not None:
        text = f"{path}: {state} keeps its state from batch to batch"
        raise SourceError(text, "save the model with stateful=False")
    return _uncompiled(config)


def _uncompiled(value: Any) -> Any:
    """Return it without how nested models were compiled, which makes variables."""
    if isinstance(value, list):
        return [_uncompiled(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: item for name, item in value.items() if name != _COMPILED}
    return {name: _uncompiled(item) for name, item in kept.items()}


def _states_in(value: Any) -> Iterator[str]:
    """Yield the names of layers whose variables are neither weights nor data."""
    if isinstance(value, dict):
        if value.get("stateful") is True:
            yield str(value.get("name", "a layer"))
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from _states_in(item)


def holds_code(path: Path) -> bool:
    """Tell whether a model file is more than data; one that cannot be read is not."""
    try:
        return next(_code_in(checked_config(path, trust=True)), None) is not None
    except SourceError:
        return False


def _archived(content: bytes, path: Path) -> Any:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        check_packing(archive)
        for member in archive.infolist():
            name = PurePosixPath(member.filename.replace("\\", "/"))
            if name.is_absolute() or ".." in name.parts:
                raise SourceError(f"{path} holds a file outside of itself: {name}")
        config = archive.getinfo(_CONFIG)
        if config.file_size > _MOST_CONFIG_BYTES:
            raise SourceError(f"{path}: {_CONFIG} is larger than any model's")
        return json.loads(content_of(archive, config))


def _of_hdf5(content: bytes) -> Any:
    # Late, because it takes a moment to load and few models are such files.
    import h5py

    with h5py.File(io.BytesIO(content), "r") as file:
        return json.loads(file.attrs["model_config"])


def _code_in(value: Any) -> Iterator[str]:
    """Return what in a configuration is code, in words."""
    if isinstance(value, list):
        for item in value:
            yield from _code_in(item)
    if not isinstance(value, dict):
        return
    class_name = value.get("class_name")
    if isinstance(class_name, str):
        if class_name in _CODE_LAYERS:
            yield f"a {class_name.strip('_')}"
        module, registered = value.get("module"), value.get("registered_name")
        if module is not None and not _is_keras_data(module, class_name):
            yield f"{module}.{class_name}"
        elif isinstance(registered, str) and ">" in registered:
            yield registered
    for item in value.values():
        yield from _code_in(item)


def own_classes(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield module, name and registered name of every class that is not of Keras."""
    if isinstance(value, dict):
        module, name = value.get("module"), value.get("class_name")
        known = not isinstance(module, str) or module.split(".")[0] in _LIBRARIES
        if isinstance(name, str) and not known:
            yield str(module), name, str(value.get("registered_name") or name)
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from own_classes(item)


def _is_keras_data(module: Any, class_name: str) -> bool:
    if not isinstance(module, str):
        return False
    if module == "keras":
        return class_name.endswith("DTypePolicy") or class_name == "Sequential"
    if module == "builtins":
        # Python's plain values; a function of that name could be any.
        return class_name in ("dict", "list", "tuple", "set")
    parts = module.split(".")
    inside = parts[2:] if parts[:2] == ["keras", "src"] else parts[1:]
    return parts[0] == "keras" and bool(inside) and inside[0] in _DATA_MODULES
