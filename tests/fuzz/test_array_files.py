"""Data files and checkpoints of any content are refused or used, never run."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.cases import cases, command, in_time
from tests.fuzz.hostile import changed_tables, damaged, texts, values
from workbench.data.dataset import load_prepared
from workbench.data.dataset_facts import DatasetError
from workbench.experiment.experiment_loading import load_experiment
from workbench.runs.run_checkpoint import Checkpoint, latest, load, save
from workbench.store_json import RecordError

PARTS = ("x_train", "y_train", "x_test", "y_test")
_dtypes = st.sampled_from(
    [
        "uint8",
        "float32",
        "float16",
        "float64",
        "int64",
        "bool",
        "complex64",
        "S4",
        "U4",
        "M8[s]",
        "O",
        "i4,f4",
        "V3",
        ">f4",
        "uint64",
    ]
)
_lengths = st.sampled_from([0, 1, 31, 64])


def _good() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {
        "x_train": rng.random((64, 28, 28), np.float32),
        "y_train": rng.integers(0, 10, 64),
        "x_test": rng.random((32, 28, 28), np.float32),
        "y_test": rng.integers(0, 10, 32),
    }


def _npz(arrays: Mapping[str, Any]) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=True, **arrays)
    return content.getvalue()


def _use(path: Path) -> None:
    """Plan with a data file, and load it where the plan took it."""
    name = str(path)
    command("plan", "mnist-dense", f"--set=data.dataset={name}")
    with in_time():
        spec = load_experiment("mnist-dense", [f"data.dataset={name}"]).spec
        if spec is None:
            return
        try:
            data = load_prepared(spec)
        except DatasetError:
            return
    assert np.isfinite(data.train.x).all()
    assert data.train.x.dtype.kind in "fiu"


GOOD = _npz(_good())


@cases
@given(content=st.binary(max_size=100) | damaged(GOOD))
def test_data_files_cut_or_corrupted(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "own.npz"
    path.write_bytes(content)
    _use(path)


@st.composite
def _arrays(draw: st.DrawFn) -> dict[str, Any]:
    arrays: dict[str, Any] = _good()
    for name in draw(st.lists(st.sampled_from(PARTS), min_size=1, max_size=2)):
        action = draw(st.sampled_from(["drop", "dtype", "shape", "value", "scalar"]))
        array = arrays.pop(name, np.zeros(3))
        if action == "dtype":
            dtype = np.dtype(draw(_dtypes))
            arrays[name] = np.zeros(array.shape, dtype)
        elif action == "shape":
            arrays[name] = np.zeros((draw(_lengths), *draw(st.tuples(_lengths))))
        elif action == "scalar":
            arrays[name] = np.float64(1)
        elif action == "value":
            number = draw(st.sampled_from([np.nan, np.inf, -1, 10, 1e38, 255]))
            with np.errstate(invalid="ignore"):
                arrays[name] = np.full(array.shape, number).astype(array.dtype)
    return arrays


@cases
@given(arrays=_arrays())
def test_data_of_other_shapes_types_and_values(
    tmp_path: Path, arrays: dict[str, Any]
) -> None:
    path = tmp_path / "own.npz"
    path.write_bytes(_npz(arrays))
    _use(path)


_HEADERS = (
    "{'descr': '<f4', 'fortran_order': False, 'shape': (64, 28, 28)}",
    "{'descr': '|O', 'fortran_order': False, 'shape': (64, 28, 28)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (10**9, 10**9)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 28, 28)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': ('a',)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
    "{'descr': '<f4'}",
    "[1, 2]",
    "__import__('os').system('true')",
    "(" * 3000,
    "{" * 60_000,
)


@cases
@given(header=st.sampled_from(_HEADERS) | texts, body=st.binary(max_size=64))
def test_array_files_of_any_header(tmp_path: Path, header: str, body: bytes) -> None:
    path = tmp_path / "own.npz"
    encoded = header.encode("latin-1", "replace")
    array = b"\x93NUMPY\x02\x00" + len(encoded).to_bytes(4, "little") + encoded + body
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in PARTS:
            archive.writestr(f"{name}.npy", array)
    _use(path)


@cases
@given(name=texts)
def test_any_name_of_a_data_set(name: str) -> None:
    command("plan", "mnist-dense", f"--set=data.dataset={name}")


CHECKPOINT = Checkpoint(
    epoch=2,
    weights=(np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros(3, np.float32)),
    optimizer=(np.int64(7), np.ones(3, np.float32)),
    extra={"a": 1},
    metrics=({"epoch": 1, "loss": 0.5},),
)


@cases
@given(data=st.data())
def test_checkpoints_cut_or_corrupted_at_any_byte(
    tmp_path: Path, data: st.DataObject
) -> None:
    older = save(tmp_path, CHECKPOINT)
    newer = tmp_path / "epoch-000003.npz"
    newer.write_bytes(data.draw(damaged(older.read_bytes()) | st.binary(max_size=64)))
    with in_time():
        try:
            state = load(newer)
        except RecordError:
            assert latest(tmp_path) == older
            return
    assert all(type(item) is np.ndarray for item in state.weights)
    assert all(item.dtype.kind != "O" for item in state.weights)


@cases
@given(data=st.data())
def test_checkpoints_that_say_other_things(tmp_path: Path, data: st.DataObject) -> None:
    about = {"format": 1, "epoch": 2, "weights": 1, "optimizer": 0}
    about |= {"extra": {"a": 1}, "metrics": [{"epoch": 1}]}
    said = data.draw(changed_tables(about) | values)
    path = tmp_path / "epoch-000001.npz"
    text = np.frombuffer(json.dumps(said).encode(), np.uint8)
    np.savez(path, about=text, weight00000=np.zeros(2))
    with in_time():
        try:
            state = load(path)
        except RecordError:
            return
    assert state.epoch >= 0
    assert all(isinstance(row, dict) for row in state.metrics)


class _Bomb:
    """Leaves a file behind wherever it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._path,)


@pytest.mark.parametrize("place", ["data", "checkpoint", "whole file"])
def test_pickles_are_never_run(tmp_path: Path, place: str) -> None:
    marker, path = tmp_path / "ran", tmp_path / "epoch-000001.npz"
    bomb = np.array([_Bomb(marker)] * 64, dtype=object)
    if place == "whole file":
        path.write_bytes(pickle.dumps(_Bomb(marker)))
    elif place == "data":
        path.write_bytes(_npz({**_good(), "x_train": bomb}))
    else:
        np.savez(path, allow_pickle=True, about=bomb, weight00000=bomb)
    _use(path)
    with pytest.raises(RecordError, match="not a readable checkpoint"):
        load(path)
    assert not marker.exists()
