"""Scripts of model files that hold code: classes of the user's own, and lambdas."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import keras
import pytest

from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.script_export import ScriptError, export_script

pytestmark = pytest.mark.slow

LAYERS = """
import keras


class Doubled(keras.layers.Layer):
    def call(self, x):
        return x + x


@keras.saving.register_keras_serializable("mine")
class Halved(keras.layers.Layer):
    def call(self, x):
        return x / 2
"""


@pytest.fixture
def own_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_layers.py").write_text(LAYERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "own_layers", raising=False)


def _saved(path: Path, *layers: keras.Layer) -> Path:
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(3)])
    if path.suffix == ".json":
        path.write_text(model.to_json())
    else:
        model.save(path)
    return path


def _spec(path: Path) -> ExperimentSpec:
    spec = load_experiment(str(path), trust=True).spec
    assert spec is not None
    return spec


def _built(spec: ExperimentSpec, monkeypatch: pytest.MonkeyPatch) -> keras.Model:
    """Build the model of the script as a process would that has loaded nothing."""
    script = Path("script.py").absolute()
    script.write_text(export_script(spec))
    monkeypatch.delitem(sys.modules, "own_layers", raising=False)
    monkeypatch.setattr(sys, "path", sys.path[1:])
    registered = keras.saving.get_custom_objects()
    monkeypatch.delitem(registered, "mine>Halved", raising=False)
    return runpy.run_path(str(script))["build_model"]()


@pytest.mark.usefixtures("own_layers")
@pytest.mark.parametrize("name", ["own.keras", "own.json"])
def test_a_script_finds_the_classes_of_its_model(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import own_layers

    made = (own_layers.Doubled(), own_layers.Halved(), own_layers.Doubled())
    model = _built(_spec(_saved(tmp_path / name, *made)), monkeypatch)
    kinds = [type(layer).__name__ for layer in model.layers]
    assert kinds == ["Doubled", "Halved", "Doubled", "Dense"]


@pytest.mark.parametrize("name", ["code.keras", "code.json"])
def test_a_script_loads_a_lambda(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = _spec(_saved(tmp_path / name, keras.layers.Lambda(lambda x: x * 2)))
    model = _built(spec, monkeypatch)
    assert [type(layer).__name__ for layer in model.layers] == ["Lambda", "Dense"]


@pytest.mark.usefixtures("own_layers")
def test_a_class_that_no_script_can_import_is_refused(tmp_path: Path) -> None:
    import own_layers

    path = _saved(tmp_path / "own.json", own_layers.Doubled())
    spec = _spec(path)
    path.write_text(path.read_text().replace('"own_layers"', '"own layers; x"'))
    assert "own layers; x" in json.dumps(json.loads(path.read_text()))
    with pytest.raises(ScriptError, match="cannot be imported"):
        export_script(spec)
