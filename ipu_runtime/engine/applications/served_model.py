"""A compiled application with functions of the host around it, as a SavedModel."""

from __future__ import annotations

import inspect
import shutil
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.applications.application import run_application
from ipu_runtime.engine.applications.executable_file import read_executable

Specs = list[tf.TensorSpec]


@dataclass(frozen=True)
class HostStep:
    """A function before or after the program, and what it takes."""

    name: str
    function: Callable[..., Any]
    signature: Specs


def host_step(name: str, function: Any, signature: Any) -> HostStep | None:
    """Return a step with the signature that is given or that the function has."""
    if function is None:
        return None
    return HostStep(name, function, step_signature(name, function, signature))


def step_signature(name: str, function: Any, signature: Any, skipped: int = 0) -> Specs:
    """Return what a function takes, each named after its parameter.

    Args:
        skipped: arguments at the beginning that are given in another way.
    """
    if signature is None:
        signature = getattr(function, "input_signature", None)
        if signature is None:
            raise ValueError(
                f"`{name}` must be a tf.function with an input_signature, or "
                f"`{name}_signature` must be given."
            )
    given = isinstance(signature, (list, tuple))
    if not given or not all(isinstance(item, tf.TensorSpec) for item in signature):
        raise TypeError(
            f"`{name}_signature` must be a list or tuple of tf.TensorSpec, not "
            f"{signature!r}."
        )
    if not signature:
        raise ValueError(f"`{name}_signature` is empty.")
    names = list(inspect.signature(function).parameters)[skipped:]
    specs = list(signature)[skipped if len(signature) > len(names) else 0 :]
    if len(specs) != len(names):
        raise ValueError(
            f"`{name}` takes {len(names)} arguments from the feed, but its signature "
            f"has {len(specs)}."
        )
    return [
        tf.TensorSpec(spec.shape, spec.dtype, spec.name or label)
        for spec, label in zip(specs, names, strict=True)
    ]


def checked_output_names(names: Any) -> list[str] | None:
    """Return the names as a list, or None if there are none."""
    if not names:
        return None
    if isinstance(names, str):
        return [names]
    if not isinstance(names, list):
        raise TypeError(f"`output_names` must be a text or a list, not {names!r}.")
    return names


def write_served_model(
    export_dir: str,
    purge: bool,
    write_program: Callable[[str], Any],
    signature: Specs,
    preprocessing: HostStep | None = None,
    postprocessing: HostStep | None = None,
    output_names: list[str] | None = None,
) -> Any:
    """Write a SavedModel and return its function.

    Args:
        purge: whether the directory is emptied first; else it must be empty.
        write_program: writes the executable to a path.
        signature: what the program takes in a call.
    """
    directory = _prepared_directory(export_dir, purge)
    with tempfile.TemporaryDirectory() as temporary:
        file = str(Path(temporary) / f"application_{uuid.uuid4().hex}.poplar_exec")
        write_program(file)
        executable = read_executable(file)

        @tf.function(
            input_signature=preprocessing.signature if preprocessing else signature
        )
        def predict(*values: Any) -> Any:
            if preprocessing:
                values = _as_tuple(preprocessing.function(*values))
                _check(values, signature, preprocessing.name)
            results: Any = run_application(executable, (), values)
            if postprocessing:
                _check(results, postprocessing.signature, "predict_step")
                results = list(_as_tuple(postprocessing.function(*results)))
            if output_names is None:
                return results
            if len(results) != len(output_names):
                raise ValueError(
                    f"`output_names` has {len(output_names)} entries for "
                    f"{len(results)} results."
                )
            return dict(zip(output_names, results, strict=True))

        served = _Served(predict, file)
        tf.saved_model.save(served, str(directory), signatures=predict)
    return predict


class _Served(tf.Module):
    """What a SavedModel keeps: the function, and the program that it runs."""

    def __init__(self, predict: Any, file: Any) -> None:
        super().__init__()
        self.predict = predict
        self.executable = tf.saved_model.Asset(file)


def _prepared_directory(export_dir: str, purge: bool) -> Path:
    directory = Path(export_dir)
    if directory.exists() and any(directory.iterdir()):
        if not purge:
            raise ValueError(
                f"The directory {export_dir!r} is not empty; give an empty one or set "
                "`purge_export_dir`."
            )
        shutil.rmtree(directory)
    return directory


def _check(values: Sequence[Any], signature: Specs, step: str) -> None:
    found = [tf.TensorSpec.from_tensor(value) for value in values]
    wanted = [tf.TensorSpec(spec.shape, spec.dtype) for spec in signature]
    same = [(spec.shape.as_list(), spec.dtype) for spec in found] == [
        (spec.shape.as_list(), spec.dtype) for spec in wanted
    ]
    if not same:
        raise ValueError(
            f"`{step}` returns {found}, but what comes after it takes {wanted}."
        )


def _as_tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (list, tuple)) else (values,)
