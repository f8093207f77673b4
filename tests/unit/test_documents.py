"""README and docs say only what commands and code show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from docs.generate import DOCUMENTS, NEED_TENSORFLOW, ROOT, regenerated
from workbench.experiment.preset_store import list_presets
from workbench.headless.main import COMMANDS, parser_for

_COMMAND = re.compile(r"^ {4}(?:\.venv/bin/)?ipu-workbench (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#:]+)\)")
_FILE = re.compile(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py|(?:[a-z_0-9]+/){2,})`")
_MAKE = re.compile(r"\bmake (\w[\w-]*)")


def _told() -> list[tuple[str, str]]:
    return [
        (path.name, command)
        for path in DOCUMENTS
        for command in _COMMAND.findall(path.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_generated_tables_are_current(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    fresh = regenerated(text, kept=NEED_TENSORFLOW)
    assert text == fresh, "run: python -m docs.generate"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_pictures_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    missing = [
        link for link in _LINK.findall(text) if not (path.parent / link).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_documents_name_exist(path: Path) -> None:
    named = _FILE.findall(path.read_text(encoding="utf-8"))
    packages = ("ipu_runtime", "workbench", "presets", "docs", "examples", "tests")
    files = [file for package in packages for file in (ROOT / package).rglob("*")]
    missing = [
        name
        for name in named
        if not any(str(file).endswith(f"/{name.rstrip('/')}") for file in files)
    ]
    assert missing == []


@pytest.mark.parametrize(("document", "command"), _told())
def test_commands_in_documents_are_understood(document: str, command: str) -> None:
    arguments = shlex.split(command, comments=True)
    parsed = parser_for(arguments).parse_args(arguments)
    assert parsed.command in COMMANDS


@pytest.mark.parametrize(("document", "command"), _told())
def test_presets_named_in_commands_exist(document: str, command: str) -> None:
    known = {preset.name for preset in list_presets()}
    words = {word for word in shlex.split(command) if word.startswith(("mnist", "cif"))}
    assert words <= known


def test_make_targets_named_in_documents_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    named = {
        target
        for path in (*DOCUMENTS, ROOT / "CONTRIBUTING.md")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("    make ") or "`make " in line
        for target in _MAKE.findall(line)
    }
    assert named <= targets
