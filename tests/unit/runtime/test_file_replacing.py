"""Files are written as a whole, whatever they are and whoever else writes."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ipu_runtime.system.file_replacing import replace_file

WRITE_TO_STDOUT = """
from pathlib import Path
from ipu_runtime.system.file_replacing import replace_file
replace_file(Path("/dev/stdout"), "written\\n")
"""


def test_text_and_bytes_arrive_and_nothing_is_left_beside(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(path, "grün")
    assert path.read_bytes() == "grün".encode()
    replace_file(path, b"\0\xff")
    assert path.read_bytes() == b"\0\xff"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "target", tmp_path / "link"
    link.symlink_to("there/target")
    for content in ("made through the link", "replaced through the link"):
        replace_file(link, content)
        assert link.is_symlink()
        assert target.read_text() == content


def test_the_mode_is_kept_and_a_new_file_gets_the_usual_one(tmp_path: Path) -> None:
    kept, new, usual = (tmp_path / name for name in ("kept", "new", "usual"))
    kept.touch()
    kept.chmod(0o640)
    usual.touch()
    for path in (kept, new):
        replace_file(path, "x")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert new.stat().st_mode == usual.stat().st_mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_another_owner_keeps_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.chown(path, 1234, 4321)
    path.chmod(0o4750)
    replace_file(path, "x")
    status = path.stat()
    assert (status.st_uid, status.st_gid) == (1234, 4321)
    assert stat.S_IMODE(status.st_mode) == 0o4750


def test_a_reader_of_the_old_file_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with path.open() as reader:
        replace_file(path, "new")
        assert reader.read() == "old"
    assert path.read_text() == "new"


def test_a_pipe_with_a_name_is_written(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=replace_file, args=(path, "through the pipe"))
    writer.start()
    assert path.read_text() == "through the pipe"
    writer.join()
    assert path.is_fifo()


@pytest.mark.slow
def test_standard_output_is_written_when_it_is_a_pipe() -> None:
    command = [sys.executable, "-c", WRITE_TO_STDOUT]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "written\n"


@pytest.mark.slow
def test_standard_output_is_written_when_it_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("before\n")
    with path.open("a") as log:
        subprocess.run([sys.executable, "-c", WRITE_TO_STDOUT], stdout=log, check=True)
        log.write("after\n")
    assert path.read_text() == "before\nwritten\nafter\n"
    assert Path("/dev/stdout").is_symlink()


def test_writers_at_the_same_time_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([65 + number]) * (200_000 + number) for number in range(6)]
    start = threading.Barrier(len(contents))

    def write(content: bytes) -> None:
        start.wait()
        for _ in range(5):
            replace_file(path, content)

    with ThreadPoolExecutor(len(contents)) as writers:
        list(writers.map(write, contents))
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_old_file_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        replace_file(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["", "missing/file"])
def test_what_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(OSError, match=rf"'{path}'$"):
        replace_file(path, "x")
