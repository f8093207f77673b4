"""Only one module opens files of the store, and it follows no link."""

from __future__ import annotations

import ast
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

import workbench
from workbench import store_files

ROOT = Path(workbench.__file__).parent
ELSEWHERE = (
    "cluster/hosted_process.py",
    "cluster/local_ray.py",
    "cluster/shipped_files.py",
    "data",
    "experiment",
    "export",
    "models",
    "published",
    "script_export",
    "scripts/git_commit.py",
    "scripts/script_command.py",
    "settings.py",
    "headless/commands",
    "headless/output.py",
    "ui/areas/area.py",
    "services/refused.py",
    "services/scripts.py",
    "ui/handlers.py",
    "ui/dialogs/open_model.py",
    "ui/dialogs/open_script.py",
    "__main__.py",
)
"""What opens files that the user names, of the package, or on another machine."""
OWN = ("self", "self._handlers")
"""Objects with methods of such names."""
OPENING = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "touch"),
    *("unlink", "rmdir", "mkdir", "makedirs", "rename", "rmtree", "symlink_to"),
    *("stat", "lstat", "exists", "is_file", "is_dir", "is_symlink", "samefile"),
    *("iterdir", "glob", "rglob", "listdir", "scandir", "walk", "fwalk"),
}
ALLOWED = {
    # The list of records: a directory of the user's choice, and names in it.
    ("runs/run_index.py", "open"),
    ("runs/run_index.py", "listdir"),
    ("runs/run_index.py", "lstat"),
    # What TensorFlow leaves in its own directory.
    ("backends/estimator_training.py", "glob"),
    ("backends/estimator_training.py", "unlink"),
    # Descriptors that lead nowhere, or are open already.
    ("headless/native_output.py", "open"),
    ("ui/launch.py", "open"),
}


def _opening(file: Path) -> set[tuple[str, str]]:
    tree, name = ast.parse(file.read_text(encoding="utf-8")), file.relative_to(ROOT)
    ours = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "workbench.store_files"
        for alias in node.names
    }
    found: set[str] = set()
    for call in (node.func for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call, ast.Name) and call.id not in ours:
            found.add(call.id)
        if isinstance(call, ast.Attribute) and ast.unparse(call.value) not in OWN:
            found.add(call.attr)
    return {(str(name), item) for item in found & OPENING}


def test_no_other_module_opens_files_of_the_store() -> None:
    files = [
        file
        for file in ROOT.rglob("*.py")
        if not str(file.relative_to(ROOT)).startswith(ELSEWHERE)
        and file.name != "store_files.py"
    ]
    assert len(files) > 200
    assert set().union(*map(_opening, files)) == ALLOWED


@pytest.fixture
def store(home: Path) -> Path:
    (home / "runs").mkdir(parents=True)
    return home / "runs"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_text("before")
    return folder


OPERATIONS = {
    "open_to_read": lambda path: store_files.open_to_read(path).close(),
    "open_to_append": lambda path: store_files.open_to_append(path).close(),
    "open_to_overwrite": lambda path: store_files.open_to_overwrite(path).close(),
    "open_lock": lambda path: os.close(store_files.open_lock(path, make=True)),
    "read_end": lambda path: store_files.read_end(path, 10),
    "replace_file": lambda path: store_files.replace_file(path, "after"),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_link_is_refused_in_words(operation: str, store: Path, outside: Path) -> None:
    link = store / "link"
    link.symlink_to(outside / "file")
    with pytest.raises(OSError, match="it is a link, which a record may not hold"):
        OPERATIONS[operation](link)
    assert (outside / "file").read_text() == "before"
    assert link.is_symlink()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_directory_that_is_a_link_is_refused_in_words(
    operation: str, store: Path, outside: Path
) -> None:
    (store / "run").mkdir()
    (store / "run" / "part").symlink_to(outside)
    for path in (store / "run" / "part" / "file", store / "run" / "part" / "new"):
        with pytest.raises(OSError, match="part is a link, which a record may not"):
            OPERATIONS[operation](path)
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "before"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_file_with_another_name_is_read_or_replaced_but_not_written_to(
    operation: str, store: Path, outside: Path
) -> None:
    (store / "link").hardlink_to(outside / "file")
    writes = operation in ("open_to_append", "open_to_overwrite", "open_lock")
    refused = pytest.raises(OSError, match="it has another name too")
    with refused if writes else nullcontext():
        OPERATIONS[operation](store / "link")
    assert (outside / "file").read_text() == "before"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_pipes_and_devices_are_refused_at_once(operation: str, store: Path) -> None:
    os.mkfifo(store / "pipe")
    with pytest.raises(OSError, match="it is not a regular file"):
        OPERATIONS[operation](store / "pipe")


def test_what_is_removed_is_the_link(store: Path, outside: Path) -> None:
    (store / "run").mkdir()
    (store / "run" / "directory").symlink_to(outside)
    (store / "run" / "file").symlink_to(outside / "file")
    (store / "run" / "nowhere").symlink_to("nowhere")
    os.mkfifo(store / "run" / "pipe")
    store_files.remove_unfinished(store / "run")
    store_files.remove_tree(store / "run")
    (store / "link").symlink_to(outside)
    store_files.remove_tree(store / "link")
    assert list(store.iterdir()) == []
    assert (outside / "file").read_text() == "before"


def test_names_outside_the_store_are_refused(store: Path) -> None:
    path = store / "run" / ".." / ".." / ".." / "file"
    with pytest.raises(OSError, match="it is not below the store"):
        store_files.replace_file(path, "x")


def test_what_is_no_part_of_a_record_is_named(store: Path, outside: Path) -> None:
    run = store / "run"
    (run / "checkpoints" / "model").mkdir(parents=True)
    (run / "run.json").touch()
    assert store_files.first_damage(run) == ""
    (run / "checkpoints" / "model" / "checkpoint").symlink_to(outside / "file")
    wrong = "checkpoints/model/checkpoint is a link, which a record may not hold"
    assert store_files.first_damage(run) == wrong
    assert store_files.first_damage(run, deep=False) == ""
