"""The packaged presets, and those of the user."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from workbench.data.sample_counts import count
from workbench.experiment.preset_store import (
    Preset,
    PresetError,
    list_presets,
    load_preset,
    packaged_directory,
    save_preset,
)
from workbench.experiment.tables import spec_to_tables, to_toml
from workbench.experiment.validation import validate

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


def test_the_documents_presets_come_first() -> None:
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


def test_unknown_preset_names_the_nearest() -> None:
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
def test_unsafe_and_packaged_names_are_refused(name: str) -> None:
    with pytest.raises(PresetError):
        save_preset(name, dict(load_preset("mnist-ipu").tables))


@pytest.mark.parametrize("content", [b"a = ", b"\xff\xfe", b"[a]\n[a]\n"])
def test_unreadable_preset_does_not_hide_the_others(home: Path, content: bytes) -> None:
    (home / "presets").mkdir(parents=True)
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


def _write(folder: Path, name: str, model: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(f'[experiment]\ntitle = "{name}"\n[model]\n{model}\n')
    return path


def test_layers_may_be_those_of_a_packaged_preset(tmp_path: Path) -> None:
    path = _write(tmp_path, "mine", 'dtype = "float16"\nlayers_of = "mnist-ipu"')
    model = load_preset(str(path)).tables["model"]
    layers = load_preset("mnist-cpu").tables["model"]["layers"]
    assert model == {"dtype": "float16", "layers": layers}


def test_layers_and_blocks_may_be_those_of_a_file_beside(tmp_path: Path) -> None:
    blocks = 'blocks = [{ name = "b", layers = [{ kind = "ReLU" }] }]'
    _write(
        tmp_path,
        "base",
        f'layers = [{{ kind = "Input" }}, {{ block = "b" }}]\n{blocks}',
    )
    _write(tmp_path, "middle", 'layers_of = "base"')
    path = _write(tmp_path, "mine", 'layers_of = "middle"')
    base = load_preset(str(tmp_path / "base.toml")).tables["model"]
    assert load_preset(str(path)).tables["model"] == base


def test_taken_layers_are_written_out_when_saved() -> None:
    tables = load_preset("mnist-ipu").tables
    path = save_preset("mine", tables)
    assert "layers_of" not in path.read_text()
    assert load_preset("mine").tables["model"] == tables["model"]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            'layers_of = "mnist-cp"',
            "there is no preset 'mnist-cp'; did you mean mnist-cpu?",
        ),
        ('layers_of = "x/../y"', "there is no preset 'x/../y'; valid: the name of a"),
        ("layers_of = 3", "there is no preset 3; valid: the name of a packaged preset"),
        ('layers_of = "mine"', "mine -> mine is a circle; write the layers into one"),
        ('layers_of = "other"', "mine -> other -> mine is a circle"),
        (
            'layers_of = "mnist-cpu"\nlayers = []',
            "stands beside model.layers; keep one",
        ),
        ('layers_of = "broken"', "is not valid TOML"),
    ],
)
def test_layers_that_cannot_be_taken_are_refused(
    tmp_path: Path, model: str, words: str
) -> None:
    path = _write(tmp_path, "mine", model)
    _write(tmp_path, "other", 'layers_of = "mine"')
    broken = _write(tmp_path, "broken", "=")
    with pytest.raises(PresetError) as error:
        load_preset(str(path))
    where = str(broken) if "broken" in model else f"{path}: model.layers_of"
    assert str(error.value).startswith(f"{where}: ")
    assert words in str(error.value)
