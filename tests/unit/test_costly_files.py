"""Files that are small and cost much, or that never end: refused at once."""

from __future__ import annotations

import io
import json
import os
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu_runtime.plan.config.file_reading import read_end, read_file
from ipu_runtime.plan.config.toml_reading import TomlError, read_toml
from ipu_runtime.plan.hardware import HardwareFileError, load_table
from tests.fuzz.cases import in_time
from workbench.data.dataset_facts import DatasetError, dataset_facts
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.layer_blocks import expand_layers
from workbench.experiment.preset_store import (
    PresetError,
    list_presets,
    load_preset,
)
from workbench.locations import user_presets_directory
from workbench.models.model_source import SourceError
from workbench.models.source_files import checked_config
from workbench.runs.events import RunStatus
from workbench.runs.run_checkpoint import Checkpoint, latest, load, save
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import list_runs, open_run
from workbench.settings import load_settings
from workbench.store_json import RecordError, has_writer, read_lines
from workbench.sweeps.sweep_record import SweepRecord


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    with in_time(20):
        yield


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


_KEY = ".".join(["a"] * 20_000)


@pytest.mark.parametrize(
    "text",
    [
        f"{_KEY} = 1",
        f"[{_KEY}]",
        f"[[{_KEY}]]",
        f"x = {{ {_KEY} = 1 }}",
        f'x = {{ y = """\n""", {_KEY} = "" }}',
        '"a b"' + '."a b"' * 20_000 + " = 1",
        "1 . 1" + " . 1" * 20_000 + " = 1",
        "1.1" + " .1.1" * 20_000 + " = 1",
        "\n".join(".".join([f"k{n}"] * 300) + " = 1" for n in range(2_000)),
        "["
        + ".".join(["a"] * 2_000)
        + "]\n"
        + "".join(f"k{n}=1\n" for n in range(99_999)),
    ],
    ids=range(10),
)
def test_keys_of_very_many_parts_are_refused_before_parsing(text: str) -> None:
    with pytest.raises(TomlError, match="keys have too many parts"):
        read_toml(text)


def test_very_many_problems_are_told_in_time(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("".join(f"k{n} = 1\n" for n in range(40_000)))
    assert len(load_experiment(str(path)).problems) > 40_000


def test_dots_that_are_no_keys_are_free() -> None:
    numbers = ", ".join(f"{n}.5" for n in range(50_000))
    prose = "A sentence. And then... " * 100
    text = (
        f'x = [{numbers}]\ny = """{prose}"""\n[a.b.c]\nd.e = 1\n' + f"# {prose}\n" * 9
    )
    tables = read_toml(text)
    assert len(tables["x"]) == 50_000
    assert tables["a"]["b"]["c"] == {"d": {"e": 1}}


def test_reading_is_bounded_and_for_regular_files_only(
    tmp_path: Path, pipe: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert read_file(path, 10) == b"0123456789"
    assert read_end(path, 3) == b"789"
    assert read_end(path, 30) == b"0123456789"
    for read in (read_file, read_end):
        with pytest.raises(OSError, match="not a regular file"):
            read(pipe, 10)
        with pytest.raises(OSError, match="not a regular file"):
            read(tmp_path, 10)
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "none", 10)
    with pytest.raises(OSError, match="larger than 9 bytes"):
        read_file(path, 9)


def test_pipes_are_no_presets(pipe: Path) -> None:
    own = user_presets_directory()
    own.mkdir(parents=True)
    (own / "own.toml").symlink_to(pipe)
    with pytest.raises(PresetError, match="not a regular file"):
        load_preset("own")
    with pytest.raises(PresetError, match="not a regular file"):
        load_preset(str(own / "own.toml"))
    (listed,) = [preset for preset in list_presets() if preset.name == "own"]
    assert "not a regular file" in str(listed.problems[0])


def test_pipes_are_no_settings_hardware_or_models(pipe: Path) -> None:
    assert "not a regular file" in str(load_settings(pipe, {}).problems[0])
    with pytest.raises(HardwareFileError, match="not a regular file"):
        load_table(str(pipe))
    with pytest.raises(SourceError, match="not a regular file"):
        checked_config(pipe, trust=False)


@pytest.mark.parametrize("name", ["run.json", "metrics.jsonl", "plan.json", "lock"])
def test_pipes_in_records_are_never_waited_for(pipe: Path, name: str) -> None:
    record = RunRecord.create({"train": {"epochs": 1}}, "mnist-dense")
    record.close()
    other = RunRecord.create({}, "mnist-dense")
    other.close()
    (record.directory / name).unlink(missing_ok=True)
    pipe.rename(record.directory / name)
    damaged = next(run for run in list_runs() if run.run_id == record.run_id)
    assert damaged.status is RunStatus.DAMAGED
    assert not damaged.plan
    assert not damaged.events()
    with pytest.raises(RecordError, match=f"{name} is a pipe"):
        open_run(record.run_id)
    assert not has_writer(record.directory / "lock")


@pytest.mark.parametrize("name", ["sweep.json", "points.jsonl"])
def test_pipes_in_sweeps_are_never_waited_for(
    pipe: Path, name: str, home: Path
) -> None:
    folder = home / "sweeps" / "s"
    folder.mkdir(parents=True)
    definition = {"preset": "p", "tables": {}, "axes": [], "trained": False}
    (folder / "sweep.json").write_text(json.dumps(definition))
    (folder / name).unlink(missing_ok=True)
    pipe.rename(folder / name)
    if name == "sweep.json":
        with pytest.raises(RecordError, match=r"sweep.json: it is not a regular file"):
            SweepRecord.reopen("s")
    else:
        record = SweepRecord.reopen("s")
        with pytest.raises(RecordError, match="not a regular file"):
            record.results()
        record.close()


def test_pipes_are_no_checkpoints(tmp_path: Path) -> None:
    older = save(tmp_path, Checkpoint(1, (np.zeros(2),), ()))
    os.mkfifo(tmp_path / "epoch-000002.npz")
    assert latest(tmp_path) == older
    with pytest.raises(RecordError, match="not a regular file"):
        load(tmp_path / "epoch-000002.npz")


def _packed(path: Path, arrays: dict[str, Any], **options: Any) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.save(content, array)
            archive.writestr(f"{name}.npy", content.getvalue(), **options)
    return path


def _about(**more: Any) -> Any:
    about = {"format": 1, "epoch": 1, "weights": 1, "optimizer": 0, "extra": {}}
    text = json.dumps(about | {"metrics": []} | more)
    return np.frombuffer(text.encode(), np.uint8)


def test_checkpoints_that_grow_when_unpacked_are_refused(tmp_path: Path) -> None:
    arrays = {"about": _about(), "weight00000": np.zeros(30_000_000, np.uint8)}
    path = _packed(tmp_path / "epoch-000001.npz", arrays)
    assert path.stat().st_size < 100_000
    with pytest.raises(RecordError, match="holds more than its own size"):
        load(path)
    assert latest(tmp_path) is None


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_packed_checkpoints_are_refused(packing: int, tmp_path: Path) -> None:
    """What is packed unpacks to what it holds, whatever size its entry says."""
    older = save(tmp_path, Checkpoint(1, (np.zeros(2),), ()))
    newer = tmp_path / "epoch-000002.npz"
    with zipfile.ZipFile(older) as kept, zipfile.ZipFile(newer, "w", packing) as packed:
        for name in kept.namelist():
            packed.writestr(name, kept.read(name))
    assert latest(tmp_path) == older
    with pytest.raises(RecordError, match="it is packed"):
        load(newer)


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_data_packed_without_bounds_are_refused_unread(
    packing: int, tmp_path: Path
) -> None:
    """3 KB of BZIP2 are 3 GiB of zeros, and reading their first byte unpacks all."""
    path = tmp_path / "own.npz"
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name in ("x_train", "y_train", "x_test", "y_test"):
            array = io.BytesIO()
            np.save(array, np.zeros((32, 28, 28) if name[0] == "x" else 32))
            archive.writestr(f"{name}.npy", array.getvalue() + bytes(1 << 26))
    tracemalloc.start()
    with pytest.raises(DatasetError, match=r"is not an \.npz file of arrays"):
        dataset_facts(str(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 24


def test_checkpoints_that_say_very_much_are_refused(tmp_path: Path) -> None:
    about = _about(extra={"a": [[]] * 8_000_000})
    arrays = {"about": about, "weight00000": np.zeros(2)}
    stored = {"compress_type": zipfile.ZIP_STORED}
    path = _packed(tmp_path / "epoch-000001.npz", arrays, **stored)
    with pytest.raises(RecordError, match="about is larger"):
        load(path)


def test_descriptions_larger_than_any_are_not_read() -> None:
    record = RunRecord.create({}, "mnist-dense")
    record.close()
    with (record.directory / "run.json").open("r+b") as file:
        file.truncate(17 * 2**20)
    (run,) = list_runs()
    assert run.status is RunStatus.DAMAGED
    assert "larger than 16 MiB" in run.message


def test_lines_longer_than_any_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'{"a": 1}\n"' + b"x" * 3_000_000 + b'"\n{"b": 2}\n{"c"')
    assert list(read_lines(path)) == [{"a": 1}, {"b": 2}]


def _layers(count: int) -> dict[str, Any]:
    return {"layers": [{"kind": "ReLU", "name": f"l{n}"} for n in range(count)]}


def _repeated(count: int) -> dict[str, Any]:
    block = {"name": "b", "layers": [{"kind": "ReLU", "name": "r"}]}
    use = {"block": "b", "name": "u", "repeat": count}
    return {"blocks": [block], "layers": [use]}


@pytest.mark.parametrize("model", [_layers, _repeated])
def test_models_have_at_most_20_000_layers(
    model: Callable[[int], dict[str, Any]],
) -> None:
    layers, problems = expand_layers(model(20_001))
    assert "too many layers" in problems[0].problem
    assert "20,000" in problems[0].hint
    assert not layers
