"""What a command has left behind, so that equal ends are gone on from only once.

Most faults leave what others have left: a call that fails with EIO or ENOSPC, or a
directory that could not be opened once more. What differs from one time to the next
and is not read by who goes on is left out: times, process ids, random names, the log,
and the summaries for TensorBoard. All else counts, byte by byte, so that at worst a
state is gone on from twice.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path

_RUN_ID = re.compile(r"\d{8}-\d{6}(?:-\d+)?")
_RANDOM_NAMES = (
    re.compile(r"(?<=\.)[0-9a-f]{16}(?=\.new)"),
    re.compile(r"(?<=\.tempstate)\d+"),
    re.compile(r"(?<=\.tmp)[0-9a-f]{32}"),
    re.compile(r"(?<=events\.out\.tfevents\.)\d+"),
)
_MEASURED = re.compile(
    rb'("(?:time|created|ended|pid|seconds|\w*host\w*)": ?)[^,}\]\n]*'
)
_NOT_READ = re.compile(r"run\.log|lock|events\.out\.tfevents\..*")


def left_behind(home: Path, reasons: Iterable[str]) -> str:
    """Return a digest of all files in a home directory.

    Args:
        home: The directory.
        reasons: Texts of errors, which stand in messages; one is as good as another.
    """
    runs = sorted({n for path in home.rglob("*") for n in _RUN_ID.findall(path.name)})
    names = {str(home): "HOME"} | {run: f"run {n}" for n, run in enumerate(runs)}
    texts = {text.encode(): name.encode() for text, name in names.items()}
    texts |= {reason.encode(): b"REASON" for reason in reasons}
    digest = hashlib.sha256()
    rows = []
    for path in home.rglob("*"):
        shown = _plain_name(os.path.relpath(path, home), names)
        content = b"directory" if path.is_dir() else _content(path, texts)
        rows.append((shown, hashlib.sha256(content).hexdigest()))
    for row in sorted(rows):
        digest.update("\0".join(row).encode() + b"\n")
    return digest.hexdigest()


def _plain_name(name: str, names: dict[str, str]) -> str:
    for text, plain in names.items():
        name = name.replace(text, plain)
    for pattern in _RANDOM_NAMES:
        name = pattern.sub("RANDOM", name)
    return name


def _content(path: Path, texts: dict[bytes, bytes]) -> bytes:
    if _NOT_READ.fullmatch(path.name):
        return b"some" if path.stat().st_size else b""
    content = path.read_bytes()
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [
                name.encode() + archive.read(name) for name in archive.namelist()
            ]
        content = b"\0".join(members)
    for text, plain in texts.items():
        content = content.replace(text, plain)
    return _MEASURED.sub(rb"\1MEASURED", content)
