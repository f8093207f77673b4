"""Rooms stay small, and the root of the runtime is Graphcore's own list of names."""

from __future__ import annotations

from pathlib import Path

from ipu_runtime.installing.public_names import IPU, is_real

ROOT = Path(__file__).parents[2]


def test_the_root_of_the_runtime_has_only_public_module_names() -> None:
    modules = {file.stem for file in (ROOT / "ipu_runtime").glob("*.py")}
    ours = {module for module in modules if not is_real(f"{IPU}.{module}")}
    assert ours == {"__init__", "__main__"}
