"""Keras models made from sources; TensorFlow is loaded."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ipu_runtime.datasets.machine_memory import memory_bytes
from ipu_runtime.installing.quiet_import import startup_noise_dropped
from workbench.error_line import telling_line
from workbench.models.code_trust import check_may_run
from workbench.models.model_source import ModelSource, SourceError, SourceKind
from workbench.models.source_files import checked_config, own_classes
from workbench.models.weight_bounds import check_archive, check_hdf5

_ARCHIVE = ".keras"
_VALUE_BYTES = 4
_USUAL_IMAGE = (224, 224, 3)
"""For models of `keras.applications` that leave the size of images open."""


def outlined_model(source: ModelSource, *, trust: bool) -> Any:
    """Return the model of a source for looking at: its weights have no values.

    Only a function makes what it likes, because it is the user's own program.
    """
    keras = _fresh_keras()
    with explained(source), _typed(source):
        if source.is_code:
            return _called(source)
        try:
            with keras.StatelessScope(initialize_variables=False):
                model = _made(source, trust=trust, weights=False)
        finally:
            # Keras remembers what has no value yet, and would make it later.
            keras.backend.clear_session()
    values = sum(_size(weight.shape) for weight in model.weights)
    if values * _VALUE_BYTES > memory_bytes():
        raise SourceError(
            f"{source.text} has {values:,} weights, more than this machine's memory"
        )
    if Path(source.place).suffix.lower() == _ARCHIVE:
        check_archive(Path(source.place), values * _VALUE_BYTES)
    return model


def check_weights(source: ModelSource, *, trust: bool) -> None:
    """Refuse an archive whose weights are not those of its layers, by loading them."""
    if Path(source.place).suffix.lower() != _ARCHIVE:
        return  # Others are looked at with their weights.
    keras = _fresh_keras()
    with explained(source), _typed(source):
        _made(source, trust=trust, weights=True)
    keras.backend.clear_session()


def trainable_model(source: ModelSource, seed: int, *, trust: bool) -> Any:
    """Return the model of a source with its weights: those of a file, or fresh ones."""
    if Path(source.place).suffix.lower() == _ARCHIVE:
        # What its weights unpack to is held against what these need.
        outlined_model(source, trust=trust)
    keras = _fresh_keras()
    keras.utils.set_random_seed(seed)
    with explained(source), _typed(source):
        if source.is_code:
            return _called(source)
        return _made(source, trust=trust, weights=True)


def _fresh_keras() -> Any:
    """Return Keras, which numbers layers without a name from the start again."""
    # Late, because it loads TensorFlow.
    with startup_noise_dropped():
        import keras

    keras.backend.clear_session()
    return keras


@contextlib.contextmanager
def _typed(source: ModelSource) -> Iterator[None]:
    """Give layers the type that is asked for; what a function sets ends with it."""
    import keras

    keras.config.set_dtype_policy(source.dtype)
    try:
        yield
    finally:
        keras.config.set_dtype_policy("float32")


def _made(source: ModelSource, *, trust: bool, weights: bool) -> Any:
    import keras

    if source.kind is SourceKind.CAPTURE:
        raise SourceError(
            f"{source.text} is the model of a script, which has it in full",
            "train it with: ipu-workbench exec SCRIPT --with FILE",
        )
    if source.kind is SourceKind.APPLICATION:
        wanted: dict[str, Any] = {"weights": None}
        if source.input_shape:
            wanted["input_shape"] = source.input_shape
        if source.classes:
            wanted["classes"] = source.classes
        make = getattr(keras.applications, source.place)
        model = make(**wanted)
        if None in model.inputs[0].shape[1:]:
            model = make(**wanted, input_shape=_USUAL_IMAGE)
        return model
    return _loaded(source, trust=trust, weights=weights)


def _loaded(source: ModelSource, *, trust: bool, weights: bool) -> Any:
    import keras

    path = Path(source.place)
    if trust:
        check_may_run(source)
    config = checked_config(path, trust=trust)
    ending = path.suffix.lower()
    if ending not in (".json", _ARCHIVE):
        check_hdf5(path)
    with _classes_beside(path, config) if trust else contextlib.nullcontext():
        if ending == ".json" or (ending == _ARCHIVE and not weights):
            model = keras.saving.deserialize_keras_object(config, safe_mode=not trust)
        else:
            model = keras.models.load_model(path, compile=False, safe_mode=not trust)
    if source.classes:
        hint = "leave it out: a file's last layer is what it is"
        raise SourceError(f"{path.name} takes no model.classes", hint)
    if not isinstance(model, keras.Model):
        raise SourceError(f"{path} holds a {type(model).__name__}, not a model")
    return _reshaped(model, source.input_shape, weights=weights)


def _reshaped(model: Any, shape: tuple[int, ...], *, weights: bool) -> Any:
    """Return the model for samples of another shape, with the same weights."""
    import keras

    if not shape or shape == tuple(model.inputs[0].shape[1:]):
        return model
    if len(model.inputs) != 1:
        text = f"the model has {len(model.inputs)} inputs, model.input_shape is for one"
        raise SourceError(text)
    known = model.inputs[0]
    entry = keras.Input(shape, dtype=known.dtype, name=known.name)
    copy = keras.models.clone_model(model, input_tensors=entry)
    if weights:
        copy.set_weights(model.get_weights())
    return copy


def _called(source: ModelSource) -> Any:
    """Run the user's function; what it prints is no result of a command."""
    import keras

    with contextlib.redirect_stdout(sys.stderr):
        function = imported_function(source)
        wanted = {"input_shape": source.input_shape, "classes": source.classes}
        given = {name: value for name, value in wanted.items() if value}
        parameters = inspect.signature(function).parameters
        taken = {name: given.pop(name) for name in tuple(given) if name in parameters}
        model = function(**taken)
    if not isinstance(model, keras.Model):
        kind = type(model).__name__
        raise SourceError(f"{source.text} returns a {kind}, not a Keras model")
    if not getattr(model, "inputs", None):
        # A subclass has no inputs of its own: it is asked what it makes of these.
        given.pop("input_shape", None)
    for name in given:
        hint = f"give it a parameter {name}, or leave out model.{name}"
        raise SourceError(f"{source.function} takes no {name}", hint)
    return model


def imported_function(source: ModelSource) -> Any:
    """Return the function that a source names; its module runs."""
    check_may_run(source)
    function = getattr(_module(source), source.function, None)
    if not callable(function):
        raise SourceError(f"{source.place} has no function {source.function}")
    return function


def _module(source: ModelSource) -> Any:
    if not source.place.endswith(".py"):
        with _importable(Path.cwd()):
            return importlib.import_module(source.place)
    path = Path(source.place)
    name = f"model_source_{path.stem}"
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    # Classes that are defined in it look their module up.
    sys.modules[name] = module
    with _importable(path.parent):
        found.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let modules of a directory be imported, as Python does for a script's."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


@contextlib.contextmanager
def _classes_beside(path: Path, config: dict[str, Any]) -> Iterator[None]:
    """Let Keras find the classes that a trusted file names, from its directory.

    Their modules are forgotten: those of another file may have the same names.
    """
    import keras

    classes = tuple(own_classes(config))
    new_modules = {module for module, _, _ in classes} - sys.modules.keys()
    try:
        with _importable(path.parent):
            found = {
                registered: getattr(importlib.import_module(module), name)
                for module, name, registered in classes
            }
            with keras.saving.custom_object_scope(found):
                yield
    finally:
        for module in new_modules:
            sys.modules.pop(module, None)


@contextlib.contextmanager
def explained(source: ModelSource) -> Iterator[None]:
    """Turn whatever a file or a function raises into one line about the source."""
    try:
        yield
    except SourceError:
        raise
    except Exception as raised:
        error: BaseException = raised
        while not source.is_code and error.__context__ is not None:
            # Keras wraps what is wrong with a layer in what is wrong with the model.
            error = error.__context__
        text = f"{type(error).__name__}: {telling_line(error)}"
        raise SourceError(f"{source.text} cannot be read: {text}") from raised


def _size(shape: Any) -> int:
    size = 1
    for extent in shape:
        size *= int(extent or 1)
    return size
