"""Hardware and settings files of any content."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import ipu_runtime.plan.hardware as hardware
from tests.fuzz.cases import assert_harmless, cases, command, in_time
from tests.fuzz.hostile import changed_tables, changed_toml, damaged, texts, values
from workbench.experiment.toml_text import to_toml
from workbench.settings import load_settings, remember

_TEXT = Path(hardware.__file__).with_name("hardware.toml").read_bytes()
_TABLES: dict[str, Any] = tomllib.loads(_TEXT.decode())
_hardware = st.one_of(
    st.binary(max_size=100),
    damaged(_TEXT),
    changed_tables(_TABLES).map(to_toml).map(str.encode),
    changed_toml(_TABLES).map(str.encode),
)


@cases
@given(content=_hardware)
def test_any_hardware_file(tmp_path: Path, monkeypatch: Any, content: bytes) -> None:
    path = tmp_path / "hardware.toml"
    path.write_bytes(content)
    monkeypatch.setenv("IPU_WORKBENCH_HARDWARE", str(path))
    hardware.load_table.cache_clear()
    command("plan", "mnist-ipu-pipelined")


_settings = st.dictionaries(
    st.sampled_from(["theme", "ascii", "animations", "keys"]) | texts, values
)


@cases
@given(
    content=st.binary(max_size=60)
    | _settings.map(to_toml).map(str.encode)
    | changed_toml({"theme": "x", "keys": {"run.start": "f5"}}).map(str.encode),
    theme=texts,
)
def test_any_settings_file(tmp_path: Path, content: bytes, theme: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(content)
    with in_time():
        settings = load_settings(path, {"IPU_WORKBENCH_THEME": theme})
    assert isinstance(settings["ascii"], bool)
    assert isinstance(settings["theme"], str)
    if not settings.problems:
        remember("theme", theme, path)
        again = load_settings(path, {})
        assert again["theme"] in (theme, "")
        assert_harmless(again["theme"])
