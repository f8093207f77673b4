"""Directories of records appear and go as a whole, whenever a process is killed."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.runs.whole_directories import (
    claim_directory,
    discard_directory,
    remove_leftovers,
)
from workbench.store_files import locked_directory
from workbench.store_json import RecordError


@pytest.fixture
def root(home: Path) -> Path:
    path = home / "runs"
    path.mkdir(parents=True)
    return path


def _fill(directory: Path) -> None:
    (directory / "run.json").write_text("{}")


def test_a_directory_appears_filled_and_locked(root: Path) -> None:
    lock = claim_directory(root / "a", _fill)
    assert lock is not None
    assert sorted(path.name for path in (root / "a").iterdir()) == ["lock", "run.json"]
    assert claim_directory(root / "a", _fill) is None
    discard_directory(root / "a")
    assert list(root.iterdir()) == []


def test_what_cannot_be_filled_leaves_nothing(root: Path) -> None:
    def fail(directory: Path) -> None:
        _fill(directory)
        raise OSError(28, "No space left on device")

    with pytest.raises(RecordError, match=r"cannot write .*/runs/a: No space left"):
        claim_directory(root / "a", fail)
    assert list(root.iterdir()) == []


def test_what_killed_processes_left_goes_once_nobody_is_at_work(root: Path) -> None:
    for name in (".a.new", ".b.deleted", "kept"):
        (root / name).mkdir()
        _fill(root / name)
    with locked_directory(root, fcntl.LOCK_SH):
        remove_leftovers(root)
        assert len(list(root.iterdir())) == 3
    remove_leftovers(root)
    assert [path.name for path in root.iterdir()] == ["kept"]


def test_what_a_script_prints_to_a_closed_stream_lands_in_no_file(root: Path) -> None:
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from workbench.store_files import open_to_append\n"
        "os.close(1)\n"
        "stream = open_to_append(Path(sys.argv[1]))\n"
        "try:\n"
        "    print('printed', flush=True)\n"
        "except OSError as error:\n"
        "    sys.exit(error.errno)\n"
    )
    file = root / "metrics.jsonl"
    done = subprocess.run([sys.executable, "-c", code, str(file)], check=False)
    assert (done.returncode, file.read_text()) == (9, "")
