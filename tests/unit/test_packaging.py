"""What an installed package has and needs, read from the files that declare it."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
PACKAGES = [
    pattern.rstrip("*") for pattern in SETUPTOOLS["packages"]["find"]["include"]
]
REQUIREMENTS = [
    *PROJECT["build-system"]["requires"],
    *PROJECT["project"]["dependencies"],
    *PROJECT["project"]["optional-dependencies"]["serve"],
]


def _data_files(package: str) -> list[Path]:
    files = [path for path in (ROOT / package).rglob("*") if path.is_file()]
    return [path for path in files if path.suffix not in (".py", ".pyc")]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_data_file_is_installed(package: str) -> None:
    files, patterns = _data_files(package), SETUPTOOLS["package-data"]["*"]
    left_out = [
        str(path.relative_to(ROOT))
        for path in files
        if not any(fnmatch(path.name, pattern) for pattern in patterns)
    ]
    assert files
    assert left_out == []


def _pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    return {canonicalize_name(n): v for n, v in (line.split("==") for line in lines)}


@pytest.mark.parametrize("text", REQUIREMENTS)
def test_the_tested_version_is_one_that_is_promised(text: str) -> None:
    requirement = Requirement(text)
    tested = _pinned()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(tested)


def _needed() -> set[str]:
    """Return the names of all that `make` installs, and of what that needs."""
    waiting = [*REQUIREMENTS, *PROJECT["dependency-groups"]["dev"], "pip"]
    names: set[str] = set()
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        marker = requirement.marker
        if name not in names and (not marker or marker.evaluate({"extra": ""})):
            names.add(name)
            waiting += distribution(name).requires or []
    return names


def test_everything_that_is_installed_has_its_exact_version() -> None:
    pinned = _pinned()
    wrong = {
        name: distribution(name).version
        for name in _needed()
        if pinned.get(name) != distribution(name).version
    }
    assert wrong == {}


def test_what_make_installs_is_pinned_and_runs_no_code_of_others() -> None:
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    installing = [line for line in lines if "pip install" in line]
    (pinned,) = [line for line in lines if line.startswith("PINNED := ")]
    assert "--only-binary :all:" in pinned
    assert "--constraint constraints.txt" in pinned
    assert installing
    assert all("$(PINNED)" in line for line in installing)
    # The environment that pip would build in does not obey the constraints.
    (own,) = [line for line in lines if "--editable" in line]
    assert "--no-build-isolation" in own


@pytest.mark.parametrize("text", REQUIREMENTS)
def test_a_next_major_version_is_not_promised(text: str) -> None:
    assert not Requirement(text).specifier.contains("10000")
