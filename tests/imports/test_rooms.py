"""Rooms stay small, and the root of the runtime is Graphcore's own list of names."""

from __future__ import annotations

import re
from pathlib import Path

from ipu_runtime.installing.public_names import IPU, is_real

ROOT = Path(__file__).parents[2]


def test_the_root_of_the_runtime_has_only_public_module_names() -> None:
    modules = {file.stem for file in (ROOT / "ipu_runtime").glob("*.py")}
    ours = {module for module in modules if not is_real(f"{IPU}.{module}")}
    assert ours == {"__init__", "__main__"}


def test_the_page_of_the_architecture_names_files_that_are_there() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./]+\.(?:py|toml|json))`", page))
    packages = ("ipu_runtime", "workbench", "docs", "presets")
    there = [str(file) for name in packages for file in (ROOT / name).rglob("*.*")]
    there.append(str(ROOT / "pyproject.toml"))
    gone = [name for name in named if not any(f.endswith(f"/{name}") for f in there)]
    assert gone == []
