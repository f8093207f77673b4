"""Preset files of any content are planned or refused, quickly and in words."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_runtime.plan.layers.shapes import LAYER_KINDS
from tests.fuzz.cases import cases, command
from tests.fuzz.hostile import changed_tables, changed_toml, damaged, numbers, values
from workbench.experiment.preset_store import load_preset
from workbench.experiment.toml_text import to_toml

PRESETS = ("mnist-ipu-pipelined", "mnist-dense", "cifar10-ipu-pipeline-estimator")
TABLES = {name: load_preset(name).tables for name in PRESETS}
some_tables = st.sampled_from(PRESETS).map(TABLES.__getitem__)


def _plan(path: Path, content: bytes | str) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    command("plan", str(path))
    command("presets", "validate", str(path))
    command("presets", "show", str(path))
    command("balance", str(path), "--stages=2")
    script = path.with_suffix(".py")
    if command("export", str(path), "--script", str(script)).code == 0:
        ast.parse(script.read_text(encoding="utf-8"))


@pytest.fixture
def preset(tmp_path: Path) -> Path:
    return tmp_path / "hostile.toml"


@cases
@given(content=st.binary(max_size=200))
def test_any_bytes(preset: Path, content: bytes) -> None:
    _plan(preset, content)


@cases
@given(data=st.data())
def test_cut_and_corrupted_files(preset: Path, data: st.DataObject) -> None:
    content = load_preset(data.draw(st.sampled_from(PRESETS))).path.read_bytes()
    _plan(preset, data.draw(damaged(content)))


@cases
@given(tables=some_tables.flatmap(changed_tables))
def test_values_that_do_not_belong_there(preset: Path, tables: dict[str, Any]) -> None:
    _plan(preset, to_toml(tables))


@cases
@given(text=some_tables.flatmap(changed_toml))
def test_values_that_only_toml_can_say(preset: Path, text: str) -> None:
    _plan(preset, text)


@cases
@given(
    tables=st.dictionaries(
        st.sampled_from(["experiment", "data", "model", "train", "ipu", "pipeline"]),
        values | st.dictionaries(st.text(max_size=8), values, max_size=4),
        max_size=6,
    )
)
def test_any_tables(preset: Path, tables: dict[str, Any]) -> None:
    _plan(preset, to_toml(tables))


_extents = st.sampled_from([1, 1, 2, 3, 8, 28, 1000, 2**20, 2**40, 10**30]) | numbers
_shapes = st.lists(_extents, max_size=5)


@st.composite
def _layers(draw: st.DrawFn) -> list[dict[str, Any]]:
    layers: list[dict[str, Any]] = [{"kind": "Input", "shape": draw(_shapes)}]
    for _ in range(draw(st.integers(1, 4))):
        kind = LAYER_KINDS[draw(st.sampled_from(sorted(LAYER_KINDS)))]
        layer: dict[str, Any] = {"kind": kind.name}
        for name, setting in kind.settings.items():
            if setting.required or draw(st.integers(0, 9)) == 0:
                layer[name] = draw(_extents | st.lists(_extents, max_size=3) | values)
        layers.append(layer)
    return layers


@cases
@given(layers=_layers(), base=some_tables)
def test_layers_of_absurd_shapes(
    preset: Path, layers: list[dict[str, Any]], base: dict[str, Any]
) -> None:
    tables = {**base, "model": {"layers": layers}, "pipeline": {}}
    tables["data"] = {**base["data"], "dataset": "synthetic"}
    _plan(preset, to_toml(tables))
