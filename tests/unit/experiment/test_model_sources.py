"""Sources of models: how they are named, and what is refused before Keras is loaded."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ipu_runtime.plan.layers.shapes import resolve_model
from ipu_runtime.plan.model.model_spec import LayerSpec
from workbench.experiment.experiment_loading import load_experiment, source_preset
from workbench.experiment.preset_store import (
    PresetError,
    load_preset,
    save_preset,
)
from workbench.experiment.suitable_loss import with_suitable_loss
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.validation import validate
from workbench.models.model_source import (
    SourceError,
    SourceKind,
    looks_like_source,
    parse_source,
)
from workbench.models.source_files import checked_config, content_key
from workbench.models.source_model import (
    SourceModel,
    TensorFacts,
    load_source_model,
    save_source_model,
)

DENSE = {
    "module": "keras.layers",
    "class_name": "Dense",
    "config": {"units": 2, "activation": "relu"},
    "registered_name": None,
}


def _sequential(*layers: Any) -> dict[str, Any]:
    return {
        "module": "keras",
        "class_name": "Sequential",
        "config": {"layers": list(layers)},
        "registered_name": None,
    }


def _archive(path: Path, config: Any, **members: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", json.dumps(config))
        for name, text in members.items():
            archive.writestr(name, text)
    return path


@pytest.fixture
def known(tmp_path: Path) -> Path:
    """A model file that has been read before, so that nothing need be loaded."""
    path = tmp_path / "known.keras"
    path.write_bytes(b"as it was")
    spec, _ = resolve_model(
        [
            LayerSpec("input", "Input", {"shape": [8]}),
            LayerSpec("hidden", "Dense", {"units": 4}, ("input",)),
            LayerSpec(
                "out", "Dense", {"units": 3, "activation": "softmax"}, ("hidden",)
            ),
        ]
    )
    read = SourceModel(
        spec,
        (),
        (TensorFacts("input", (8,)),),
        (TensorFacts("out", (3,), "float32", "softmax"),),
    )
    save_source_model(content_key(parse_source(str(path))), read)
    return path


def _tables(source: Path | str, **model: Any) -> dict[str, Any]:
    tables: dict[str, Any] = dict(source_preset(str(source)).tables)
    tables["model"] = {**tables["model"], **model}
    read = SourceModel(None, outputs=(TensorFacts("out", (3,)),))
    return with_suitable_loss(tables, read, None)[0]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("net.keras", SourceKind.FILE),
        ("some/where/net.h5", SourceKind.FILE),
        ("net.json", SourceKind.FILE),
        ("keras:ResNet50", SourceKind.APPLICATION),
        ("net.py:build", SourceKind.FUNCTION),
        ("package.module:build", SourceKind.FUNCTION),
    ],
)
def test_a_source_is_told_from_a_preset(text: str, kind: SourceKind) -> None:
    assert looks_like_source(text)
    assert parse_source(text).kind is kind


@pytest.mark.parametrize("text", ["mnist-ipu", "my.toml", "some/my.toml", "net.py"])
def test_a_preset_is_no_source(text: str) -> None:
    assert not looks_like_source(text)


def test_an_unknown_application_gives_the_nearest() -> None:
    with pytest.raises(SourceError, match="did you mean keras:Mob") as error:
        parse_source("keras:mobilenetv3smal")
    assert error.value.as_problem().suggestion == "keras:MobileNetV3Small"


def test_the_content_key_follows_bytes_and_shape(tmp_path: Path) -> None:
    path = tmp_path / "net.keras"
    path.write_bytes(b"one")
    first = content_key(parse_source(str(path)))
    assert content_key(parse_source(str(path))) == first
    assert content_key(parse_source(str(path), (8,))) != first
    path.write_bytes(b"two")
    assert content_key(parse_source(str(path))) != first


def test_what_was_read_is_kept_as_it_was(known: Path) -> None:
    key = content_key(parse_source(str(known)))
    found = load_source_model(key)
    assert found is not None
    assert found.spec is not None
    assert [layer.output_shape for layer in found.spec.layers] == [(8,), (4,), (3,)]
    assert found.outputs == (TensorFacts("out", (3,), "float32", "softmax"),)


def test_a_model_is_read_where_no_cache_can_be_written(
    known: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = content_key(parse_source(str(known)))
    read = load_source_model(key)
    assert read is not None
    (tmp_path / "file").touch()
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path / "file"))
    assert load_source_model(key) is None
    save_source_model(key, read)
    assert load_source_model(key) == read


def test_a_damaged_cache_is_as_none(known: Path, home: Path) -> None:
    key = content_key(parse_source(str(known)))
    (entry,) = home.rglob(f"{key}*.json")
    entry.write_text("{")
    assert load_source_model(key) is None


def test_a_plain_configuration_is_accepted(tmp_path: Path) -> None:
    config = _sequential(DENSE)
    path = _archive(tmp_path / "net.keras", config)
    assert checked_config(path, trust=False) == config


@pytest.mark.parametrize(
    ("layer", "named"),
    [
        ({"class_name": "Lambda", "module": "keras.layers", "config": {}}, "Lambda"),
        ({"class_name": "__lambda__", "config": {"code": "..."}}, "lambda"),
        ({"class_name": "system", "module": "os", "config": {}}, "os.system"),
        (
            {"class_name": "function", "module": "builtins", "config": "eval"},
            "builtins",
        ),
        (
            {"class_name": "function", "module": "keras.utils", "config": "get_file"},
            "keras.utils",
        ),
        ({"class_name": "TorchModuleWrapper", "config": {}}, "TorchModuleWrapper"),
        (
            {"class_name": "Mine", "config": {}, "registered_name": "own>Mine"},
            "own>Mine",
        ),
    ],
)
def test_code_in_a_file_is_refused_unless_trusted(
    tmp_path: Path, layer: dict[str, Any], named: str
) -> None:
    hidden = {**DENSE, "config": {"units": 2, "activation": layer}}
    for config in (_sequential(layer), _sequential(hidden)):
        path = _archive(tmp_path / "net.keras", config)
        with pytest.raises(SourceError, match=named) as error:
            checked_config(path, trust=False)
        assert "--trust" in error.value.hint
        assert checked_config(path, trust=True) == config


def test_files_that_leave_the_archive_are_refused(tmp_path: Path) -> None:
    config = _sequential(DENSE)
    path = _archive(tmp_path / "net.keras", config, **{"assets/../../evil": "x"})
    with pytest.raises(SourceError, match="outside of itself"):
        checked_config(path, trust=True)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04broken"])
@pytest.mark.parametrize("ending", [".keras", ".json", ".h5"])
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes, ending: str) -> None:
    path = tmp_path / f"net{ending}"
    path.write_bytes(content)
    with pytest.raises(SourceError, match="is no Keras model"):
        checked_config(path, trust=False)


def test_endless_nesting_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text('{"config":' * 100_000)
    with pytest.raises(SourceError, match="is no Keras model"):
        checked_config(path, trust=False)


def test_a_pipe_is_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "net.keras"
    os.mkfifo(path)
    with pytest.raises(SourceError, match="is not a regular file"):
        content_key(parse_source(str(path)))


def test_a_known_source_has_its_layers(known: Path) -> None:
    spec, problems = validate(_tables(known))
    assert spec is not None, problems
    assert [layer.name for layer in spec.model.layers] == ["input", "hidden", "out"]
    again, problems = validate(spec_to_tables(spec))
    assert again == spec, problems


def test_a_source_that_was_not_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "new.keras"
    path.write_bytes(b"never seen")
    spec, (problem,) = validate(_tables(path))
    assert spec is None
    assert problem.where == "model.source"
    assert "has not been read yet" in problem.problem


def test_a_changed_source_is_refused_where_its_content_is_recorded(known: Path) -> None:
    spec, _ = validate(_tables(known))
    assert spec is not None
    known.write_bytes(b"changed")
    refused, (problem,) = validate(spec_to_tables(spec))
    assert refused is None
    assert "is not what it was" in problem.problem


def test_layers_and_a_source_exclude_each_other(known: Path) -> None:
    layers = [{"kind": "Input", "shape": [8]}, {"kind": "Dense", "units": 3}]
    spec, (problem,) = validate(_tables(known, layers=layers))
    assert spec is None
    assert str(problem) == (
        "model.source: stands beside model.layers; keep one of both"
    )


@pytest.mark.parametrize("api", ["ipu_estimator", "ipu_pipeline_estimator"])
def test_estimators_take_no_source(known: Path, api: str) -> None:
    tables = _tables(known)
    tables["execution"]["api"] = api
    tables["pipeline"] = {"stages": [0, 1]} if "pipeline" in api else {}
    spec, problems = validate(tables)
    assert spec is None
    assert any(
        item.where == "execution.api" and item.suggestion == "ipu_strategy"
        for item in problems
    )


def test_a_function_needs_trust(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("raise SystemExit('it ran')")
    spec, (problem,) = validate(_tables(f"{tmp_path}/net.py:build"))
    assert spec is None
    assert "runs code" in problem.problem
    assert "--trust" in problem.hint


def test_a_file_cannot_trust_itself(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text('[model]\nsource = "net.py:build"\ntrusted = true\n')
    with pytest.raises(PresetError, match="cannot say that it is to be trusted"):
        load_preset(str(path))


def test_saving_a_preset_leaves_trust_out(known: Path) -> None:
    path = save_preset("mine", _tables(known, trusted=True))
    assert "trusted" not in path.read_text()


def test_a_file_is_looked_up_beside_its_preset(known: Path) -> None:
    path = known.parent / "my.toml"
    path.write_text('[model]\nsource = "known.keras"\n')
    assert load_preset(str(path)).tables["model"]["source"] == str(known)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ((), 256),
        (("data.dataset=synthetic",), 256),
        (("data.dataset=own.csv",), 0),
        (("data.dataset=own.csv", "data.train_samples=8"), 8),
    ],
    ids=["made up", "said", "own", "own, counted"],
)
def test_data_of_ones_own_are_taken_whole(
    changes: tuple[str, ...], wanted: int, known: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(known.parent)
    rows = "\n".join(f"1,2,3,4,5,6,7,{n},{n % 3}" for n in range(40))
    Path("own.csv").write_text(f"a,b,c,d,e,f,g,h,label\n{rows}\n")
    loaded = load_experiment(str(known), changes)
    assert loaded.spec is not None, loaded.problems
    assert loaded.spec.data.train_samples == wanted


def test_a_file_whose_name_is_not_utf_8_is_one_problem(tmp_path: Path) -> None:
    name = str(tmp_path / os.fsdecode(b"model-\xff.keras"))
    with pytest.raises(PresetError, match="name is not UTF-8"):
        load_experiment(name)
