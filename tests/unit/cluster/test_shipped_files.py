"""Which files go with an experiment to another machine, and under which names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workbench.cluster.shipped_files import shipped_files


def _shipped(directory: Path) -> set[str]:
    walked = os.walk(directory, followlinks=True)
    paths = (Path(folder) / name for folder, _, names in walked for name in names)
    return {str(path.relative_to(directory)) for path in paths}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a directory with a model, code that it uses, data and a secret."""
    folder = tmp_path / "own"
    (folder / "parts").mkdir(parents=True)
    (folder / "images" / "train" / "cat").mkdir(parents=True)
    for name in (
        *("model.py", "beside.py", "parts/__init__.py", "parts/block.py"),
        *("secret.txt", "table.csv", "images/train/cat/1.png"),
    ):
        (folder / name).write_text(name, encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


def test_code_goes_with_the_modules_beside_it_and_nothing_else(own: Path) -> None:
    tables = {"model": {"source": "model.py:make"}, "data": {"dataset": "mnist"}}
    with shipped_files([tables]) as files:
        assert _shipped(files.directory) == {
            *("0/model.py", "0/beside.py", "0/parts/__init__.py", "0/parts/block.py")
        }
        recorded = {"model": {"source": f"{own}/model.py:make", "classes": 3}}
        moved = {"model": {"source": "0/model.py:make", "classes": 3}}
        assert files.relocated(recorded) == moved
    assert not files.directory.exists()


@pytest.mark.parametrize(
    ("said", "shipped"),
    [("table.csv", {"0/table.csv"}), ("images", {"0/images/train/cat/1.png"})],
)
def test_data_go_as_they_are(own: Path, said: str, shipped: set[str]) -> None:
    with shipped_files([{"data": {"dataset": said}}]) as files:
        assert _shipped(files.directory) == shipped
        moved = files.relocated({"data": {"dataset": str(own / said)}})
        assert moved == {"data": {"dataset": f"0/{said}"}}


def test_every_value_of_an_axis_goes(own: Path) -> None:
    (own / "other.csv").write_text("x", encoding="utf-8")
    said = [{"data": {"dataset": name}} for name in ("table.csv", "other.csv")]
    with shipped_files(said) as files:
        assert _shipped(files.directory) == {"0/table.csv", "1/other.csv"}


@pytest.mark.parametrize(
    "tables",
    [
        {"data": {"dataset": "mnist"}, "model": {"source": "keras:MobileNetV2"}},
        {"data": {"dataset": "missing.csv"}},
        {"model": {"layers": []}},
    ],
)
def test_what_is_no_file_stays_as_it_is(own: Path, tables: dict[str, object]) -> None:
    with shipped_files([tables]) as files:
        assert _shipped(files.directory) == set()
        assert files.relocated(tables) == tables


def test_a_module_keeps_its_name(own: Path) -> None:
    tables = {"model": {"source": "parts.block:make"}}
    with shipped_files([tables]) as files:
        assert "parts/block.py" in _shipped(files.directory)
        assert files.relocated(tables) == tables


def test_a_hardware_table_goes_too(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPU_WORKBENCH_HARDWARE", str(own / "table.csv"))
    with shipped_files([]) as files:
        assert _shipped(files.directory) == {"hardware.toml"}
        assert files.environment == {"IPU_WORKBENCH_HARDWARE": "hardware.toml"}
