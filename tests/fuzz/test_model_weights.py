"""Weights of model files, cut or corrupted anywhere: bounded, or refused in words."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.cases import cases, in_time
from tests.fuzz.hostile import damaged
from workbench.models.model_source import SourceError
from workbench.models.weight_bounds import check_archive, check_hdf5


def _hdf5() -> bytes:
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file["layers/dense/vars/0"] = np.zeros((8, 3), np.float32)
        file["layers/dense/vars/1"] = np.zeros(3, np.float32)
    return content.getvalue()


def _archive(weights: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", "{}")
        archive.writestr("model.weights.h5", weights)
    return content.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@cases
@given(damaged(_hdf5()), st.booleans())
def test_weights_cut_or_corrupted(folder: Path, weights: bytes, packed: bool) -> None:
    path = folder / "model.h5"
    path.write_bytes(_archive(weights) if packed else weights)
    with in_time(), suppress(SourceError):
        check_archive(path, 108) if packed else check_hdf5(path)


@cases
@given(damaged(_archive(_hdf5())))
def test_archives_cut_or_corrupted(folder: Path, content: bytes) -> None:
    path = folder / "model.keras"
    path.write_bytes(content)
    with in_time(), suppress(SourceError):
        check_archive(path, 108)
