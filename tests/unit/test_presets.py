"""The packaged presets, and those of the user."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from workbench.core.preset_store import (
    Preset,
    PresetError,
    list_presets,
    load_preset,
    packaged_directory,
    save_preset,
)
from workbench.core.sample_counts import count
from workbench.core.tables import spec_to_tables, to_toml
from workbench.core.validation import validate

PACKAGED = sorted(path.stem for path in packaged_directory().glob("*.toml"))
DOCUMENTS = [
    "mnist-cpu",
    "mnist-ipu",
    "mnist-ipu-faster",
    "mnist-ipu-replicated",
    "mnist-ipu-pipelined",
    "mnist-dense",
    "mnist-padded",
    "cifar10-ipu-strategy",
    "cifar10-ipu-estimator",
    "cifar10-ipu-estimator-replica",
    "cifar10-ipu-pipeline-estimator",
    "cifar10-estimator-cnn",
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path))
    return tmp_path


def test_the_documents_presets_come_first(home: Path) -> None:
    assert [preset.name for preset in list_presets()][:12] == DOCUMENTS


@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_preset_is_valid_and_described(name: str) -> None:
    preset = load_preset(name)
    spec, problems = validate(preset.tables)
    assert problems == ()
    assert spec is not None
    experiment = spec.experiment
    assert experiment.name == name
    assert all((experiment.title, experiment.teaches, experiment.source))
    assert preset.packaged


@pytest.mark.parametrize("name", PACKAGED)
def test_tables_and_toml_give_the_same_experiment_back(name: str) -> None:
    spec, _ = validate(load_preset(name).tables)
    assert spec is not None
    again, problems = validate(tomllib.loads(to_toml(spec_to_tables(spec))))
    assert problems == ()
    assert again == spec


@pytest.mark.parametrize(
    ("name", "batches", "dropped", "added", "test_dropped", "test_added"),
    [
        ("mnist-cpu", 938, 0, 0, 0, 0),
        ("mnist-ipu", 937, 32, 0, 16, 0),
        ("mnist-ipu-replicated", 936, 96, 0, 16, 0),
        ("mnist-ipu-pipelined", 936, 96, 0, 16, 0),
        ("mnist-padded", 938, 0, 32, 0, 48),
        ("mnist-dense", 2000, 0, 0, 16, 0),
        ("cifar10-estimator-cnn", 500, 0, 0, 0, 0),
    ],
)
def test_batches_and_lost_samples(
    name: str,
    batches: int,
    dropped: int,
    added: int,
    test_dropped: int,
    test_added: int,
) -> None:
    spec, _ = validate(load_preset(name).tables)
    assert spec is not None
    counts = count(spec)
    assert counts.train.batches == batches
    assert (counts.dropped, counts.added) == (dropped, added)
    assert (counts.test.dropped, counts.test.added) == (test_dropped, test_added)


def test_figures_of_the_document() -> None:
    spec, _ = validate(load_preset("mnist-ipu-replicated").tables)
    assert spec is not None
    assert [figure.accuracy for figure in spec.experiment.figures] == [
        0.6213,
        0.9054,
        0.9304,
    ]
    assert spec.experiment.figures[1].step_us == 135


def test_unknown_preset_names_the_nearest(home: Path) -> None:
    with pytest.raises(PresetError, match="did you mean mnist-ipu-faster"):
        load_preset("mnist-ipu-fast")


def test_saved_preset_is_listed_and_loads(home: Path) -> None:
    tables = dict(load_preset("mnist-ipu").tables)
    path = save_preset("mine", {**tables, "train": {"epochs": 1}})
    assert path == home / "presets" / "mine.toml"
    assert load_preset("mine").tables["train"] == {"epochs": 1}
    assert load_preset("mine").tables["experiment"]["name"] == "mine"
    assert list_presets()[-1].name == "mine"
    with pytest.raises(PresetError, match="exists already"):
        save_preset("mine", tables)


@pytest.mark.parametrize(
    "name", ["../evil", "a/b", "", ".hidden", "x" * 65, "mnist-ipu"]
)
def test_unsafe_and_packaged_names_are_refused(home: Path, name: str) -> None:
    with pytest.raises(PresetError):
        save_preset(name, dict(load_preset("mnist-ipu").tables))


@pytest.mark.parametrize("content", [b"a = ", b"\xff\xfe", b"[a]\n[a]\n"])
def test_unreadable_preset_does_not_hide_the_others(home: Path, content: bytes) -> None:
    (home / "presets").mkdir()
    (home / "presets" / "broken.toml").write_bytes(content)
    broken: Preset = list_presets()[-1]
    assert broken.name == "broken"
    assert broken.problems
    with pytest.raises(PresetError):
        load_preset("broken")


def test_a_file_gives_its_name_to_the_experiment(tmp_path: Path) -> None:
    file = tmp_path / "some experiment.toml"
    file.write_text('[experiment]\ntitle = "x"\n')
    assert load_preset(str(file)).tables["experiment"]["name"] == "some experiment"
